// The first stage: rewrites the text (case, accents, white space).
//
//   auto normalizer = make_normalizer(json["normalizer"], "tokenizer.json");
//   normalizer->normalize(text);
//
// Const methods are safe from many threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "yoke/core/json.h"
#include "yoke/tokenizers/normalized_text.h"
#include "yoke/tokenizers/unicode_normal.h"

namespace yoke {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(NormalizedText& text) const = 0;
};

// The normaliser that a "normalizer" object of tokenizer.json describes; null for null. Throws
// Error that names an unknown type and lists the known ones.
std::unique_ptr<Normalizer> make_normalizer(const Json& json, const std::string& file);

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void normalize(NormalizedText& text) const override {
    for (const auto& part : parts_) part->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  void normalize(NormalizedText& text) const override { to_normal_form(text, form_); }

 private:
  NormalForm form_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override;
};

// Drops marks; text in NFC has few to drop (an NFD stage before it makes them).
class StripAccentsNormalizer : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override;
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void normalize(NormalizedText& text) const override;

 private:
  bool left_, right_;
};

// Replaces each occurrence of a literal string.
class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void normalize(NormalizedText& text) const override;

 private:
  std::string pattern_, content_;
};

}  // namespace yoke
