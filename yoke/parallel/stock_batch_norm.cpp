// Batch normalisation inside a replica (replica_context.h): statistics over everything that the
// replicas compute at the same moment, running statistics left to the end of the step.
//
// aten::batch_norm is what torch::nn::BatchNorm1d/2d/3d call; it is a composite operator, so a
// kernel at a back end's Autograd key comes first.
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "yoke/core/error.h"
#include "yoke/parallel/replica_context.h"

namespace yoke {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

std::vector<double> to_doubles(const at::Tensor& t) {
  const auto host = t.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* from = host.const_data_ptr<double>();
  return {from, from + host.numel()};
}

at::Tensor to_floats(const std::vector<double>& values, const at::Tensor& like) {
  return at::tensor(values, at::kDouble).to(like.device(), at::kFloat);
}

// Shape (1, C, 1, …) for a vector (C) beside x.
at::Tensor beside(const at::Tensor& vector, const at::Tensor& x) {
  std::vector<int64_t> shape(size_t(x.dim()), 1);
  shape[1] = vector.numel();
  return vector.view(shape);
}

std::vector<int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != 1) dims.push_back(d);
  return dims;
}

struct Sums {  // of a backward, by channel: gradients, and gradients times normalised values
  std::vector<double> grad, product;
};

// The place of one call in its step; a holder, so that an autograd node can keep it.
struct Place : torch::CustomClassHolder {
  explicit Place(const ReplicaContext& here, size_t call)
      : exchange(here.exchange), rank(here.rank), moment(here.micro), call(call) {}
  const std::shared_ptr<MomentExchange> exchange;
  const int rank;
  const size_t moment, call;
  std::string label() const { return "batch normalisation " + std::to_string(call + 1); }
};

template <class T>
std::vector<std::shared_ptr<void>> bring(const Place& place, Pass pass, T mine) {
  return place.exchange->exchange(place.rank, {place.moment, pass, place.call}, place.label(),
                                  std::make_shared<T>(std::move(mine)));
}

struct SynchronisedNorm : torch::autograd::Function<SynchronisedNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                            const c10::intrusive_ptr<Place>& place, Moments* local) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [var, mean] = at::var_mean(x, all_but_channels(x), /*correction=*/0);
    local->count = double(x.numel() / x.size(1));
    local->mean = to_doubles(mean);
    local->m2 = to_doubles(var);
    for (double& v : local->m2) v *= local->count;

    Moments all;
    for (const auto& item : bring(*place, Pass::forward, *local))
      if (item) all.merge(*std::static_pointer_cast<Moments>(item));
    std::vector<double> inverse = all.m2;
    for (double& d : inverse) d = 1 / std::sqrt(d / all.count + eps);
    const auto global_mean = to_floats(all.mean, x), inverse_std = to_floats(inverse, x);
    auto normal = (x - beside(global_mean, x)) * beside(inverse_std, x);
    context->save_for_backward({x, global_mean, inverse_std, weight.value_or(at::Tensor())});
    context->saved_data["count"] = all.count;
    context->saved_data["has_bias"] = bias && bias->defined();
    context->saved_data["place"] = c10::IValue::make_capsule(place);
    if (weight && weight->defined()) normal = normal * beside(*weight, x);
    if (bias && bias->defined()) normal = normal + beside(*bias, x);
    return normal;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto& x = saved[0];
    const auto& weight = saved[3];
    const auto place =
        c10::static_intrusive_pointer_cast<Place>(context->saved_data["place"].toCapsule());
    const double count = context->saved_data["count"].toDouble();
    const auto normal = (x - beside(saved[1], x)) * beside(saved[2], x);
    const auto dims = all_but_channels(x);
    const auto grad = grads[0];
    const auto sum_grad = grad.sum(dims), sum_product = (grad * normal).sum(dims);

    std::vector<double> first(size_t(x.size(1)), 0.0), second = first;
    for (const auto& item :
         bring(*place, Pass::backward, Sums{to_doubles(sum_grad), to_doubles(sum_product)}))
      if (item) {
        const auto& sums = *std::static_pointer_cast<Sums>(item);
        for (size_t c = 0; c < first.size(); ++c) first[c] += sums.grad[c];
        for (size_t c = 0; c < first.size(); ++c) second[c] += sums.product[c];
      }
    for (double& value : first) value /= count;
    for (double& value : second) value /= count;
    auto scale = saved[2];
    if (weight.defined()) scale = scale * weight;
    const auto grad_x =
        (grad - beside(to_floats(first, x), x) - normal * beside(to_floats(second, x), x)) *
        beside(scale, x);
    return {grad_x,
            weight.defined() ? sum_product : at::Tensor(),
            context->saved_data["has_bias"].toBool() ? sum_grad : at::Tensor(),
            {},
            {},
            {}};
  }
};

at::Tensor batch_norm(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var,
                      bool training, double momentum, double eps, bool cudnn) {
  auto* here = ReplicaContext::current();
  if (!here || !training || !c10::GradMode::is_enabled())
    return at::native::batch_norm(x, weight, bias, running_mean, running_var, training, momentum,
                                  eps, cudnn);
  const size_t call = here->norm_calls++;
  Moments local;
  at::Tensor out;
  if (here->exchange && here->exchange->participants(here->micro) > 1) {
    if (here->shares_device)
      throw Error("parallel.batch_norm",
                  "several replicas on one device cannot share batch statistics",
                  "one replica a device");
    const auto place = c10::make_intrusive<Place>(*here, call);
    out = SynchronisedNorm::apply(x, weight, bias, eps, place, &local);
  } else {
    const auto [normal, mean, inverse_std] =
        at::native_batch_norm(x, weight, bias, {}, {}, true, momentum, eps);
    out = normal;
    local.count = double(x.numel() / x.size(1));
    local.mean = to_doubles(mean);
    local.m2 = to_doubles(inverse_std);
    for (double& s : local.m2) s = local.count * std::max(0.0, 1 / (s * s) - eps);
  }
  if (running_mean && running_mean->defined() && running_var && running_var->defined())
    here->norms.push_back({running_mean->unsafeGetTensorImpl(), running_var->unsafeGetTensorImpl(),
                           std::move(local), momentum});
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) { m.impl("batch_norm", batch_norm); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("batch_norm", batch_norm); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) { m.impl("batch_norm", batch_norm); }

}  // namespace yoke
