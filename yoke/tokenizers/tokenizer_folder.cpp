// How a Tokenizer is read from a Hugging Face folder.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/core/json.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/tokenizers/bert_normalizer.h"
#include "yoke/tokenizers/json_reader.h"
#include "yoke/tokenizers/tokenizer_json.h"
#include "yoke/tokenizers/tokenizer_state.h"
#include "yoke/tokenizers/word_piece.h"

namespace yoke {
namespace fs = std::filesystem;
namespace {

constexpr const char* where = "tokenizer.load";

// What transformers may keep beside a model for its tokenizer.
constexpr std::array file_names = {"tokenizer.json",
                                   "vocab.txt",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "vocab.json",
                                   "merges.txt",
                                   "tokenizer.model",
                                   "spiece.model",
                                   "sentencepiece.bpe.model",
                                   "chat_template.jinja"};

// Classes whose vocab.txt is BERT's.
const std::vector<std::string> bert_classes = {"BertTokenizer",           "BertTokenizerFast",
                                               "DistilBertTokenizer",     "DistilBertTokenizerFast",
                                               "ElectraTokenizer",        "ElectraTokenizerFast",
                                               "MobileBertTokenizer",     "MobileBertTokenizerFast",
                                               "PreTrainedTokenizerFast", "TokenizersBackend"};

// A token in the configuration is a string or a written-out AddedToken.
struct TokenSpec {
  AddedToken token;
  int64_t id = -1;  // -1: the vocabulary's, or the next free one
};

TokenSpec read_token(const Json& json, bool special, const std::string& file,
                     const std::string& place) {
  TokenSpec spec;
  spec.token.special = special;
  spec.token.normalized = !special;
  if (json.is_string()) {
    spec.token.content = json.get<std::string>();
    return spec;
  }
  const JsonReader reader(json, file, place);
  spec.token.content = reader.string("content");
  spec.token.special = reader.boolean_or("special", special);
  spec.token.single_word = reader.boolean_or("single_word", false);
  spec.token.lstrip = reader.boolean_or("lstrip", false);
  spec.token.rstrip = reader.boolean_or("rstrip", false);
  spec.token.normalized = reader.boolean_or("normalized", !spec.token.special);
  return spec;
}

class FolderLoader {
 public:
  explicit FolderLoader(const fs::path& folder)
      : folder_(folder), state_(std::make_shared<Tokenizer::State>()) {}

  std::shared_ptr<const Tokenizer::State> load() {
    read_files();
    config_ = read_object("tokenizer_config.json");
    special_map_ = read_object("special_tokens_map.json");
    if (state_->files.count("tokenizer.json"))
      load_tokenizer_json();
    else
      load_vocab_txt();
    finish();
    return state_;
  }

 private:
  std::string path_of(const std::string& name) const { return (folder_ / name).string(); }

  void read_files() {
    if (!fs::is_directory(folder_))
      throw Error(where, folder_.string() + ": is not a folder",
                  "the folder that holds tokenizer.json or vocab.txt");
    for (const char* name : file_names)
      if (fs::exists(folder_ / name)) state_->files[name] = read_file(folder_ / name, where);
    if (state_->files.count("tokenizer.json") || state_->files.count("vocab.txt")) return;
    std::vector<std::string> found;
    for (const auto& [name, bytes] : state_->files) found.push_back(name);
    throw Error(where,
                folder_.string() + ": holds neither tokenizer.json nor vocab.txt" +
                    (found.empty() ? "" : "; it has " + join_names(found)),
                "AutoTokenizer.from_pretrained(…).save_pretrained(…), which writes tokenizer.json");
  }

  Json read_object(const char* name) const {
    const auto found = state_->files.find(name);
    if (found == state_->files.end()) return Json::object();
    Json json = parse_json(found->second, path_of(name), where);
    if (!json.is_object())
      throw Error(where, path_of(name) + ": is " + json.type_name() + ", expected an object");
    return json;
  }

  JsonReader config() const {
    return JsonReader(config_, path_of("tokenizer_config.json"), "tokenizer_config");
  }

