// The tokenizer against Hugging Face tokenizers, live. CI samples; YOKE_SOAK=1 runs all.
#include "peer.h"

#include <functional>

#include "yoke/core/random.h"
#include "yoke/tokenizers/unicode.h"

namespace yoke::test {
namespace {

using nlohmann::json;

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split_tabs(const std::string& line) {
  std::vector<std::string> fields;
  size_t at = 0;
  for (size_t tab; (tab = line.find('\t', at)) != std::string::npos; at = tab + 1)
    fields.push_back(line.substr(at, tab - at));
  fields.push_back(line.substr(at));
  return fields;
}

// Fields of the GLUE files; every `stride`-th row.
std::vector<Case> glue(const std::string& task, int first, int second, size_t stride) {
  std::vector<Case> cases;
  for (const char* part : {"train", "dev", "test"}) {
    const auto lines =
        read_lines(std::string(YOKE_SHARED_DIR "/data/glue/") + task + "/" + part + ".tsv");
    // The first column of SST-2's test file is a number.
    const int shift = task == "SST-2" && std::string(part) == "test" ? 1 : 0;
    for (size_t i = 1; i < lines.size(); i += stride) {
      const auto fields = split_tabs(lines[i]);
      Case c{fields.at(size_t(first + shift))};
      if (second >= 0) c.pair = fields.at(size_t(second));
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

struct Block {
  char32_t first, last;
  int weight;
};

// Blocks where normalisation has something to do come up more often than their size says.
constexpr Block blocks[] = {
    {0x20, 0x7E, 40},      {0x00, 0x1F, 3},       {0x7F, 0xFF, 8},        {0x100, 0x24F, 8},
    {0x300, 0x36F, 12},    {0x370, 0x52F, 6},     {0x590, 0x6FF, 4},      {0x900, 0xDFF, 5},
    {0xE00, 0xFFF, 4},     {0x1000, 0x11FF, 3},   {0x1E00, 0x1FFF, 6},    {0x2000, 0x206F, 6},
    {0x2070, 0x2BFF, 4},   {0x2C00, 0x2FFF, 2},   {0x3000, 0x30FF, 5},    {0x3400, 0x9FFF, 6},
    {0xA000, 0xABFF, 3},   {0xAC00, 0xD7FF, 4},   {0xE000, 0xF8FF, 1},    {0xF900, 0xFAFF, 2},
    {0xFB00, 0xFFFF, 4},   {0x10000, 0x1FFFF, 4}, {0x1D100, 0x1D1FF, 2},  {0x20000, 0x2FA1F, 2},
    {0xE0000, 0xE01EF, 1}, {0x0F71, 0x0F84, 2},   {0x10FFF0, 0x10FFFF, 1}};

constexpr std::string_view snippets[] = {
    "[SEP]",    "[MASK]",   "[CLS]",        "[UNK]",
    "[sep]",    " ",        "  ",           "the",
    "Un",       "ing",      "'s",           "n't",
    " . ",      "\xC4\xB0", "\xE1\xBA\x9E", "e\xCC\x81\xCC\xA3",
    "\xCD\x84", "don't",    "\t",           "\r\n"};

std::string random_text(PhiloxStream& random) {
  int total = 0;
  for (const Block& block : blocks) total += block.weight;
  // A text keeps mostly to two blocks, as texts do, so that marks meet letters.
  const auto pick_block = [&] {
    auto at = int(random.below(uint64_t(total)));
    for (const Block& block : blocks)
      if ((at -= block.weight) < 0) return block;
    return blocks[0];
  };
  const Block home[] = {pick_block(), pick_block()};
  std::string text;
  for (uint64_t n = random.below(30); n > 0; --n) {
    if (random.below(8) == 0) {
      text += snippets[random.below(std::size(snippets))];
      continue;
    }
    const Block block = random.below(4) == 0 ? pick_block() : home[random.below(2)];
    const auto c = char32_t(block.first + random.below(block.last - block.first + 1));
    if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
  }
  return text;
}

std::vector<Case> random_cases(uint64_t seed, size_t count) {
  PhiloxStream random(seed, 0);
  std::vector<Case> cases;
  for (size_t i = 0; i < count; ++i) {
    Case c{random_text(random)};
    if (random.below(4) == 0) c.pair = random_text(random);
    cases.push_back(std::move(c));
  }
  return cases;
}

size_t random_count() { return soak() ? 100'000 : 3'000; }

// Every code point, alone and between two letters (soak), or many to a text and of the planes that
// Unicode left empty or private only a sample.
std::vector<Case> code_points(bool alone) {
  std::vector<Case> cases;
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const bool dull = (c >= 0x40000 && c < 0xE0000) || c >= 0xF0000;
    if (!soak() && dull && c % 61 != 0 && c % 0x10000 < 0xFFF0) continue;
    if (alone) {
      std::string single;
      append_utf8(single, c);
      cases.push_back({single});
      single = "a" + single + "b";
      cases.push_back({single});
      continue;
    }
    text += "a";
    append_utf8(text, c);
    text += "b ";
    if (text.size() > 3000 || c == 0x10FFFF) {
      cases.push_back({text});
      text.clear();
    }
  }
  return cases;
}

TEST(TokenizerPeer, sst2_sentences_are_equal) {
  YOKE_NEEDS_PEER();
  if (!fs::exists(YOKE_SHARED_DIR "/data/glue")) GTEST_SKIP() << "needs the GLUE files";
  const auto cases = glue("SST-2", 0, -1, soak() ? 1 : 23);
  ASSERT_GT(cases.size(), soak() ? 70'000u : 3'000u);
  expect_equal_to_peer(minilm_folder(), cases);
}

TEST(TokenizerPeer, rte_pairs_are_equal_also_truncated) {
  YOKE_NEEDS_PEER();
  if (!fs::exists(YOKE_SHARED_DIR "/data/glue")) GTEST_SKIP() << "needs the GLUE files";
  const auto cases = glue("RTE", 1, 2, soak() ? 1 : 61);
  ASSERT_GT(cases.size(), soak() ? 5'500u : 90u);
  expect_equal_to_peer(minilm_folder(), cases);
  expect_equal_to_peer(minilm_folder(), cases, {.add_special_tokens = false});
  for (const int64_t max_length : {3, 4, 5, 17, 32, 33, 64})
    expect_equal_to_peer(minilm_folder(), cases, {.max_length = max_length});
  expect_equal_to_peer(minilm_folder(), cases, {.max_length = 20, .add_special_tokens = false});
}

TEST(TokenizerPeer, every_code_point_is_equal) {
  YOKE_NEEDS_PEER();
  expect_equal_to_peer(minilm_folder(), code_points(soak()));
}

// lowercase, strip_accents, handle_chinese_chars, clean_text
TEST(TokenizerPeer, every_code_point_is_equal_in_other_configurations) {
  YOKE_NEEDS_PEER();
  if (!soak()) GTEST_SKIP() << "YOKE_SOAK=1 runs it";
  const json yes = true, no = false, null;
  const std::vector<json> rows = {
      {no, null, yes, yes}, {yes, no, yes, yes}, {no, yes, yes, yes}, {yes, null, no, no}};
  for (const json& row : rows) {
    SCOPED_TRACE(row.dump());
    TempFolder folder;
    write_variant(folder, [&](json& j) {
      j["normalizer"]["lowercase"] = row[0];
      j["normalizer"]["strip_accents"] = row[1];
      j["normalizer"]["handle_chinese_chars"] = row[2];
      j["normalizer"]["clean_text"] = row[3];
    });
    expect_equal_to_peer(folder.path(), code_points(true));
  }
}

TEST(TokenizerPeer, random_strings_are_equal) {
  YOKE_NEEDS_PEER();
  expect_equal_to_peer(minilm_folder(), random_cases(1, random_count()));
}

TEST(TokenizerPeer, random_strings_are_equal_in_other_configurations) {
  YOKE_NEEDS_PEER();
  uint64_t seed = 2;
  for (const bool lowercase : {false, true}) {
    for (const json& strip : std::vector<json>{nullptr, true, false}) {
      for (const bool clean : {false, true}) {
        SCOPED_TRACE(json({lowercase, strip, clean}).dump());
        TempFolder folder;
        write_variant(folder, [&](json& j) {
          j["normalizer"]["lowercase"] = lowercase;
          j["normalizer"]["strip_accents"] = strip;
          j["normalizer"]["clean_text"] = clean;
          j["normalizer"]["handle_chinese_chars"] = clean;
          j["decoder"]["cleanup"] = clean;
          if (lowercase)
            j["post_processor"] =
                json::parse(R"({"type":"BertProcessing","sep":["[SEP]",102],"cls":["[CLS]",101]})");
        });
        expect_equal_to_peer(folder.path(), random_cases(seed++, random_count() / 12));
      }
    }
  }
}

TEST(TokenizerPeer, other_normalizers_and_pre_tokenizers_are_equal) {
  YOKE_NEEDS_PEER();
  const char* normalizers[] = {
      R"({"type":"NFC"})",
      R"({"type":"NFD"})",
      R"({"type":"NFKC"})",
      R"({"type":"NFKD"})",
      R"({"type":"Lowercase"})",
      R"({"type":"StripAccents"})",
      R"({"type":"Strip","strip_left":true,"strip_right":true})",
      R"({"type":"Strip","strip_left":false,"strip_right":true})",
      R"({"type":"Replace","pattern":{"String":"e"},"content":"xyz"})",
      R"({"type":"Replace","pattern":{"String":"  "},"content":""})",
      R"({"type":"Sequence","normalizers":[{"type":"NFKD"},{"type":"StripAccents"},
          {"type":"Lowercase"},{"type":"Strip","strip_left":true,"strip_right":false}]})",
      R"({"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true,"strip_right":true},
          {"type":"NFC"},{"type":"Replace","pattern":{"String":"a"},"content":"\u00e9e"}]})",
      "null"};
  const char* pre_tokenizers[] = {
      R"({"type":"Whitespace"})", R"({"type":"WhitespaceSplit"})", R"({"type":"BertPreTokenizer"})",
      R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Whitespace"}]})",
      "null"};
  uint64_t seed = 100;
  size_t which = 0;
  for (const char* normalizer : normalizers) {
    const char* pre = pre_tokenizers[which++ % std::size(pre_tokenizers)];
    SCOPED_TRACE(std::string(normalizer) + " " + pre);
    TempFolder folder;
    write_variant(folder, [&](json& j) {
      j["normalizer"] = json::parse(normalizer);
      j["pre_tokenizer"] = json::parse(pre);
      if (which % 3 == 0) j["post_processor"] = nullptr;
      if (which % 4 == 0) j["decoder"] = nullptr;
    });
    auto cases = random_cases(seed++, random_count() / 10);
    if (soak())
      for (auto& c : code_points(false)) cases.push_back(std::move(c));
    expect_equal_to_peer(folder.path(), cases);
  }
}

