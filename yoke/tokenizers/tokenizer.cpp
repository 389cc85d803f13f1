#include "yoke/tokenizers/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "yoke/core/error.h"
#include "yoke/tokenizers/tokenizer_state.h"

namespace yoke {
namespace {

using State = Tokenizer::State;

// The tokens of one text, before special tokens and truncation.
struct Sequence {
  std::vector<int32_t> ids;
  std::vector<std::array<uint32_t, 2>> offsets;  // empty unless asked for
  std::vector<int32_t> words;                    // empty unless the text came as words
};

// The memory of one thread, kept from text to text: no allocation per word or per text.
struct Scratch {
  std::vector<AddedTokens::Span> raw_spans, normalized_spans;
  NormalizedText text, part;
  std::vector<Piece> pieces;
  std::vector<Token> tokens;
};

class SequenceEncoder {
 public:
  SequenceEncoder(const State& state, bool offsets, Sequence& out)
      : state_(state), offsets_(offsets), out_(out) {}

  void encode(std::string_view text) {
    thread_local Scratch scratch;
    check_utf8(text, "tokenizer.encode");
    if (text.size() > uint32_t{1} << 30)
      throw Error("tokenizer.encode",
                  fmt::format("the text has {} bytes, at most 2^30 can be encoded", text.size()),
                  "shorter texts");
    using Stage = AddedTokens::Stage;
    uint32_t position = 0;  // in code points, of the byte `at`
    size_t at = 0;
    const auto move_to = [&](size_t byte) {
      if (!offsets_) return;
      // A token may begin inside the space that rstrip gave to the one before.
      position = byte < at ? position - uint32_t(count_code_points(text.substr(byte, at - byte)))
                           : position + uint32_t(count_code_points(text.substr(at, byte - at)));
      at = byte;
    };
    state_.added.split(text, Stage::raw, scratch.raw_spans);
    for (const auto& span : scratch.raw_spans) {
      move_to(span.begin);
      const uint32_t begin = position;
      move_to(span.end);
      if (span.token >= 0) {
        put(state_.added.tokens()[size_t(span.token)].id, begin, position);
        continue;
      }
      scratch.text.assign(text.substr(span.begin, span.end - span.begin), begin, offsets_);
      if (state_.normalizer) state_.normalizer->normalize(scratch.text);
      if (state_.added.has_tokens(Stage::normalized))
        split_normalized(scratch);
      else
        encode_piece(scratch.text, scratch);
    }
  }

 private:
  void put(int32_t id, uint32_t begin, uint32_t end) {
    out_.ids.push_back(id);
    if (offsets_) out_.offsets.push_back({begin, end});
  }

  // Bytes [begin, end), at least one, as code points of the input.
  void put(int32_t id, const NormalizedText& text, size_t begin, size_t end) {
    if (offsets_)
      put(id, text.origins[begin], text.origins[end - 1] + 1);
    else
      put(id, 0, 0);
  }

  void split_normalized(Scratch& scratch) {
    NormalizedText& text = scratch.text;
    state_.added.split(text.text, AddedTokens::Stage::normalized, scratch.normalized_spans);
    for (const auto& span : scratch.normalized_spans) {
      if (span.token >= 0) {
        put(state_.added.tokens()[size_t(span.token)].id, text, span.begin, span.end);
        continue;
      }
      NormalizedText& part = scratch.part;
      part.text.assign(text.text, span.begin, span.end - span.begin);
      part.tracked = text.tracked;
      if (text.tracked)
        part.origins.assign(text.origins.begin() + std::ptrdiff_t(span.begin),
                            text.origins.begin() + std::ptrdiff_t(span.end));
      encode_piece(part, scratch);
    }
  }

  void encode_piece(NormalizedText& text, Scratch& scratch) {
    if (text.text.empty()) return;
    scratch.pieces.assign(1, {0, uint32_t(text.text.size())});
    if (state_.pre_tokenizer) state_.pre_tokenizer->pre_tokenize(text, scratch.pieces);
    scratch.tokens.clear();
    for (const Piece& piece : scratch.pieces)
      state_.model->tokenize(text.text, piece.begin, piece.end, scratch.tokens);
    for (const Token& token : scratch.tokens) put(token.id, text, token.begin, token.end);
  }