  // A generic class keeps to its tokenizer.json; BERT's class takes these three from the
  // configuration, in transformers and so here.
  bool overrides_normalizer() const {
    const std::string name = config().string_or("tokenizer_class", "BertTokenizer");
    return name != "PreTrainedTokenizerFast" && name != "TokenizersBackend";
  }

  void load_tokenizer_json() {
    const std::string file = path_of("tokenizer.json");
    TokenizerJson read = read_tokenizer_json(state_->files["tokenizer.json"], file);
    const JsonReader root(read.json, file, "tokenizer");
    Json normalizer = root.has("normalizer") ? read.json["normalizer"] : Json();
    if (normalizer.is_object() && normalizer.value("type", Json()) == "BertNormalizer" &&
        overrides_normalizer()) {
      const std::pair<const char*, const char*> keys[] = {
          {"do_lower_case", "lowercase"},
          {"strip_accents", "strip_accents"},
          {"tokenize_chinese_chars", "handle_chinese_chars"}};
      for (const auto& [from, to] : keys)
        if (const auto found = config_.find(from); found != config_.end()) normalizer[to] = *found;
    }
    state_->normalizer = make_normalizer(normalizer, file);
    state_->pre_tokenizer = make_pre_tokenizer(read.json["pre_tokenizer"], file);
    make_model(read, file);
    std::vector<TokenSpec> specs;
    if (root.has("added_tokens")) {
      for (const Json& json : root.array("added_tokens")) {
        const JsonReader reader(json, file, "added_tokens");
        TokenSpec spec = read_token(json, false, file, "added_tokens");
        spec.id = reader.integer("id", 0, Vocabulary::max_id);
        specs.push_back(std::move(spec));
      }
    }
    add_tokens(specs, file);
    state_->post_processor =
        make_post_processor(read.json["post_processor"], state_->ids_end, file);
    state_->decoder = make_decoder(read.json["decoder"], file);
  }

  void make_model(TokenizerJson& read, const std::string& file) {
    const JsonReader root(read.json, file, "tokenizer");
    const JsonReader model(root.object("model"), file, "model");
    // Old files leave the type out.
    const std::string type = model.string_or(
        "type", model.has("max_input_chars_per_word") ? "WordPiece" : "without a name");
    if (type != "WordPiece") model.fail_type(type, {"WordPiece"});
    if (!read.has_vocabulary) model.object("vocab");  // throws what it is instead
    WordPieceOptions options;
    options.unk_token = model.string_or("unk_token", options.unk_token);
    options.continuing_subword_prefix =
        model.string_or("continuing_subword_prefix", options.continuing_subword_prefix);
    if (model.has("max_input_chars_per_word"))
      options.max_input_chars_per_word = model.integer("max_input_chars_per_word", 0, INT64_MAX);
    options.file = file;
    state_->model = std::make_unique<WordPiece>(std::move(read.vocabulary), options);
  }

