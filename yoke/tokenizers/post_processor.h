// The last stage: puts special tokens around one or two sequences and says which type each token
// is.
//
//   auto post_processor = make_post_processor(json["post_processor"], vocabulary,
//   "tokenizer.json");
//
// Every family's rule is a template, a list of sequences and special tokens. Const methods are safe
// from many threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "yoke/core/json.h"

namespace yoke {

struct TemplatePart {
  enum Kind { sequence_a, sequence_b, special } kind = special;
  int32_t type_id = 0;
  std::vector<int32_t> ids;  // of special
};

class PostProcessor {
 public:
  // Without special tokens: A, or A and B, of types 0 and 1.
  PostProcessor();
  PostProcessor(std::vector<TemplatePart> single, std::vector<TemplatePart> pair);

  const std::vector<TemplatePart>& parts(bool pair) const { return pair ? pair_ : single_; }
  // The number of special tokens that it adds.
  int64_t added_tokens(bool pair) const { return pair ? added_pair_ : added_single_; }

 private:
  std::vector<TemplatePart> single_, pair_;
  int64_t added_single_ = 0, added_pair_ = 0;
};

// [CLS] A [SEP] and [CLS] A [SEP] B [SEP] with types 0 … 0 1 … 1.
PostProcessor bert_post_processor(int32_t cls, int32_t sep);

// For a "post_processor" object of tokenizer.json; the one without special tokens for null. Throws
// Error that names an unknown type and lists the known ones, or a special token whose id is not
// below `ids_end`.
PostProcessor make_post_processor(const Json& json, int64_t ids_end, const std::string& file);

}  // namespace yoke
