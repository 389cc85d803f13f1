// Speed, time left, and lines that are fit to print.
#include "cli/progress.h"

#include <gtest/gtest.h>

#include "cli/console.h"

namespace yoke::cli {
namespace {

using std::chrono::seconds;

const ProgressMeter::Time zero{};
constexpr auto training = Progress::Phase::train;

TEST(progress, durations_read_like_a_clock) {
  EXPECT_EQ(duration_text(0.4), "0:00");
  EXPECT_EQ(duration_text(42.4), "0:42");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(-1), "0:00");
}

TEST(progress, speed_and_time_left_come_from_what_was_done) {
  ProgressMeter meter;
  EXPECT_EQ(meter.speed(), "");
  meter.start(zero);
  EXPECT_EQ(meter.speed(), "");
  meter.update({training, 10, 100, 320}, zero + seconds(4));
  EXPECT_DOUBLE_EQ(*meter.rows_per_second(), 80);
  EXPECT_DOUBLE_EQ(*meter.seconds_left(), 36);
  EXPECT_EQ(meter.speed(), "80 rows/s  0:36 left");
}

TEST(progress, speed_follows_the_last_seconds) {
  ProgressMeter meter;
  meter.start(zero);
  for (int i = 1; i <= 100; ++i) meter.update({training, i, 1000, 32 * i}, zero + seconds(i));
  for (int i = 1; i <= 100; ++i)
    meter.update({training, 100 + 2 * i, 1000, 3200 + 64 * i}, zero + seconds(100 + i));
  EXPECT_NEAR(*meter.rows_per_second(), 64, 1e-9);
  EXPECT_NEAR(*meter.seconds_left(), 350, 1e-9);
}

TEST(progress, slow_steps_have_a_speed_too) {
  ProgressMeter meter;
  meter.start(zero);
  for (int i = 1; i <= 3; ++i) meter.update({training, i, 10, 32 * i}, zero + seconds(100 * i));
  EXPECT_EQ(meter.speed(), "0.3 rows/s  11:40 left");
}

TEST(progress, the_pause_of_an_evaluation_does_not_count) {
  ProgressMeter meter;
  meter.start(zero);
  meter.update({training, 10, 20, 320}, zero + seconds(10));
  meter.update({Progress::Phase::evaluate, 5, 10, 5}, zero + seconds(11));
  meter.update({Progress::Phase::evaluate, 10, 10, 10}, zero + seconds(1000));
  meter.update({training, 11, 20, 352}, zero + seconds(1001));
  meter.update({training, 12, 20, 384}, zero + seconds(1002));
  EXPECT_DOUBLE_EQ(*meter.rows_per_second(), 32);
}

TEST(progress, the_bar_shows_steps_loss_speed_and_time_left) {
  ProgressMeter meter;
  meter.start(zero);
  meter.set_loss(0.69314718);
  meter.update({training, 5, 10, 160}, zero + seconds(5));
  EXPECT_EQ(meter.bar(),
            "train 5/10 [============>           ]  loss 0.6931  32 rows/s  0:05 left");
  meter.update({training, 10, 10, 320}, zero + seconds(10));
  EXPECT_EQ(meter.bar(),
            "train 10/10 [========================]  loss 0.6931  32 rows/s  0:00 left");
}

TEST(progress, a_message_becomes_one_printable_line) {
  EXPECT_EQ(one_line("a\nb\r\n\tc"), "a b c");
  EXPECT_EQ(one_line("a\x1b[31mb\x07"), "a\\x1b[31mb\\x07");
  EXPECT_EQ(one_line("中文 ü"), "中文 ü");
  EXPECT_EQ(one_line("bad shapes\nException raised from f at x.cpp:3 (most recent call "
                     "first):\nframe #0: c10::Error"),
            "bad shapes");
  EXPECT_EQ(one_line("bad\nframe #0: x\nframe #1: y"), "bad");
  EXPECT_EQ(one_line(""), "");
}

}  // namespace
}  // namespace yoke::cli