  void load_vocab_txt() {
    const std::string file = path_of("vocab.txt");
    const std::string name = config().string_or("tokenizer_class", "BertTokenizer");
    if (std::find(bert_classes.begin(), bert_classes.end(), name) == bert_classes.end())
      throw Error(where,
                  fmt::format("{}: tokenizer_class \"{}\" and no tokenizer.json; from vocab.txt "
                              "yoke knows: {}",
                              path_of("tokenizer_config.json"), name, join_names(bert_classes, 20)),
                  "a tokenizer.json, which save_pretrained of the fast tokenizer writes");
    BertNormalizerOptions options;
    options.lowercase = config().boolean_or("do_lower_case", true);
    options.handle_chinese_chars = config().boolean_or("tokenize_chinese_chars", true);
    if (config().has("strip_accents")) options.strip_accents = config().boolean("strip_accents");
    state_->normalizer = std::make_unique<BertNormalizer>(options);
    state_->pre_tokenizer = std::make_unique<BertPreTokenizer>();
    WordPieceOptions model;
    model.unk_token = special_token("unk_token", "[UNK]").token.content;
    model.file = file;
    state_->model = std::make_unique<WordPiece>(read_vocab_txt(file), model);
    state_->decoder = std::make_unique<WordPieceDecoder>();

    std::vector<TokenSpec> specs;
    read_added_tokens(specs);
    for (const auto& [key, content] :
         std::initializer_list<std::pair<const char*, const char*>>{{"unk_token", "[UNK]"},
                                                                    {"sep_token", "[SEP]"},
                                                                    {"pad_token", "[PAD]"},
                                                                    {"cls_token", "[CLS]"},
                                                                    {"mask_token", "[MASK]"}})
      specs.push_back(special_token(key, content));
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const bool in_config = config_.contains(key);
      const Json& list = in_config ? config_[key] : special_map_[key];
      if (!list.is_array()) continue;
      const std::string from =
          path_of(in_config ? "tokenizer_config.json" : "special_tokens_map.json");
      for (const Json& json : list) specs.push_back(read_token(json, true, from, key));
    }
    add_tokens(specs, file);
    state_->post_processor = bert_post_processor(id_of(special_token("cls_token", "[CLS]")),
                                                 id_of(special_token("sep_token", "[SEP]")));
  }

  int32_t id_of(const TokenSpec& spec) const { return *state_->token_to_id(spec.token.content); }

  // added_tokens_decoder of the configuration (id -> token), else added_tokens.json (token -> id).
  void read_added_tokens(std::vector<TokenSpec>& specs) const {
    const std::string config_file = path_of("tokenizer_config.json");
    if (config().has("added_tokens_decoder")) {
      for (const auto& [key, json] : config().object("added_tokens_decoder").items()) {
        TokenSpec spec = read_token(json, false, config_file, "added_tokens_decoder");
        const bool digits = !key.empty() && key.size() <= 9 &&
                            key.find_first_not_of("0123456789") == std::string::npos;
        if (!digits) config().fail("added_tokens_decoder: \"" + key + "\" is no token id");
        spec.id = std::stoll(key);
        specs.push_back(std::move(spec));
      }
      return;
    }
    const std::string file = path_of("added_tokens.json");
    const Json added = read_object("added_tokens.json");
    const JsonReader reader(added, file, "added_tokens");
    for (const auto& [content, id] : added.items()) {
      TokenSpec spec = read_token(content, false, file, "added_tokens");
      spec.id = reader.integer(content.c_str(), 0, Vocabulary::max_id);
      specs.push_back(std::move(spec));
    }
  }

