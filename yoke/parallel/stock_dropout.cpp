// torch's dropout layers inside a replica (replica_context.h): masks drawn by counter, so that a
// row has the same mask on any number of devices.
//
// Key (seed, number of the call in this forward), counter (step, slot of the row, block of four
// elements; last word odd where dimension 0 is not the batch, and logical shard and micro-batch
// then take the place of the slot). Word e % 4 decides element e of the row, which is dropped when
// word < p * 2^32.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/alpha_dropout_native.h>
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/feature_alpha_dropout_native.h>
#include <ATen/ops/feature_dropout_native.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "yoke/core/multiversion.h"
#include "yoke/core/philox_lanes.h"
#include "yoke/core/random.h"
#include "yoke/parallel/replica_context.h"

namespace yoke {
namespace {

// Numbers of the streams of a seed; those of yoke's own models count layers from 0.
constexpr uint64_t first_stream = uint64_t{1} << 32;

struct KeepMask {
  PhiloxKey key;
  uint32_t step;
  uint32_t threshold;
  bool by_shard;
};

// Elements [begin, end) of one row.
YOKE_MULTIVERSION void keep_elements(float* to, int64_t begin, int64_t end, uint32_t slot,
                                     KeepMask mask) {
  uint32_t words[4][philox_lanes];
  for (int64_t at = begin; at < end; at += 4 * philox_lanes) {
    const int64_t block = at / 4;
    philox_block(mask.step, slot, uint32_t(block >> 32 << 1) | uint32_t(mask.by_shard),
                 uint32_t(block), mask.key, words);
    const int64_t count = std::min<int64_t>(4 * philox_lanes, end - at);
    for (int64_t e = 0; e < count; ++e)
      to[at + e] = words[e % 4][e / 4] < mask.threshold ? 0.f : 1.f;
  }
}

// 1 where an element stays, 0 where it is dropped: (rows, elements) for the slots of the rows.
at::Tensor counter_keep_cpu(const at::Tensor& slots_in, int64_t elements, double p, int64_t key,
                            int64_t step, bool by_shard) {
  constexpr int64_t chunk = 4 * philox_lanes * 16;  // elements that one thread takes at a time
  const auto slots = slots_in.contiguous();
  const int64_t rows = slots.numel(), chunks = (elements + chunk - 1) / chunk;
  auto keep = at::empty({rows, elements}, slots.options().dtype(at::kFloat));
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  float* to = keep.mutable_data_ptr<float>();
  const KeepMask mask{key_of(key), uint32_t(step), drop_threshold(p), by_shard};
  at::parallel_for(0, rows * chunks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / chunks, first = i % chunks * chunk;
      keep_elements(to + row * elements, first, std::min(first + chunk, elements),
                    uint32_t(slot[row]), mask);
    }
  });
  return keep;
}

// The kernel runs on the host for devices that have none of their own: the same bits.
at::Tensor counter_keep_elsewhere(const at::Tensor& slots, int64_t elements, double p, int64_t key,
                                  int64_t step, bool by_shard) {
  return counter_keep_cpu(slots.cpu(), elements, p, key, step, by_shard).to(slots.device());
}

// The mask for x in the given shape (x's own, or (N, C, 1, …) for whole features).
at::Tensor keep_mask(ReplicaContext& here, const at::Tensor& x, std::vector<int64_t> shape,
                     double p) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("yoke::counter_keep", "")
                             .typed<decltype(counter_keep_cpu)>();
  const int64_t key =
      key_bits(philox_key(here.seed, first_stream + uint64_t(here.dropout_calls++)));
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  const bool batch_first =
      !here.slots.empty() && x.dim() > 0 && x.size(0) == int64_t(here.slots.size());
  const std::vector<int64_t> slots =
      batch_first ? here.slots : std::vector<int64_t>{here.shard | int64_t(here.micro) << 16};
  auto on_host = at::empty({int64_t(slots.size())}, at::kLong);
  std::copy(slots.begin(), slots.end(), on_host.mutable_data_ptr<int64_t>());
  return op
      .call(on_host.to(x.device()), elements / int64_t(slots.size()), p, key, here.step,
            !batch_first)
      .view(shape)
      .to(x.scalar_type());
}

std::vector<int64_t> features_of(const at::Tensor& x) {
  TORCH_CHECK(x.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
  std::vector<int64_t> shape(size_t(x.dim()), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return shape;
}

// Whether a call is one of ours: inside a replica, in training, with something to drop.
ReplicaContext* context_of(const at::Tensor& x, double p, bool train) {
  return train && p > 0 && p < 1 && x.numel() > 0 ? ReplicaContext::current() : nullptr;
}

enum class Drop { elements, features };
enum class Kind { plain, alpha };

// Scale and shift of the elements; plain dropout has no shift.
struct Mask {
  at::Tensor scale, shift;
};

template <Drop what, Kind kind>
Mask draw_mask(ReplicaContext& here, const at::Tensor& x, double p) {
  auto keep = keep_mask(here, x, what == Drop::features ? features_of(x) : x.sizes().vec(), p);
  if constexpr (kind == Kind::plain) {
    return {keep.mul_(1 / (1 - p)), {}};
  } else {
    // Klambauer et al. 2017: dropped elements take the value that keeps mean and variance.
    constexpr double alpha = 1.7580993408473766;
    const double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
    return {keep * a, (keep - 1) * (alpha * a) + alpha * a * p};
  }
}

// `native` is PyTorch's own function.
template <auto native, Drop what, Kind kind>
at::Tensor drop(const at::Tensor& x, double p, bool train) {
  auto* here = context_of(x, p, train);
  if (!here) return native(x, p, train);
  const auto mask = draw_mask<what, kind>(*here, x, p);
  return kind == Kind::plain ? x * mask.scale : x * mask.scale + mask.shift;
}

template <auto native, Drop what, Kind kind>
at::Tensor& drop_(at::Tensor& x, double p, bool train) {
  auto* here = context_of(x, p, train);
  if (!here) return native(x, p, train);
  const auto mask = draw_mask<what, kind>(*here, x, p);
  x.mul_(mask.scale);
  return kind == Kind::plain ? x : x.add_(mask.shift);
}

void register_all(torch::Library& m) {
  namespace native = at::native;
  m.impl("dropout", drop<native::dropout, Drop::elements, Kind::plain>);
  m.impl("dropout_", drop_<native::dropout_, Drop::elements, Kind::plain>);
  m.impl("feature_dropout", drop<native::feature_dropout, Drop::features, Kind::plain>);
  m.impl("feature_dropout_", drop_<native::feature_dropout_, Drop::features, Kind::plain>);
  m.impl("alpha_dropout", drop<native::alpha_dropout, Drop::elements, Kind::alpha>);
  m.impl("alpha_dropout_", drop_<native::alpha_dropout_, Drop::elements, Kind::alpha>);
  m.impl("feature_alpha_dropout", drop<native::feature_alpha_dropout, Drop::features, Kind::alpha>);
  m.impl("feature_alpha_dropout_",
         drop_<native::feature_alpha_dropout_, Drop::features, Kind::alpha>);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(yoke, m) {
  m.def(
      "counter_keep(Tensor slots, int elements, float p, int key, int step, bool by_shard) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(yoke, CPU, m) { m.impl("counter_keep", counter_keep_cpu); }
TORCH_LIBRARY_IMPL(yoke, CUDA, m) { m.impl("counter_keep", counter_keep_elsewhere); }
TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) { register_all(m); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { register_all(m); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) { register_all(m); }

}  // namespace yoke
