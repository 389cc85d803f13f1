// Tables hold what independent readers read from the same files, and every fault is told with its
// row and line.
#include "yoke/data/table.h"

#include "tests/data/temp_files.h"
#include "yoke/core/file.h"
#include "yoke/core/json.h"
#include "yoke/core/random.h"

namespace yoke {
namespace {

using test::error_of;
using test::expect_has;
using test::TempFiles;
using Rows = std::vector<std::vector<std::string>>;

// The cells with the header as first row; "<none>" for nothing.
Rows rows_of(const Table& table, bool header = true) {
  Rows rows;
  if (header) {
    rows.emplace_back();
    for (const auto& column : table.columns()) rows.back().push_back(column.name);
  }
  for (int64_t row = 0; row < table.rows(); ++row) {
    rows.emplace_back();
    for (size_t c = 0; c < table.columns().size(); ++c)
      rows.back().emplace_back(table.cell(row, c).value_or("<none>"));
  }
  return rows;
}

std::string summary(const Table& table) {
  std::string text;
  for (int64_t row = 0; row < table.rows(); ++row)
    text += std::to_string(table.source_row(row)) + "@" + std::to_string(table.line(row)) + " ";
  for (const auto& bad : table.bad_rows())
    text += "!" + std::to_string(bad.row) + "@" + std::to_string(bad.line) + " " + bad.what + ". ";
  return text;
}

TEST(Csv, quotes_newlines_and_doubled_quotes_are_read_as_rfc_4180_says) {
  TempFiles files;
  const auto path = files.write(
      "a.csv", "text,label\r\n\"a, \"\"b\"\"\r\nc\",1\r\n\r\nplain \"q\" text,2\r\n\"\",3");
  const Table table = read_table(path);
  EXPECT_EQ(
      rows_of(table),
      (Rows{{"text", "label"}, {"a, \"b\"\r\nc", "1"}, {"plain \"q\" text", "2"}, {"", "3"}}));
  EXPECT_EQ(summary(table), "1@2 2@5 3@6 ");
}

TEST(Csv, rows_of_another_width_keep_their_numbers) {
  TempFiles files;
  const auto path = files.write("a.csv", "text,label\na,1\n\n\"x\ny\"\nb,2\nc,3,4\n\"p\nq\",5\n");
  EXPECT_EQ(
      summary(read_table(path)),
      "1@2 3@6 5@8 !2@4 has 1 field, the header has 2. !4@7 has 3 fields, the header has 2. ");
}

TEST(Csv, a_byte_order_mark_nul_bytes_and_lone_carriage_returns_are_no_trouble) {
  TempFiles files;
  EXPECT_EQ(rows_of(read_table(files.write(
                "a.csv", "\xEF\xBB\xBFtext,label\rx" + std::string(1, '\0') + "y,1\r"))),
            (Rows{{"text", "label"}, {std::string("x\0y", 3), "1"}}));
}

TEST(Csv, tabs_or_semicolons_separate_where_the_header_has_no_comma) {
  TempFiles files;
  const Rows want{{"text", "label"}, {"a, b; c", "1"}};
  EXPECT_EQ(rows_of(read_table(files.write("a.csv", "text\tlabel\na, b; c\t1\n"))), want);
  EXPECT_EQ(rows_of(read_table(files.write("b.csv", "text;label\n\"a, b; c\";1\n"))), want);
  EXPECT_EQ(rows_of(read_table(files.write("c.csv", "well; then\n"), {.no_header = true}), false),
            (Rows{{"well; then"}}));
}

TEST(Csv, a_quote_that_never_closes_is_an_error_with_its_line) {
  TempFiles files;
  const auto path = files.write("a.csv", "text,label\na,1\n0,\"abc\nd,2\n");
  expect_has(error_of([&] { read_table(path); }), {"a.csv", "line 3", "never closes", ".tsv"});
}

TEST(Csv, fields_larger_than_a_block_are_read) {
  TempFiles files;
  const std::string large(3'000'000, 'x');
  const Table table = read_table(files.write("a.csv", "text,label\n" + large + ",1\ny,2\n"));
  EXPECT_EQ(table.cell(0, 0), large);
  EXPECT_EQ(table.cell(1, 0), "y");
}

TEST(Csv, random_tables_come_back_as_pythons_csv_module_wrote_them) {
  YOKE_NEEDS_PYTHON();
  TempFiles files;
  for (int seed = 0; seed < (test::soak() ? 200 : 12); ++seed) {
    const auto path = files.path("r.csv"), json = files.path("r.json");
    ASSERT_TRUE(test::run_peer("csv " + std::to_string(seed) + " 300 " + path + " " + json));
    const Json want = read_json(json, "test");
    const Table table = read_table(path);
    ASSERT_TRUE(table.bad_rows().empty()) << "seed " << seed << ": " << summary(table);
    ASSERT_EQ(rows_of(table), want["rows"].get<Rows>()) << "seed " << seed;
    for (int64_t row = 0; row < table.rows(); ++row)
      ASSERT_EQ(table.line(row), want["lines"][size_t(row) + 1].get<int64_t>()) << "seed " << seed;
  }
}

// The scan beside Arrow and Arrow must cut the same records, whatever the bytes.
TEST(Csv, any_bytes_are_a_table_or_an_error_that_is_not_ours) {
  TempFiles files;
  PhiloxStream random(11, 0);
  const std::string pieces[] = {"a", "b", ",", "\"", "\n", "\r", "\r\n", "\t", " ", "\"\""};
  for (int i = 0; i < (test::soak() ? 10000 : 150); ++i) {
    std::string text = "a,b\n";
    for (int64_t n = int64_t(random.below(30)); n > 0; --n) text += pieces[random.below(10)];
    for (const char* name : {"f.csv", "f.tsv"}) {
      try {
        read_table(files.write(name, text));
      } catch (const Error& error) {
        ASSERT_EQ(std::string(error.what()).find("please report"), std::string::npos)
            << error.what() << Json(text).dump();
      }
    }
  }
}

TEST(Tsv, quotes_are_characters_and_every_line_is_a_row) {
  TempFiles files;
  const Table table =
      read_table(files.write("a.tsv", "text\tlabel\n\"x\t1\r\ny\"\t2\n\n \"q\" \t3\nz\n"));
  EXPECT_EQ(rows_of(table),
            (Rows{{"text", "label"}, {"\"x", "1"}, {"y\"", "2"}, {" \"q\" ", "3"}}));
  EXPECT_EQ(summary(table), "1@2 2@3 3@5 !4@6 has 1 field, the header has 2. ");
}

TEST(Tsv, a_blank_line_of_the_only_column_is_an_empty_text) {
  TempFiles files;
  EXPECT_EQ(rows_of(read_table(files.write("a.tsv", "text\na\n\nb\n"))),
            (Rows{{"text"}, {"a"}, {""}, {"b"}}));
  EXPECT_EQ(rows_of(read_table(files.write("a.csv", "text\na\n\n\"\"\nb\n"))),
            (Rows{{"text"}, {"a"}, {""}, {"b"}}));
}

TEST(Tsv, sst2_is_read_as_plain_lines_say) {
  YOKE_NEEDS_PYTHON();
  const std::string path = YOKE_SHARED_DIR "/data/glue/SST-2/train.tsv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs SST-2";
  TempFiles files;
  ASSERT_TRUE(test::run_peer("lines " + path + " utf-8 " + files.path("want.json")));
  const Table table = read_table(path);
  EXPECT_EQ(table.rows(), 67349);
  EXPECT_EQ(rows_of(table), read_json(files.path("want.json"), "test").get<Rows>());
}

TEST(LabelLines, the_first_blank_ends_the_label) {
  TempFiles files;
  EXPECT_EQ(rows_of(read_table(files.write("a.label", "HUM:ind Who  is he ?\n\nX y\r\n"))),
            (Rows{{"0", "1"}, {"HUM:ind", "Who  is he ?"}, {"X", "y"}}));
  EXPECT_EQ(rows_of(read_table(files.write("b.label", "not spam\thello\tyou\n"))),
            (Rows{{"0", "1"}, {"not spam", "hello\tyou"}}));
  EXPECT_EQ(summary(read_table(files.write("c.label", "A b\n\nC\nD e"))),
            "1@1 3@4 !2@3 has a label and no text. ");
}

TEST(LabelLines, trec_in_latin_1_has_all_its_rows) {
  const std::string path = YOKE_SHARED_DIR "/data/trec6/train_5500.label";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs TREC";
  const Table table = read_table(path, {.encoding = "ISO-8859-1"});
  EXPECT_EQ(table.rows(), 5452);
  EXPECT_EQ(table.cell(0, 1), "How did serfdom develop in and then leave Russia ?");
  // Its one odd byte stands at offset 3665.
  expect_has(error_of([&] { read_table(path); }),
             {"train_5500.label: row 66 (line 66)", "0xF0", "--encoding"});
}

TEST(JsonLines, values_of_all_types_are_read_as_they_are_written) {
  TempFiles files;
  const Table table = read_table(
      files.write("a.jsonl",
                  "{\"text\": \"2020-01-01 00:00:00\", \"label\": 1}\n\n"
                  "{\"label\": \"1\", \"text\": \"\\u4e2d\\u0000\\ud83c\\udfac\", \"x\": 1.50}\r\n"
                  "{\"text\": null, \"label\": true, \"x\": -7, \"l\": [1, {\"text\": 2}], \"o\": "
                  "{\"a\": 1}}"));
  EXPECT_EQ(rows_of(table), (Rows{{"text", "label", "x", "l", "o"},
                                  {"2020-01-01 00:00:00", "1", "<none>", "<none>", "<none>"},
                                  {std::string("中\0🎬", 8), "1", "1.50", "<none>", "<none>"},
                                  {"<none>", "true", "-7", "[…]", "{…}"}}));
  EXPECT_EQ(summary(table), "1@1 2@3 3@4 ");
  EXPECT_EQ(table.columns()[0].kind, CellKind::string);
  EXPECT_EQ(table.columns()[2].kind, CellKind::real);
  EXPECT_EQ(table.columns()[3].kind, CellKind::list);
}

TEST(JsonLines, faults_are_told_by_row_and_line) {
  TempFiles files;
  const Table table = read_table(files.write(
      "a.jsonl", "{\"t\": 1}\n\n{\"t\": 2,}\n[1]\n{\"t\": 3}\n{\"t\": \"\\ud800\"}\n7\n"));
  const std::string text = summary(table);
  EXPECT_TRUE(text.starts_with("1@1 4@5 !2@3 is not JSON: ")) << text;
  expect_has(text, {"!3@4 is not an object", "!5@6 is not JSON", "!6@7 is not an object"});
  EXPECT_EQ(rows_of(table), (Rows{{"t"}, {"1"}, {"3"}}));
  // Nothing of a bad row stays.
  EXPECT_EQ(rows_of(read_table(files.write("c.jsonl", "{\"t\": 1}\n{\"x\": 9,\n{\"t\": 3}\n"))),
            (Rows{{"t", "x"}, {"1", "<none>"}, {"3", "<none>"}}));
  const std::string deep(1000, '[');
  expect_has(summary(read_table(files.write("b.jsonl", "{\"t\": 1}\n{\"t\": " + deep))),
             {"!2@2", "deeper than 256"});
}

TEST(JsonLines, an_array_of_objects_is_a_table_too) {
  TempFiles files;
  const Table table = read_table(files.write(
      "a.json", "\n[\n  {\"text\": \"a\", \"m\": {\"n\": [1]}},\n  {\"text\": \"b\"}\n]\n"));
  EXPECT_EQ(rows_of(table), (Rows{{"text", "m"}, {"a", "{…}"}, {"b", "<none>"}}));
  expect_has(error_of([&] { read_table(files.write("b.json", "[\n{\"a\": 1},\n{\"a\" 2}]")); }),
             {"b.json: row 2: line 3"});
  expect_has(error_of([&] { read_table(files.write("c.json", "[{\"a\": 1}, 5]")); }),
             {"row 2: is not an object"});
}

TEST(Parquet, cells_of_all_types_are_those_that_pyarrow_wrote) {
  YOKE_NEEDS_PYTHON();
  TempFiles files;
  const auto path = files.path("a.parquet"), json = files.path("a.json");
  if (!test::run_peer("parquet 5 200 " + path + " " + json)) GTEST_SKIP() << "needs pyarrow";
  const Json want = read_json(json, "test");
  const Table table = read_table(path);
  ASSERT_EQ(table.rows(), 200);
  ASSERT_EQ(table.columns().size(), want.size() + 1);
  for (size_t c = 0; c < want.size(); ++c) {
    const auto& column = table.columns()[c];
    for (int64_t row = 0; row < table.rows(); ++row) {
      const auto cell = table.cell(row, c);
      const Json& value = want[column.name][size_t(row)];
      ASSERT_EQ(cell.has_value(), !value.is_null()) << column.name << row;
      if (!cell) continue;
      if (value.is_number_float()) {
        ASSERT_EQ(std::stod(std::string(*cell)), value.get<double>());
      } else {
        ASSERT_EQ(*cell, value.is_string() ? value.get<std::string>() : value.dump());
      }
    }
  }
  EXPECT_EQ(table.columns().back().kind, CellKind::list);
  EXPECT_EQ(table.columns()[2].kind, CellKind::integer);
  EXPECT_EQ(table.source_row(199), 200);
  const std::string bytes = read_file(path, "test");
  expect_has(error_of([&] { read_table(files.write("cut.parquet", bytes.substr(0, 2000))); }),
             {"cut.parquet", "Parquet"});
}

TEST(Encoding, every_encoding_gives_the_same_table) {
  // "中文,é" and so on, written by Python's codecs.
  TempFiles files;
  const Rows want{{"text", "label"}, {"中文", "1"}, {"电影", "2"}};
  const std::string gb = "text,label\n\xD6\xD0\xCE\xC4,1\n\xB5\xE7\xD3\xB0,2\n";
  EXPECT_EQ(rows_of(read_table(files.write("g.csv", gb), {.encoding = "gb18030"})), want);
  EXPECT_EQ(rows_of(read_table(files.write("g.csv", gb), {.encoding = "GBK"})), want);
  std::string utf16 = "\xFF\xFE";
  for (char16_t unit : std::u16string(u"text,label\n中文,1\n电影,2\n"))
    utf16 += {char(unit & 255), char(unit >> 8)};
  EXPECT_EQ(rows_of(read_table(files.write("u.csv", utf16), {.encoding = "utf-16"})), want);
  EXPECT_EQ(rows_of(read_table(files.write("u.csv", utf16.substr(2)), {.encoding = "UTF-16LE"})),
            want);
  EXPECT_EQ(rows_of(read_table(files.write("l.csv", "text\ncaf\xE9\n"), {.encoding = "latin1"})),
            (Rows{{"text"}, {"café"}}));
  EXPECT_EQ(
      rows_of(read_table(files.write("l.csv", "text\ncaf\xC3\xA9\n"), {.encoding = "utf-8-sig"})),
      (Rows{{"text"}, {"café"}}));
  // Larger than ICU's chunk, with characters of two units that straddle it.
  std::string large = "x";
  for (int i = 0; i < 50000; ++i) large += "🎬";
  std::string units = "\xFF\xFEt\0\n\0x\0";
  units = std::string("\xFF\xFEt\0\n\0x\0", 8);
  for (int i = 0; i < 50000; ++i) units += std::string("\x3C\xD8\xAC\xDF", 4);
  EXPECT_EQ(rows_of(read_table(files.write("b.csv", units), {.encoding = "utf-16"})),
            (Rows{{"t"}, {large}}));
}

TEST(Encoding, a_bad_byte_is_an_error_with_file_row_line_and_option) {
  TempFiles files;
  const auto at = [&](const char* name, const std::string& text, TextOptions options = {}) {
    return error_of([&] { read_table(files.write(name, text), options); });
  };
  expect_has(at("a.csv", "text,label\na,1\n\n\"b\nc \xFFx\",2\n"),
             {"a.csv: row 2 (line 5)", "0xFF", "utf-8", "(--encoding gb18030)"});
  expect_has(at("a.csv", "te\xFFxt,label\na,1\n"), {"a.csv: header (line 1)", "0xFF"});
  expect_has(at("a.tsv", "text\tlabel\na\t1\n\xE4\xB8,\t2\n"), {"row 2 (line 3)", "0xE4 0xB8"});
  expect_has(at("a.tsv", "a\t1\nb\xC0\xAF\t1\n", {.no_header = true}), {"row 2 (line 2)"});
  expect_has(at("a.jsonl", "{\"t\": 1}\n\n{\"t\": \"\xED\xA0\x80\"}\n"), {"row 2 (line 3)"});
  expect_has(at("a.json", "[{\"t\": 1},\n{\"t\": \"\xFF\"}]"), {"line 2", "0xFF"});
  expect_has(at("a.csv", "text\n\xD6\xD0\n\xFF\xFF\n", {.encoding = "gb18030"}),
             {"row 2 (line 3)", "gb18030", "--encoding utf-8"});
  expect_has(at("a.csv", std::string("\xFF\xFEt\0\n\0x\0", 8)), {"(--encoding utf-16)"});
  expect_has(at("a.csv", std::string("\xFF\xFEt\0\n\0x\0\x3C\xD8", 10), {.encoding = "utf-16"}),
             {"row 1 (line 2)", "0x3C 0xD8"});
  expect_has(at("a.csv", "t\nx\n", {.encoding = "klingon"}), {"klingon", "gb18030"});
}

TEST(Encoding, bad_bytes_are_bad_rows_where_these_are_skipped) {
  TempFiles files;
  const TextOptions skip{.skip_bad_rows = true};
  EXPECT_EQ(summary(read_table(files.write("a.csv", "t,l\na,1\n\"\xFF\nb\",2\nc,3\n"), skip)),
            "1@2 3@5 !2@3 the bytes 0xFF are not utf-8. ");
  EXPECT_EQ(
      summary(read_table(files.write("a.jsonl", "{\"t\":1}\n{\"t\":\"\xFF\"}\n{\"t\":3}"), skip)),
      "1@1 3@3 !2@2 the bytes 0xFF are not utf-8. ");
  EXPECT_EQ(summary(read_table(files.write("a.label", "A b\nC \xFF\nD e"), skip)),
            "1@1 3@3 !2@2 the bytes 0xFF are not utf-8. ");
}

TEST(Table, files_that_hold_nothing_or_are_no_tables_are_errors) {
  TempFiles files;
  const auto at = [&](const std::string& path) { return error_of([&] { read_table(path); }); };
  expect_has(at(files.path("none.csv")), {"none.csv does not exist"});
  for (const char* name : {"e.csv", "e.tsv", "e.label", "e.jsonl", "e.json", "e.parquet"})
    expect_has(at(files.write(name, "")), {std::string(name) + " is empty"});
  for (const char* name : {"b.csv", "b.tsv", "b.label", "b.jsonl"})
    expect_has(at(files.write(name, "\n\r\n\n")), {std::string(name)});
  expect_has(at(files.write("h.csv", "text,label\n\n")), {"h.csv has a header and no rows"});
  expect_has(at(files.write("h.tsv", "text\tlabel")), {"h.tsv has a header and no rows"});
  expect_has(at(files.write("x.xlsx", "PK")), {".xlsx", ".csv, .tsv, .txt", ".parquet"});
  expect_has(at(files.write("x.csv.gz", "x")), {".gz", "unpack"});
  expect_has(at(files.write("x", "text")), {"without an extension", ".csv"});
  expect_has(at(std::filesystem::path(files.path("x")).parent_path().string()), {"is a folder"});
  expect_has(at(files.write("x.parquet", "not parquet at all")), {"x.parquet", "Parquet"});
}

}  // namespace
}  // namespace yoke
