// libyoke_cuda.so: everything of yoke that needs CUDA's libraries, behind the table of
// cuda_plugin.h. Built wherever the CUDA and NCCL headers of the wheels are; opened on demand.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "yoke/device/cuda_plugin.h"

namespace yoke {
namespace {

c10::DeviceIndex index(int device) { return static_cast<c10::DeviceIndex>(device); }

c10::CachingDeviceAllocator::DeviceStats stats(int device) {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(index(device));
}

// PyTorch's allocator makes its tables when CUDA is first used.
void init() { at::detail::getCUDAHooks().init(); }

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // the error is sticky for the next call
  return 0;
}

void why_none(char* out, size_t size) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaSuccess)
    std::snprintf(out, size, "%s", count > 0 ? "" : "no GPU found");
  else
    std::snprintf(out, size, "no NVIDIA driver or no GPU found (CUDA: %s)",
                  cudaGetErrorString(error));
}

bool ready() { return at::detail::getCUDAHooks().hasCUDA(); }

void name(int device, char* out, size_t size) {
  cudaDeviceProp properties{};
  const bool known = cudaGetDeviceProperties(&properties, device) == cudaSuccess;
  std::snprintf(out, size, "%s", known ? properties.name : "GPU");
}

void memory(int device, size_t* free, size_t* total) {
  const c10::cuda::CUDAGuard guard(index(device));
  C10_CUDA_CHECK(cudaMemGetInfo(free, total));
}

// What neither PyTorch's allocator nor this process's context holds. A context takes some hundred
// MiB that no call reports; the caller's threshold is above that.
size_t used_by_others(int device) {
  size_t free = 0, total = 0;
  memory(device, &free, &total);
  init();
  const auto kept = stats(device).reserved_bytes[0].current;
  const size_t mine = kept > 0 ? static_cast<size_t>(kept) : 0;
  return total > free + mine ? total - free - mine : 0;
}

void set_device(int device) { c10::cuda::set_device(index(device)); }

void synchronize(int device) {
  const c10::cuda::CUDAGuard guard(index(device));
  c10::cuda::device_synchronize();
}

void empty_cache() {
  init();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

size_t peak_memory(int device) {
  init();
  return static_cast<size_t>(stats(device).allocated_bytes[0].peak);
}

void reset_peak_memory(int device) {
  init();
  c10::cuda::CUDACachingAllocator::resetPeakStats(index(device));
}

c10::intrusive_ptr<c10d::Backend> make_nccl(int rank, int world_size,
                                            c10::intrusive_ptr<c10d::Store> store, int device) {
  const c10::Device where(c10::kCUDA, index(device));
  const c10::cuda::CUDAGuard guard(where);
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, world_size);
  group->setBoundDeviceId(where);
  return group;
}

constexpr CudaApi api{
    .version = CudaApi::current_version,
    .device_count = &device_count,
    .why_none = &why_none,
    .ready = &ready,
    .name = &name,
    .memory = &memory,
    .used_by_others = &used_by_others,
    .set_device = &set_device,
    .synchronize = &synchronize,
    .empty_cache = &empty_cache,
    .peak_memory = &peak_memory,
    .reset_peak_memory = &reset_peak_memory,
    .make_nccl = &make_nccl,
};

}  // namespace
}  // namespace yoke

extern "C" __attribute__((visibility("default"))) const yoke::CudaApi* yoke_cuda_api() {
  return &yoke::api;
}
