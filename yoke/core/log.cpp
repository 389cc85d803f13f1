#include "yoke/core/log.h"

#include <mutex>
#include <utility>

namespace yoke {
namespace {

std::mutex sink_mutex;
LogSink sink;

void emit(LogLevel level, const std::string& line) {
  std::lock_guard lock(sink_mutex);
  if (sink) sink(level, line);
}

}  // namespace

LogSink set_log_sink(LogSink new_sink) {
  std::lock_guard lock(sink_mutex);
  return std::exchange(sink, std::move(new_sink));
}

void log_info(const std::string& line) { emit(LogLevel::info, line); }
void log_warning(const std::string& line) { emit(LogLevel::warning, line); }

}  // namespace yoke
