// Simulated devices behave like devices: separate memory that is accounted for, a current device and
// a generator each, errors where CUDA has them.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "yoke/device/devices.h"
#include "yoke/device/sim_device.h"

namespace yoke {
namespace {

TEST(SimDevice, smoke) {
  parse_devices("4xsim");
  auto x = at::randn({4, 5});
  auto y = x.to("sim:1");
  EXPECT_TRUE(at::equal((y.matmul(y.t()) + 1).cpu(), x.matmul(x.t()) + 1));
}

}  // namespace
}  // namespace yoke
