// The CUDA kernel of parallel/flat_ops: its arithmetic run on the host, its registration, and,
// where a GPU is, its bits beside the CPU's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "yoke/parallel/flat_kernels_impl.h"
#include "yoke/parallel/flat_ops.h"

#ifdef YOKE_CUDA_PLUGIN
#include "tests/cuda_plugin.h"
#endif

namespace yoke {
namespace {

constexpr int64_t lengths[] = {0, 1, 15, 255, 257, 4100, flat_chunk, 3 * flat_chunk + 777};

TEST(CudaKernels, lanes_summed_and_folded_on_the_host_give_the_cpu_kernels_bits) {
  for (const int64_t n : lengths) {
    const auto x = at::randn({n});
    const float* from = x.const_data_ptr<float>();
    auto sums = at::zeros({chunk_count(n)}, at::kDouble);
    for (int64_t first = 0; first < n; first += square_group) {
      float lanes[square_lanes];
      for (int l = 0; l < square_lanes; ++l)
        lanes[l] = square_lane(from + first, std::min(square_group, n - first), l);
      for (int width = square_lanes / 2; width; width /= 2)
        for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
      sums.mutable_data_ptr<double>()[first / flat_chunk] += lanes[0];
    }
    EXPECT_TRUE(at::equal(chunk_square_sums(x), sums)) << n;
  }
}

#ifdef YOKE_CUDA_PLUGIN
TEST(CudaKernels, the_library_has_them_where_nvcc_was_found) {
  expect_cuda_kernels({"yoke::chunk_square_sums"});
}

TEST(CudaKernels, sums_of_squares_have_the_cpu_kernels_bits) {
  if (!gpu_is_here) GTEST_SKIP() << "no GPU";
  for (const int64_t n : lengths) {
    const auto x = at::randn({n});
    const auto sums = chunk_square_sums(x.cuda());
    if (YOKE_CUDA_KERNELS)
      EXPECT_TRUE(at::equal(sums.cpu(), chunk_square_sums(x))) << n;
    else
      EXPECT_TRUE(at::allclose(sums.cpu(), chunk_square_sums(x), 1e-6)) << n;
  }
}
#endif

}  // namespace
}  // namespace yoke
