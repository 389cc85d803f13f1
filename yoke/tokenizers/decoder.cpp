#include "yoke/tokenizers/decoder.h"

#include <utility>

#include "yoke/tokenizers/json_reader.h"

namespace yoke {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// The artefacts that the peer mends, in its order.
void clean_up_spaces(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : rules) replace_all(text, from, to);
}

}  // namespace

std::string WordPieceDecoder::decode(const std::vector<std::string_view>& tokens,
                                     std::optional<bool> clean_up) const {
  const bool clean = clean_up.value_or(cleanup_);
  std::string text, word;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string_view token = tokens[i];
    word.clear();
    if (i > 0) {
      if (token.starts_with(prefix_))
        token.remove_prefix(prefix_.size());
      else
        word = ' ';
    }
    word += token;
    if (clean) clean_up_spaces(word);  // token by token, as the peer does
    text += word;
  }
  return text;
}

std::unique_ptr<Decoder> make_decoder(const Json& json, const std::string& file) {
  if (json.is_null()) return nullptr;
  const JsonReader reader(json, file, "decoder");
  const std::string type = reader.string("type");
  if (type == "WordPiece")
    return std::make_unique<WordPieceDecoder>(reader.string_or("prefix", "##"),
                                              reader.boolean_or("cleanup", true));
  reader.fail_type(type, {"WordPiece"});
}

}  // namespace yoke
