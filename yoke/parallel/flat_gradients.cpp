#include "yoke/parallel/flat_gradients.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>

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

void sort_unique(std::vector<int64_t>& rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
}

}  // namespace

FlatGradients::FlatGradients(std::shared_ptr<const FlatLayout> layout,
                             const std::vector<at::Tensor>& parameters)
    : layout_(std::move(layout)), slots_(layout_->slices.size()) {
  if (parameters.empty()) return;
  flat_ = at::zeros({layout_->total}, parameters[0].options().requires_grad(false));
  for (const auto& slice : layout_->slices)
    slices_.push_back(
        flat_.narrow(0, slice.offset, slice.numel).view(parameters[slice.parameter].sizes()));
  for (size_t s = 0; s < slots_.size(); ++s) {
    slots_[s].gradient = &slices_[s];
    slots_[s].by_rows = true;
  }
}

at::Tensor FlatGradients::row_tensor(const std::vector<int64_t>& rows) const {
  return at::from_blob(const_cast<int64_t*>(rows.data()), {int64_t(rows.size())}, at::kLong)
      .to(flat_.device());
}

void FlatGradients::clear() {
  c10::NoGradGuard no_grad;
  for (auto& slot : slots_) {
    slot.written = slot.by_autograd = false;
    if (!slot.by_rows || slot.rows.empty()) continue;
    sort_unique(slot.rows);
    slot.gradient->index_fill_(0, row_tensor(slot.rows), 0);
    slot.rows.clear();
  }
}

// Slices whose other side has few rows, or that are absent here.
void FlatGradients::add_slice(size_t s, const FlatGradients& other) {
  auto& mine = slots_[s];
  const auto& theirs = other.slots_[s];
  if (!theirs.written) return;
  if (!theirs.by_rows) {
    if (mine.written) {
      slices_[s].add_(other.slices_[s].to(flat_.device()));
    } else {
      slices_[s].copy_(other.slices_[s]);
    }
    mine.by_rows = false;
    mine.rows.clear();
  } else {
    if (!mine.written && !mine.by_rows) {
      slices_[s].zero_();
      mine.by_rows = true;
    }
    if (!theirs.rows.empty()) {
      const auto from =
          other.slices_[s].index_select(0, other.row_tensor(theirs.rows)).to(flat_.device());
      slices_[s].index_add_(0, row_tensor(theirs.rows), from);
      if (mine.by_rows) {
        mine.rows.insert(mine.rows.end(), theirs.rows.begin(), theirs.rows.end());
        sort_unique(mine.rows);
      }
    }
  }
  mine.written = true;
}

void FlatGradients::add(const FlatGradients& other) {
  c10::NoGradGuard no_grad;
  const auto both_dense = [&](size_t s) {
    return slots_[s].written && !slots_[s].by_rows && other.slots_[s].written &&
           !other.slots_[s].by_rows;
  };
  for (size_t s = 0; s < slots_.size();) {
    if (!both_dense(s)) {
      add_slice(s++, other);
      continue;
    }
    size_t end = s + 1;  // neighbours in one operation; the gaps between them hold zeros
    while (end < slots_.size() && both_dense(end)) ++end;
    const auto& last = layout_->slices[end - 1];
    const int64_t begin = layout_->slices[s].offset, length = last.offset + last.numel - begin;
    flat_.narrow(0, begin, length).add_(other.flat_.narrow(0, begin, length).to(flat_.device()));
    s = end;
  }
}

void FlatGradients::assign(const FlatGradients& other) {
  clear();
  add(other);
}

void FlatGradients::fill_absent() {
  c10::NoGradGuard no_grad;
  for (auto& slot : slots_)
    if (!slot.written && !slot.by_rows) {
      slot.gradient->zero_();
      slot.by_rows = true;
      slot.rows.clear();
    }
}

std::vector<char> FlatGradients::used() const {
  std::vector<char> used;
  for (const auto& slot : slots_) used.push_back(char(slot.written));
  return used;
}

GradientCapture::GradientCapture(std::vector<at::Tensor> parameters,
                                 std::shared_ptr<const FlatLayout> layout)
    : parameters_(std::move(parameters)), layout_(std::move(layout)) {
  if (parameters_.empty()) return;
  for (size_t s = 0; s < layout_->slices.size(); ++s) {
    auto accumulator =
        torch::autograd::impl::grad_accumulator(parameters_[layout_->slices[s].parameter]);
    hook_keys_.push_back(
        accumulator->add_post_hook(std::make_unique<AfterAccumulation>([this, s] { take(s); })));
    accumulators_.push_back(std::move(accumulator));
  }
}

GradientCapture::~GradientCapture() {
  end();
  for (size_t s = 0; s < accumulators_.size(); ++s) accumulators_[s]->del_post_hook(hook_keys_[s]);
}

void GradientCapture::offer_slots(bool offer) {
  if (parameters_.empty()) return;
  for (size_t s = 0; s < layout_->slices.size(); ++s)
    offer_gradient_slot(parameters_[layout_->slices[s].parameter].unsafeGetTensorImpl(),
                        offer ? &target_->slots_[s] : nullptr);
}

void GradientCapture::begin(FlatGradients& target, std::function<void(size_t)> arrived) {
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
  target.clear();
  target_ = &target;
  arrived_ = std::move(arrived);
  offer_slots(true);
}

void GradientCapture::end() {
  if (!target_) return;
  offer_slots(false);
  for (auto& slot : target_->slots_)
    if (slot.written && slot.by_rows) sort_unique(slot.rows);
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
  target_ = nullptr;
  arrived_ = {};
}

void GradientCapture::take(size_t s) {
  if (!target_) return;
  auto& gradient = parameters_[layout_->slices[s].parameter].mutable_grad();
  auto& slot = target_->slots_[s];
  auto& slice = target_->slices_[s];
  if (!gradient.defined() && !slot.written) return;
  if (gradient.defined() && gradient.data_ptr() != slice.data_ptr()) {
    // Autograd keeps the first gradient of a computation as it came, and with create_graph a new
    // one each time: bring it into the buffer, so that what follows is added there. What operators
    // left in the slot before is the rest of it.
    c10::NoGradGuard no_grad;
    if (slot.written && !slot.by_autograd) {
      slice.add_(gradient);
    } else {
      slice.copy_(gradient);
    }
    gradient = slice.variable_data();
  }
  if (gradient.defined()) {
    slot.by_autograd = true;
    slot.by_rows = false;
    slot.rows.clear();
  }
  slot.written = true;
  if (arrived_) arrived_(s);
}

}  // namespace yoke
