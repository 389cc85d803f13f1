// Every operator, forward and backward, gives the CPU's bits on a simulated device. One that does
// not stands in known_to_differ() with its reason; one that stands there and agrees fails too.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "yoke/device/devices.h"

namespace yoke {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  Tensors inputs;  // on the CPU; floating ones get a gradient
  std::function<Tensors(const Tensors&)> run;
};

at::Tensor real(c10::IntArrayRef shape) { return at::randn(shape); }
at::Tensor positive(c10::IntArrayRef shape) { return at::rand(shape).add_(0.1); }
at::Tensor ints(c10::IntArrayRef shape, int64_t high) { return at::randint(high, shape); }

// Tensors that a function makes on the way are made on the device of its inputs.
at::TensorOptions as(const at::Tensor& x) { return at::TensorOptions().device(x.device()); }

// Case -> reason. The values must still be close.
std::map<std::string, std::string> known_to_differ() {
  const std::string cells =
      "PyTorch runs the cells of a device fused: the biases are added after the products, not by "
      "the "
      "GEMM that forms them";
  return {{"lstm", cells}, {"gru", cells}, {"lstm (bf16)", cells}, {"gru (bf16)", cells}};
}

#define RUN(expression) [](const Tensors& x) -> Tensors { return expression; }
#define RUN1(expression) [](const Tensors& x) -> Tensors { return {expression}; }

std::vector<Case> linear_algebra() {
  return {
      {"linear", {real({37, 64}), real({48, 64}), real({48})}, RUN1(at::linear(x[0], x[1], x[2]))},
      {"linear 3-d",
       {real({4, 9, 64}), real({48, 64}), real({48})},
       RUN1(at::linear(x[0], x[1], x[2]))},
      {"linear, one row", {real({1, 64}), real({48, 64})}, RUN1(at::linear(x[0], x[1]))},
      {"matmul broadcast", {real({3, 1, 8, 16}), real({4, 16, 5})}, RUN1(at::matmul(x[0], x[1]))},
      {"matmul transposed", {real({16, 33}), real({16, 20})}, RUN1(x[0].t().matmul(x[1]))},
      {"mm", {real({33, 17}), real({17, 9})}, RUN1(at::mm(x[0], x[1]))},
      {"bmm", {real({6, 9, 17}), real({6, 17, 5})}, RUN1(at::bmm(x[0], x[1]))},
      {"addmm",
       {real({9}), real({33, 17}), real({17, 9})},
       RUN1(at::addmm(x[0], x[1], x[2], 0.5, 2))},
      {"baddbmm",
       {real({6, 9, 5}), real({6, 9, 17}), real({6, 17, 5})},
       RUN1(at::baddbmm(x[0], x[1], x[2]))},
      {"mv dot", {real({9, 17}), real({17})}, RUN(Tensors({x[0].mv(x[1]), x[1].dot(x[1])}))},
      {"einsum",
       {real({3, 8, 16}), real({3, 16, 5})},
       RUN1(at::einsum("bij,bjk->bki", {x[0], x[1]}))},
      {"bilinear outer", {real({7}), real({5})}, RUN1(at::outer(x[0], x[1]))},
      {"linalg inverse", {real({5, 5}).add_(at::eye(5) * 4)}, RUN1(at::linalg_inv(x[0]))},
      {"cdist", {real({7, 5}), real({9, 5})}, RUN1(at::cdist(x[0], x[1]))},
  };
}