  const State& state_;
  const bool offsets_;
  Sequence& out_;
};

Sequence encode_sequence(const State& state, std::string_view text, bool offsets) {
  Sequence sequence;
  sequence.ids.reserve(text.size() / 4 + 4);
  SequenceEncoder(state, offsets, sequence).encode(text);
  return sequence;
}

Sequence encode_word_list(const State& state, const std::vector<std::string>& words, bool offsets) {
  Sequence sequence;
  SequenceEncoder encoder(state, offsets, sequence);
  for (size_t word = 0; word < words.size(); ++word) {
    encoder.encode(words[word]);
    sequence.words.resize(sequence.ids.size(), int32_t(word));
  }
  return sequence;
}

// How many tokens of each sequence stay so that both fit into `room`: the longer one gives first,
// and where both must give, the second (of equals) keeps the odd one, as the peer does.
std::pair<size_t, size_t> longest_first(size_t a, size_t b, size_t room) {
  if (a + b <= room) return {a, b};
  const bool swapped = a > b;
  if (swapped) std::swap(a, b);
  b = a > room ? a : std::max(a, room - a);
  if (a + b > room) {
    a = room / 2;
    b = a + room % 2;
  }
  return swapped ? std::pair{b, a} : std::pair{a, b};
}

Encoding assemble(const State& state, const Sequence& a, const Sequence* b,
                  const EncodeOptions& options, bool words = false) {
  const PostProcessor& post = state.post_processor;
  const int64_t added = options.add_special_tokens ? post.added_tokens(b != nullptr) : 0;
  const size_t size_a = a.ids.size(), size_b = b ? b->ids.size() : 0;
  size_t keep_a = size_a, keep_b = size_b;
  if (options.max_length < 0 || (options.max_length > 0 && options.max_length < added))
    throw Error(
        "tokenizer.encode",
        fmt::format("max_length is {}, the special tokens alone are {}", options.max_length, added),
        fmt::format("a .max_length (--max-length) of more than {}", added));
  if (options.max_length > 0) {
    const auto room = size_t(options.max_length - added);
    if (b)
      std::tie(keep_a, keep_b) = longest_first(size_a, size_b, room);
    else
      keep_a = std::min(size_a, room);
  }

  Encoding result;
  result.truncated = keep_a < size_a || keep_b < size_b;
  const size_t total = keep_a + keep_b + size_t(added);
  result.ids.reserve(total);
  result.type_ids.reserve(total);
  result.special_tokens_mask.reserve(total);
  if (options.offsets) result.offsets.reserve(total);
  for (const TemplatePart& part : post.parts(b != nullptr)) {
    const bool special = part.kind == TemplatePart::special;
    if (special && !options.add_special_tokens) continue;
    const Sequence* sequence = part.kind == TemplatePart::sequence_a ? &a : b;
    const std::vector<int32_t>& ids = special ? part.ids : sequence->ids;
    const size_t count = special                                 ? ids.size()
                         : part.kind == TemplatePart::sequence_a ? keep_a
                                                                 : keep_b;
    result.ids.insert(result.ids.end(), ids.begin(), ids.begin() + std::ptrdiff_t(count));
    result.type_ids.resize(result.ids.size(), part.type_id);
    result.special_tokens_mask.resize(result.ids.size(), special);
    if (!special)  // none unless the text came as words
      result.word_ids.insert(
          result.word_ids.end(), sequence->words.begin(),
          sequence->words.begin() + std::ptrdiff_t(std::min(count, sequence->words.size())));
    else if (words)
      result.word_ids.resize(result.ids.size(), -1);
    if (!options.offsets) continue;
    if (special)
      result.offsets.resize(result.ids.size(), {0, 0});
    else
      result.offsets.insert(result.offsets.end(), sequence->offsets.begin(),
                            sequence->offsets.begin() + std::ptrdiff_t(count));
  }
  return result;
}

}  // namespace

std::optional<int32_t> Tokenizer::State::token_to_id(std::string_view token) const {
  if (const AddedToken* found = added.find(token)) return found->id;
  return model->vocabulary().find(token);
}

Tokenizer::Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Tokenizer Tokenizer::from_folder(const std::filesystem::path& folder) {
  return Tokenizer(load_tokenizer_state(folder));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return assemble(*state_, encode_sequence(*state_, text, options.offsets), nullptr, options);
}

Encoding Tokenizer::encode_pair(std::string_view text, std::string_view text_pair,
                                const EncodeOptions& options) const {
  const Sequence a = encode_sequence(*state_, text, options.offsets);
  const Sequence b = encode_sequence(*state_, text_pair, options.offsets);
  return assemble(*state_, a, &b, options);
}

Encoding Tokenizer::encode_words(const std::vector<std::string>& words,
                                 const EncodeOptions& options) const {
  return assemble(*state_, encode_word_list(*state_, words, options.offsets), nullptr, options,
                  true);
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, const DecodeOptions& options) const {
  std::vector<std::string_view> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const AddedToken* added = state_->added.find_id(id);
    // The peer asks by text: a special token that normalisation changes is not known as special.
    if (added && added->special && added->text == added->content && options.skip_special_tokens)
      continue;
    if (added)
      tokens.push_back(added->text);
    else if (const auto token = state_->model->vocabulary().text(id))
      tokens.push_back(*token);
  }
  if (state_->decoder) return state_->decoder->decode(tokens, options.clean_up);
  std::string text;
  for (const auto token : tokens) (text += text.empty() ? "" : " ") += token;
  return text;
}

std::optional<std::string> Tokenizer::id_to_token(int64_t id) const {
  if (const AddedToken* added = state_->added.find_id(id)) return added->text;
  const auto token = state_->model->vocabulary().text(id);
  return token ? std::optional<std::string>(*token) : std::nullopt;
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return state_->token_to_id(token);
}

int64_t Tokenizer::vocab_size() const { return state_->vocab_size; }
int64_t Tokenizer::ids_end() const { return state_->ids_end; }
int64_t Tokenizer::num_special_tokens_to_add(bool pair) const {
  return state_->post_processor.added_tokens(pair);
}
std::optional<int64_t> Tokenizer::model_max_length() const { return state_->model_max_length; }
std::optional<int32_t> Tokenizer::pad_token_id() const { return state_->pad; }
std::optional<int32_t> Tokenizer::cls_token_id() const { return state_->cls; }
std::optional<int32_t> Tokenizer::sep_token_id() const { return state_->sep; }
std::optional<int32_t> Tokenizer::unk_token_id() const { return state_->unk; }
std::optional<int32_t> Tokenizer::mask_token_id() const { return state_->mask; }
const std::map<std::string, std::string>& Tokenizer::files() const& { return state_->files; }
std::map<std::string, std::string> Tokenizer::files() && { return state_->files; }

}  // namespace yoke
