// Simulated devices behave like devices: separate memory that is accounted for, a current device
// and a generator each, errors where CUDA has them.
#include <ATen/ATen.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <sstream>
#include <thread>

#include "yoke/core/error.h"
#include "yoke/device/devices.h"
#include "yoke/device/sim_device.h"
#include "yoke/device/sim_impl.h"

namespace yoke {
namespace {

class Sim : public ::testing::Test {
 protected:
  Sim() { sim::enable(); }
  ~Sim() override {
    for (int i = 0; i < sim::device_count(); ++i) sim::set_capacity(i, 0);
  }
  static c10::Device at_index(int i) {
    return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(i)};
  }
};

// A message without the stack that PyTorch adds to it.
template <class Error, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST_F(Sim, memory_is_counted_where_the_tensor_lies_and_given_back) {
  const int64_t before = sim::memory_in_use(2), elsewhere = sim::memory_in_use(3);
  sim::reset_peak_memory(2);
  {
    auto x = at::zeros({1000}, at_index(2));
    EXPECT_EQ(sim::memory_in_use(2) - before, 4000);
    auto y = x + 1;  // a result of a CPU kernel is the device's memory
    auto view = y.view({10, 100}).t();
    EXPECT_EQ(sim::memory_in_use(2) - before, 8000);
    auto there = y.to(at_index(3));
    EXPECT_EQ(sim::memory_in_use(3) - elsewhere, 4000);
    auto back = y.cpu();
    EXPECT_EQ(sim::memory_in_use(2) - before, 8000);
    EXPECT_EQ(back.sum().item<float>(), 1000);
  }
  EXPECT_EQ(sim::memory_in_use(2), before);
  EXPECT_EQ(sim::memory_in_use(3), elsewhere);
  EXPECT_EQ(sim::peak_memory(2) - before, 8000);
  sim::reset_peak_memory(2);
  EXPECT_EQ(sim::peak_memory(2), before);
}

TEST_F(Sim, memory_ends_at_the_capacity_of_the_device_and_the_error_is_cudas) {
  sim::set_capacity(1, 1 << 20);
  const auto x = at::zeros({200000}, at_index(1));
  const std::string message =
      message_of<c10::OutOfMemoryError>([] { at::zeros({200000}, at_index(1)); });
  EXPECT_EQ(
      message,
      "sim out of memory. Tried to allocate 781.25 KiB. sim:1 has a total capacity of 1.00 MiB "
      "of which 242.75 KiB is free. 781.25 KiB is in use by tensors.");
  EXPECT_THROW(x + 1, c10::OutOfMemoryError);  // memory that a CPU kernel made counts as well
  EXPECT_EQ(sim::memory_in_use(1), 800000);
  EXPECT_EQ(x.sum().item<float>(), 0);  // the device goes on
  at::zeros({200000}, at_index(2));     // and so do the others
  EXPECT_NO_THROW(at::zeros({50000}, at_index(1)));
}

TEST_F(Sim, amounts_of_memory_are_read_with_suffixes_and_nonsense_is_an_error) {
  EXPECT_EQ(sim::parse_bytes("1000", "X"), 1000);
  EXPECT_EQ(sim::parse_bytes("64M", "X"), 64 << 20);
  EXPECT_EQ(sim::parse_bytes("2g", "X"), int64_t{2} << 30);
  EXPECT_EQ(sim::parse_bytes("0", "X"), 0);
  for (const char* text :
       {"", "M", "-1", "64MB", "1.5G", " 1", "99999999999999999999", "999999999999G"})
    EXPECT_THROW(sim::parse_bytes(text, "X"), Error) << text;
}

TEST_F(Sim, the_current_device_belongs_to_the_thread) {
  const c10::DeviceGuard guard(at_index(3));
  EXPECT_EQ(at::empty({1}, c10::Device("sim")).device(), at_index(3));
  std::thread([] { EXPECT_EQ(at::empty({1}, c10::Device("sim")).device(), at_index(0)); }).join();
  {
    const c10::DeviceGuard inner(at_index(5));
    EXPECT_EQ(at::arange(3, at::device(c10::Device("sim"))).device(), at_index(5));
  }
  EXPECT_EQ(at::empty({1}, c10::Device("sim")).device(), at_index(3));
}

TEST_F(Sim, a_device_that_does_not_exist_is_an_error) {
  EXPECT_THROW(at::empty({1}, at_index(sim::device_count())), Error);
  EXPECT_THROW(sim::memory_in_use(-1), Error);
}

TEST_F(Sim, tensors_of_two_devices_in_one_operation_are_an_error_but_scalars_on_the_cpu_are_not) {
  const auto a = at::ones({3, 3}, at_index(0)), b = at::ones({3, 3}, at_index(1));
  const auto cpu = at::ones({3, 3});
  EXPECT_EQ(message_of<c10::Error>([&] { at::mm(a, b); }),
            "Expected all tensors to be on the same device, but found at least two devices, sim:0 "
            "and sim:1! (when checking argument for argument mat2 in method aten::mm)");
  EXPECT_EQ(message_of<c10::Error>([&] { at::mm(a, cpu); }),
            "Expected all tensors to be on the same device, but found at least two devices, sim:0 "
            "and cpu! (when checking argument for argument mat2 in method aten::mm)");
  EXPECT_THROW(a + cpu, c10::Error);
  EXPECT_THROW(cpu + a, c10::Error);
  EXPECT_THROW(at::cat({a, b}), c10::Error);
  EXPECT_THROW(at::where(a > 0, a, cpu), c10::Error);
  EXPECT_THROW(at::linear(a, cpu), c10::Error);
  EXPECT_THROW(at::embedding(a, at::zeros({2}, at::kLong)), c10::Error);
  EXPECT_THROW(at::layer_norm(a, {3}, at::ones({3})), c10::Error);
  EXPECT_THROW(at::ones({}).add_(a.sum()), c10::Error);  // what is written must lie there
  EXPECT_EQ((a + at::ones({})).sum().item<float>(), 18);
  EXPECT_EQ((a * at::full({}, 2.0)).device(), at_index(0));
  EXPECT_THROW(a + at::ones({}, at_index(1)), c10::Error);
}

TEST_F(Sim, copies_go_both_ways_and_between_devices_with_strides_and_types) {
  const auto x = at::arange(24).view({2, 3, 4}).to(at::kFloat);
  const auto t = x.transpose(0, 2);
  const auto s = t.to(at_index(0));
  EXPECT_TRUE(at::equal(s.cpu(), t));
  const auto other = s.to(at_index(1), at::kDouble);
  EXPECT_EQ(other.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(other.cpu(), t.to(at::kDouble)));
  auto into = at::zeros({4, 3, 2}, at_index(2));
  into.copy_(at::ones({2}));  // broadcast
  into.select(0, 1).copy_(other.select(0, 2));
  EXPECT_TRUE(at::equal(into.select(0, 1).cpu(), t.select(0, 2)));
  EXPECT_EQ(into.select(0, 0).sum().item<float>(), 6);
}

TEST_F(Sim, a_result_argument_grows_and_memory_stays_counted) {
  const int64_t before = sim::memory_in_use(0);
  {
    const auto a = at::ones({10, 10}, at_index(0));
    auto out = at::empty({0}, at_index(0));
    at::add_out(out, a, a);
    EXPECT_EQ(out.sizes(), at::IntArrayRef({10, 10}));
    EXPECT_EQ(out.sum().item<float>(), 200);
    EXPECT_EQ(sim::memory_in_use(0) - before, 800);
    out.resize_({20, 10});
    EXPECT_EQ(out.narrow(0, 0, 10).sum().item<float>(), 200);
    EXPECT_EQ(sim::memory_in_use(0) - before, 1200);
    auto set = at::empty({0}, at_index(0));
    set.set_(a.storage(), 5, {3, 2}, {10, 1});
    EXPECT_TRUE(set.is_alias_of(a));
    EXPECT_THROW(set.set_(at::ones({2}).storage()), c10::Error);
  }
  EXPECT_EQ(sim::memory_in_use(0), before);
}

TEST_F(Sim, a_seed_gives_every_device_the_cpus_numbers_and_each_goes_its_own_way) {
  at::manual_seed(5);
  const auto cpu = at::randn({10});
  const auto zero = at::randn({10}, at_index(0));
  EXPECT_TRUE(at::equal(zero.cpu(), cpu));
  EXPECT_FALSE(at::equal(at::randn({10}, at_index(0)).cpu(), cpu));
  EXPECT_TRUE(at::equal(at::randn({10}, at_index(1)).cpu(), cpu));
  EXPECT_TRUE(at::equal(at::dropout(at::ones({50}, at_index(2)), 0.5, true).cpu(),
                        (at::manual_seed(5), at::dropout(at::ones({50}), 0.5, true))));
}

TEST_F(Sim, a_generator_has_a_state_that_can_be_kept_and_one_of_the_wrong_device_is_an_error) {
  auto generator = at::detail::getPrivateUse1Hooks().getNewGenerator(4);
  EXPECT_EQ(generator.device(), at_index(4));
  generator.set_current_seed(9);
  EXPECT_EQ(generator.current_seed(), 9u);
  const auto state = generator.get_state();
  const auto first = at::rand({8}, generator, at::device(at_index(4)));
  const auto copy = generator.clone();
  const auto second = at::rand({8}, generator, at::device(at_index(4)));
  EXPECT_FALSE(at::equal(first, second));
  EXPECT_TRUE(at::equal(at::rand({8}, copy, at::device(at_index(4))), second));
  generator.set_state(state);
  EXPECT_TRUE(at::equal(at::rand({8}, generator, at::device(at_index(4))), first));
  EXPECT_THROW(at::empty({3}, at_index(4)).uniform_(0, 1, at::detail::createCPUGenerator()),
               c10::Error);
  EXPECT_THROW(at::empty({3}).uniform_(0, 1, generator), c10::Error);
}

TEST_F(Sim, the_shape_and_bits_of_a_tensor_are_printed) {
  std::ostringstream out;
  out << at::arange(3, at::device(at_index(1)).dtype(at::kFloat));
  EXPECT_NE(out.str().find(" 0\n 1\n 2\n"), std::string::npos) << out.str();
  EXPECT_EQ(at_index(1).str(), "sim:1");
  EXPECT_EQ(c10::Device("sim:7"), at_index(7));
}

TEST_F(Sim, streams_and_events_exist_and_do_nothing) {
  c10::Event event(c10::kPrivateUse1);
  const auto stream = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1)->getStream(at_index(1));
  EXPECT_EQ(stream.device(), at_index(1));
  event.record(stream);
  event.block(stream);
  EXPECT_TRUE(event.query());
  stream.synchronize();
}

