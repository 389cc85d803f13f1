// Texts that come as words: ids and the word of each token, against Hugging Face tokenizers.
#include "peer.h"
#include "yoke/core/error.h"
#include "yoke/core/random.h"
#include "yoke/tokenizers/unicode.h"

namespace yoke::test {
namespace {

using Words = std::vector<std::string>;

std::string random_word(PhiloxStream& random) {
  static const Words pieces{"the",    "un",    "believ",       "able", "ing",  "'s", "-",
                            "London", "[SEP]", "[MASK]",       " ",    "\t",   "3",  ".",
                            "é",      "中",    "\xE2\x80\x8B", "\x01", "a b",  "x2", "…",
                            "🎬",      "İ",     "e\xCC\x81",    "@",    "[sep]"};
  std::string word;
  for (uint64_t n = random.below(5); n > 0; --n) {
    if (random.below(6) == 0)
      append_utf8(word, char32_t(random.below(0xD800)));
    else
      word += pieces[random.below(pieces.size())];
  }
  return word;
}

void expect_peer(const fs::path& folder, const std::vector<Words>& cases, int64_t max_length) {
  TempFolder temp;
  const fs::path in = temp.write("cases.json", Json(cases).dump());
  const fs::path out = temp.path() / "results.json";
  const std::string command =
      std::string(YOKE_PYTHON " " YOKE_SOURCE_DIR "/tests/golden/words_peer.py '") +
      (folder / "tokenizer.json").string() + "' '" + in.string() + "' '" + out.string() + "' " +
      std::to_string(max_length);
  ASSERT_EQ(std::system(command.c_str()), 0);
  const Json peer = Json::parse(read_file(out, "test"));
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  ASSERT_EQ(peer.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Encoding mine = tokenizer.encode_words(cases[i], {.max_length = max_length});
    EXPECT_EQ(Json(mine.ids), peer[i][0]) << Json(cases[i]).dump(-1, ' ', true);
    EXPECT_EQ(Json(mine.word_ids), peer[i][1]) << Json(cases[i]).dump(-1, ' ', true);
    EXPECT_EQ(Json(mine.type_ids), peer[i][2]);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Words, are_encoded_one_by_one_as_the_peer_does) {
  YOKE_NEEDS_PEER();
  std::vector<Words> cases{{},
                           {""},
                           {"", "a", ""},
                           {"\x01", "John", "\xE2\x80\x8B", "lives"},
                           {"don't", "stop", "!"},
                           {"New York", "is", "unbelievable"},
                           {" leading", "trailing ", "[MASK]", "a[SEP]b"}};
  PhiloxStream random(11, 0);
  for (int i = 0; i < (soak() ? 50'000 : 2'000); ++i) {
    Words words(random.below(12));
    for (auto& word : words) word = random_word(random);
    cases.push_back(std::move(words));
  }
  std::cout << "soak: " << cases.size() << " lists of words\n";
  for (const int64_t max_length : {0, 2, 3, 7, 16}) expect_peer(minilm_folder(), cases, max_length);
}

TEST(Words, tell_the_word_of_each_token_and_nothing_for_whole_texts) {
  TempFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\njohn\nun\n##do\nlives\n");
  const Tokenizer tokenizer = Tokenizer::from_folder(folder.path());
  const Encoding e = tokenizer.encode_words({"John", "\x01", "undo", "lives"});
  EXPECT_EQ(e.ids, (std::vector<int32_t>{2, 5, 6, 7, 8, 3}));
  EXPECT_EQ(e.word_ids, (std::vector<int32_t>{-1, 0, 2, 2, 3, -1}));
  // The cut goes through a word.
  EXPECT_EQ(tokenizer.encode_words({"John", "undo"}, {.max_length = 4}).word_ids,
            (std::vector<int32_t>{-1, 0, 1, -1}));
  EXPECT_TRUE(tokenizer.encode_words({"John", "undo"}, {.max_length = 4}).truncated);
  EXPECT_EQ(tokenizer.encode_words({"undo"}, {.add_special_tokens = false}).word_ids,
            (std::vector<int32_t>{0, 0}));
  EXPECT_TRUE(tokenizer.encode("John undo").word_ids.empty());
  EXPECT_THROW(tokenizer.encode_words({"a", "\xFF"}), Error);
}

}  // namespace
}  // namespace yoke::test
