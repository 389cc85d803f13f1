// From tokens back to text.
//
//   auto decoder = make_decoder(json["decoder"], "tokenizer.json");
//
// Const methods are safe from many threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/core/json.h"

namespace yoke {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // clean_up: whether to mend the spaces of tokenisation ("do n't ." -> "don't."); without a value
  // as the decoder's own configuration says.
  virtual std::string decode(const std::vector<std::string_view>& tokens,
                             std::optional<bool> clean_up) const = 0;
};

// For a "decoder" object of tokenizer.json; null for null (tokens joined by spaces). Throws Error
// that names an unknown type and lists the known ones.
std::unique_ptr<Decoder> make_decoder(const Json& json, const std::string& file);

class WordPieceDecoder : public Decoder {
 public:
  explicit WordPieceDecoder(std::string prefix = "##", bool cleanup = true)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  std::string decode(const std::vector<std::string_view>& tokens,
                     std::optional<bool> clean_up) const override;

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace yoke
