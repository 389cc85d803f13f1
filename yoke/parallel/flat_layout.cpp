#include "yoke/parallel/flat_layout.h"

#include <algorithm>
#include <numeric>

namespace yoke {
namespace {

constexpr int64_t alignment = 16;  // elements

int64_t align(int64_t n) { return (n + alignment - 1) / alignment * alignment; }

}  // namespace

FlatLayout FlatLayout::make(const std::vector<std::pair<int64_t, int>>& parameters,
                            int64_t bucket_elements) {
  FlatLayout layout;
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return parameters[a].second < parameters[b].second; });
  for (size_t index : order) {
    const auto [numel, group] = parameters[index];
    layout.slices.push_back({index, layout.total, numel, group});
    layout.total += align(numel);
  }

  // Backward fills the last registered parameters first, so buckets are cut from the end.
  size_t end = layout.slices.size();
  while (end > 0) {
    size_t first = end;
    int64_t elements = 0;
    do {
      elements += align(layout.slices[--first].numel);
    } while (first > 0 && elements < bucket_elements &&
             layout.slices[first - 1].group == layout.slices[end - 1].group);
    layout.buckets.push_back({first, end, layout.slices[first].offset,
                              layout.slices[end - 1].offset + align(layout.slices[end - 1].numel)});
    end = first;
  }
  // A bucket is full when its earliest registered parameter has its gradient.
  std::stable_sort(
      layout.buckets.begin(), layout.buckets.end(), [&](const FlatBucket& a, const FlatBucket& b) {
        return layout.slices[a.first_slice].parameter > layout.slices[b.first_slice].parameter;
      });
  layout.bucket_of.resize(layout.slices.size());
  for (size_t b = 0; b < layout.buckets.size(); ++b)
    for (size_t s = layout.buckets[b].first_slice; s < layout.buckets[b].end_slice; ++s)
      layout.bucket_of[s] = b;
  return layout;
}

}  // namespace yoke
