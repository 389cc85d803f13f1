// Device strings, with a stand-in for the CUDA library where GPUs are wanted. CUDA is loaded once a
// process, so each of those tests runs in a process of its own.
#include "yoke/device/devices.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/device/cuda_plugin.h"
#include "yoke/device/sim_device.h"

namespace yoke {
namespace {

std::string parsed(const std::string& text) {
  std::string line;
  for (const auto& device : parse_devices(text))
    line += (line.empty() ? "" : " ") + device_name(device);
  return line;
}

struct Failure {
  std::string message, hint;
};

Failure failure(const std::string& text) {
  try {
    return {"parsed as " + parsed(text), ""};
  } catch (const Error& error) {
    return {error.message(), error.hint()};
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_HAS(text, part) EXPECT_TRUE(has(text, part)) << (text)

bool driver_here() { return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

// Runs the statement in a new process that sees `gpus` GPUs of the stand-in.
#define WITH_GPUS(gpus, variables, statement)              \
  GTEST_FLAG_SET(death_test_style, "threadsafe");          \
  EXPECT_EXIT(                                             \
      {                                                    \
        set_environment(gpus, variables);                  \
        statement;                                         \
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0); \
      },                                                   \
      ::testing::ExitedWithCode(0), "")

using Variables = std::map<std::string, std::string>;

void set_environment(int gpus, const Variables& variables) {
  setenv("YOKE_CUDA_PLUGIN", YOKE_FAKE_CUDA_PLUGIN, 1);
  setenv("FAKE_GPUS", std::to_string(gpus).c_str(), 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

TEST(Devices, strings_without_gpus_become_lists_of_devices) {
  EXPECT_EQ(parsed("cpu"), "cpu");
  EXPECT_EQ(parsed("1xcpu"), "cpu");
  EXPECT_EQ(parsed("4xcpu"), "cpu cpu cpu cpu");
  EXPECT_EQ(parsed("sim"), "sim:0");
  EXPECT_EQ(parsed("sim:0,2"), "sim:0 sim:2");
  EXPECT_EQ(parsed("sim:3"), "sim:3");
  EXPECT_EQ(parsed("4xsim"), "sim:0 sim:1 sim:2 sim:3");
  EXPECT_EQ(parsed("sim:0+cpu"), "sim:0 cpu");
  EXPECT_EQ(parsed(" cpu + 2xsim "), "cpu sim:0 sim:1");
  EXPECT_EQ(parsed("2xsim:1"), "sim:1 sim:1");
  EXPECT_EQ(parsed("2xcpu+sim:5"), "cpu cpu sim:5");
  EXPECT_EQ(parse_devices("sim:all").size(), size_t(sim::device_count()));
  EXPECT_TRUE(parse_devices("2xsim")[1] == c10::Device(c10::kPrivateUse1, 1));
  EXPECT_FALSE(parse_devices("cpu")[0].has_index());  // as PyTorch's own, so that == holds
}

TEST(Devices, a_bare_number_offers_both_readings) {
  EXPECT_EQ(failure("2").hint, "2xcuda for 2 GPUs, or cuda:2 for the GPU with that id");
  EXPECT_HAS(failure("2").message,
             "\"2\" may be a number of devices or the id of one; devices here: cpu");
  EXPECT_HAS(failure("0").hint, "cuda:0");
  EXPECT_EQ(failure("0,1").hint, "cuda:0,1 or sim:0,1");
}

TEST(Devices, an_unknown_device_lists_what_there_is_and_suggests) {
  const auto quux = failure("quux:3");
  EXPECT_HAS(quux.message, "there is no type \"quux\"; devices here: cpu, ");
  EXPECT_HAS(quux.message, "sim:0 to sim:15");
  EXPECT_HAS(quux.hint, "2xcuda, 4xsim, sim:0,2, cuda:0+cpu");
  EXPECT_EQ(failure("cdua:3").hint, "cuda:3");
  EXPECT_EQ(failure("gpu:0").hint, "cuda:0");
  EXPECT_EQ(failure("2xgpu").hint, "2xcuda");
  EXPECT_EQ(failure("CPU").hint, "cpu");
  EXPECT_EQ(failure("4xsmi").hint, "4xsim");
  EXPECT_EQ(failure("auto+cpu").hint, "auto");
}

TEST(Devices, what_cannot_be_meant_is_an_error) {
  const std::map<std::string, std::string> wrong{
      {"", "an empty device string"},
      {"  ", "an empty device string"},
      {"cpu+", "names no device"},
      {"+", "names no device"},
      {"2x", "names no device"},
      {"x", "there is no type"},
      {"0xcpu", "asks for no device"},
      {"1000xcpu", "too many replicas"},
      {"99999999999xcpu", "too many replicas"},
      {"17xsim", "asks for 17 devices, there are 16"},
      {"sim:16", "sim:16 does not exist"},
      {"sim:-1", "\"-1\" is not an id"},
      {"sim:", "\"\" is not an id"},
      {"sim:0,", "\"\" is not an id"},
      {"sim:0, cpu", "\"cpu\" is not an id"},
      {"sim:0,sim:1", "\"sim:1\" is not an id"},
      {"sim:0:1", "\"0:1\" is not an id"},
      {"sim:0-3", "\"0-3\" is not an id"},
      {"cpu:1", "cpu:1 does not exist"},
      {"sim:0,0", "sim:0 is named twice in \"sim:0,0\""},
      {"sim:1+sim:0,1", "sim:1 is named twice"},
      {"cpu+cpu", "cpu is named twice"},
      {"2xsim+sim:1", "sim:1 is named twice"},
      {"2xsim:0,1", "both a count and several ids"},
      {"2xsim:all", "both a count and all"},
  };
  for (const auto& [text, expected] : wrong) {
    EXPECT_HAS(failure(text).message, expected);
    EXPECT_HAS(failure(text).message, "devices here: cpu");
    EXPECT_NE(failure(text).hint, "") << text;
  }
  EXPECT_EQ(failure("sim:0,0").hint, "2xsim:0 for two replicas on it");
  EXPECT_EQ(failure("cpu+cpu").hint, "2xcpu for two replicas on it");
}

TEST(Devices, a_line_describes_them) {
  EXPECT_EQ(describe_devices(parse_devices("cpu")), "1 device: cpu");
  EXPECT_EQ(describe_devices(parse_devices("2xcpu")), "2 devices: cpu, cpu");
  EXPECT_EQ(describe_devices(parse_devices("2xsim+cpu")),
            "3 devices: sim:0 (simulated), sim:1, cpu");
  parse_devices("sim");
  sim::set_capacity(1, int64_t{3} << 30);
  EXPECT_EQ(describe_devices(parse_devices("sim:1")), "1 device: sim:1 (simulated, 3.00 GiB free)");
  sim::set_capacity(1, 0);
}

TEST(Devices, without_a_driver_auto_is_the_cpu_and_cuda_a_clear_error) {
  if (driver_here()) GTEST_SKIP() << "an NVIDIA driver is installed";
  EXPECT_EQ(parsed("auto"), "cpu");
  for (const char* text : {"cuda", "cuda:all", "cuda:1", "2xcuda", "cuda:0+cpu"}) {
    EXPECT_HAS(failure(text).message, "no NVIDIA driver found; devices here: cpu, sim:0 to sim:15");
    EXPECT_EQ(failure(text).hint, "cpu, 4xcpu or 4xsim");
  }
  EXPECT_FALSE(cuda_is_loaded());
}

TEST(Devices, with_eight_gpus_ids_counts_and_all_name_them) {
  WITH_GPUS(8, Variables(), {
    EXPECT_EQ(parsed("cuda"), "cuda:0");
    EXPECT_EQ(parsed("cuda:0,4"), "cuda:0 cuda:4");
    EXPECT_EQ(parsed("2xcuda"), "cuda:0 cuda:1");
    EXPECT_EQ(parsed("2xcuda:0"), "cuda:0 cuda:0");
    EXPECT_EQ(parsed("cuda:0+cpu"), "cuda:0 cpu");
    EXPECT_EQ(parse_devices("cuda:all").size(), 8u);
    EXPECT_EQ(parse_devices("auto").size(), 8u);
    EXPECT_EQ(describe_devices(parse_devices("cuda:0,4")),
              "2 devices: cuda:0 (H200, 132 GiB free), cuda:4");
    EXPECT_HAS(failure("cuda:8").message,
               "cuda:8 does not exist; devices here: cpu, cuda:0 (H200)");
    EXPECT_HAS(failure("9xcuda").message, "asks for 9 devices, there are 8");
    EXPECT_EQ(failure("9xcuda").hint, "8xcuda");
    EXPECT_HAS(failure("cuda:1,1").message, "cuda:1 is named twice");
  });
}

TEST(Devices, ids_count_the_visible_gpus) {
  const Variables two{{"CUDA_VISIBLE_DEVICES", "5,2"}};
  WITH_GPUS(8, two, {
    EXPECT_EQ(parsed("auto"), "cuda:0 cuda:1");
    EXPECT_EQ(parsed("2xcuda"), "cuda:0 cuda:1");
    EXPECT_HAS(failure("cuda:5").message,
               "cuda:5 does not exist; devices here: cpu, cuda:0 (H200), cuda:1 (H200), sim:0 to "
               "sim:15 (simulated) (CUDA_VISIBLE_DEVICES=5,2, ids count the visible ones)");
  });
  const Variables none{{"CUDA_VISIBLE_DEVICES", ""}};
  WITH_GPUS(8, none, {
    EXPECT_EQ(parsed("auto"), "cpu");
    EXPECT_HAS(failure("cuda").message, "no GPU is plugged in; devices here: cpu, sim:0");
  });
}

TEST(Devices, auto_says_which_gpu_is_busy_with_others_work) {
  const Variables busy{{"FAKE_BUSY", "1"}};
  WITH_GPUS(2, busy, {
    std::string lines;
    set_log_sink([&](LogLevel, const std::string& line) { lines += line; });
    EXPECT_EQ(parsed("auto"), "cuda:0 cuda:1");
    EXPECT_HAS(lines, "cuda:1 is busy with others' work: 120 of 140 GiB in use");
    EXPECT_FALSE(has(lines, "cuda:0 is busy"));
    EXPECT_EQ(describe_devices(parse_devices("2xcuda")),
              "2 devices: cuda:0 (H200, 132 GiB free), cuda:1 (H200, 20 GiB free)");
  });
}

TEST(Devices, a_driver_without_gpus_is_the_cpu) {
  WITH_GPUS(0, Variables(), {
    std::string lines;
    set_log_sink([&](LogLevel, const std::string& line) { lines += line; });
    EXPECT_EQ(parsed("auto"), "cpu");
    EXPECT_EQ(lines, "auto takes the CPU: no GPU is plugged in");
    EXPECT_HAS(failure("2xcuda").message, "no GPU is plugged in");
  });
}

TEST(Devices, after_a_backward_cuda_cannot_be_loaded_and_the_error_names_init_devices) {
  WITH_GPUS(2, Variables(), {
    EXPECT_FALSE(backward_has_run());
    at::ones({2}).requires_grad_().sum().backward();
    EXPECT_TRUE(backward_has_run());
    EXPECT_EQ(parsed("cpu"), "cpu");
    EXPECT_HAS(failure("cuda").message, "a backward pass has run in this process");
    EXPECT_HAS(failure("cuda").hint, "yoke::init_devices()");
    EXPECT_HAS(failure("auto").hint, "yoke::init_devices()");
    EXPECT_HAS(failure("quux").message, "devices here: cpu, sim:0");
  });
  WITH_GPUS(2, Variables(), {
    EXPECT_EQ(init_devices().size(), 2u);
    at::ones({2}).requires_grad_().sum().backward();
    EXPECT_EQ(parsed("2xcuda"), "cuda:0 cuda:1");
  });
}

TEST(Devices, a_pytorch_that_was_asked_before_cuda_came_is_reported) {
  const Variables late{{"FAKE_READY", "0"}};
  WITH_GPUS(2, late, {
    EXPECT_HAS(failure("cuda").message, "PyTorch was asked about CUDA");
    EXPECT_HAS(failure("cuda").hint, "yoke::init_devices()");
    EXPECT_HAS(failure("auto").hint, "yoke::init_devices()");  // the second time as well
  });
}

TEST(Devices, a_library_that_does_not_load_or_fit_is_named) {
  const Variables missing{{"YOKE_CUDA_PLUGIN", "/nowhere/libyoke_cuda.so"}};
  WITH_GPUS(2, missing, {
    EXPECT_HAS(failure("cuda").message, "/nowhere/libyoke_cuda.so does not load: ");
    EXPECT_EQ(parsed("auto"), "cpu");
  });
  const Variables foreign{{"YOKE_CUDA_PLUGIN", "libc.so.6"}};
  WITH_GPUS(2, foreign, {
    EXPECT_HAS(failure("cuda").message, "libc.so.6 belongs to another version of yoke");
  });
}

TEST(Devices, the_environment_sets_the_memory_of_simulated_devices) {
  const Variables small{{"YOKE_SIM_MEMORY", "64M"}};
  WITH_GPUS(0, small, {
    EXPECT_EQ(describe_devices(parse_devices("2xsim")),
              "2 devices: sim:0 (simulated, 0.06 GiB free), sim:1");
    EXPECT_EQ(sim::capacity(7), 64 << 20);
  });
  const Variables nonsense{{"YOKE_SIM_MEMORY", "lots"}};
  WITH_GPUS(0, nonsense, {
    EXPECT_EQ(failure("sim").message, "YOKE_SIM_MEMORY=\"lots\" is not an amount of memory");
    EXPECT_EQ(parsed("cpu"), "cpu");
  });
}

#ifdef YOKE_CUDA_PLUGIN
TEST(Devices, the_real_cuda_library_loads_without_a_driver_and_has_no_gpus) {
  if (driver_here()) GTEST_SKIP() << "an NVIDIA driver is installed";
  const Variables real{{"YOKE_CUDA_PLUGIN", YOKE_CUDA_PLUGIN}};
  WITH_GPUS(2, real, {
    EXPECT_HAS(failure("cuda").message, "no NVIDIA driver or no GPU found (CUDA: ");
    EXPECT_EQ(parsed("auto"), "cpu");
    EXPECT_EQ(at::ones({2}).sum().item<float>(), 2);
    EXPECT_EQ(at::ones({2}).to(parse_devices("sim:1").front()).sum().item<float>(), 2);
  });
}
#endif

}  // namespace
}  // namespace yoke
