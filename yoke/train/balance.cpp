#include "yoke/train/balance.h"

#include <algorithm>
#include <cmath>

namespace yoke {
namespace {

constexpr double fade = 0.9;        // what a step counts one step later
constexpr int64_t first_steps = 3;  // memory is still being allocated
constexpr int64_t enough = 20;

}  // namespace

Balance::Balance(std::vector<std::string> devices, bool by_speed)
    : devices_(std::move(devices)),
      by_speed_(by_speed),
      tokens_(devices_.size(), 0.0),
      seconds_(devices_.size(), 0.0) {}

void Balance::add(const std::vector<int64_t>& tokens, const std::vector<double>& seconds) {
  ++steps_;
  if (steps_ <= first_steps && steps_ > 1) return;
  // A device that had nothing to do has shown nothing.
  for (size_t d = 0; d < devices_.size() && d < tokens.size() && d < seconds.size(); ++d) {
    if (tokens[d] <= 0 || seconds[d] <= 0) continue;
    const double keep = steps_ <= first_steps + 1 ? 0 : fade;
    tokens_[d] = tokens_[d] * keep + double(tokens[d]);
    seconds_[d] = seconds_[d] * keep + seconds[d];
  }
}

std::vector<double> Balance::speeds() const {
  if (!by_speed_ || devices_.size() < 2) return {};
  std::vector<double> speeds;
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (seconds_[d] <= 0) return {};
    speeds.push_back(tokens_[d] / seconds_[d]);
  }
  return speeds;
}

std::string Balance::advice() {
  if (by_speed_ || advised_ || steps_ < enough || devices_.size() < 2) return "";
  size_t slow = 0, fast = 0;
  std::vector<double> speeds;
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (seconds_[d] <= 0) return "";
    speeds.push_back(tokens_[d] / seconds_[d]);
    if (speeds[d] < speeds[slow]) slow = d;
    if (speeds[d] > speeds[fast]) fast = d;
  }
  if (speeds[fast] <= 1.2 * speeds[slow]) return "";
  advised_ = true;
  return devices_[slow] + " computes " + std::to_string(std::lround(speeds[slow])) +
         " tokens a second, " + devices_[fast] + " " + std::to_string(std::lround(speeds[fast])) +
         ": .balance = \"speed\" (--balance speed) gives each what it can do";
}

}  // namespace yoke
