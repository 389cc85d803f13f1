// Brings one replica's gradients into its flat buffer and sums them over all replicas while
// backward still runs.
//
//   reducer.begin_step();
//   for (each micro-batch) { reducer.begin_backward(is_last); loss.backward(); }
//   reducer.finish();           // all sums are there
//
// Used by the replica's thread; the hooks run on whatever thread autograd uses for its device.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "yoke/core/gradient_slots.h"
#include "yoke/parallel/coordination.h"
#include "yoke/parallel/flat_layout.h"

namespace yoke {

class Reducer {
 public:
  // `parameters` are the replica's own, in the order that the layout was made from. With
  // `root_only` the sums are written to rank 0 alone (all replicas share its memory).
  Reducer(std::vector<at::Tensor> parameters, std::shared_ptr<const FlatLayout> layout,
          c10::intrusive_ptr<c10d::Backend> backend, bool root_only);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Forgets all gradients (they become undefined).
  void begin_step();

  // Announces a backward. In the last one of a step a bucket leaves as soon as it is full.
  void begin_backward(bool last);

  // Sends what is left (zeros for parameters that were not used here) and waits for all sums.
  void finish();

  // (layout.total) float, on the replica's device: the sums, after finish().
  const at::Tensor& gradients() const { return flat_; }

  // By slice: whether any replica has used the parameter in this step. Valid after finish().
  const std::vector<char>& used() const { return used_; }

 private:
  void offer_slots(bool offer);
  void arrived(size_t slice);
  void send(size_t bucket);

  std::vector<at::Tensor> parameters_;
  std::shared_ptr<const FlatLayout> layout_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  const bool root_only_;
  at::Tensor flat_;
  std::vector<at::Tensor> slices_;  // views of flat_ in the parameters' shapes
  // AccumulateGrad nodes are held weakly by their tensors: kept alive here, with our hooks on them.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(std::declval<at::Tensor>()))>
      accumulators_;
  std::vector<uintptr_t> hook_keys_;
  std::vector<GradientSlot> slots_;  // by slice; offered from begin_step() to finish()
  std::vector<char> touched_;        // by slice, in this step
  std::vector<char> used_;
  std::vector<size_t> missing_;  // by bucket: slices without a gradient in this backward
  bool last_ = false;
  OrderedLaunch order_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace yoke
