// The second stage: cuts the normalised text into pieces (words) that the model sees one by one.
//
//   std::vector<Piece> pieces{{0, uint32_t(text.text.size())}};
//   pre_tokenizer->pre_tokenize(text, pieces);
//
// Const methods are safe from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yoke/core/json.h"
#include "yoke/tokenizers/normalized_text.h"

namespace yoke {

// Bytes [begin, end) of a NormalizedText.
struct Piece {
  uint32_t begin = 0, end = 0;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Replaces each piece by the pieces it falls into, none of them empty. May rewrite the text (as
  // byte-level families do); then the pieces are those of the new text.
  virtual void pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const = 0;
};

// For a "pre_tokenizer" object of tokenizer.json; null for null. Throws Error that names an unknown
// type and lists the known ones.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& file);

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const override {
    for (const auto& part : parts_) part->pre_tokenize(text, pieces);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

// Drops white space; punctuation stands alone.
class BertPreTokenizer : public PreTokenizer {
 public:
  void pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const override;
};

// Drops white space.
class WhitespaceSplitPreTokenizer : public PreTokenizer {
 public:
  void pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const override;
};

// Runs of \w, and runs of what is neither \w nor white space.
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  void pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const override;
};

}  // namespace yoke
