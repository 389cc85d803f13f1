// Folders appear whole or not at all, and only what yoke wrote is ever replaced.
#include "yoke/core/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "yoke/core/error.h"

namespace yoke {
namespace {
namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("yoke-file-" + std::to_string(::getpid()) + "-" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  size_t entries() {
    return std::distance(fs::directory_iterator(root_), fs::directory_iterator());
  }
  fs::path root_;
};

TEST_F(Folder, nothing_is_left_without_commit) {
  {
    AtomicFolder folder(root_ / "out");
    write_file(folder.path() / "config.json", "{}", "save");
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(Folder, a_committed_folder_is_whole_and_can_be_replaced_only_on_request) {
  for (const std::string text : {"one", "two"}) {
    AtomicFolder folder(root_ / "out/", {.overwrite = text == "two"});
    write_file(folder.path() / "config.json", text, "save");
    folder.commit();
    EXPECT_EQ(read_file(root_ / "out" / "config.json", "t"), text);
  }
  EXPECT_EQ(entries(), 1u);
  EXPECT_THROW(AtomicFolder(root_ / "out"), Error);
}

TEST_F(Folder, files_of_other_origin_survive_an_overwrite) {
  {
    AtomicFolder folder(root_ / "out");
    write_file(folder.path() / "config.json", "old", "save");
    write_file(folder.path() / "gone.json", "old", "save");
    folder.commit();
  }
  put(root_ / "out" / "notes.txt", "mine");
  {
    AtomicFolder folder(root_ / "out", {.overwrite = true});
    write_file(folder.path() / "config.json", "new", "save");
    folder.commit();
  }
  EXPECT_EQ(read_file(root_ / "out" / "notes.txt", "t"), "mine");
  EXPECT_EQ(read_file(root_ / "out" / "config.json", "t"), "new");
  EXPECT_FALSE(fs::exists(root_ / "out" / "gone.json"));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Folder, a_model_that_yoke_did_not_write_is_never_replaced) {
  fs::create_directories(root_ / "out");
  put(root_ / "out" / "config.json", "theirs");
  EXPECT_THROW(AtomicFolder(root_ / "out", {.overwrite = true}), Error);
  EXPECT_EQ(read_file(root_ / "out" / "config.json", "t"), "theirs");
}

// A process that was killed after the swap, before what is not ours was carried over.
TEST_F(Folder, what_a_killed_swap_has_left_comes_back) {
  {
    AtomicFolder folder(root_ / "out");
    write_file(folder.path() / "config.json", "new", "save");
    folder.commit();
  }
  const std::string gone = "-999999999-0";  // no such process
  for (const char* name : {".out.old", ".out.tmp", ".other.tmp"})
    fs::create_directories(root_ / (name + gone) / "checkpoint-3");
  put(root_ / (".out.old" + gone) / "config.json", "old");
  put(root_ / (".out.old" + gone) / "yoke.json", R"({"files": ["config.json", "gone.json"]})");
  put(root_ / (".out.old" + gone) / "gone.json", "old");
  put(root_ / (".out.old" + gone) / "notes.txt", "mine");
  const fs::path alive = root_ / (".out.tmp-" + std::to_string(::getpid()) + "-77");
  fs::create_directories(alive);
  AtomicFolder::recover(root_ / "out", "t");
  EXPECT_EQ(read_file(root_ / "out" / "config.json", "t"), "new");
  EXPECT_EQ(read_file(root_ / "out" / "notes.txt", "t"), "mine");
  EXPECT_TRUE(fs::exists(root_ / "out" / "checkpoint-3"));
  EXPECT_FALSE(fs::exists(root_ / "out" / "gone.json"));
  EXPECT_FALSE(fs::exists(root_ / (".out.old" + gone)));
  EXPECT_FALSE(fs::exists(root_ / (".out.tmp" + gone)));
  EXPECT_TRUE(fs::exists(root_ / (".other.tmp" + gone)));  // not of this target
  EXPECT_TRUE(fs::exists(alive));
  AtomicFolder::remove(root_ / "out", "t");
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(Folder, errors_name_the_path_and_the_reason) {
  put(root_ / "file", "x");
  try {
    AtomicFolder folder(root_ / "file");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("file: exists and is not a folder"), std::string::npos);
  }
  EXPECT_THROW(read_file(root_ / "none", "t"), Error);
  EXPECT_THROW(MappedFile(root_ / "none", "t"), Error);
  EXPECT_THROW(read_file(root_, "t"), Error);
}

}  // namespace
}  // namespace yoke
