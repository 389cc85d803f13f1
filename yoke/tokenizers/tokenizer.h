// Text to token ids and back, for a Hugging Face folder.
//
//   const Tokenizer tokenizer = Tokenizer::from_folder("bert-base-uncased");
//   Encoding e = tokenizer.encode("a gripping film", {.max_length = 128});   // [CLS] a … [SEP]
//   tokenizer.decode(e.ids);                                                 // "a gripping film"
//
// Equal to Hugging Face tokenizers 0.23.3: normaliser, pre-tokeniser, model, post-processor, added
// tokens, decoder. Nothing is padded, and what tokenizer.json bakes in as padding and truncation is
// not obeyed. Copies share one state and are cheap; const methods are safe from many threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;             // 0 for the first sequence, 1 for the second (BERT)
  std::vector<uint8_t> special_tokens_mask;  // 1 for what the post-processor added
  // [begin, end) in code points of the token's own text; (0, 0) for what the post-processor added.
  // Only on request.
  std::vector<std::array<uint32_t, 2>> offsets;
  // The word that each token is a piece of, from 0; -1 for what the post-processor added. Only of
  // encode_words().
  std::vector<int32_t> word_ids;
  bool truncated = false;
};

struct EncodeOptions {
  int64_t max_length = 0;  // tokens, special ones among them; 0: no limit
  bool add_special_tokens = true;
  bool offsets = false;
};

struct DecodeOptions {
  bool skip_special_tokens = true;
  // Mend the spaces of tokenisation ("do n't ." -> "don't."); without a value as the tokenizer
  // says.
  std::optional<bool> clean_up = std::nullopt;
};

class Tokenizer {
 public:
  // Reads tokenizer.json, else vocab.txt (BERT), with tokenizer_config.json,
  // special_tokens_map.json and added_tokens.json where they exist. vocab.txt alone is an uncased
  // BERT. `do_lower_case`, `strip_accents` and `tokenize_chinese_chars` of tokenizer_config.json
  // win over tokenizer.json, as in transformers. Throws Error("tokenizer.load") that names the
  // file.
  static Tokenizer from_folder(const std::filesystem::path& folder);

  // Longest-first truncation, from the right, where a pair exceeds max_length. Throws
  // Error("tokenizer.encode") for ill-formed UTF-8 and for a max_length that has no room for the
  // special tokens.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view text, std::string_view text_pair,
                       const EncodeOptions& options = {}) const;
  // A text that is cut into words already: each goes through the pipeline alone, as with
  // is_split_into_words in transformers. A word may become no token at all ("", a control
  // character); truncation cuts tokens, also in the middle of a word. Offsets count from the word.
  Encoding encode_words(const std::vector<std::string>& words,
                        const EncodeOptions& options = {}) const;

  // Ids without a token are left out, as the peer does.
  std::string decode(const std::vector<int32_t>& ids, const DecodeOptions& options = {}) const;

  // Tokens, added ones among them: transformers' len(tokenizer).
  int64_t vocab_size() const;
  // 1 + the largest id: the rows that an embedding must have. Larger than vocab_size() where ids
  // have holes.
  int64_t ids_end() const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  // The special tokens that encode() adds to one text or to a pair.
  int64_t num_special_tokens_to_add(bool pair) const;

  // From tokenizer_config.json; nothing where that has none or a placeholder (1e30).
  std::optional<int64_t> model_max_length() const;

  std::optional<int32_t> pad_token_id() const;
  std::optional<int32_t> cls_token_id() const;
  std::optional<int32_t> sep_token_id() const;
  std::optional<int32_t> unk_token_id() const;
  std::optional<int32_t> mask_token_id() const;

  // The tokenizer files of the folder, name -> bytes: what a saved model carries over unchanged. A
  // folder that had only vocab.txt still loads in transformers beside a config.json of model_type
  // bert.
  const std::map<std::string, std::string>& files() const&;
  std::map<std::string, std::string> files() &&;  // of a temporary: a copy

  struct State;  // private to yoke/tokenizers/

 private:
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace yoke
