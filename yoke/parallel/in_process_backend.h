// A c10d backend whose ranks are threads of one process, over any devices: CPU, simulated, mixed.
// No call blocks: the last rank to arrive at a collective does its work, in rank order, and wait()
// on the returned Work waits for that. Ranks must call the same collectives in the same order.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "yoke/parallel/coordination.h"

namespace yoke {

// Waits for what this thread has queued on a device with streams: only then may another thread read
// it.
void synchronize(c10::Device device);

class InProcessBackend : public c10d::Backend {
 public:
  // All ranks of a group share `meeting`, whose world is their number.
  InProcessBackend(int rank, std::shared_ptr<Rendezvous> meeting);

  const std::string getBackendName() const override { return "yoke-in-process"; }

  // Every rank's tensor becomes the SUM or MAX over all ranks, taken in rank order.
  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options = c10d::AllreduceOptions()) override;
  // Only the root rank's tensor is written.
  c10::intrusive_ptr<c10d::Work> reduce(
      std::vector<at::Tensor>& tensors,
      const c10d::ReduceOptions& options = c10d::ReduceOptions()) override;
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options = c10d::BroadcastOptions()) override;
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options = c10d::BarrierOptions()) override;

 private:
  c10::intrusive_ptr<c10d::Work> meet(c10d::OpType type, const std::string& kind,
                                      std::vector<at::Tensor> tensors,
                                      const Rendezvous::Work& work);

  std::shared_ptr<Rendezvous> meeting_;
};

}  // namespace yoke
