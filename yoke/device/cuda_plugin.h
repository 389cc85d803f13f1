// CUDA on demand. A program that never asks for a GPU does not load one byte of CUDA: everything
// that needs it lies in libyoke_cuda.so, which is opened when a device string first needs it and
// which hands out this table of functions.
//
//   yoke::cuda().memory(0, &free, &total);    // throws a clear yoke::Error where no GPU is
//   if (auto* cuda = yoke::find_cuda()) …     // nullptr where no GPU is
//
// The library is looked for beside libyoke.so (or the program that holds yoke), beside the program,
// in ../lib of it, and by the loader's rules; the environment variable YOKE_CUDA_PLUGIN names
// another file and is obeyed even where no NVIDIA driver is found. All functions here may be called
// from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace yoke {

struct CudaApi {
  static constexpr int current_version = 1;

  int version;
  // Visible GPUs (CUDA_VISIBLE_DEVICES is obeyed by the driver); 0 also for a broken driver.
  int (*device_count)();
  // Why there are none, in one line; "" if there are.
  void (*why_none)(char* out, size_t size);
  // Whether PyTorch sees the GPUs: false if something asked it for CUDA before the library came.
  bool (*ready)();
  void (*name)(int device, char* out, size_t size);  // "NVIDIA H200"
  void (*memory)(int device, size_t* free, size_t* total);
  // Bytes in use by other processes.
  size_t (*used_by_others)(int device);
  void (*set_device)(int device);     // of the calling thread
  void (*synchronize)(int device);    // waits for all streams of the device
  void (*empty_cache)();              // gives unused cached memory back to the driver
  size_t (*peak_memory)(int device);  // most bytes of tensors since the start or the last reset
  void (*reset_peak_memory)(int device);
  // One rank of an NCCL group; `store` is shared by the ranks, each of which calls from the thread
  // that drives its device.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(int rank, int world_size,
                                                 c10::intrusive_ptr<c10d::Store> store, int device);
};

// The one symbol of libyoke_cuda.so.
inline constexpr const char* cuda_plugin_symbol = "yoke_cuda_api";
using CudaPluginEntry = const CudaApi* (*)();

// The GPUs' functions, loaded at the first call that finds a driver; nullptr where there is no
// driver, no library or no GPU. Throws yoke::Error when it is too late to load (below).
const CudaApi* find_cuda();

// The same, but none is a yoke::Error that says why.
const CudaApi& cuda();

// Why find_cuda() gave nullptr on a machine with an NVIDIA driver; "" where there is no driver.
std::string why_no_cuda();

// Whether CUDA is loaded; loads nothing.
bool cuda_is_loaded();

// Note [Loading before the first backward]
// PyTorch's autograd engine fixes its device threads at the first backward of the process, even one
// on the CPU, and initialises them for the device types it knows then. So CUDA must be loaded
// before; after it find_cuda() throws and names init_devices(). Known from the engine's own list of
// queues, which also holds for a backward that yoke did not run. One that another thread begins
// while CUDA is being loaded is not seen. PyTorch also keeps its first answer to "is there CUDA?",
// which at::manual_seed asks for: that is found out after loading (CudaApi::ready) and reported.
bool backward_has_run();

}  // namespace yoke
