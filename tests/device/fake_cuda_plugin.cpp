// Stands in for libyoke_cuda.so: FAKE_GPUS GPUs, of which CUDA_VISIBLE_DEVICES hides some as the
// driver does; the one whose physical id is FAKE_BUSY is in use by somebody else.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "yoke/device/cuda_plugin.h"

namespace {

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::atoi(text) : otherwise;
}

// Physical ids of the visible GPUs.
std::vector<int> visible() {
  const int count = number("FAKE_GPUS", 0);
  std::vector<int> ids;
  const char* listed = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!listed) {
    for (int i = 0; i < count; ++i) ids.push_back(i);
    return ids;
  }
  std::istringstream items(listed);
  for (std::string item; std::getline(items, item, ',');) {
    const int id = std::atoi(item.c_str());
    if (id < 0 || id >= count) break;  // the driver stops at the first bad one
    ids.push_back(id);
  }
  return ids;
}

bool busy(int device) { return visible().at(size_t(device)) == number("FAKE_BUSY", -1); }
constexpr size_t gib = size_t{1} << 30;

const yoke::CudaApi api{
    .version = yoke::CudaApi::current_version,
    .device_count = [] { return int(visible().size()); },
    .why_none = [](char* out, size_t size) { std::snprintf(out, size, "no GPU is plugged in"); },
    .ready = [] { return number("FAKE_READY", 1) == 1; },
    .name = [](int, char* out, size_t size) { std::snprintf(out, size, "NVIDIA H200"); },
    .memory =
        [](int device, size_t* free, size_t* total) {
          *total = 140 * gib;
          *free = busy(device) ? 20 * gib : 132 * gib + gib / 2;
        },
    .used_by_others = [](int device) { return busy(device) ? 120 * gib : gib / 2; },
    .set_device = [](int) {},
    .synchronize = [](int) {},
    .empty_cache = [] {},
    .peak_memory = [](int) { return size_t{0}; },
    .reset_peak_memory = [](int) {},
    .make_nccl = [](int, int, c10::intrusive_ptr<c10d::Store>,
                    int) { return c10::intrusive_ptr<c10d::Backend>(); },
};

}  // namespace

extern "C" const yoke::CudaApi* yoke_cuda_api() { return &api; }
