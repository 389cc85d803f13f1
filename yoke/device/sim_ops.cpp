// The operators that cannot run as a host view: those that make, view, resize or move device
// memory, and those where PyTorch would choose another algorithm for a device than for the CPU.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_set>

#include "yoke/core/error.h"
#include "yoke/device/sim_device.h"
#include "yoke/device/sim_impl.h"

namespace yoke::sim {
namespace {

constexpr c10::DispatchKeySet sim_key(c10::DispatchKey::PrivateUse1);
using OptionalTensor = std::optional<at::Tensor>;

c10::Device device_or_current(std::optional<c10::Device> device) {
  const c10::Device given = device.value_or(c10::Device(c10::kPrivateUse1));
  return given.has_index() ? given : c10::Device(c10::kPrivateUse1, current_device());
}

void check_factory(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided,
              "simulated devices hold dense tensors only");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  check_factory(layout, pin_memory);
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(size, allocator(), sim_key, c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, allocator(), sim_key,
                                           c10::dtype_or_default(dtype));
}

// The tensor's storage holds what sizes and strides reach from now on; it never shrinks.
void reserve_storage(const at::Tensor& self) {
  if (self.numel() == 0) return;
  const size_t bytes = at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.itemsize(), size_t(self.storage_offset()));
  if (bytes > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size,
                          std::optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (size != self.sizes()) impl->set_sizes_contiguous(size);
  if (format) impl->empty_tensor_restride(*format);
  reserve_storage(self);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  HostView views;
  const at::AutoDispatchBelowADInplaceOrView below;
  views.host(dst).copy_(views.host(self), non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Tensor& set_storage_and_strides(at::Tensor& self, at::Storage source, int64_t offset,
                                    c10::IntArrayRef size, c10::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  TORCH_CHECK(source.device() == self.device(), "set_: a storage on ", source.device(),
              " for a tensor on ", self.device());
  impl->set_storage_keep_dtype(std::move(source));
  if (stride.data() == nullptr || (stride.empty() && !size.empty())) {
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  } else {
    impl->set_sizes_and_strides(size, stride, offset);
  }
  reserve_storage(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const int64_t size = int64_t(source.nbytes() / self.itemsize());
  return set_storage_and_strides(self, std::move(source), 0, {size}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage_and_strides(self, source.storage(), source.storage_offset(), source.sizes(),
                                 source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  c10::Storage none(c10::Storage::use_byte_size_t(), 0, allocator(), /*resizable=*/true);
  return set_storage_and_strides(self, std::move(none), 0, {0}, {});
}

// Without it Module::to and set_data refuse to put a simulated tensor where a CPU one was.
bool has_compatible_shallow_copy_type(const at::Tensor&, const at::Tensor&) { return true; }

void record_stream(at::Tensor&, c10::Stream) {}

// at::dropout calls this one for a device, and on the CPU the same steps from plain operators.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  if (input.numel() == 0 || !train.value_or(true))
    return {input.clone(), at::ones_like(input, c10::kBool)};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, c10::kBool)};
  auto noise = at::empty_like(input).bernoulli_(1 - p);
  auto mask = noise.to(c10::kBool);
  return {input.mul(noise.div_(1 - p)), std::move(mask)};
}

at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale) {
  auto noise = mask.to(grad.scalar_type());
  return grad.mul(scale == 0 ? noise.zero_() : noise.div_(1 / scale));
}

// The CPU's choice between its flash kernel and plain operations, so that the bits are the same.
int64_t sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const OptionalTensor& mask, double dropout_p, bool is_causal,
                   std::optional<double> scale, bool enable_gqa) {
  HostView views;
  OptionalTensor host_mask;
  if (mask && mask->defined()) {
    host_mask = views.host(*mask);
    if (mask->requires_grad()) host_mask = host_mask->detach().requires_grad_();
  }
  return at::_fused_sdp_choice(views.host(query), views.host(key), views.host(value), host_mask,
                               dropout_p, is_causal, scale, enable_gqa);
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const OptionalTensor& bias, c10::IntArrayRef stride,
                       c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, int64_t groups) {
  HostView views;
  return views.device(
      at::convolution(views.host(input), views.host(weight),
                      bias ? OptionalTensor(views.host(*bias)) : std::nullopt, stride, padding,
                      dilation, transposed, output_padding, groups),
      input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> output_mask) {
  HostView views;
  const int64_t outputs = transposed ? weight.size(1) * groups : weight.size(0);
  auto [for_input, for_weight, for_bias] = at::convolution_backward(
      views.host(grad), views.host(input), views.host(weight), c10::IntArrayRef(outputs), stride,
      padding, dilation, transposed, output_padding, groups, output_mask);
  return {views.device(std::move(for_input), input.device()),
          views.device(std::move(for_weight), input.device()),
          views.device(std::move(for_bias), input.device())};
}

// PyTorch calls these two for a device's LSTM and GRU layers, and plain operators on the CPU. They
// are registered above autograd, so they need no backward of their own.
using Cell = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates.add(*bias) : gates;
}

// hy, cy; input_gates, hidden_gates (B, 4 H) in the order input, forget, cell, output.
Cell lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
               const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto gates =
      with_bias(hidden_gates, hidden_bias).add(with_bias(input_gates, input_bias)).chunk(4, 1);
  auto cy = gates[1].sigmoid().mul(cx).add(gates[0].sigmoid().mul(gates[2].tanh()));
  auto hy = gates[3].sigmoid().mul(cy.tanh());
  return {std::move(hy), std::move(cy), at::Tensor()};
}

