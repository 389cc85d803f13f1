// What the parts of the simulated device share; private to yoke/device.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace yoke::sim {

// Fixed from program start: the autograd engine makes one thread a device at the first backward of
// the process and never again. Measured: that backward takes 1 to 4 ms with 1, 3 ms with 16 and 11
// to 19 ms with 64.
inline constexpr c10::DeviceIndex kDevices = 16;

// Memory (sim_allocator.cpp).
c10::Allocator* allocator();
// Memory that a CPU kernel made becomes memory of the device, without a copy.
c10::DataPtr adopt(c10::DataPtr host, size_t bytes, c10::DeviceIndex device);
// "64M" -> 67108864; throws yoke::Error that names `source`.
int64_t parse_bytes(const std::string& text, const std::string& source);

// Current device of the thread (sim_guard.cpp).
c10::DeviceIndex current_device();
void check_device(c10::DeviceIndex device);

// Generators (sim_guard.cpp). host_generator: the CPU generator inside a device's one.
const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator host_generator(const at::Generator& generator);

// Registration, each called once by enable().
void register_hooks();
void register_ops();
void register_autocast();

// CPU tensors that look at the memory of simulated ones, for the time of one operation, and the way
// back: results and resized arguments become the device's.
class HostView {
 public:
  // Same memory, sizes and strides; what is not on a simulated device is returned as it is. The
  // original must outlive this object.
  at::Tensor host(const at::Tensor& tensor);
  // A result of a CPU kernel as a tensor of `device`: a view of an argument stays one, fresh memory
  // is adopted, memory that somebody else holds is copied.
  at::Tensor device(at::Tensor result, c10::Device device);
  // Whether a result of a CPU kernel looks at an argument's memory.
  bool is_view(const at::Tensor& result) const;
  // Carries what an in-place operation did to the shape or size of host(original) over to it.
  void write_back(const at::Tensor& original, const at::Tensor& host);

 private:
  c10::Storage host_storage(const at::Tensor& tensor);

  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;  // (simulated, host)
  std::vector<std::pair<c10::TensorImpl*, at::Tensor>> tensors_;
};

// Runs the CPU kernel of any operator on host views of its arguments (sim_fallback.cpp).
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace yoke::sim