TEST_F(Sim, sparse_tensors_are_refused) {
  EXPECT_THROW(at::eye(3, at_index(0)).to_sparse(), c10::Error);
}

// Operators of other libraries, registered for the CPU only, as yoke's own are.
at::Tensor add_scaled(const at::Tensor& a, const std::optional<at::Tensor>& b, double scale) {
  EXPECT_TRUE(a.is_cpu());
  return b ? a + *b * scale : a.clone();
}
void twice_(at::Tensor& a) { a.mul_(2); }
at::Tensor& thrice_(at::Tensor& a) { return a.mul_(3); }
void add_to_all_(at::TensorList all, const at::Tensor& x) {
  for (const auto& tensor : all) tensor.add_(x);
}
std::vector<at::Tensor> doubled(at::TensorList all) {
  std::vector<at::Tensor> results;
  for (const auto& tensor : all) results.push_back(tensor * 2);
  return results;
}
std::tuple<at::Tensor, at::Tensor> sum_and_self(const at::Tensor& a) { return {a.sum(), a}; }

TORCH_LIBRARY(yoke_sim_test, m) {
  m.def("add_scaled(Tensor a, Tensor? b, float scale) -> Tensor");
  m.def("twice_(Tensor(a!) a) -> ()");
  m.def("thrice_(Tensor(a!) a) -> Tensor(a!)");
  m.def("add_to_all_(Tensor(a!)[] all, Tensor x) -> ()");
  m.def("doubled(Tensor[] all) -> Tensor[]");
  m.def("sum_and_self(Tensor a) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(yoke_sim_test, CPU, m) {
  m.impl("add_scaled", &add_scaled);
  m.impl("twice_", &twice_);
  m.impl("thrice_", &thrice_);
  m.impl("add_to_all_", &add_to_all_);
  m.impl("doubled", &doubled);
  m.impl("sum_and_self", &sum_and_self);
}

template <class Signature>
auto op(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("yoke_sim_test::") + name).c_str(), "")
      .typed<Signature>();
}

