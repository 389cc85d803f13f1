// What folders a tokenizer is read from, and what it says of broken ones.
#include <array>
#include <cstdio>
#include <thread>

#include "peer.h"
#include "yoke/core/error.h"

namespace yoke::test {
namespace {

constexpr const char* vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##c\ncafe\nCaf\xC3\xA9\n";

// The message of the error that reading such a folder gives; "" when it loads.
std::string load_error(const std::vector<std::pair<std::string, std::string>>& files) {
  TempFolder folder;
  for (const auto& [name, bytes] : files) folder.write(name, bytes);
  try {
    Tokenizer::from_folder(folder.path());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Json small_json() {
  return Json::parse(R"({"version":"1.0","truncation":null,"padding":null,
    "added_tokens":[{"id":0,"content":"[PAD]","special":true,"single_word":false,"lstrip":false,
                     "rstrip":false,"normalized":false}],
    "normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,
                  "strip_accents":null,"lowercase":true},
    "pre_tokenizer":{"type":"BertPreTokenizer"},
    "post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
    "decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
    "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
             "max_input_chars_per_word":100,
             "vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"a":4,"##b":5}}})");
}

// With the value at `pointer` replaced.
std::string json_error(const std::string& pointer, const Json& value) {
  Json json = small_json();
  json[Json::json_pointer(pointer)] = value;
  return load_error({{"tokenizer.json", json.dump()}});
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << text

TEST(TokenizerFolder, vocab_txt_alone_is_an_uncased_bert) {
  TempFolder folder;
  folder.write("vocab.txt", vocab);
  const Tokenizer t = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(t.encode("Caf\xC3\xA9 ac [MASK]").ids, (std::vector<int32_t>{2, 8, 5, 7, 4, 3}));
  EXPECT_EQ(t.vocab_size(), 10);
  EXPECT_EQ(t.ids_end(), 10);
  EXPECT_EQ(t.pad_token_id(), 0);
  EXPECT_EQ(t.unk_token_id(), 1);
  EXPECT_EQ(t.cls_token_id(), 2);
  EXPECT_EQ(t.sep_token_id(), 3);
  EXPECT_EQ(t.mask_token_id(), 4);
  EXPECT_EQ(t.num_special_tokens_to_add(true), 3);
  EXPECT_FALSE(t.model_max_length());
  ASSERT_EQ(t.files().size(), 1u);
  EXPECT_EQ(t.files().at("vocab.txt"), vocab);
}

TEST(TokenizerFolder, tokenizer_config_decides_about_case_and_length) {
  TempFolder folder;
  folder.write("vocab.txt", vocab);
  folder.write("tokenizer_config.json", R"({"do_lower_case":false,"model_max_length":512})");
  const Tokenizer t = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(t.encode("Caf\xC3\xA9").ids, (std::vector<int32_t>{2, 9, 3}));
  EXPECT_EQ(t.model_max_length(), 512);
  folder.write("tokenizer_config.json", R"({"model_max_length":1000000000000000019884624838656})");
  EXPECT_FALSE(Tokenizer::from_folder(folder.path()).model_max_length());
  folder.write("tokenizer.json", small_json().dump());
  folder.write("tokenizer_config.json", R"({"do_lower_case":false})");
  EXPECT_EQ(Tokenizer::from_folder(folder.path()).encode("A").ids[1], 1);
  folder.write("tokenizer_config.json", R"({"tokenizer_class":"PreTrainedTokenizerFast"})");
  EXPECT_EQ(Tokenizer::from_folder(folder.path()).encode("A").ids[1], 4);
}

TEST(TokenizerFolder, crlf_bom_and_blank_lines_of_vocab_txt_keep_the_numbers) {
  TempFolder folder;
  folder.write("vocab.txt",
               "\xEF\xBB\xBF[PAD]\r\n[UNK]\r\n\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na\r\n\r\n");
  const Tokenizer t = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(t.encode("a").ids, (std::vector<int32_t>{3, 6, 4}));
  EXPECT_EQ(t.ids_end(), 7);
  EXPECT_EQ(t.vocab_size(), 6);
  EXPECT_FALSE(t.id_to_token(2));
  EXPECT_EQ(t.decode({6, 2, 99, -1, 6}), "a a");
}

TEST(TokenizerFolder, the_last_of_equal_lines_counts) {
  TempFolder folder;
  folder.write("vocab.txt", std::string(vocab) + "a\n");
  EXPECT_EQ(Tokenizer::from_folder(folder.path()).token_to_id("a"), 10);
}

TEST(TokenizerFolder, padding_and_truncation_of_the_file_are_not_obeyed) {
  Json json = small_json();
  json["truncation"] = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 16}}}};
  TempFolder folder;
  folder.write("tokenizer.json", json.dump());
  EXPECT_EQ(Tokenizer::from_folder(folder.path()).encode("a a a a").ids.size(), 6u);
}

TEST(TokenizerFolder, auto_tokenizer_reads_what_yoke_carries_over_and_agrees) {
  YOKE_NEEDS_PEER();
  using Files = std::vector<std::pair<std::string, std::string>>;
  const std::string words = read_file(minilm_folder() + "/vocab.txt", "test");
  const std::string fast = read_file(minilm_folder() + "/tokenizer.json", "test");
  const Files variants[] = {
      {{"vocab.txt", words}},
      {{"vocab.txt", words}, {"tokenizer_config.json", R"({"do_lower_case":false})"}},
      {{"vocab.txt", words},
       {"tokenizer_config.json",
        R"({"strip_accents":false,"tokenize_chinese_chars":false,"model_max_length":128,
            "cls_token":"[unused3]","unk_token":{"content":"[unused4]","__type":"AddedToken"}})"}},
      {{"vocab.txt", words},
       {"added_tokens.json", R"({"[new]":30522,"Gripping":30523})"},
       {"special_tokens_map.json",
        R"({"additional_special_tokens":["[E1]"],"mask_token":{"content":"[MASK]","lstrip":true,
            "rstrip":false,"single_word":false,"normalized":false}})"}},
      {{"tokenizer.json", fast}},
      {{"tokenizer.json", fast},
       {"tokenizer_config.json", R"({"do_lower_case":false,"tokenizer_class":"BertTokenizer"})"}},
      {{"tokenizer.json", fast},
       {"tokenizer_config.json",
        R"({"do_lower_case":false,"tokenizer_class":"PreTrainedTokenizerFast","pad_token":"[PAD]",
            "cls_token":"[CLS]","sep_token":"[SEP]","unk_token":"[UNK]","mask_token":"[MASK]"})"}},
  };
  const std::string text =
      "A gripping  [MASK] [E1] [new] Caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 \xE2\x88\x9A!";
  std::vector<std::unique_ptr<TempFolder>> sources, saved;
  std::string command =
      YOKE_PYTHON " " YOKE_SOURCE_DIR "/tests/golden/auto_tokenizer_peer.py '" + text + "'";
  for (const Files& files : variants) {
    sources.push_back(std::make_unique<TempFolder>());
    saved.push_back(std::make_unique<TempFolder>());
    for (const auto& [name, bytes] : files) sources.back()->write(name, bytes);
    for (const auto& [name, bytes] : Tokenizer::from_folder(sources.back()->path()).files())
      saved.back()->write(name, bytes);
    saved.back()->write("config.json", R"({"model_type":"bert"})");
    command += " " + saved.back()->path().string();
  }
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  ASSERT_TRUE(pipe);
  std::string lines;
  for (std::array<char, 4096> buffer; size_t n = std::fread(buffer.data(), 1, 4096, pipe);)
    lines.append(buffer.data(), n);
  ASSERT_EQ(::pclose(pipe), 0);
  std::istringstream stream(lines);
  std::string line;
  for (const auto& folder : saved) {
    ASSERT_TRUE(std::getline(stream, line));
    SCOPED_TRACE(folder->path().string() + " " + line);
    const Json peer = Json::parse(line);
    const Tokenizer t = Tokenizer::from_folder(folder->path());
    EXPECT_EQ(Json(t.encode(text).ids), peer["ids"]);
    EXPECT_EQ(Json(t.vocab_size()), peer["len"]);
    const std::vector<std::optional<int32_t>> special = {
        t.pad_token_id(), t.cls_token_id(), t.sep_token_id(), t.unk_token_id(), t.mask_token_id()};
    for (size_t i = 0; i < special.size(); ++i)
      EXPECT_EQ(special[i] ? Json(*special[i]) : Json(), peer["special"][i]) << i;
    EXPECT_EQ(Json(t.model_max_length().value_or(0)), peer["model_max_length"]);
  }
}

