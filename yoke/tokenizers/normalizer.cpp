#include "yoke/tokenizers/normalizer.h"

#include <utility>

#include "yoke/core/error.h"
#include "yoke/tokenizers/bert_normalizer.h"
#include "yoke/tokenizers/json_reader.h"

namespace yoke {

void LowercaseNormalizer::normalize(NormalizedText& text) const {
  NormalizedText next;
  Rewriter rewriter(text, next);
  for (size_t at = 0; at < text.text.size();) {
    const char32_t c = next_code_point(text.text, at);
    rewriter.emit(lower_case(c), 0);
    if (is_double_lower(c)) rewriter.emit(0x307, 1);
  }
  text.swap(next);
}

void StripAccentsNormalizer::normalize(NormalizedText& text) const {
  filter(text, [](char32_t c) { return c < 0x80 || !has(class_of(c), CharClass::mark); });
}

void StripNormalizer::normalize(NormalizedText& text) const {
  const std::string& s = text.text;
  size_t begin = 0, end = s.size();
  for (size_t at = 0; left_ && at < s.size(); begin = at)
    if (!has(class_of(next_code_point(s, at)), CharClass::space)) break;
  for (size_t at = end; right_ && at > begin; end = at)
    if (!has(class_of(previous_code_point(s, at)), CharClass::space)) break;
  text.text.erase(end);
  text.text.erase(0, begin);
  if (!text.tracked) return;
  text.origins.erase(text.origins.begin() + std::ptrdiff_t(end), text.origins.end());
  text.origins.erase(text.origins.begin(), text.origins.begin() + std::ptrdiff_t(begin));
}

void ReplaceNormalizer::normalize(NormalizedText& text) const {
  const std::string& s = text.text;
  size_t match = s.find(pattern_);
  if (match == std::string::npos) return;
  NormalizedText next;
  next.tracked = text.tracked;
  size_t at = 0;
  const auto copy = [&](size_t from, size_t to) {
    next.text.append(s, from, to - from);
    if (text.tracked)
      next.origins.insert(next.origins.end(), text.origins.begin() + std::ptrdiff_t(from),
                          text.origins.begin() + std::ptrdiff_t(to));
  };
  for (; match != std::string::npos; match = s.find(pattern_, at)) {
    copy(at, match);
    at = match + pattern_.size();
    next.text += content_;  // all of it comes from the last code point replaced
    if (text.tracked) next.origins.resize(next.text.size(), text.origins[at - 1]);
  }
  copy(at, s.size());
  text.swap(next);
}

std::unique_ptr<Normalizer> make_normalizer(const Json& json, const std::string& file) {
  if (json.is_null()) return nullptr;
  const JsonReader reader(json, file, "normalizer");
  const std::string type = reader.string("type");
  if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    options.clean_text = reader.boolean_or("clean_text", true);
    options.handle_chinese_chars = reader.boolean_or("handle_chinese_chars", true);
    options.lowercase = reader.boolean_or("lowercase", true);
    if (reader.has("strip_accents")) options.strip_accents = reader.boolean("strip_accents");
    return std::make_unique<BertNormalizer>(options);
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for (const Json& part : reader.array("normalizers")) {
      auto made = make_normalizer(part, file);
      if (made) parts.push_back(std::move(made));
    }
    return std::make_unique<SequenceNormalizer>(std::move(parts));
  }
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::nfkd);
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(reader.boolean_or("strip_left", true),
                                             reader.boolean_or("strip_right", true));
  if (type == "Replace") {
    const JsonReader pattern(reader.object("pattern"), file, "normalizer.pattern");
    if (!pattern.has("String"))
      reader.fail("only a pattern of type String can be replaced so far, this one is " +
                  pattern.json().dump());
    const std::string literal = pattern.string("String");
    if (literal.empty()) reader.fail("the pattern to replace is empty");
    return std::make_unique<ReplaceNormalizer>(literal, reader.string("content"));
  }
  reader.fail_type(type, {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Replace",
                          "Sequence", "Strip", "StripAccents"});
}

}  // namespace yoke
