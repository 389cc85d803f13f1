// Note [Simulated kernels]
// Every operator that has a CPU kernel runs it on host views of its arguments: CPU tensors with the
// same memory, sizes and strides, so nothing is copied and the bits are the CPU's. What the kernel
// allocates becomes the device's memory afterwards. A boxed fallback alone is not enough: PyTorch
// prefers a composite kernel to it, so operators that have both are registered one by one
// (sim_ops.cpp).
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "yoke/device/sim_impl.h"

namespace yoke::sim {
namespace {

// Lists of hundreds of parameters would make the search for a tensor seen before quadratic. Missing
// a repeat costs a second view, nothing else.
constexpr size_t kSearch = 32;

at::Tensor make_tensor(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& like) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                         c10::DispatchKeySet(key), like.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (like.is_conj()) impl->_set_conj(true);
  if (like.is_neg()) impl->_set_neg(true);
  return tensor;
}

c10::Storage make_storage(c10::DataPtr data, size_t bytes, c10::Allocator* allocator) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(int64_t(bytes)), std::move(data), allocator,
      /*resizable=*/true));
}

}  // namespace

c10::Storage HostView::host_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  const size_t oldest = storages_.size() > kSearch ? storages_.size() - kSearch : 0;
  for (size_t i = storages_.size(); i > oldest; --i)
    if (storages_[i - 1].first.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl())
      return storages_[i - 1].second;
  auto host = make_storage({const_cast<void*>(storage.data()), c10::Device(c10::kCPU)},
                           storage.nbytes(), c10::GetCPUAllocator());
  storages_.emplace_back(storage, host);
  return host;
}

at::Tensor HostView::host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  auto* impl = tensor.unsafeGetTensorImpl();
  const size_t oldest = tensors_.size() > kSearch ? tensors_.size() - kSearch : 0;
  for (size_t i = tensors_.size(); i > oldest; --i)
    if (tensors_[i - 1].first == impl) return tensors_[i - 1].second;
  auto made = make_tensor(host_storage(tensor), c10::DispatchKey::CPU, tensor);
  tensors_.emplace_back(impl, made);
  return made;
}

at::Tensor HostView::device(at::Tensor result, c10::Device device) {
  if (!result.defined() || !result.is_cpu()) return result;
  TORCH_CHECK(result.layout() == c10::kStrided, "simulated devices hold dense tensors only, not ",
              result.layout());
  const auto& storage = result.storage();
  for (const auto& [simulated, host] : storages_)
    if (host.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl())
      return make_tensor(simulated, c10::DispatchKey::PrivateUse1, result);
  const size_t bytes = storage.nbytes();
  c10::DataPtr data;
  if (result.use_count() == 1 && storage.use_count() == 1) {
    data = adopt(storage.unsafeGetStorageImpl()->set_data_ptr({nullptr, c10::Device(c10::kCPU)}),
                 bytes, device.index());
  } else {
    const c10::DeviceGuard guard(device);
    data = allocator()->allocate(bytes);
    if (bytes > 0) std::memcpy(data.get(), storage.data(), bytes);
  }
  return make_tensor(make_storage(std::move(data), bytes, allocator()),
                     c10::DispatchKey::PrivateUse1, result);
}

bool HostView::is_view(const at::Tensor& result) const {
  for (const auto& [simulated, host] : storages_)
    if (result.has_storage() &&
        host.unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl())
      return true;
  return false;
}

void HostView::write_back(const at::Tensor& original, const at::Tensor& host) {
  if (!original.defined() || !original.is_privateuseone()) return;
  auto* impl = original.unsafeGetTensorImpl();
  auto* mine = original.storage().unsafeGetStorageImpl();
  auto* theirs = host.storage().unsafeGetStorageImpl();
  if (theirs->data_ptr().get() != mine->data_ptr().get()) {  // the kernel made it larger
    const size_t bytes = theirs->nbytes();
    auto data = adopt(theirs->set_data_ptr({nullptr, c10::Device(c10::kCPU)}), bytes,
                      original.device().index());
    theirs->set_data_ptr_noswap({data.get(), c10::Device(c10::kCPU)});  // for the next argument
    mine->set_data_ptr_noswap(std::move(data));
    mine->set_nbytes(bytes);
  }
  if (host.sizes() != original.sizes() || host.strides() != original.strides() ||
      host.storage_offset() != original.storage_offset())
    impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
}

namespace {

// What CUDA's kernels check before they start: all tensors on one device, CPU scalars aside.
class DeviceCheck {
 public:
  explicit DeviceCheck(const c10::OperatorHandle& op) : op_(op) {}

