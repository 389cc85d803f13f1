#include "yoke/parallel/reducer.h"

#include <ATen/ops/empty.h>

namespace yoke {

Reducer::Reducer(std::shared_ptr<GradientCapture> capture, std::shared_ptr<const FlatLayout> layout,
                 c10::intrusive_ptr<c10d::Backend> backend, bool root_only)
    : capture_(std::move(capture)),
      layout_(std::move(layout)),
      backend_(std::move(backend)),
      root_only_(root_only),
      gradients_(layout_, capture_->parameters()),
      used_(layout_->slices.size(), 0),
      missing_(layout_->buckets.size(), 0),
      order_(layout_->buckets.size(), [this](size_t bucket) { send(bucket); }) {}

void Reducer::begin_step() {
  order_.reset();
  works_.clear();
  last_ = false;
  capture_->begin(gradients_, [this](size_t slice) { arrived(slice); });
}

void Reducer::begin_backward(bool last) {
  last_ = last;
  if (last)
    for (size_t b = 0; b < missing_.size(); ++b)
      missing_[b] = layout_->buckets[b].end_slice - layout_->buckets[b].first_slice;
}

void Reducer::arrived(size_t s) {
  const size_t bucket = layout_->bucket_of[s];
  if (last_ && --missing_[bucket] == 0) order_.ready(bucket);
}

void Reducer::send(size_t bucket) {
  const auto& range = layout_->buckets[bucket];
  std::vector<at::Tensor> tensors{
      gradients_.flat().narrow(0, range.begin, range.end - range.begin)};
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
  capture_->end();
  used_ = gradients_.used();
  gradients_.fill_absent();
  order_.finish();
  if (layout_->total == 0) return;

  auto marks = at::empty({int64_t(used_.size())}, at::kInt);
  for (size_t s = 0; s < used_.size(); ++s) marks.mutable_data_ptr<int>()[s] = used_[s];
  std::vector<at::Tensor> tensors{marks.to(gradients_.flat().device())};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  auto marked = backend_->allreduce(tensors, options);
  for (auto& work : works_) work->wait();
  works_.clear();
  marked->wait();
  marks = tensors[0].cpu();
  const bool received = backend_->getSize() > 1 && (!root_only_ || backend_->getRank() == 0);
  for (size_t s = 0; s < used_.size(); ++s) {
    used_[s] = char(marks.const_data_ptr<int>()[s] != 0);
    if (received && used_[s]) gradients_.mark_dense(s);  // the others' gradients were written there
  }
}

}  // namespace yoke