// hy; input_gates, hidden_gates (B, 3 H) in the order reset, update, new.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = hidden[0].add(input[0]).sigmoid();
  const auto update = hidden[1].add(input[1]).sigmoid();
  const auto fresh = input[2].add(hidden[2].mul(reset)).tanh();
  return {hx.sub(fresh).mul(update).add(fresh), at::Tensor()};
}

void register_cells(torch::Library& m) {
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return true;
  return false;
}

void register_own(torch::Library& m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view",
         static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(&at::native::view));
  m.impl("_reshape_alias",
         static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef, c10::IntArrayRef)>(
             &at::native::_reshape_alias));
  m.impl("resize_", &resize_);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("set_.source_Storage_storage_offset", &set_storage_and_strides);
  m.impl("set_.source_Storage", &set_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_nothing);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  m.impl("record_stream", &record_stream);
  m.impl("native_dropout", &native_dropout);
  m.impl("native_dropout_backward", &native_dropout_backward);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

}  // namespace

void register_ops() {
  // Kept for the life of the process: a Library takes its kernels with it.
  static auto* everything = new torch::Library(torch::Library::IMPL, "_",
                                               c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  everything->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());

  static auto* aten = new torch::Library(torch::Library::IMPL, "aten",
                                         c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  register_own(*aten);
  register_cells(*aten);
  static auto* above = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  register_cells(*above);
  // The copy looks at the conjugate and negative bits itself; PyTorch's fallbacks would resolve
  // them by a clone, which is a copy again.
  static auto* conjugate = new torch::Library(torch::Library::IMPL, "aten",
                                              c10::DispatchKey::Conjugate, __FILE__, __LINE__);
  static auto* negative = new torch::Library(torch::Library::IMPL, "aten",
                                             c10::DispatchKey::Negative, __FILE__, __LINE__);
  for (auto* bits : {conjugate, negative})
    bits->impl("_copy_from", torch::CppFunction::makeFallthrough());
  // The first three have no CPU kernel of their own but ask for the device inside; the others have
  // one that an implicit composite kernel would hide.
  for (const char* name :
       {"convolution", "convolution_backward", "_convolution", "silu_backward", "mish_backward"})
    aten->impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());

  // See Note [Simulated kernels].
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.getNamespace() != std::optional<std::string_view>("aten")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) || is_view(op->schema()))
      continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
        !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
      continue;
    const std::string full =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    aten->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&sdp_choice);
}

void enable() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (c10::is_privateuse1_backend_registered() && c10::get_privateuse1_backend() != "sim")
      throw Error("device.sim",
                  "simulated devices need PyTorch's PrivateUse1 slot, which \"" +
                      c10::get_privateuse1_backend() + "\" holds in this process",
                  "cpu or 4xcpu");
    c10::register_privateuse1_backend("sim");
    register_hooks();
    register_ops();
    register_autocast();
  });
}

}  // namespace yoke::sim
