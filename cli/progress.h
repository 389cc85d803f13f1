// How far a run is: the text of the progress bar and of the plain log lines.
//
//   ProgressMeter meter;
//   meter.start(now);
//   meter.update({.done = 10, .total = 128, .rows = 320}, now);
//   console.show_bar(meter.bar());     // "train 10/128 [=>    ] loss 0.6931  812 rows/s  0:42
//   left"
#pragma once

#include <yoke/train/events.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace yoke::cli {

class ProgressMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Forgets the speed so far: a run begins, or goes on after something else was done.
  void start(Time now);
  void update(const Progress& progress, Time now);
  void set_loss(double loss) { loss_ = loss; }

  // Over the last few seconds; nothing before there is something to measure.
  std::optional<double> rows_per_second() const;
  std::optional<double> seconds_left() const;

  std::string bar() const;
  // "812 rows/s, 0:42 left", as far as known.
  std::string speed() const;

 private:
  struct Point {
    Time time;
    int64_t done;
    int64_t rows;
  };

  Progress progress_;
  std::optional<double> loss_;
  std::deque<Point> points_;  // of the last seconds, oldest first
};

// "0:42", "12:03", "1:02:03".
std::string duration_text(double seconds);

}  // namespace yoke::cli
