// BERT's normaliser: cleaning, spaces around Chinese characters, accents, lower case, in this
// order, in one pass over the text; runs of ASCII are mapped byte by byte.
#pragma once

#include <array>
#include <optional>

#include "yoke/tokenizers/normalizer.h"

namespace yoke {

struct BertNormalizerOptions {
  bool clean_text = true;             // drop controls, any white space becomes ' '
  bool handle_chinese_chars = true;   // a space on either side
  std::optional<bool> strip_accents;  // NFD and no marks; without a value as `lowercase`
  bool lowercase = true;
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(BertNormalizerOptions options);
  void normalize(NormalizedText& text) const override;

  BertNormalizerOptions options() const { return options_; }

 private:
  struct Pass;

  BertNormalizerOptions options_;
  bool strip_;
  std::array<char, 128> ascii_{};    // what a byte becomes
  std::array<bool, 128> removed_{};  // or whether it vanishes
};

}  // namespace yoke
