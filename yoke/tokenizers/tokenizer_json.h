// Reads tokenizer.json: its small parts into Json, the vocabulary, tens of thousands of entries,
// straight into a Vocabulary (a Json object of that size takes longer to fill than all the rest).
//
//   TokenizerJson file = read_tokenizer_json(bytes, "model/tokenizer.json");
//   file.json["normalizer"]; file.vocabulary.find("the");
#pragma once

#include <string>
#include <string_view>

#include "yoke/core/json.h"
#include "yoke/tokenizers/vocabulary.h"

namespace yoke {

struct TokenizerJson {
  Json json;              // without model.vocab where that is an object
  Vocabulary vocabulary;  // of such a model.vocab
  bool has_vocabulary = false;
};

// Throws Error("tokenizer.load") that names `file` and the byte or token of the fault.
TokenizerJson read_tokenizer_json(std::string_view bytes, const std::string& file);

}  // namespace yoke
