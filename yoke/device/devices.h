// Device strings: what a user writes for "where", as a list of devices, one per replica.
//
//   for (c10::Device d : yoke::parse_devices("2xcuda")) …        // cuda:0, cuda:1
//   yoke::log_info(yoke::describe_devices(devices));   // "2 devices: cuda:0 (H200, 132 GiB free),
//   …"
//
//   auto          all visible GPUs, else the CPU
//   cpu  4xcpu    the CPU; four replicas on it
//   cuda          = cuda:0, as in PyTorch;  cuda:all  cuda:0,4  2xcuda (the first two)
//   4xsim  sim:0,2  sim   simulated devices (sim_device.h)
//   cuda:0+cpu    mixed;  2xcuda:0  2xsim:1   two replicas on one device, for tests
//
// Ids are logical: CUDA_VISIBLE_DEVICES keeps its meaning. CUDA is loaded when a string first needs
// it (cuda_plugin.h), which must be before the first backward of the process: init_devices() at the
// start of main() makes sure. All functions may be called from any thread.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace yoke {

// Throws yoke::Error for a string that is not of a form above, names a device twice or names one
// that does not exist; the error lists the devices there are.
std::vector<c10::Device> parse_devices(const std::string& text);

// Makes ready what `text` needs (loads CUDA, sets up simulated devices) and returns the devices.
// Call it early, before at::manual_seed and before the first backward, in a program that does
// either before it names its devices to yoke; "auto" loads CUDA where a GPU is.
std::vector<c10::Device> init_devices(const std::string& text = "auto");

// One line for a log: "1 device: cpu", "2 devices: cuda:0 (H200, 132 GiB free), cuda:4". What is in
// parentheses is left out where it would repeat that of the device before.
std::string describe_devices(const std::vector<c10::Device>& devices);

// "cuda:0", "cpu", "sim:3": as in a device string, also for a device without an index.
std::string device_name(c10::Device device);

}  // namespace yoke