  // A line a token, its number the id. White space at the end of a line, CRLF too, is not the
  // token's; a blank line keeps its number and has no token; of equal lines the last one counts:
  // all as the peer does.
  Vocabulary read_vocab_txt(const std::string& file) const {
    std::string_view bytes = state_->files.at("vocab.txt");
    check_utf8(bytes, where + (": " + file));
    if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
    std::vector<std::string_view> lines;
    while (!bytes.empty()) {
      const size_t end = std::min(bytes.find('\n'), bytes.size());
      std::string_view line = bytes.substr(0, end);
      for (size_t at = line.size(); at > 0; line = line.substr(0, at))
        if (!has(class_of(previous_code_point(line, at)), CharClass::space)) break;
      lines.push_back(line);
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
    if (lines.size() > size_t(Vocabulary::max_id))
      throw Error(where, fmt::format("{}: has {} lines", file, lines.size()),
                  "a vocab.txt with a token a line");
    Vocabulary vocabulary;
    vocabulary.reserve(lines.size(), state_->files.at("vocab.txt").size());
    size_t twice = 0;
    for (size_t i = lines.size(); i-- > 0;) {
      if (lines[i].empty()) continue;
      if (vocabulary.find(lines[i]))
        ++twice;
      else
        vocabulary.add(lines[i], int64_t(i), file);
    }
    if (twice > 0)
      log_warning(
          fmt::format("{}: {} tokens stand there twice; their last line counts", file, twice));
    return vocabulary;
  }

  // Gives ids to added tokens. One that the vocabulary has keeps that id.
  void add_tokens(const std::vector<TokenSpec>& specs, const std::string& file) {
    const Vocabulary& vocabulary = state_->model->vocabulary();
    std::vector<AddedToken> tokens;
    std::unordered_map<std::string, size_t> by_content;
    std::unordered_map<int64_t, std::string> owners;
    int64_t end = vocabulary.ids_end(), outside = 0;
    for (const TokenSpec& spec : specs) {
      const std::string& content = spec.token.content;
      if (content.empty()) continue;
      if (const auto known = by_content.find(content); known != by_content.end()) {
        AddedToken& token = tokens[known->second];
        if (spec.id >= 0 && spec.id != token.id) two_ids(file, content, token.id, spec.id);
        token.special = token.special || spec.token.special;
        continue;
      }
      const auto in_vocabulary = vocabulary.find(content);
      const int64_t id = in_vocabulary ? *in_vocabulary : spec.id >= 0 ? spec.id : end;
      if (spec.id >= 0 && id != spec.id) two_ids(file, content, id, spec.id);
      const auto owner = owners.find(id);
      const auto text = vocabulary.text(id);
      if (!in_vocabulary && (text || owner != owners.end()))
        throw Error(where, fmt::format("{}: added token \"{}\" has the id {}, which \"{}\" has too",
                                       file, content, id, text ? *text : owner->second));
      outside += !in_vocabulary;
      owners[id] = content;
      by_content[content] = tokens.size();
      tokens.push_back(spec.token);
      tokens.back().id = int32_t(id);
      end = std::max(end, id + 1);
    }
    state_->ids_end = end;
    state_->vocab_size = int64_t(vocabulary.size()) + outside;
    if (state_->vocab_size < end)
      log_info(fmt::format("{}: {} of {} ids have no token", file, end - state_->vocab_size, end));
    state_->added = AddedTokens(std::move(tokens), state_->normalizer.get());
  }

  [[noreturn]] static void two_ids(const std::string& file, const std::string& content, int64_t a,
                                   int64_t b) {
    throw Error(where, fmt::format("{}: token \"{}\" has two ids, {} and {}", file, content, a, b));
  }

  // The token that a role ("cls_token") has in the configuration.
  TokenSpec special_token(const char* role, const char* usual) const {
    const auto read = [&](const Json& json, const char* name) -> std::optional<TokenSpec> {
      const auto found = json.find(role);
      if (found == json.end() || found->is_null()) return std::nullopt;
      return read_token(*found, true, path_of(name), role);
    };
    auto spec = read(config_, "tokenizer_config.json");
    // The other file may say how the token matches, which a plain string does not.
    const auto other = read(special_map_, "special_tokens_map.json");
    if (other &&
        (!spec || (config_[role].is_string() && spec->token.content == other->token.content)))
      spec = other;
    if (!spec) spec = read_token(usual, true, "", "");
    spec->token.special = true;
    return *spec;
  }

  std::optional<int32_t> role_id(const char* role, const char* usual) const {
    return state_->token_to_id(special_token(role, usual).token.content);
  }

  void finish() {
    state_->pad = role_id("pad_token", "[PAD]");
    state_->cls = role_id("cls_token", "[CLS]");
    state_->sep = role_id("sep_token", "[SEP]");
    state_->mask = role_id("mask_token", "[MASK]");
    state_->unk = state_->token_to_id(state_->model->unk_token());
    if (!config().has("model_max_length")) return;
    const Json& length = config_["model_max_length"];
    const bool number = length.is_number();
    if (!number || length.get<double>() < 1)
      config().fail("\"model_max_length\" is " + length.dump() + ", expected a number of tokens");
    // transformers writes int(1e30) for "no limit".
    if (length.get<double>() < 1e9) state_->model_max_length = int64_t(length.get<double>());
  }

  fs::path folder_;
  std::shared_ptr<Tokenizer::State> state_;
  Json config_, special_map_;
};

}  // namespace

std::shared_ptr<const Tokenizer::State> load_tokenizer_state(const fs::path& folder) {
  return FolderLoader(folder).load();
}

}  // namespace yoke
