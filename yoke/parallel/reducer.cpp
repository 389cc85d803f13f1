#include "yoke/parallel/reducer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <functional>

namespace yoke {
namespace {

using torch::autograd::variable_list;

// Runs after an AccumulateGrad node has stored the gradient.
struct AfterAccumulation : torch::autograd::FunctionPostHook {
  explicit AfterAccumulation(std::function<void()> callback) : callback(std::move(callback)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    callback();
    return outputs;
  }
  std::function<void()> callback;
};

}  // namespace

Reducer::Reducer(std::vector<at::Tensor> parameters, std::shared_ptr<const FlatLayout> layout,
                 c10::intrusive_ptr<c10d::Backend> backend, bool root_only)
    : parameters_(std::move(parameters)),
      layout_(std::move(layout)),
      backend_(std::move(backend)),
      root_only_(root_only),
      slots_(layout_->slices.size()),
      touched_(layout_->slices.size(), 0),
      used_(layout_->slices.size(), 0),
      missing_(layout_->buckets.size(), 0),
      order_(layout_->buckets.size(), [this](size_t bucket) { send(bucket); }) {
  if (parameters_.empty()) return;
  flat_ = at::zeros({layout_->total}, parameters_[0].options().requires_grad(false));
  for (size_t s = 0; s < layout_->slices.size(); ++s) {
    const auto& slice = layout_->slices[s];
    const auto& parameter = parameters_[slice.parameter];
    slices_.push_back(flat_.narrow(0, slice.offset, slice.numel).view(parameter.sizes()));
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
    hook_keys_.push_back(
        accumulator->add_post_hook(std::make_unique<AfterAccumulation>([this, s] { arrived(s); })));
    accumulators_.push_back(std::move(accumulator));
  }
  for (size_t s = 0; s < slots_.size(); ++s)
    slots_[s] = {.gradient = &slices_[s], .written = false, .zeros = true};
}

Reducer::~Reducer() {
  offer_slots(false);
  for (size_t s = 0; s < accumulators_.size(); ++s) accumulators_[s]->del_post_hook(hook_keys_[s]);
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
}

void Reducer::offer_slots(bool offer) {
  for (size_t s = 0; s < slots_.size(); ++s)
    offer_gradient_slot(parameters_[layout_->slices[s].parameter].unsafeGetTensorImpl(),
                        offer ? &slots_[s] : nullptr);
}

void Reducer::begin_step() {
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
  std::fill(touched_.begin(), touched_.end(), 0);
  for (auto& slot : slots_) slot.written = false;
  order_.reset();
  works_.clear();
  last_ = false;
  offer_slots(true);
}

void Reducer::begin_backward(bool last) {
  last_ = last;
  if (last)
    for (size_t b = 0; b < missing_.size(); ++b)
      missing_[b] = layout_->buckets[b].end_slice - layout_->buckets[b].first_slice;
}

void Reducer::arrived(size_t s) {
  auto& gradient = parameters_[layout_->slices[s].parameter].mutable_grad();
  auto& slot = slots_[s];
  if (!gradient.defined() && !slot.written) return;
  if (!gradient.defined() || gradient.data_ptr() != slices_[s].data_ptr()) {
    // Autograd keeps the first gradient of a step as it came, and with create_graph a new one each
    // time: bring it into the buffer, so that what follows is added there.
    c10::NoGradGuard no_grad;
    if (gradient.defined() && slot.written && !touched_[s]) {
      slices_[s].add_(gradient);  // the rest of it is in the slot already
    } else if (gradient.defined()) {
      slices_[s].copy_(gradient);
    }
    gradient = slices_[s].variable_data();
  }
  touched_[s] = 1;
  slot.written = true;
  slot.zeros = false;
  const size_t bucket = layout_->bucket_of[s];
  if (last_ && --missing_[bucket] == 0) order_.ready(bucket);
}

void Reducer::send(size_t bucket) {
  const auto& range = layout_->buckets[bucket];
  std::vector<at::Tensor> tensors{flat_.narrow(0, range.begin, range.end - range.begin)};
  if (root_only_) {
    c10d::ReduceOptions options;
    options.rootRank = 0;
    works_.push_back(backend_->reduce(tensors, options));
  } else {
    works_.push_back(backend_->allreduce(tensors));
  }
}

void Reducer::finish() {
  c10::NoGradGuard no_grad;
  offer_slots(false);
  for (size_t s = 0; s < slices_.size(); ++s)
    if (!touched_[s] && !slots_[s].zeros) {
      slices_[s].zero_();
      slots_[s].zeros = true;
    }
  order_.finish();
  if (parameters_.empty()) return;

  auto marks = at::empty({int64_t(touched_.size())}, at::kInt);
  for (size_t s = 0; s < touched_.size(); ++s) marks.mutable_data_ptr<int>()[s] = touched_[s];
  std::vector<at::Tensor> tensors{marks.to(flat_.device())};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  auto marked = backend_->allreduce(tensors, options);
  for (auto& work : works_) work->wait();
  works_.clear();
  marked->wait();
  marks = tensors[0].cpu();
  for (size_t s = 0; s < used_.size(); ++s) {
    used_[s] = char(marks.const_data_ptr<int>()[s] != 0);
    if (used_[s]) slots_[s].zeros = false;  // the others' gradients were written there
  }
}

}  // namespace yoke
