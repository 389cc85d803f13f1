#include "yoke/device/cuda_plugin.h"

#include <c10/util/StringUtil.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/engine.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

#include "yoke/core/error.h"

namespace yoke {
namespace {

namespace fs = std::filesystem;

constexpr const char* no_driver = "no NVIDIA driver found";
constexpr const char* asked_before =
    "PyTorch was asked about CUDA (at::manual_seed does so) before it was loaded, and keeps its "
    "answer that there is none";

[[noreturn]] void throw_late(const std::string& why) {
  throw Error("device.cuda", why, "yoke::init_devices() at the start of main()");
}

struct State {
  std::mutex mutex;
  bool tried = false;
  bool too_late = false;
  const CudaApi* api = nullptr;
  std::string why_none;
};

State& state() {
  static auto* the_state = new State;
  return *the_state;
}

// The engine's queues are protected: a derived class may name the member.
struct EngineQueues : torch::autograd::Engine {
  static auto member() { return &EngineQueues::device_ready_queues_; }
};

bool driver_is_installed() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver) dlclose(driver);
  return driver != nullptr;
}

std::vector<fs::path> candidates() {
  if (const char* given = std::getenv("YOKE_CUDA_PLUGIN"); given && *given) return {given};
  const fs::path name = "libyoke_cuda.so";
  std::vector<fs::path> found;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&driver_is_installed), &self) && self.dli_fname) {
    std::error_code ignored;
    found.push_back(fs::absolute(self.dli_fname, ignored).parent_path() / name);
  }
  std::error_code failed;
  const auto program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    found.push_back(program.parent_path() / name);
    found.push_back(program.parent_path().parent_path() / "lib" / name);
  }
  std::erase_if(found, [](const fs::path& path) {
    std::error_code ignored;
    return !fs::exists(path, ignored);
  });
  found.push_back(name);  // the loader's own search
  return found;
}

// The table, or nullptr and why.
const CudaApi* open_library(std::string& why) {
  const fs::path path = candidates().front();
  // RTLD_GLOBAL: PyTorch's CUDA libraries register themselves with the CPU ones.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* reason = dlerror();
    why = c10::str(path.string(), " does not load: ", reason ? reason : "unknown reason");
    return nullptr;
  }
  auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(library, cuda_plugin_symbol));
  const CudaApi* api = entry ? entry() : nullptr;
  if (!api || api->version != CudaApi::current_version) {
    why = c10::str(path.string(), " belongs to another version of yoke");
    return nullptr;
  }
  if (api->device_count() > 0) return api;
  char text[512] = "";
  api->why_none(text, sizeof text);
  why = text[0] ? text : "no GPU found";
  return nullptr;
}

}  // namespace

bool backward_has_run() {
  return !(torch::autograd::Engine::get_default_engine().*EngineQueues::member()).empty();
}

bool cuda_is_loaded() {
  auto& s = state();
  const std::lock_guard lock(s.mutex);
  return s.api != nullptr;
}

const CudaApi* find_cuda() {
  auto& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.too_late) throw_late(asked_before);
  if (s.tried) return s.api;
  const char* given = std::getenv("YOKE_CUDA_PLUGIN");
  if (!(given && *given) && !driver_is_installed()) {
    s.why_none = no_driver;
    s.tried = true;
    return nullptr;
  }
  if (backward_has_run())
    throw_late(
        "CUDA cannot be loaded any more: a backward pass has run in this process, and PyTorch "
        "fixes its devices then");
  s.api = open_library(s.why_none);
  s.tried = true;
  if (s.api && !s.api->ready()) {
    s.api = nullptr;
    s.too_late = true;
    throw_late(asked_before);
  }
  return s.api;
}

std::string why_no_cuda() {
  auto& s = state();
  const std::lock_guard lock(s.mutex);
  return s.why_none == no_driver ? "" : s.why_none;
}

const CudaApi& cuda() {
  if (const CudaApi* api = find_cuda()) return *api;
  const std::lock_guard lock(state().mutex);
  throw Error("device.cuda", "no GPU to use: " + state().why_none, "cpu, 4xcpu or 4xsim");
}

}  // namespace yoke
