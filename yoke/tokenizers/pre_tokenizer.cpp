#include "yoke/tokenizers/pre_tokenizer.h"

#include <array>
#include <utility>

#include "yoke/tokenizers/json_reader.h"

namespace yoke {
namespace {

// What a code point is to a splitter. Neighbours of one of the joining kinds make one piece.
enum Kind : uint8_t { dropped, alone, joins, joins_other };

// Cuts by the kinds of code points; `kind_of` is asked once for each ASCII code point.
template <class KindOf>
class Cutter {
 public:
  explicit Cutter(KindOf kind_of) : kind_of_(kind_of) {
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = kind_of_(class_of(c));
  }

  void operator()(const std::string& text, std::vector<Piece>& pieces) const {
    thread_local std::vector<Piece> result;
    result.clear();
    for (const Piece& piece : pieces) cut(text, piece, result);
    pieces.swap(result);
  }

 private:
  void cut(std::string_view text, const Piece& piece, std::vector<Piece>& result) const {
    size_t start = piece.begin;
    Kind running = dropped;  // the kind of the piece that [start, at) is
    for (size_t at = piece.begin; at < piece.end;) {
      const size_t here = at;
      const auto byte = uint8_t(text[at]);
      Kind kind;
      if (byte < 0x80) {
        kind = ascii_[byte];
        ++at;
      } else {
        kind = kind_of_(class_of(next_code_point(text, at)));
      }
      if (kind == running && kind != alone) continue;
      if (running != dropped) result.push_back({uint32_t(start), uint32_t(here)});
      start = here;
      running = kind;
    }
    if (running != dropped) result.push_back({uint32_t(start), piece.end});
  }

  KindOf kind_of_;
  std::array<Kind, 128> ascii_{};
};

Kind bert_kind(uint16_t classes) {
  if (has(classes, CharClass::space)) return dropped;
  return has(classes, CharClass::punctuation) ? alone : joins;
}

Kind space_kind(uint16_t classes) { return has(classes, CharClass::space) ? dropped : joins; }

Kind word_kind(uint16_t classes) {
  if (has(classes, CharClass::word)) return joins;
  return has(classes, CharClass::space) ? dropped : joins_other;
}

}  // namespace

void BertPreTokenizer::pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const {
  static const Cutter cut(bert_kind);
  cut(text.text, pieces);
}

void WhitespaceSplitPreTokenizer::pre_tokenize(NormalizedText& text,
                                               std::vector<Piece>& pieces) const {
  static const Cutter cut(space_kind);
  cut(text.text, pieces);
}

void WhitespacePreTokenizer::pre_tokenize(NormalizedText& text, std::vector<Piece>& pieces) const {
  static const Cutter cut(word_kind);
  cut(text.text, pieces);
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& file) {
  if (json.is_null()) return nullptr;
  const JsonReader reader(json, file, "pre_tokenizer");
  const std::string type = reader.string("type");
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "Whitespace") return std::make_unique<WhitespacePreTokenizer>();
  if (type == "WhitespaceSplit") return std::make_unique<WhitespaceSplitPreTokenizer>();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<PreTokenizer>> parts;
    for (const Json& part : reader.array("pretokenizers")) {
      auto made = make_pre_tokenizer(part, file);
      if (made) parts.push_back(std::move(made));
    }
    return std::make_unique<SequencePreTokenizer>(std::move(parts));
  }
  reader.fail_type(type, {"BertPreTokenizer", "Sequence", "Whitespace", "WhitespaceSplit"});
}

}  // namespace yoke