  void look(const at::Tensor& tensor) {
    if (!device_ && tensor.defined() && tensor.is_privateuseone()) device_ = tensor.device();
  }
  void check(const at::Tensor& tensor, const c10::Argument& argument, bool may_be_on_cpu) const {
    if (!device_ || !tensor.defined() || tensor.device() == *device_) return;
    const bool written = argument.alias_info() && argument.alias_info()->isWrite();
    if (tensor.is_cpu() && !written && (may_be_on_cpu || tensor.dim() == 0)) return;
    TORCH_CHECK(false,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", tensor.device(), "! (when checking argument for argument ",
                argument.name(), " in method ", op_.operator_name(), ")");
  }
  const std::optional<c10::Device>& device() const { return device_; }

 private:
  const c10::OperatorHandle& op_;
  std::optional<c10::Device> device_;
};

template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor(), false);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor, false);
  } else if (value.isOptionalTensorList()) {  // indices, which CUDA takes from the CPU too
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) visit(*tensor, true);
  }
}

c10::IValue host_value(const c10::IValue& value, HostView& views) {
  if (value.isTensor()) return views.host(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(views.host(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional<at::Tensor>(views.host(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::kCPU);
  if (value.isGenerator()) return host_generator(value.toGenerator());
  return value;
}

c10::IValue device_value(c10::IValue value, HostView& views, c10::Device device) {
  if (value.isTensor()) return views.device(std::move(value).toTensor(), device);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    auto results = value.toTensorVector();
    value = {};  // so that the vector holds the only references and memory can be adopted
    for (auto& tensor : results) list.push_back(views.device(std::move(tensor), device));
    return list;
  }
  return value;
}

void write_back(const c10::IValue& original, const c10::IValue& host, HostView& views) {
  if (original.isTensor()) {
    views.write_back(original.toTensor(), host.toTensor());
  } else if (original.isTensorList()) {
    const auto originals = original.toTensorVector(), hosts = host.toTensorVector();
    for (size_t i = 0; i < originals.size(); ++i) views.write_back(originals[i], hosts[i]);
  }
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  DeviceCheck check(op);
  std::optional<c10::Device> asked;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = (*stack)[begin + i];
    visit_tensors(value, [&](const at::Tensor& tensor, bool) { check.look(tensor); });
    if (value.isDevice()) asked = value.toDevice();
  }
  for (size_t i = 0; i < arguments.size(); ++i)  // a generator alone can lead here
    TORCH_CHECK(check.device() || asked || !(*stack)[begin + i].isGenerator(),
                "Expected a 'cpu' device type for generator but found 'sim' (in method ",
                op.operator_name(), ")");
  for (size_t i = 0; i < arguments.size(); ++i)
    visit_tensors((*stack)[begin + i], [&](const at::Tensor& tensor, bool may_be_on_cpu) {
      check.check(tensor, arguments[i], may_be_on_cpu);
    });
  c10::Device device =
      check.device().value_or(asked.value_or(c10::Device(c10::kPrivateUse1, current_device())));
  if (!device.has_index()) device = c10::Device(c10::kPrivateUse1, current_device());

  HostView views;
  const std::vector<c10::IValue> originals(stack->begin() + int64_t(begin), stack->end());
  std::vector<std::pair<size_t, c10::IValue>> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& value = (*stack)[begin + i];
    if (value.isNone()) {
      if (arguments[i].name() == "generator")
        value = host_generator(default_generator(device.index()));
      continue;
    }
    value = host_value(originals[i], views);
    if (writes(arguments[i])) written.emplace_back(i, value);
  }

  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);

  for (const auto& [i, host] : written) write_back(originals[i], host, views);
  const auto& returns = op.schema().returns();
  const size_t first = stack->size() - returns.size();
  for (size_t r = 0; r < returns.size(); ++r) {
    auto& value = (*stack)[first + r];
    bool is_argument = false;
    for (size_t i = 0; writes(returns[r]) && i < arguments.size() && !is_argument; ++i)
      if (arguments[i].alias_info() && *arguments[i].alias_info() == *returns[r].alias_info()) {
        value = originals[i];
        is_argument = true;
      }
    if (is_argument) continue;
    const bool is_view = returns[r].alias_info() && !returns[r].alias_info()->isWrite();
    TORCH_CHECK(!is_view || !value.isTensor() || views.is_view(value.toTensor()),
                "the CPU kernel of ", op.operator_name(),
                ", a view operator, returns memory of its own");
    value = device_value(std::move(value), views, device);
  }
}

}  // namespace yoke::sim
