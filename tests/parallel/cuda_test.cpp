// The CUDA kernel of parallel/flat_ops beside the CPU's, bit for bit: run on the host everywhere,
// and on a GPU where one is.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "yoke/parallel/flat_ops.h"

#ifndef YOKE_SANITIZED  // sanitisers do not know fibres
#include "tests/cuda_on_host.h"
//
#include "yoke/parallel/flat_ops_cuda.cu"
#endif
#ifdef YOKE_CUDA_PLUGIN
#include "tests/cuda_plugin.h"
#endif

namespace yoke {
namespace {

constexpr int64_t lengths[] = {0, 1, 15, 255, 257, 4100, flat_chunk, 3 * flat_chunk + 777};

#ifndef YOKE_SANITIZED
TEST(CudaKernels, run_on_the_host_sums_of_squares_have_the_cpu_kernels_bits) {
  for (const int64_t n : lengths) {
    const auto x = at::randn({n});
    auto sums = at::full({chunk_count(n)}, -7, at::kDouble);
    ASSERT_EQ(
        cuda_kernels::chunk_square_sums(x.const_data_ptr<float>(), sums.mutable_data_ptr<double>(),
                                        n, flat_chunk, nullptr),
        0);
    EXPECT_TRUE(at::equal(sums, chunk_square_sums(x))) << n;
  }
}
#endif

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