std::vector<Case> layers() {
  return {
      {"embedding", {real({50, 24}), ints({6, 11}, 50)}, RUN1(at::embedding(x[0], x[1]))},
      {"embedding with padding",
       {real({50, 24}), ints({6, 11}, 50)},
       RUN1(at::embedding(x[0], x[1], 3))},
      {"layer_norm",
       {real({40, 96}), real({96}), real({96})},
       RUN1(at::layer_norm(x[0], {96}, x[1], x[2]))},
      {"group_norm",
       {real({5, 12, 7, 7}), real({12}), real({12})},
       RUN1(at::group_norm(x[0], 4, x[1], x[2]))},
      {"batch_norm",
       {real({9, 12, 5}), real({12}), real({12}), at::zeros({12}), at::ones({12})},
       [](const Tensors& x) {
         auto mean = x[3].detach().clone(), var = x[4].detach().clone();
         auto out = at::batch_norm(x[0], x[1], x[2], mean, var, true, 0.1, 1e-5, false);
         return Tensors{out, mean, var};
       }},
      {"batch_norm evaluation",
       {real({9, 12, 5}), real({12}), real({12}), real({12}), positive({12})},
       RUN1(at::batch_norm(x[0], x[1], x[2], x[3].detach(), x[4].detach(), false, 0.1, 1e-5,
                           false))},
      {"instance_norm",
       {real({4, 6, 8, 8})},
       RUN1(at::instance_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, false))},
      {"rms_norm", {real({40, 96}), real({96})}, RUN1(at::rms_norm(x[0], {96}, x[1]))},
      {"conv1d",
       {real({3, 8, 40}), real({12, 8, 5}), real({12})},
       RUN1(at::conv1d(x[0], x[1], x[2], 2, 1))},
      {"conv2d",
       {real({3, 8, 16, 16}), real({12, 8, 3, 3}), real({12})},
       RUN1(at::conv2d(x[0], x[1], x[2], 1, 1))},
      {"conv2d grouped, no bias",
       {real({3, 8, 16, 16}), real({8, 1, 3, 3})},
       RUN1(at::conv2d(x[0], x[1], {}, 2, 1, 1, 8))},
      {"conv2d channels last",
       {real({3, 8, 16, 16}), real({12, 8, 3, 3})},
       RUN1(at::conv2d(x[0].contiguous(at::MemoryFormat::ChannelsLast), x[1]))},
      {"conv_transpose2d",
       {real({3, 8, 9, 9}), real({8, 12, 3, 3}), real({12})},
       RUN1(at::conv_transpose2d(x[0], x[1], x[2], 2, 1, 1))},
      {"max_pool2d", {real({3, 5, 12, 12})}, RUN1(at::max_pool2d(x[0], 3, 2, 1))},
      {"avg_pool2d", {real({3, 5, 12, 12})}, RUN1(at::avg_pool2d(x[0], 2))},
      {"adaptive_avg_pool2d",
       {real({3, 5, 12, 12})},
       RUN(Tensors(
           {at::adaptive_avg_pool2d(x[0], {1, 1}), at::adaptive_avg_pool2d(x[0], {5, 3})}))},
      {"upsample",
       {real({2, 3, 6, 6})},
       RUN1(at::upsample_bilinear2d(x[0], at::IntArrayRef{12, 12}, false))},
      {"lstm",
       {real({7, 4, 10}), real({1, 4, 8}), real({1, 4, 8}), real({32, 10}), real({32, 8}),
        real({32}), real({32})},
       [](const Tensors& x) {
         auto [out, h, c] = at::lstm(x[0], {x[1], x[2]}, {x[3], x[4], x[5], x[6]}, true, 1, 0.0,
                                     true, false, false);
         return Tensors{out, h, c};
       }},
      {"gru",
       {real({7, 4, 10}), real({1, 4, 8}), real({24, 10}), real({24, 8}), real({24}), real({24})},
       [](const Tensors& x) {
         auto [out, h] =
             at::gru(x[0], x[1], {x[2], x[3], x[4], x[5]}, true, 1, 0.0, true, false, false);
         return Tensors{out, h};
       }},
      {"attention",
       {real({2, 4, 19, 16}), real({2, 4, 23, 16}), real({2, 4, 23, 16})},
       RUN1(at::scaled_dot_product_attention(x[0], x[1], x[2]))},
      {"attention, causal",
       {real({2, 4, 19, 16}), real({2, 4, 19, 16}), real({2, 4, 19, 16})},
       RUN1(at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true))},
      {"attention, masked",
       {real({2, 4, 19, 16}), real({2, 4, 23, 16}), real({2, 4, 23, 16}), ints({2, 1, 19, 23}, 3)},
       RUN1(at::scaled_dot_product_attention(x[0], x[1], x[2], x[3] > 0))},
      {"attention, learnt mask",
       {real({2, 4, 19, 16}), real({2, 4, 23, 16}), real({2, 4, 23, 16}), real({19, 23})},
       RUN1(at::scaled_dot_product_attention(x[0], x[1], x[2], x[3]))},
      {"attention with dropout",
       {real({2, 4, 19, 16}), real({2, 4, 23, 16}), real({2, 4, 23, 16})},
       RUN1(at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.3))},
      {"dropout", {real({40, 50})}, RUN1(at::dropout(x[0], 0.3, true))},
      {"dropout of all or nothing",
       {real({40, 50})},
       RUN(Tensors({at::dropout(x[0], 1.0, true), at::dropout(x[0], 0.0, true)}))},
      {"feature dropout", {real({6, 9, 4, 4})}, RUN1(at::feature_dropout(x[0], 0.4, true))},
  };
}

