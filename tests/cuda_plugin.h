// libyoke_cuda.so in tests: on a machine with a GPU it is opened before main(), since PyTorch keeps
// its first answer about CUDA; elsewhere a test opens it in a process of its own, to look at what
// it registers.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace yoke {

inline bool open_cuda_plugin() {
  const bool opened = dlopen(YOKE_CUDA_PLUGIN, RTLD_NOW | RTLD_GLOBAL) != nullptr;
  if (!opened) std::fprintf(stderr, "%s\n", dlerror());
  return opened;
}

inline const bool gpu_is_here =
    dlopen("libcuda.so.1", RTLD_LAZY) && open_cuda_plugin() && at::hasCUDA();

inline bool has_cuda_kernel(const char* op) {
  const auto found = c10::Dispatcher::singleton().findSchema({op, ""});
  return found && found->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

// The library brings kernels for these operators where nvcc was found, and none elsewhere. Opening
// it also has PyTorch compare their signatures with the operators' schemas.
inline void expect_cuda_kernels(const std::vector<const char*>& ops) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        if (!open_cuda_plugin()) std::_Exit(2);
        for (const char* op : ops)
          if (has_cuda_kernel(op) != bool(YOKE_CUDA_KERNELS)) {
            std::fprintf(stderr, "%s\n", op);
            std::_Exit(1);
          }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace yoke
