// Errors of LibTorch told in yoke's way: where, which device, which rows, what to try.
#pragma once

#include <string>

#include "yoke/core/error.h"

namespace yoke {

// A device ran out of memory: a smaller micro-batch may do.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// To be called in a catch (...) block. yoke::Error and Aborted go on as they are; running out of
// memory becomes OutOfMemory with the options that help; other exceptions become
// Error(where, "<place>: <first line>").
[[noreturn]] void rethrow_at(const std::string& where, const std::string& place);

}  // namespace yoke
