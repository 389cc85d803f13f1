// Log lines go to a sink that the caller sets; without one they are dropped: the library never
// prints. The sink may be called from any thread, one call at a time.
//
//   yoke::set_log_sink([](yoke::LogLevel, const std::string& line) { std::cerr << line << '\n'; });
#pragma once

#include <functional>
#include <string>

namespace yoke {

enum class LogLevel { info, warning };

using LogSink = std::function<void(LogLevel, const std::string&)>;

// Replaces the sink of the process and returns the former one; an empty function drops all lines.
LogSink set_log_sink(LogSink sink);

void log_info(const std::string& line);
void log_warning(const std::string& line);

}  // namespace yoke
