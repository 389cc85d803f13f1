#include "yoke/train/failure.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "yoke/core/error.h"
#include "yoke/parallel/coordination.h"

namespace yoke {
namespace {

// The rest of an error from LibTorch is a stack trace.
std::string first_line(const char* what) {
  std::string text = what;
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

void rethrow_at(const std::string& where, const std::string& place) {
  const std::string memory_hint =
      "smaller .micro_batch_tokens (--micro-batch-tokens), which does not change the numbers, or a "
      "device with more free memory";
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const Aborted&) {
    throw;
  } catch (const c10::OutOfMemoryError& e) {
    throw OutOfMemory(where, place + ": out of memory: " + first_line(e.what()), memory_hint);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(where, place + ": out of memory", memory_hint);
  } catch (const std::exception& e) {
    throw Error(where, place + ": " + first_line(e.what()));
  }
}

}  // namespace yoke
