// The gradients of one computation (a replica's share of a step, or one logical shard) in one flat
// buffer, and how they get there.
//
//   GradientCapture capture(parameters, layout);      // once for a module
//   FlatGradients gradients(layout, shapes, device);
//   capture.begin(gradients);
//   loss.backward();
//   capture.end();                                     // gradients.flat() holds them
//   gradients.add(others);
//
// A slice that nothing was written to is absent: it counts as zeros and costs nothing to add.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "yoke/core/gradient_slots.h"
#include "yoke/parallel/flat_layout.h"

namespace yoke {

class FlatGradients {
 public:
  // `parameters` in the order that the layout was made from; only their shapes and device count.
  FlatGradients(std::shared_ptr<const FlatLayout> layout,
                const std::vector<at::Tensor>& parameters);
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  c10::Device device() const { return flat_.device(); }
  // (layout.total) float. Stale where a slice is absent.
  const at::Tensor& flat() const { return flat_; }
  const at::Tensor& slice(size_t s) const { return slices_[s]; }
  bool has(size_t s) const { return slots_[s].written; }

  // Makes all slices absent.
  void clear();

  // this += other, from any device; elementwise in float, so the sum of two is the same in either
  // order. `other` keeps its values.
  void add(const FlatGradients& other);

  // this = other, from any device.
  void assign(const FlatGradients& other);

  // Writes zeros where slices are absent.
  void fill_absent();

  // For who writes into the slice from outside.
  void mark_dense(size_t s) {
    slots_[s].written = true;
    slots_[s].by_rows = false;
    slots_[s].rows.clear();
  }

  // By slice: whether it is there.
  std::vector<char> used() const;

 private:
  friend class GradientCapture;
  void add_slice(size_t s, const FlatGradients& other);
  at::Tensor row_tensor(const std::vector<int64_t>& rows) const;

  std::shared_ptr<const FlatLayout> layout_;
  at::Tensor flat_;
  std::vector<at::Tensor> slices_;  // views of flat_ in the parameters' shapes
  std::vector<GradientSlot> slots_;
};

// Directs the gradients of a module's parameters into a FlatGradients: operators that know gradient
// slots write there, the rest comes through hooks on AccumulateGrad. Used by one thread at a time;
// the hooks run on whatever thread autograd uses for the device.
class GradientCapture {
 public:
  GradientCapture(std::vector<at::Tensor> parameters, std::shared_ptr<const FlatLayout> layout);
  ~GradientCapture();
  GradientCapture(const GradientCapture&) = delete;
  GradientCapture& operator=(const GradientCapture&) = delete;

  // From here on gradients go to `target`, which is cleared and outlives the capture's use of it.
  // `arrived` is called for every slice that a backward has brought up to date.
  void begin(FlatGradients& target, std::function<void(size_t slice)> arrived = {});
  void end();

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  void offer_slots(bool offer);
  void take(size_t slice);

  std::vector<at::Tensor> parameters_;
  std::shared_ptr<const FlatLayout> layout_;
  // AccumulateGrad nodes are held weakly by their tensors: kept alive here, with our hooks on them.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(std::declval<at::Tensor>()))>
      accumulators_;
  std::vector<uintptr_t> hook_keys_;
  FlatGradients* target_ = nullptr;
  std::function<void(size_t)> arrived_;
};

}  // namespace yoke