TEST_F(Sim, operators_with_a_cpu_kernel_only_work_too) {
  auto a = at::ones({4}, at_index(1));
  const auto add =
      op<at::Tensor(const at::Tensor&, const std::optional<at::Tensor>&, double)>("add_scaled");
  EXPECT_EQ(add.call(a, a, 0.5).device(), at_index(1));
  EXPECT_EQ(add.call(a, a, 0.5).sum().item<float>(), 6);
  EXPECT_EQ(add.call(a, std::nullopt, 0.5).sum().item<float>(), 4);
  EXPECT_THROW(add.call(a, at::ones({4}), 0.5), c10::Error);

  op<void(at::Tensor&)>("twice_").call(a);
  EXPECT_EQ(a.sum().item<float>(), 8);
  auto& same = op<at::Tensor&(at::Tensor&)>("thrice_").call(a);
  EXPECT_TRUE(same.is_same(a));
  EXPECT_EQ(a.sum().item<float>(), 24);

  std::vector<at::Tensor> many;
  for (int i = 0; i < 100; ++i) many.push_back(at::full({3}, double(i), at_index(1)));
  op<void(at::TensorList, const at::Tensor&)>("add_to_all_").call(many, a.narrow(0, 0, 3));
  EXPECT_EQ(many[99].sum().item<float>(), 3 * 105);
  const int64_t before = sim::memory_in_use(1);
  const auto results = op<std::vector<at::Tensor>(at::TensorList)>("doubled").call(many);
  EXPECT_EQ(results[99].sum().item<float>(), 3 * 210);
  EXPECT_EQ(sim::memory_in_use(1) - before, 1200);

  const auto [sum, self] =
      op<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>("sum_and_self").call(a);
  EXPECT_EQ(sum.item<float>(), 24);
  EXPECT_TRUE(self.is_alias_of(a));
}

}  // namespace
}  // namespace yoke
