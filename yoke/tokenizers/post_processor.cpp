#include "yoke/tokenizers/post_processor.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "yoke/tokenizers/json_reader.h"

namespace yoke {
namespace {

int64_t count_special(const std::vector<TemplatePart>& parts) {
  int64_t count = 0;
  for (const auto& part : parts) count += int64_t(part.ids.size());
  return count;
}

using SpecialTokens = std::map<std::string, std::vector<int32_t>>;

int32_t token_id(const JsonReader& reader, const Json& id, int64_t ids_end) {
  if (!id.is_number_integer() || id < 0 || id >= ids_end)
    reader.fail(fmt::format("the special token id {} is not in the vocabulary of {} ids", id.dump(),
                            ids_end));
  return id.get<int32_t>();
}

SpecialTokens read_special_tokens(const JsonReader& reader, const std::string& file,
                                  int64_t ids_end) {
  SpecialTokens tokens;
  for (const auto& [name, json] : reader.object("special_tokens").items()) {
    const JsonReader token(json, file, "post_processor.special_tokens." + name);
    for (const Json& id : token.array("ids")) tokens[name].push_back(token_id(token, id, ids_end));
  }
  return tokens;
}

std::vector<TemplatePart> read_parts(const JsonReader& reader, const char* key,
                                     const SpecialTokens& tokens, const std::string& file) {
  std::vector<TemplatePart> parts;
  const std::string place = std::string("post_processor.") + key;
  for (const Json& json : reader.array(key)) {
    const JsonReader entry(json, file, place);
    const bool special = entry.has("SpecialToken");
    const JsonReader piece(entry.object(special ? "SpecialToken" : "Sequence"), file, place);
    const std::string id = piece.string("id");
    TemplatePart part;
    part.type_id = int32_t(piece.integer("type_id", 0, 255));
    if (special) {
      const auto found = tokens.find(id);
      if (found == tokens.end())
        piece.fail("the special token \"" + id + "\" is not among its special_tokens");
      part.ids = found->second;
    } else if (id == "A" || id == "B") {
      part.kind = id == "A" ? TemplatePart::sequence_a : TemplatePart::sequence_b;
    } else {
      piece.fail("the sequence \"" + id + "\" is neither A nor B");
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// The peer panics on such templates, or drops text.
void check_uses(const JsonReader& reader, const std::vector<TemplatePart>& parts, bool pair) {
  int a = 0, b = 0;
  for (const auto& part : parts) {
    a += part.kind == TemplatePart::sequence_a;
    b += part.kind == TemplatePart::sequence_b;
  }
  if (a != 1 || b != (pair ? 1 : 0))
    reader.fail(pair ? "the template \"pair\" must hold A and B once each"
                     : "the template \"single\" must hold A once and B not at all");
}

}  // namespace

PostProcessor::PostProcessor()
    : PostProcessor({{TemplatePart::sequence_a, 0, {}}},
                    {{TemplatePart::sequence_a, 0, {}}, {TemplatePart::sequence_b, 1, {}}}) {}

PostProcessor::PostProcessor(std::vector<TemplatePart> single, std::vector<TemplatePart> pair)
    : single_(std::move(single)),
      pair_(std::move(pair)),
      added_single_(count_special(single_)),
      added_pair_(count_special(pair_)) {}

PostProcessor bert_post_processor(int32_t cls, int32_t sep) {
  const TemplatePart begin{TemplatePart::special, 0, {cls}};
  const TemplatePart middle{TemplatePart::special, 0, {sep}};
  const TemplatePart end{TemplatePart::special, 1, {sep}};
  const TemplatePart a{TemplatePart::sequence_a, 0, {}};
  const TemplatePart b{TemplatePart::sequence_b, 1, {}};
  return PostProcessor({begin, a, middle}, {begin, a, middle, b, end});
}

PostProcessor make_post_processor(const Json& json, int64_t ids_end, const std::string& file) {
  if (json.is_null()) return {};
  const JsonReader reader(json, file, "post_processor");
  const std::string type = reader.string("type");
  if (type == "TemplateProcessing") {
    const SpecialTokens tokens = read_special_tokens(reader, file, ids_end);
    auto single = read_parts(reader, "single", tokens, file);
    auto pair = read_parts(reader, "pair", tokens, file);
    check_uses(reader, single, false);
    check_uses(reader, pair, true);
    return PostProcessor(std::move(single), std::move(pair));
  }
  if (type == "BertProcessing") {
    const auto id_of = [&](const char* key) {  // ["[SEP]", 102]
      const Json& token = reader.array(key);
      if (token.size() != 2)
        reader.fail(fmt::format("\"{}\" is {}, expected a token and its id", key, token.dump()));
      return token_id(reader, token[1], ids_end);
    };
    return bert_post_processor(id_of("cls"), id_of("sep"));
  }
  reader.fail_type(type, {"BertProcessing", "TemplateProcessing"});
}

}  // namespace yoke
