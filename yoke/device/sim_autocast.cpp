// Autocast on simulated devices casts what it casts on the CPU: the CPU's list of operators is read
// from the dispatcher, so a new PyTorch brings its own.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string_view>
#include <unordered_set>

#include "yoke/device/sim_impl.h"

namespace yoke::sim {
namespace {

constexpr auto sim_type = c10::DeviceType::PrivateUse1;

at::Tensor cast(at::ScalarType type, const at::Tensor& tensor) {
  return tensor.defined() ? at::autocast::cached_cast(type, tensor, sim_type) : tensor;
}

c10::IValue cast(at::ScalarType type, const c10::IValue& value) {
  if (value.isTensor()) return cast(type, value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cast(type, tensor));
  return list;
}

// The widest floating type among the arguments.
at::ScalarType widest(const torch::jit::Stack& stack, size_t begin) {
  auto type = at::autocast::get_autocast_dtype(sim_type);
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor()) type = at::autocast::prioritize(type, stack[i].toTensor(), sim_type);
    if (stack[i].isTensorList())
      for (const at::Tensor& tensor : stack[i].toTensorVector())
        type = at::autocast::prioritize(type, tensor, sim_type);
  }
  return type;
}

enum class Policy { lower, fp32, promote };

template <Policy policy>
void autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const size_t begin = stack->size() - op.schema().arguments().size();
  const auto type = policy == Policy::fp32    ? at::kFloat
                    : policy == Policy::lower ? at::autocast::get_autocast_dtype(sim_type)
                                              : widest(*stack, begin);
  for (size_t i = begin; i < stack->size(); ++i) (*stack)[i] = cast(type, (*stack)[i]);
  op.callBoxed(stack);
}

const std::unordered_set<std::string_view> lower_precision{"aten::conv1d",
                                                           "aten::conv2d",
                                                           "aten::conv3d",
                                                           "aten::bmm",
                                                           "aten::mm",
                                                           "aten::linalg_vecdot",
                                                           "aten::baddbmm",
                                                           "aten::addmm",
                                                           "aten::_addmm_activation",
                                                           "aten::addbmm",
                                                           "aten::linear",
                                                           "aten::_convolution",
                                                           "aten::matmul",
                                                           "aten::conv_tbc",
                                                           "aten::mkldnn_rnn_layer",
                                                           "aten::conv_transpose1d",
                                                           "aten::conv_transpose2d",
                                                           "aten::conv_transpose3d",
                                                           "aten::prelu",
                                                           "aten::scaled_dot_product_attention",
                                                           "aten::_native_multi_head_attention"};
const std::unordered_set<std::string_view> promoted{"aten::stack", "aten::cat", "aten::index_copy"};

}  // namespace

void register_autocast() {
  static auto* everything = new torch::Library(
      torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  everything->fallback(torch::CppFunction::makeFallthrough());
  static auto* aten = new torch::Library(torch::Library::IMPL, "aten",
                                         c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU)) continue;
    const std::string full =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (lower_precision.count(name.name))
      aten->impl(full.c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&autocast<Policy::lower>>());
    else if (promoted.count(name.name))
      aten->impl(full.c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&autocast<Policy::promote>>());
    else
      aten->impl(full.c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&autocast<Policy::fp32>>());
  }
}

}  // namespace yoke::sim