TEST(TokenizerFolder, unknown_types_are_named_and_the_known_ones_listed) {
  EXPECT_HAS(json_error("/normalizer/type", "Precompiled"), "\"Precompiled\"");
  EXPECT_HAS(json_error("/normalizer/type", "Precompiled"), "BertNormalizer, Lowercase");
  EXPECT_HAS(json_error("/pre_tokenizer/type", "ByteLevel"), "BertPreTokenizer, Sequence");
  EXPECT_HAS(json_error("/model/type", "BPE"), "known: WordPiece");
  EXPECT_HAS(json_error("/post_processor/type", "RobertaProcessing"), "TemplateProcessing");
  EXPECT_HAS(json_error("/decoder/type", "Metaspace"), "known: WordPiece");
  EXPECT_HAS(load_error({{"vocab.txt", vocab},
                         {"tokenizer_config.json", R"({"tokenizer_class":"XLNetTokenizer"})"}}),
             "XLNetTokenizer");
}

TEST(TokenizerFolder, broken_files_are_errors_that_say_where) {
  EXPECT_HAS(load_error({}), "neither tokenizer.json nor vocab.txt");
  EXPECT_HAS(load_error({{"vocab.json", "{}"}}), "it has vocab.json");
  EXPECT_HAS(load_error({{"tokenizer.json", ""}}), "not valid JSON at byte");
  EXPECT_HAS(load_error({{"tokenizer.json", "[1]"}}), "not an object");
  EXPECT_HAS(load_error({{"tokenizer.json", std::string(1000, '[')}}), "deeper than 256");
  EXPECT_HAS(load_error({{"tokenizer.json", small_json().dump() + "x"}}), "not valid JSON");
  EXPECT_HAS(load_error({{"vocab.txt", ""}}), "vocabulary is empty");
  EXPECT_HAS(load_error({{"vocab.txt", "a\nb\n"}}), "no unknown token \"[UNK]\"");
  EXPECT_HAS(load_error({{"vocab.txt", "[UNK]\n\xFF\n"}}), "ill-formed UTF-8 at byte 6");
  EXPECT_HAS(load_error({{"vocab.txt", vocab}, {"tokenizer_config.json", "{"}}), "not valid JSON");
  EXPECT_HAS(load_error({{"vocab.txt", vocab}, {"tokenizer_config.json", "[]"}}), "array");
  EXPECT_HAS(
      load_error({{"vocab.txt", vocab}, {"tokenizer_config.json", R"({"do_lower_case":"no"})"}}),
      "\"do_lower_case\" is string, expected true or false");
  EXPECT_HAS(
      load_error({{"vocab.txt", vocab}, {"tokenizer_config.json", R"({"model_max_length":"x"})"}}),
      "model_max_length");
  EXPECT_HAS(load_error({{"vocab.txt", vocab}, {"tokenizer_config.json", R"({"cls_token":7})"}}),
             "cls_token");
  EXPECT_HAS(load_error({{"vocab.txt", vocab}, {"added_tokens.json", R"({"x":3})"}}), "[SEP]");
  EXPECT_HAS(load_error({{"vocab.txt", vocab}, {"added_tokens.json", R"({"x":-3})"}}), "-3");
  EXPECT_HAS(load_error({{"vocab.txt", vocab}, {"added_tokens.json", R"({"a":3})"}}), "two ids");

  EXPECT_HAS(json_error("/model/vocab/a", 5), "which \"a\" has too");
  EXPECT_HAS(json_error("/model/vocab/a", -1), "has the id -1");
  EXPECT_HAS(json_error("/model/vocab/a", 1ll << 40), "expected 0 to");
  EXPECT_HAS(json_error("/model/vocab/a", UINT64_MAX), "expected 0 to");
  EXPECT_HAS(json_error("/model/vocab/a", "4"), "expected an integer");
  EXPECT_HAS(json_error("/model/vocab/a", 4.5), "expected an integer");
  EXPECT_HAS(json_error("/model/vocab/a", Json::array({4})), "expected an integer");
  EXPECT_HAS(json_error("/model/vocab/a", Json::object()), "expected an integer");
  EXPECT_HAS(json_error("/model/vocab", Json::array({"a"})), "\"vocab\" is array");
  EXPECT_HAS(json_error("/model/unk_token", "[NONE]"), "no unknown token \"[NONE]\"");
  EXPECT_HAS(json_error("/model/max_input_chars_per_word", "x"), "expected an integer");
  EXPECT_HAS(json_error("/model", 3), "\"model\" is number");
  EXPECT_HAS(json_error("/normalizer", "x"), "normalizer");
  EXPECT_HAS(json_error("/normalizer/lowercase", 1), "expected true or false");
  EXPECT_HAS(json_error("/added_tokens", 3), "added_tokens");
  EXPECT_HAS(json_error("/added_tokens/0", 3), "added_tokens");
  EXPECT_HAS(json_error("/added_tokens/0/id", 4), "two ids");
  EXPECT_HAS(json_error("/added_tokens/0/content", "[x]"), "which \"[PAD]\" has too");
  EXPECT_HAS(json_error("/post_processor/cls", Json::array({"[CLS]"})), "a token and its id");
  EXPECT_HAS(json_error("/post_processor/cls/1", 99), "not in the vocabulary");
  std::string twice = small_json().dump();
  twice.replace(twice.find("\"a\":4"), 5, "\"a\":4,\"a\":6");
  EXPECT_HAS(load_error({{"tokenizer.json", twice}}), "listed twice");
  EXPECT_EQ(load_error({{"tokenizer.json", small_json().dump()}}), "");
}

