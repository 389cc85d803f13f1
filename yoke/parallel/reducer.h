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

#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "yoke/parallel/coordination.h"
#include "yoke/parallel/flat_gradients.h"
#include "yoke/parallel/flat_layout.h"

namespace yoke {

class Reducer {
 public:
  // `capture` is of the replica's own parameters. With `root_only` the sums are written to rank 0
  // alone (all replicas share its memory).
  Reducer(std::shared_ptr<GradientCapture> capture, std::shared_ptr<const FlatLayout> layout,
          c10::intrusive_ptr<c10d::Backend> backend, bool root_only);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Forgets all gradients (they become undefined).
  void begin_step();

  // Announces a backward. In the last one of a step a bucket leaves as soon as it is full.
  void begin_backward(bool last);

  // Sends what is left (zeros for parameters that were not used here) and waits for all sums.
  void finish();

  // Gives up a step that has failed: gradients are directed nowhere.
  void cancel() { capture_->end(); }

  // The sums, after finish().
  FlatGradients& gradients() { return gradients_; }

  // By slice: whether any replica has used the parameter in this step. Valid after finish().
  const std::vector<char>& used() const { return used_; }

 private:
  void arrived(size_t slice);
  void send(size_t bucket);

  std::shared_ptr<GradientCapture> capture_;
  std::shared_ptr<const FlatLayout> layout_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  const bool root_only_;
  FlatGradients gradients_;
  std::vector<char> used_;
  std::vector<size_t> missing_;  // by bucket: slices without a gradient in this backward
  bool last_ = false;
  OrderedLaunch order_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace yoke
