// Simulated devices, "sim:0" to "sim:15": a real PyTorch back end whose memory is accounted for
// like a GPU's and whose kernels are the CPU's, so that code for several GPUs runs, and is tested,
// without one. Results have the CPU's bits.
//
//   auto x = at::randn({4, 4}).to(parse_devices("sim:1").front());    // or yoke::sim::enable()
//   first yoke::sim::set_capacity(1, 64 << 20);                             //
//   c10::OutOfMemoryError beyond yoke::sim::peak_memory(1);
//
// What is there: current device per thread, a generator per device (at::manual_seed seeds them
// all), errors for tensors of two devices in one operation, capacity and peak, autocast with the
// CPU's lists, any operator that has a CPU kernel (also one of your own). Not there: sparse
// tensors, streams that overlap, memory that a CPU kernel uses inside one operation.
//
// enable() (also done by parse_devices and all functions here) gives the name "sim" to PyTorch's
// PrivateUse1 slot. It is not done when the library loads, since from then on PyTorch takes "sim"
// for the process's one accelerator: at::manual_seed and the autograd engine's stream handling then
// no longer look at CUDA. The device count, which the engine reads once, is fixed from load on.
// All functions may be called from any thread.
#pragma once

#include <cstdint>

namespace yoke::sim {

// How many simulated devices exist, always.
int device_count();

// Makes "sim" a device type of this process; does nothing the second time. Throws yoke::Error if
// another PrivateUse1 back end is registered.
void enable();

// Bytes of tensors alive on the device, and their maximum since the start or the last reset.
int64_t memory_in_use(int device);
int64_t peak_memory(int device);
void reset_peak_memory(int device);

// The device's memory in bytes, 0 for no limit. At start: the environment variable YOKE_SIM_MEMORY
// (bytes, or with a suffix K, M, G), else no limit.
int64_t capacity(int device);
void set_capacity(int device, int64_t bytes);

}  // namespace yoke::sim