// No prefix of the file, and no file with one byte changed, may do more than throw Error.
TEST(TokenizerFolder, a_damaged_tokenizer_json_never_crashes) {
  const std::string good = small_json().dump();
  for (size_t size = 0; size < good.size(); size += soak() ? 1 : 23)
    EXPECT_NE(load_error({{"tokenizer.json", good.substr(0, size)}}), "") << size;
  for (size_t at = 0; at < good.size(); at += soak() ? 1 : 23) {
    for (const char byte : {'\0', '"', '{', ']', '9', '\xFF'}) {
      std::string bad = good;
      bad[at] = byte;
      load_error({{"tokenizer.json", bad}});
    }
  }
}

TEST(TokenizerFolder, ill_formed_text_and_small_limits_are_errors) {
  TempFolder folder;
  folder.write("vocab.txt", vocab);
  const Tokenizer t = Tokenizer::from_folder(folder.path());
  const auto error = [&](const std::string& text, int64_t max_length) -> std::string {
    try {
      t.encode_pair("a", text, {.max_length = max_length});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  // Bare continuation, overlong forms, a surrogate, above U+10FFFF, cut off.
  for (const char* bad :
       {"a\x80", "a\xC0\x80", "a\xC1\xBF", "a\xE0\x9F\xBF", "a\xED\xA0\x80", "a\xF0\x8F\xBF\xBF",
        "a\xF4\x90\x80\x80", "a\xF5\x80\x80\x80", "a\xE4\xB8", "a\xC3", "a\xF0\x9F\x99"})
    EXPECT_HAS(error(bad, 0), "ill-formed UTF-8 at byte 1 (0x");
  EXPECT_HAS(error("12345678901234567\xFF", 0), "byte 17");
  EXPECT_EQ(error("\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80", 0), "");
  EXPECT_HAS(error("b", 2), "max_length is 2, the special tokens alone are 3");
  EXPECT_HAS(error("b", -1), "max_length is -1");
  EXPECT_EQ(error("b", 3), "");
}

TEST(TokenizerFolder, many_threads_share_one_tokenizer) {
  TempFolder folder;
  folder.write("vocab.txt", vocab);
  const Tokenizer t = Tokenizer::from_folder(folder.path());
  const auto expected = t.encode("Caf\xC3\xA9 ac [MASK] \xE4\xB8\xAD").ids;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, copy = t] {
      for (int k = 0; k < 2000; ++k)
        wrong += copy.encode("Caf\xC3\xA9 ac [MASK] \xE4\xB8\xAD", {.offsets = k % 2 == 0}).ids !=
                 expected;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace yoke::test
