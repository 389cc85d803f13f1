#include "yoke/parallel/in_process_backend.h"

#include <ATen/Parallel.h>
#include <ATen/ops/maximum.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace yoke {
namespace {

class InProcessWork : public c10d::Work {
 public:
  InProcessWork(int rank, c10d::OpType type, std::shared_ptr<Rendezvous> meeting,
                std::shared_ptr<Rendezvous::Round> round)
      : Work(rank, type), meeting_(std::move(meeting)), round_(std::move(round)) {}
  bool isCompleted() override { return round_->done(); }
  bool isSuccess() const override { return round_->done(); }
  bool wait(std::chrono::milliseconds) override {
    meeting_->wait(*round_);
    return true;
  }

 private:
  std::shared_ptr<Rendezvous> meeting_;
  std::shared_ptr<Rendezvous::Round> round_;
};

std::vector<at::Tensor*> tensors_of(const Rendezvous::Items& items) {
  std::vector<at::Tensor*> tensors;
  for (const auto& item : items) {
    auto& list = *static_cast<std::vector<at::Tensor>*>(item.get());
    tensors.push_back(&list.front());
  }
  for (const auto* tensor : tensors)
    TORCH_CHECK(tensor->numel() == tensors[0]->numel() &&
                    tensor->scalar_type() == tensors[0]->scalar_type(),
                "ranks brought tensors of different sizes or types to one collective");
  return tensors;
}

bool plain_floats(const std::vector<at::Tensor*>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor* t) {
    return t->is_cpu() && t->scalar_type() == at::kFloat && t->is_contiguous();
  });
}

// target[i] = from[0][i] + from[1][i] + … in that order, in blocks that stay in the cache.
void sum_floats(const std::vector<const float*>& from, const std::vector<float*>& targets,
                int64_t n) {
  at::parallel_for(0, n, int64_t{1} << 15, [&](int64_t begin, int64_t end) {
    constexpr int64_t block = 2048;
    float sum[block];
    for (int64_t at = begin; at < end; at += block) {
      const int64_t size = std::min(block, end - at);
      std::copy_n(from[0] + at, size, sum);
      for (size_t r = 1; r < from.size(); ++r)
        for (int64_t i = 0; i < size; ++i) sum[i] += from[r][at + i];
      for (float* target : targets) std::copy_n(sum, size, target + at);
    }
  });
}

// Combines all into tensors[root], or into every one when root is negative.
void combine(const std::vector<at::Tensor*>& tensors, c10d::ReduceOp::RedOpType op, int root) {
  if (tensors.size() == 1) return;
  c10::NoGradGuard no_grad;
  if (op == c10d::ReduceOp::SUM && plain_floats(tensors)) {
    std::vector<const float*> from;
    std::vector<float*> targets;
    for (size_t r = 0; r < tensors.size(); ++r) {
      from.push_back(tensors[r]->const_data_ptr<float>());
      if (root < 0 || int(r) == root) targets.push_back(tensors[r]->mutable_data_ptr<float>());
    }
    sum_floats(from, targets, tensors[0]->numel());
    return;
  }
  at::Tensor total = tensors[0]->clone();
  for (size_t r = 1; r < tensors.size(); ++r) {
    const auto here = tensors[r]->to(total.device());
    if (op == c10d::ReduceOp::MAX) {
      total = at::maximum(total, here);
    } else {
      TORCH_CHECK(op == c10d::ReduceOp::SUM, "only SUM and MAX are reduced in this process");
      total.add_(here);
    }
  }
  for (size_t r = 0; r < tensors.size(); ++r)
    if (root < 0 || int(r) == root) tensors[r]->copy_(total);
  for (const auto* tensor : tensors) synchronize(tensor->device());
}

}  // namespace

void synchronize(c10::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

InProcessBackend::InProcessBackend(int rank, std::shared_ptr<Rendezvous> meeting)
    : Backend(rank, meeting->world()), meeting_(std::move(meeting)) {}

c10::intrusive_ptr<c10d::Work> InProcessBackend::meet(c10d::OpType type, const std::string& kind,
                                                      std::vector<at::Tensor> tensors,
                                                      const Rendezvous::Work& work) {
  for (const auto& tensor : tensors) synchronize(tensor.device());
  auto item = std::make_shared<std::vector<at::Tensor>>(std::move(tensors));
  auto round = meeting_->arrive(getRank(), std::move(item), kind, work);
  return c10::make_intrusive<InProcessWork>(getRank(), type, meeting_, std::move(round));
}

c10::intrusive_ptr<c10d::Work> InProcessBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                           const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "allreduce takes one tensor");
  const auto op = options.reduceOp.op_;
  return meet(c10d::OpType::ALLREDUCE, "allreduce", tensors,
              [op](Rendezvous::Items& items) { combine(tensors_of(items), op, -1); });
}

c10::intrusive_ptr<c10d::Work> InProcessBackend::reduce(std::vector<at::Tensor>& tensors,
                                                        const c10d::ReduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "reduce takes one tensor");
  const auto op = options.reduceOp.op_;
  const int root = int(options.rootRank);
  return meet(c10d::OpType::REDUCE, "reduce", tensors,
              [op, root](Rendezvous::Items& items) { combine(tensors_of(items), op, root); });
}

c10::intrusive_ptr<c10d::Work> InProcessBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                           const c10d::BroadcastOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "broadcast takes one tensor");
  const auto root = size_t(options.rootRank);
  return meet(c10d::OpType::BROADCAST, "broadcast", tensors, [root](Rendezvous::Items& items) {
    c10::NoGradGuard no_grad;
    const auto all = tensors_of(items);
    for (size_t r = 0; r < all.size(); ++r)
      if (r != root) all[r]->copy_(*all[root]);
    for (const auto* tensor : all) synchronize(tensor->device());
  });
}

c10::intrusive_ptr<c10d::Work> InProcessBackend::barrier(const c10d::BarrierOptions&) {
  return meet(c10d::OpType::BARRIER, "barrier", {}, nullptr);
}

}  // namespace yoke