std::vector<Case> activations_and_losses() {
  return {
      {"relu gelu silu",
       {real({40, 50})},
       RUN(Tensors({at::relu(x[0]), at::gelu(x[0]), at::gelu(x[0], "tanh"), at::silu(x[0])}))},
      {"tanh sigmoid elu softplus",
       {real({40, 50})},
       RUN(Tensors({x[0].tanh(), x[0].sigmoid(), at::elu(x[0]), at::softplus(x[0])}))},
      {"leaky_relu hardswish mish",
       {real({40, 50})},
       RUN(Tensors({at::leaky_relu(x[0], 0.1), at::hardswish(x[0]), at::mish(x[0])}))},
      {"softmax", {real({40, 50})}, RUN(Tensors({x[0].softmax(1), x[0].softmax(0)}))},
      {"log_softmax", {real({40, 50})}, RUN1(x[0].log_softmax(1))},
      {"logsumexp", {real({40, 50})}, RUN1(x[0].logsumexp(1))},
      {"cross_entropy", {real({40, 7}), ints({40}, 7)}, RUN1(at::cross_entropy_loss(x[0], x[1]))},
      {"cross_entropy summed, some ignored, smoothed",
       {real({40, 7}), ints({40}, 8).sub_(1)},
       RUN1(at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::Sum, -1, 0.1))},
      {"nll_loss weighted",
       {real({40, 7}), ints({40}, 7), positive({7})},
       RUN1(at::nll_loss(x[0].log_softmax(1), x[1], x[2].detach()))},
      {"mse l1 huber",
       {real({40, 7}), real({40, 7})},
       RUN(Tensors(
           {at::mse_loss(x[0], x[1]), at::l1_loss(x[0], x[1]), at::huber_loss(x[0], x[1])}))},
      {"binary_cross_entropy_with_logits",
       {real({40, 7}), ints({40, 7}, 2)},
       RUN1(at::binary_cross_entropy_with_logits(x[0], x[1].to(at::kFloat)))},
      {"kl_div",
       {real({40, 7}), real({40, 7})},
       RUN1(at::kl_div(x[0].log_softmax(1), x[1].softmax(1), at::Reduction::Sum))},
  };
}

