// Errors of LibTorch told in yoke's way: where, which device, which rows, what to try.
#pragma once

#include <string>

namespace yoke {

// To be called in a catch (...) block. yoke::Error and Aborted go on as they are; running out of
// memory gets the options that help; other exceptions become Error(where, "<place>: <first line>").
[[noreturn]] void rethrow_at(const std::string& where, const std::string& place);

}  // namespace yoke
