// What a Tokenizer holds: its stages, and how they are read from a folder. Private to
// yoke/tokenizers/; users see tokenizer.h.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "yoke/tokenizers/added_tokens.h"
#include "yoke/tokenizers/decoder.h"
#include "yoke/tokenizers/model.h"
#include "yoke/tokenizers/normalizer.h"
#include "yoke/tokenizers/post_processor.h"
#include "yoke/tokenizers/pre_tokenizer.h"
#include "yoke/tokenizers/tokenizer.h"

namespace yoke {

struct Tokenizer::State {
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<Model> model;
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;  // may be null
  AddedTokens added;
  int64_t ids_end = 0;
  int64_t vocab_size = 0;

  std::optional<int64_t> model_max_length;
  std::optional<int32_t> pad, cls, sep, unk, mask;
  std::map<std::string, std::string> files;

  std::optional<int32_t> token_to_id(std::string_view token) const;
};

std::shared_ptr<const Tokenizer::State> load_tokenizer_state(const std::filesystem::path& folder);

}  // namespace yoke
