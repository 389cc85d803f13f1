// The examples run.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/train/tiny_model.h"
#include "yoke/core/file.h"

namespace yoke {
namespace {

TEST(Examples, fine_tune_trains_saves_and_scores_the_same_after_loading_on_other_devices) {
#ifdef YOKE_EXAMPLES
  const testing::TinyModel tiny("example");
  const auto train = tiny.write_rows("train.tsv", 96), dev = tiny.write_rows("dev.tsv", 20, 2);
  for (const std::string devices : {"cpu", "2xcpu", "4xsim"}) {
    const std::string command = std::string(YOKE_EXAMPLES) + "/fine_tune " + tiny.model_folder() +
                                " " + train + " " + dev + " " + tiny.path("out") + " " + devices +
                                " > " + tiny.path("stdout") + " 2> " + tiny.path("stderr");
    ASSERT_EQ(std::system(command.c_str()), 0) << read_file(tiny.path("stderr"), "test");
    const auto text = read_file(tiny.path("stdout"), "test");
    EXPECT_NE(text.find("accuracy"), std::string::npos);
    EXPECT_NE(text.find("LABEL_"), std::string::npos);
  }
#else
  GTEST_SKIP() << "the examples were not built";
#endif
}

}  // namespace
}  // namespace yoke