std::vector<Case> moving_data() {
  return {
      {"index", {real({30, 7}), ints({12}, 30)}, RUN1(at::index(x[0], {x[1]}))},
      {"index by a mask", {real({30, 7})}, RUN1(at::index(x[0], {x[0].detach() > 0.5}))},
      {"index by the CPU's indices",
       {real({30, 7})},
       RUN1(at::index(x[0], {at::arange(0, 30, 3)}))},
      {"index_put accumulate",
       {real({30, 7}), ints({12}, 30), real({12, 7})},
       RUN1(at::index_put(x[0], {x[1]}, x[2], true))},
      {"gather scatter",
       {real({30, 7}), ints({30, 4}, 7)},
       RUN(Tensors({x[0].gather(1, x[1]), x[0].scatter(1, x[1], 2.0)}))},
      {"scatter_add",
       {real({30, 7}), ints({30, 7}, 30), real({30, 7})},
       RUN1(x[0].scatter_add(0, x[1], x[2]))},
      {"scatter_reduce",
       {real({30, 7}), ints({30, 7}, 30), real({30, 7})},
       RUN1(x[0].scatter_reduce(0, x[1], x[2], "amax"))},
      {"index_add index_select",
       {real({30, 7}), ints({12}, 30), real({12, 7})},
       RUN(Tensors({x[0].index_add(0, x[1], x[2]), x[0].index_select(0, x[1])}))},
      {"masked_fill where clamp",
       {real({30, 7}), real({30, 7})},
       RUN(Tensors({x[0].masked_fill(x[0].detach() > 0, -1e9), at::where(x[0] > x[1], x[0], x[1]),
                    x[0].clamp(-0.5, 0.5)}))},
      {"masked_select", {real({30, 7})}, RUN1(x[0].masked_select(x[0].detach() > 0))},
      {"cat stack",
       {real({30, 7}), real({30, 7})},
       RUN(Tensors({at::cat({x[0], x[1]}, 1), at::stack({x[0], x[1]})}))},
      {"split chunk",
       {real({30, 7})},
       RUN(Tensors({x[0].split(11)[1] * 2, x[0].chunk(3, 1)[2] + 1}))},
      {"pad roll flip",
       {real({4, 3, 7, 7})},
       RUN(Tensors({at::constant_pad_nd(x[0], {1, 2, 0, 1}, 0.5), x[0].roll(2, 3), x[0].flip({2}),
                    at::reflection_pad2d(x[0], {1, 1, 2, 2})}))},
      {"view as_strided unfold",
       {real({4, 6, 8})},
       RUN(Tensors({x[0].view({24, 8}) * 2, x[0].as_strided({3, 5}, {2, 7}, 4) * 3,
                    x[0].unfold(2, 3, 2) * 4, x[0].diagonal(0, 1, 2) * 5,
                    x[0].transpose(0, 2).reshape({-1}) * 6}))},
      {"expand repeat tile",
       {real({4, 1})},
       RUN(Tensors({x[0].expand({4, 5}) * 2, x[0].repeat({2, 3}), x[0].repeat_interleave(3, 0)}))},
      {"tril triu", {real({8, 8})}, RUN(Tensors({x[0].tril(-1), x[0].triu(1)}))},
      {"writing into a view",
       {real({6, 8})},
       [](const Tensors& x) {
         auto y = x[0] * 2;
         y.select(0, 1).mul_(3);
         y.narrow(1, 2, 3).add_(x[0].narrow(1, 0, 3));
         y.slice(0, 4, 6).zero_();
         return Tensors{y};
       }},
      {"copy between dtypes",
       {real({6, 8})},
       RUN(Tensors({x[0].to(at::kDouble) * 2, x[0].detach().to(at::kBFloat16).to(at::kFloat),
                    x[0].detach().mul(9).to(at::kLong), x[0].detach().t().contiguous()}))},
  };
}