TEST(TokenizerPeer, added_tokens_are_found_as_the_peer_finds_them) {
  YOKE_NEEDS_PEER();
  TempFolder folder;
  write_variant(folder, [&](json& j) {
    int id = 30522;
    const auto add = [&](const char* content, const char* flags) {
      const auto on = [&](char f) { return std::string(flags).find(f) != std::string::npos; };
      j["added_tokens"].push_back({{"id", id++},
                                   {"special", on('s')},
                                   {"content", content},
                                   {"single_word", on('w')},
                                   {"lstrip", on('l')},
                                   {"rstrip", on('r')},
                                   {"normalized", on('n')}});
    };
    add("<mask>", "sl");
    add("<m", "");
    add("<r>", "r");
    add("<lr>", "lr");
    add("wrd", "w");
    add("Nrm", "n");
    add("nrm\xC3\xA9", "nlr");
    add("xword", "nw");
    add("\xE4\xB8\xAD\xE6\x96\x87", "n");
    add("[E1]", "s");
    add("<mask><mask>", "");
    add(" sp ", "");
    add("<q>", "slrw");
    add("Spec", "sn");
    add("nospec", "sn");
  });
  PhiloxStream random(7, 0);
  const std::string_view parts[] = {"<mask>",
                                    "<m",
                                    "<r>",
                                    "<lr>",
                                    "wrd",
                                    "Nrm",
                                    "nrm",
                                    "NRM",
                                    "nrm\xC3\xA9",
                                    "NRME",
                                    "nrme\xCC\x81",
                                    "xword",
                                    "XWORD",
                                    "\xE4\xB8\xAD\xE6\x96\x87",
                                    "\xE4\xB8\xAD",
                                    "[E1]",
                                    "[SEP]",
                                    " ",
                                    "  ",
                                    "\t",
                                    "\xE2\x80\x83",
                                    "a",
                                    "B",
                                    ".",
                                    "\xCC\x81",
                                    "_",
                                    "1",
                                    " sp ",
                                    "sp",
                                    "<q>",
                                    "\xE2\x80\x8B",
                                    "\x01",
                                    "\xC3\xA9",
                                    "\xF0\x9D\x90\x80",
                                    "-"};
  std::vector<Case> cases;
  for (size_t i = 0; i < random_count(); ++i) {
    std::string text;
    for (uint64_t n = random.below(10); n > 0; --n) text += parts[random.below(std::size(parts))];
    cases.push_back({text});
  }
  expect_equal_to_peer(folder.path(), cases);
}

TEST(TokenizerPeer, long_words_and_texts_are_equal) {
  YOKE_NEEDS_PEER();
  std::vector<Case> cases;
  for (const size_t n : {1u, 2u, 99u, 100u, 101u, 102u, 5000u}) {
    cases.push_back({std::string(n, 'a')});
    std::string accents, wide;
    for (size_t i = 0; i < n; ++i) {
      accents += "e\xCC\x81";
      wide += "\xD0\xB0";
    }
    cases.push_back({accents});
    cases.push_back({wide, std::string(n, '#')});
  }
  for (const char* text : {"", " ", "\t\n", "\xE2\x80\x8B", "\xEF\xBF\xBD", "unaffable", "##ing"})
    for (const char* pair : {"", "x"}) {
      cases.push_back({text});
      cases.push_back({text, pair});
    }
  cases.push_back({std::string("a\0b", 3)});
  expect_equal_to_peer(minilm_folder(), cases);
  expect_equal_to_peer(minilm_folder(), cases, {.max_length = 7});
}

}  // namespace
}  // namespace yoke::test
