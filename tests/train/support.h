// What tests of the Trainer say of errors.
#pragma once

#include <functional>
#include <string>

#include "yoke/core/error.h"

namespace yoke::testing {

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace yoke::testing
