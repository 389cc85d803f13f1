// The tokenizer against committed results of Hugging Face tokenizers 0.23.3; needs no Python.
#include "peer.h"

namespace yoke::test {
namespace {

TEST(TokenizerGolden, every_case_is_equal) {
  const Json golden = read_json(YOKE_SOURCE_DIR "/tests/golden/tokenizer_bert.json", "test");
  int count = 0;
  for (const Json& variant : golden["variants"]) {
    TempFolder folder;
    Json config = golden["tokenizer"];
    config["normalizer"] = variant["normalizer"];
    config["added_tokens"] = variant["added_tokens"];
    folder.write("tokenizer.json", config.dump());
    const Tokenizer tokenizer = Tokenizer::from_folder(folder.path());
    for (const Json& c : variant["cases"]) {
      SCOPED_TRACE(variant["name"].dump() + " " + c["text"].dump() + " " + c["pair"].dump() + " " +
                   c["max_length"].dump());
      Case input{c["text"].get<std::string>()};
      if (!c["pair"].is_null()) input.pair = c["pair"].get<std::string>();
      EncodeOptions options{.max_length = c["max_length"].get<int64_t>(),
                            .add_special_tokens = c["add_special_tokens"].get<bool>()};
      const Encoding bare = encode(tokenizer, input, options);
      EXPECT_EQ(Json(bare.ids), c["ids"]);
      EXPECT_TRUE(bare.offsets.empty());
      options.offsets = true;
      const Encoding full = encode(tokenizer, input, options);
      EXPECT_EQ(Json(full.ids), c["ids"]);
      EXPECT_EQ(Json(full.type_ids), c["type_ids"]);
      EXPECT_EQ(Json(full.special_tokens_mask), c["special_tokens_mask"]);
      EXPECT_EQ(Json(full.offsets), c["offsets"]);
      EXPECT_EQ(Json(tokenizer.decode(full.ids)), c["decoded"]);
      ++count;
    }
  }
  EXPECT_GT(count, 150);
}

TEST(TokenizerGolden, truncated_says_whether_tokens_were_lost) {
  const Json golden = read_json(YOKE_SOURCE_DIR "/tests/golden/tokenizer_bert.json", "test");
  TempFolder folder;
  folder.write("tokenizer.json", golden["tokenizer"].dump());
  const Tokenizer tokenizer = Tokenizer::from_folder(folder.path());
  EXPECT_FALSE(tokenizer.encode("a b c", {.max_length = 5}).truncated);
  EXPECT_TRUE(tokenizer.encode("a b c", {.max_length = 4}).truncated);
  EXPECT_EQ(tokenizer.encode("a b c", {.max_length = 2}).ids.size(), 2u);
  EXPECT_TRUE(tokenizer.encode_pair("a", "b c", {.max_length = 5}).truncated);
  EXPECT_FALSE(tokenizer.encode_pair("a", "b c", {.max_length = 6}).truncated);
}

}  // namespace
}  // namespace yoke::test