std::vector<Case> arithmetic() {
  return {
      {"arithmetic",
       {real({40, 50}), positive({50})},
       RUN(Tensors({x[0] + x[1], x[0] - 2 * x[1], x[0] * x[1], x[0] / x[1], 1 / x[1]}))},
      {"powers",
       {positive({40, 50})},
       RUN(Tensors({x[0].pow(2.5), x[0].sqrt(), x[0].rsqrt(), x[0].log(), x[0].exp(), x[0].erf(),
                    x[0].sin(), x[0].cos(), x[0].abs(), x[0].square()}))},
      {"addcmul addcdiv lerp",
       {real({40, 50}), real({40, 50}), positive({40, 50})},
       RUN(Tensors({at::addcmul(x[0], x[1], x[2], 0.3), at::addcdiv(x[0], x[1], x[2], 0.3),
                    at::lerp(x[0], x[1], 0.25)}))},
      {"sum mean",
       {real({40, 50})},
       RUN(Tensors({x[0].sum(), x[0].mean(), x[0].sum(1), x[0].mean(at::IntArrayRef{0}, true)}))},
      {"sum of many", {real({300, 1000})}, RUN(Tensors({x[0].sum(), x[0].sum(0), x[0].sum(1)}))},
      {"var std norm",
       {real({40, 50})},
       RUN(Tensors({x[0].var(1), x[0].std(), x[0].norm(), x[0].norm(2, {1}, true),
                    at::linalg_vector_norm(x[0], 1)}))},
      {"max min amax",
       {real({40, 50})},
       RUN(Tensors({std::get<0>(x[0].max(1)), x[0].min(), x[0].amax(0)}))},
      {"cumsum cumprod prod",
       {positive({12, 9})},
       RUN(Tensors({x[0].cumsum(1), x[0].cumprod(1), x[0].prod(1)}))},
      {"sort topk argmax",
       {real({30, 17})},
       [](const Tensors& x) {
         auto [sorted, order] = x[0].sort(1, true);
         auto [top, where] = x[0].topk(4, 1);
         return Tensors{sorted, order, top, where, x[0].argmax(1), at::argsort(x[0], int64_t{0})};
       }},
      {"kthvalue median",
       {real({30, 17})},
       RUN(Tensors({std::get<0>(x[0].kthvalue(3, 1)), std::get<0>(x[0].median(1))}))},
      {"integers and booleans",
       {ints({40, 50}, 9), ints({40, 50}, 9)},
       RUN(Tensors({x[0] + x[1], x[0].floor_divide(x[1] + 1), x[0].remainder(x[1] + 1),
                    x[0].bitwise_and(x[1]), x[0].eq(x[1]), x[0].gt(x[1]).logical_or(x[0] == 0),
                    x[0].gt(3).any(1), x[0].sum()}))},
      {"nonzero unique",
       {ints({40, 5}, 9)},
       RUN(Tensors({x[0].nonzero(), std::get<0>(at::_unique2(x[0], true, true, true)),
                    std::get<1>(at::_unique2(x[0], true, true, true)),
                    x[0].flatten().bincount()}))},
      {"searchsorted bucketize",
       {real({40}), at::arange(0, 9, at::kFloat)},
       RUN(Tensors({at::bucketize(x[0].detach(), x[1].detach())}))},
      {"fft",
       {real({6, 16})},
       RUN(Tensors({at::view_as_real(at::fft_rfft(x[0])), at::fft_irfft(at::fft_rfft(x[0])) * 2,
                    at::fft_fft(x[0]).abs()}))},
      {"complex",
       {real({6, 8, 2})},
       [](const Tensors& x) {
         auto z = at::view_as_complex(x[0]);
         return Tensors{at::view_as_real((z * z.conj()).contiguous()), at::real(z * 2),
                        at::view_as_real(at::matmul(z, z.conj().transpose(0, 1)))};
       }},
      {"factories",
       {real({2})},
       RUN(Tensors({at::arange(7, as(x[0])), at::linspace(0, 1, 9, as(x[0])), at::eye(4, as(x[0])),
                    at::full({3}, 2.5, as(x[0])),
                    at::tril_indices(3, 3, 0, as(x[0]).dtype(at::kLong)), at::zeros_like(x[0]),
                    at::one_hot(at::arange(3, as(x[0]).dtype(at::kLong)))}))},
      {"random numbers",
       {real({2})},
       RUN(Tensors({at::rand({20}, as(x[0])), at::randn({20}, as(x[0])), at::randperm(20, as(x[0])),
                    at::randint(9, {20}, as(x[0])), at::rand_like(x[0]),
                    at::bernoulli(at::full({20}, 0.5, as(x[0]))),
                    at::multinomial(at::full({20}, 0.5, as(x[0])), 5),
                    at::empty({9}, as(x[0])).exponential_()}))},
  };
}

