#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace yoke::cli {
namespace {

constexpr auto window = std::chrono::seconds(20);
constexpr int bar_cells = 24;

double seconds_between(ProgressMeter::Time a, ProgressMeter::Time b) {
  return std::chrono::duration<double>(b - a).count();
}

const char* phase_name(Progress::Phase phase) {
  switch (phase) {
    case Progress::Phase::train:
      return "train";
    case Progress::Phase::evaluate:
      return "evaluate";
    case Progress::Phase::predict:
      return "predict";
  }
  return "";
}

}  // namespace

void ProgressMeter::start(Time now) { points_.assign({{now, progress_.done, progress_.rows}}); }

void ProgressMeter::update(const Progress& progress, Time now) {
  if (progress.phase != progress_.phase || progress.done < progress_.done) points_.clear();
  progress_ = progress;
  points_.push_back({now, progress.done, progress.rows});
  // Two points stay whatever their age: slow steps have a speed too.
  while (points_.size() > 2 && now - points_.front().time > window) points_.pop_front();
}

std::optional<double> ProgressMeter::rows_per_second() const {
  if (points_.size() < 2) return std::nullopt;
  const double seconds = seconds_between(points_.front().time, points_.back().time);
  const auto rows = double(points_.back().rows - points_.front().rows);
  if (seconds <= 0 || rows <= 0) return std::nullopt;
  return rows / seconds;
}

std::optional<double> ProgressMeter::seconds_left() const {
  if (points_.size() < 2) return std::nullopt;
  const double seconds = seconds_between(points_.front().time, points_.back().time);
  const auto done = double(points_.back().done - points_.front().done);
  if (seconds <= 0 || done <= 0) return std::nullopt;
  return double(std::max<int64_t>(progress_.total - progress_.done, 0)) * seconds / done;
}

std::string ProgressMeter::speed() const {
  std::string text;
  if (const auto rate = rows_per_second())
    text = *rate < 10 ? fmt::format("{:.1f} rows/s", *rate) : fmt::format("{:.0f} rows/s", *rate);
  if (const auto left = seconds_left())
    text += fmt::format("{}{} left", text.empty() ? "" : "  ", duration_text(*left));
  return text;
}

std::string ProgressMeter::bar() const {
  const double share = progress_.total > 0
                           ? std::clamp(double(progress_.done) / double(progress_.total), 0.0, 1.0)
                           : 0.0;
  const int full = int(share * bar_cells);
  std::string cells(size_t(full), '=');
  if (full < bar_cells) cells += '>';
  cells.resize(bar_cells, ' ');
  std::string text = fmt::format("{} {}/{} [{}]", phase_name(progress_.phase), progress_.done,
                                 progress_.total, cells);
  if (loss_ && progress_.phase == Progress::Phase::train)
    text += fmt::format("  loss {:.4f}", *loss_);
  const std::string tail = speed();
  return tail.empty() ? text : text + "  " + tail;
}

std::string duration_text(double seconds) {
  const auto whole = int64_t(std::llround(std::max(seconds, 0.0)));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace yoke::cli
