// A small network with everything that makes data parallelism hard: an embedding whose weight is
// tied to the output, dropout of two kinds, batch normalisation, a branch that only some rows take,
// a parameter that nobody uses, rows without a target. Plain torch::nn, as users write it.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "yoke/core/digest.h"
#include "yoke/core/error.h"
#include "yoke/device/devices.h"
#include "yoke/train/adamw.h"
#include "yoke/train/step.h"

namespace yoke::testing {

struct ContractNet : torch::nn::Module {
  static constexpr int64_t vocabulary = 40, width = 16;
  struct Parts {
    bool norm = true;
    double dropout = 0.3;
  };

  explicit ContractNet(Parts which) : parts(which) {
    table = register_module("table", torch::nn::Embedding(vocabulary, width));
    // Without a bias, whose true gradient before a normalisation is zero: only noise would be left.
    fc = register_module("fc",
                         torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    dropout = register_module("dropout", torch::nn::Dropout(parts.dropout));
    alpha = register_module("alpha", torch::nn::AlphaDropout(parts.dropout));
    out = register_module("out", torch::nn::Linear(width, width));
    even = register_parameter("even", at::ones({width}));
    odd = register_parameter("odd", at::ones({width}) * 2);
    never = register_parameter("never", at::ones({7}));
    tied = register_parameter("tied", table->weight);  // a second name of the same tensor
  }

  // ids (B, 4), labels (B) with -1 for rows without a target: the sum of the target losses.
  at::Tensor loss_sum(const at::Tensor& ids, const at::Tensor& labels) {
    auto x = fc(dropout(table(ids).mean(1)));
    if (parts.norm) x = norm(x);
    const auto is_even = ids.select(1, 0).remainder(2).eq(0);
    if (is_even.any().item<bool>()) x = x + is_even.unsqueeze(1) * even;
    if (is_even.logical_not().any().item<bool>()) x = x + is_even.logical_not().unsqueeze(1) * odd;
    x = out(alpha(x.relu()));
    return torch::nn::functional::cross_entropy(
        x.matmul(table->weight.t()), labels,
        torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
  }

  const Parts parts;
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear fc{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::AlphaDropout alpha{nullptr};
  at::Tensor even, odd, never, tied;
};

struct Batch {
  at::Tensor ids, labels;
  int64_t targets = 0;
};

// Rows of a step, the same for everybody. `evens`: all rows take the branch for even ones.
inline Batch batch_of(int64_t step, int64_t rows, bool evens) {
  at::manual_seed(uint64_t(1000 + step));
  auto ids = at::randint(0, ContractNet::vocabulary, {rows, 4}, at::kLong);
  if (evens) ids.sub_(ids.remainder(2));
  auto labels = at::randint(0, ContractNet::vocabulary, {rows}, at::kLong);
  labels.masked_fill_(at::arange(rows).remainder(5).eq(3), -1);
  const auto targets = labels.ge(0).sum().item<int64_t>();
  return {ids, labels, targets};
}

struct RunOptions {
  std::string devices = "cpu";
  bool exact = false;
  int64_t shards = 8;  // exact
  int64_t rows = 32;
  int64_t micro_rows = 1000;
  int64_t bucket_bytes = int64_t{25} << 20;
  int64_t steps = 5;
  ContractNet::Parts parts;
  bool evens = false;
  double max_grad_norm = 0.5;
};

struct RunOutcome {
  std::vector<double> losses, norms;  // loss: per target
  std::vector<at::Tensor> parameters, buffers;
  std::string digest;  // of parameters, moments and buffers
  std::shared_ptr<ContractNet> net;
  std::vector<std::string> replica_buffers;  // a digest for each replica
};

inline std::string digest_of(const std::vector<at::Tensor>& tensors) {
  Digest digest;
  for (const auto& tensor : tensors) {
    const auto host = tensor.detach().cpu().contiguous();
    digest.add(host.const_data_ptr(), host.nbytes());
  }
  return digest.hex();
}

inline RunOutcome train_net(const RunOptions& o) {
  at::manual_seed(1);
  auto net = std::make_shared<ContractNet>(o.parts);
  ReplicaSet replicas(
      net, [&o] { return std::make_shared<ContractNet>(o.parts); }, parse_devices(o.devices),
      {.bucket_bytes = o.bucket_bytes,
       .group = [](const std::string& name) { return name.find("bias") != std::string::npos; }});
  RunOutcome outcome;
  outcome.net = net;
  for (int64_t step = 0; step < o.steps; ++step) {
    const auto batch = batch_of(step, o.rows, o.evens);
    const int64_t shards = o.exact ? o.shards : replicas.size();
    StepInput input{.exact = o.exact,
                    .step = step,
                    .seed = 9,
                    .targets = double(batch.targets),
                    .learning_rate = 1e-2,
                    .max_grad_norm = o.max_grad_norm};
    std::vector<std::vector<at::Tensor>> rows;  // of each micro-batch, by shard
    for (const auto& part : at::arange(o.rows).tensor_split(shards)) {
      rows.emplace_back();
      if (part.size(0) > 0)
        for (const auto& micro : part.split(o.micro_rows)) rows.back().push_back(micro);
      input.micro_batches.push_back(rows.back().size());
    }
    const auto output = run_step(
        replicas, input, {.weight_decay = {0.1, 0.0}},
        {.forward =
             [&](const Worker& worker, size_t shard, size_t m) {
               const auto& which = rows[shard][m];
               auto loss = static_cast<ContractNet&>(worker.module)
                               .loss_sum(batch.ids.index_select(0, which).to(worker.device),
                                         batch.labels.index_select(0, which).to(worker.device));
               return MicroLoss{loss, loss.item<double>()};
             },
         .slots =
             [&](size_t shard, size_t m) {
               const auto& which = rows[shard][m];
               return std::vector<int64_t>(which.data_ptr<int64_t>(),
                                           which.data_ptr<int64_t>() + which.numel());
             },
         .rows = [](int, size_t) { return std::string("rows"); }});
    outcome.losses.push_back(output.loss_sum / double(batch.targets));
    outcome.norms.push_back(output.grad_norm);
  }
  for (auto& p : net->parameters()) outcome.parameters.push_back(p.detach().cpu().clone());
  for (auto& b : net->buffers()) outcome.buffers.push_back(b.cpu().clone());
  std::vector<at::Tensor> all = outcome.parameters;
  all.insert(all.end(), outcome.buffers.begin(), outcome.buffers.end());
  for (int rank = 0; rank < replicas.size(); ++rank) {
    auto& replica = replicas.replica(rank);
    outcome.replica_buffers.push_back(digest_of(replica.module().buffers()));
    const auto state = std::static_pointer_cast<AdamWState>(replica.memory().optimizer);
    if (rank == 0) all.insert(all.end(), {state->exp_avg, state->exp_avg_sq});
  }
  outcome.digest = digest_of(all);
  return outcome;
}

// N = 1, 2, 3, 4, 8 on the CPU and on simulated devices, and a mixture.
inline const std::vector<std::string>& every_device() {
  static const std::vector<std::string> list{"cpu",   "2xcpu", "3xcpu",    "4xcpu",
                                             "8xcpu", "1xsim", "2xsim",    "3xsim",
                                             "4xsim", "8xsim", "sim:0+cpu"};
  return list;
}

}  // namespace yoke::testing
