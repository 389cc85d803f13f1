// The options are frozen, and the manual shows what --help shows.
//
// After a wanted change, YOKE_UPDATE_GOLDEN=1 build/bin/test_cli --gtest_filter='help.*' writes
// both files anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/commands.h"

namespace yoke::cli {
namespace {

const std::string root = YOKE_SOURCE_DIR;
const bool update = std::getenv("YOKE_UPDATE_GOLDEN") != nullptr;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string help(const std::vector<std::string>& arguments) {
  return std::get<Message>(parse(arguments)).text;
}

TEST(help, the_set_of_options_is_frozen) {
  const std::string path = root + "/tests/cli/options.golden";
  if (update) write(path, describe_options());
  EXPECT_EQ(describe_options(), read(path));
}

TEST(help, the_manual_shows_the_help_texts) {
  const std::string path = root + "/docs/cli.md";
  std::string manual = read(path);
  for (const std::string name : {"yoke", "yoke train", "yoke evaluate", "yoke predict"}) {
    std::vector<std::string> arguments{"--help"};
    if (name != "yoke") arguments.insert(arguments.begin(), name.substr(5));
    const std::string head = "<!-- " + name + " --help -->\n```text\n";
    const size_t begin = manual.find(head);
    ASSERT_NE(begin, std::string::npos) << "docs/cli.md has no block for " << name << " --help";
    const size_t text = begin + head.size();
    const size_t end = manual.find("```", text);
    ASSERT_NE(end, std::string::npos);
    if (update) {
      manual.replace(text, end - text, help(arguments));
    } else {
      EXPECT_EQ(manual.substr(text, end - text), help(arguments));
    }
  }
  if (update) write(path, manual);
}

TEST(help, every_line_fits_and_every_option_is_explained) {
  for (const char* command : {"train", "evaluate", "predict"}) {
    const std::string text = help({command, "--help"});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 95u) << line;
    EXPECT_NE(text.find("Example"), std::string::npos);
    EXPECT_EQ(text.find("[]"), std::string::npos);
  }
}

TEST(help, help_wins_over_mistakes_beside_it) {
  EXPECT_EQ(help({"train", "--bogus", "--help"}), help({"train", "-h"}));
}

TEST(help, version_names_yoke_and_libtorch) {
  EXPECT_EQ(help({"--version"}).rfind("yoke 0.", 0), 0u);
  EXPECT_NE(help({"--version"}).find("LibTorch"), std::string::npos);
}

}  // namespace
}  // namespace yoke::cli