at::Tensor to(const at::Tensor& x, const char* device) {
  auto moved = x.to(c10::Device(device)).detach();
  if (moved.is_floating_point()) moved.requires_grad_();
  return moved;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const auto x = a.detach().contiguous(), y = b.detach().cpu().contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Within a share of the tensor's norm that suits its type.
bool close(const at::Tensor& a, const at::Tensor& b) {
  const double tolerance = a.scalar_type() == at::kBFloat16 ? 5e-2 : 1e-5;
  const auto x = a.detach().to(at::kDouble), y = b.detach().cpu().to(at::kDouble);
  return (x - y).norm().item<double>() <= tolerance * x.norm().item<double>();
}

// Outputs, then the gradients of the inputs for a fixed gradient of each output.
Tensors outcome(const Case& test, const char* device) {
  at::manual_seed(3);
  Tensors inputs;
  for (const auto& x : test.inputs) inputs.push_back(to(x, device));
  Tensors all = test.run(inputs), roots, gradients;
  at::manual_seed(4);  // the CPU's generator is where it is after different draws
  for (const auto& y : all) {
    EXPECT_EQ(y.device(), c10::Device(device)) << test.name;
    if (!y.requires_grad()) continue;
    roots.push_back(y);
    gradients.push_back(at::randn(y.sizes(), y.options().device(at::kCPU)).to(y.device()));
  }
  for (size_t i = 0; i < roots.size(); ++i) roots[i].backward(gradients[i], /*retain_graph=*/true);
  for (const auto& x : inputs) {
    all.push_back(x.grad());
    all.push_back(x);  // nothing is written to an input
  }
  return all;
}

void compare(const std::vector<Case>& cases, const std::string& suffix = "") {
  parse_devices("2xsim");
  auto listed = known_to_differ();
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name + suffix);
    const auto cpu = outcome(test, "cpu");
    const auto sim = outcome(test, "sim:1");
    ASSERT_EQ(cpu.size(), sim.size());
    std::string differing;
    for (size_t i = 0; i < cpu.size(); ++i)
      if (!same_bits(cpu[i], sim[i])) differing.append(" ").append(std::to_string(i));
    if (listed.count(test.name + suffix)) {
      EXPECT_NE(differing, "") << "agrees now: take it off the list";
      for (size_t i = 0; i < cpu.size(); ++i) EXPECT_TRUE(close(cpu[i], sim[i])) << i;
    } else {
      EXPECT_EQ(differing, "") << "these results have other bits (outputs first, then gradients)";
    }
  }
}

std::vector<Case> in_bf16(std::vector<Case> cases) {
  for (auto& test : cases)
    for (auto& x : test.inputs)
      if (x.is_floating_point()) x = x.to(at::kBFloat16);
  return cases;
}

TEST(SimParity, linear_algebra) { compare(linear_algebra()); }
TEST(SimParity, layers) { compare(layers()); }
TEST(SimParity, activations_and_losses) { compare(activations_and_losses()); }
TEST(SimParity, moving_data) { compare(moving_data()); }
TEST(SimParity, arithmetic) { compare(arithmetic()); }

TEST(SimParity, bf16) {
  std::vector<Case> cases;
  for (const auto& group : {linear_algebra(), layers(), activations_and_losses()})
    for (const auto& test : group)
      if (test.name.find("linalg") != 0 && test.name != "cdist") cases.push_back(test);
  compare(in_bf16(cases), " (bf16)");
}

TEST(SimParity, autocast_casts_what_it_casts_on_the_cpu) {
  parse_devices("sim");
  at::manual_seed(1);
  const Tensors inputs{real({9, 16}), real({12, 16}), real({12}), real({12}), ints({9}, 12)};
  const auto run = [&](const char* device) {
    Tensors x;
    for (const auto& input : inputs) x.push_back(to(input, device));
    const auto type = x[0].device().type();
    at::autocast::set_autocast_dtype(type, at::kBFloat16);
    at::autocast::set_autocast_enabled(type, true);
    at::autocast::increment_nesting();
    auto h = at::linear(x[0], x[1], x[2]);
    auto n = at::layer_norm(h, {12}, x[2], x[3]);
    auto both = at::cat({h, n});
    auto loss = at::cross_entropy_loss(n, x[4]);
    auto conv = at::conv1d(x[0].view({1, 9, 16}), x[1].view({12, 1, 16}).expand({12, 9, 16}));
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type, false);
    loss.backward();
    return Tensors{h, n, both, loss, conv, x[0].grad(), x[1].grad(), x[2].grad(), x[3].grad()};
  };
  const auto cpu = run("cpu"), sim = run("sim:0");
  EXPECT_EQ(sim[0].scalar_type(), at::kBFloat16);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_TRUE(same_bits(cpu[i], sim[i])) << i;
}

}  // namespace
}  // namespace yoke
