#include "yoke/models/ops/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "yoke/core/philox_lanes.h"

// The single-precision matrix product of the BLAS inside libtorch_cpu (Fortran interface, column
// major, as the reference BLAS documents it).
extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace yoke {
namespace {

// Row major: C (m, n) = alpha * op(A) op(B) + beta * C, leading dimensions in floats.
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
          const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
          int64_t ldc) {
  const int m_ = int(m), n_ = int(n), k_ = int(k), lda_ = int(lda), ldb_ = int(ldb),
            ldc_ = int(ldc);
  sgemm_(transpose_b ? "T" : "N", transpose_a ? "T" : "N", &n_, &m_, &k_, &alpha, b, &ldb_, a,
         &lda_, &beta, c, &ldc_);
}

// exp(x) for x <= 0 to about one unit in the last place: 2^k times a polynomial on [-ln2/2, ln2/2]
// (degree 6 minimax, Cephes' coefficients); below -87.3 it is 0. Branch-free, so that it
// vectorises.
YOKE_INLINE float exp_nonpositive(float x) {
  const float clamped = std::max(x, -87.3f);
  const float k = std::nearbyintf(clamped * 1.44269504088896341f);
  float r = clamped - k * 0.693359375f;
  r -= k * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t bits = (int32_t(k) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.3f ? 0.f : p * power;
}

// Each row of s (rows, n) becomes its softmax; lse[i * lse_stride] = log(sum(exp(row i))).
YOKE_MULTIVERSION void softmax_rows(float* s, int64_t rows, int64_t n, float* lse,
                                    int64_t lse_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    float* row = s + i * n;
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < n; ++j) top = row[j] > top ? row[j] : top;
    // Sixteen partial sums in a fixed order: vectorisable, the same for every instruction set.
    float partial[16] = {};
    int64_t j = 0;
    for (; j + 16 <= n; j += 16)
      for (int l = 0; l < 16; ++l) {
        row[j + l] = exp_nonpositive(row[j + l] - top);
        partial[l] += row[j + l];
      }
    for (int l = 0; j < n; ++j, ++l) {
      row[j] = exp_nonpositive(row[j] - top);
      partial[l] += row[j];
    }
    for (int width = 8; width; width /= 2)
      for (int l = 0; l < width; ++l) partial[l] += partial[l + width];
    const float sum = partial[0], inverse = 1 / sum;
    for (j = 0; j < n; ++j) row[j] *= inverse;
    lse[i * lse_stride] = top + std::log(sum);
  }
}

// Probabilities again from scores and lse.
YOKE_MULTIVERSION void exp_rows(float* s, int64_t rows, int64_t n, const float* lse,
                                int64_t lse_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    const float shift = lse[i * lse_stride];
    float* row = s + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] = exp_nonpositive(std::min(row[j] - shift, 0.f));
  }
}

// keep (queries, n) = 0 or keep_scale, for queries at positions first, first + 1, … and their n
// keys. Short rows leave most lanes of a Philox block idle, so the blocks run on from query to
// query.
YOKE_MULTIVERSION void mask_rows(const AttentionShape& shape, uint32_t slot, int64_t first,
                                 int64_t queries, int64_t head, int64_t n, float* keep) {
  const int64_t blocks = (n + 3) / 4, all = queries * blocks;
  uint32_t words[4][philox_lanes];
  float drawn[4 * philox_lanes];
  int64_t query = 0, block = 0;
  for (int64_t begin = 0; begin < all; begin += philox_lanes) {
    const int64_t lanes = std::min<int64_t>(philox_lanes, all - begin);
    int64_t q = query, b = block;
    for (int64_t i = 0; i < philox_lanes; ++i) {
      words[0][i] = shape.step;
      words[1][i] = slot;
      words[2][i] = uint32_t(first + q);
      words[3][i] = uint32_t(head << 20) + uint32_t(b);
      if (++b == blocks) {
        b = 0;
        ++q;
      }
    }
    philox_rounds(words, shape.key);
    for (int i = 0; i < philox_lanes; ++i)
      for (int w = 0; w < 4; ++w)
        drawn[4 * i + w] = words[w][i] < shape.threshold ? 0.f : shape.keep_scale;
    for (int64_t i = 0; i < lanes; ++i) {
      float* to = keep + query * n + 4 * block;
      const int64_t size = std::min<int64_t>(4, n - 4 * block);
      for (int64_t w = 0; w < size; ++w) to[w] = drawn[4 * i + w];
      if (++block == blocks) {
        block = 0;
        ++query;
      }
    }
  }
}

YOKE_MULTIVERSION void multiply(float* a, const float* b, int64_t n) {
  for (int64_t j = 0; j < n; ++j) a[j] *= b[j];
}

// For one query: dp becomes p * (dp * keep - delta) * scale, then p becomes p * keep.
YOKE_MULTIVERSION void softmax_backward_row(float* p, const float* keep, float* dp, float delta,
                                            float scale, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const float probability = p[j];
    dp[j] = probability * (dp[j] * keep[j] - delta) * scale;
    p[j] = probability * keep[j];
  }
}

YOKE_MULTIVERSION float dot(const float* a, const float* b, int64_t n) {
  float partial[16] = {};
  int64_t j = 0;
  for (; j + 16 <= n; j += 16)
    for (int l = 0; l < 16; ++l) partial[l] += a[j + l] * b[j + l];
  for (int l = 0; j < n; ++j, ++l) partial[l] += a[j] * b[j];
  for (int width = 8; width; width /= 2)
    for (int l = 0; l < width; ++l) partial[l] += partial[l + width];
  return partial[0];
}

constexpr int64_t query_block = 128;

// Scratch of one thread, grown on demand and kept.
float* scratch(int which, int64_t n) {
  thread_local std::vector<float> buffers[4];
  auto& buffer = buffers[which];
  if (int64_t(buffer.size()) < n + 16) buffer.resize(size_t(n) + 16);
  // 64-byte aligned: the BLAS may choose its path by alignment.
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  return reinterpret_cast<float*>((address + 63) & ~uintptr_t{63});
}

}  // namespace

void attend(const AttentionShape& shape, const AttentionForward& tensors, int64_t begin,
            int64_t end, uint32_t slot, int64_t head) {
  const int64_t length = end - begin, d = shape.head_size, stride = shape.stride;
  const int64_t offset = begin * stride + head * d;
  const float* k = tensors.k + offset;
  const float* v = tensors.v + offset;
  for (int64_t first = 0; first < length; first += query_block) {
    const int64_t queries = std::min(query_block, length - first);
    float* s = scratch(0, queries * length);
    gemm(false, true, queries, length, d, shape.scale, tensors.q + offset + first * stride, stride,
         k, stride, 0, s, length);
    softmax_rows(s, queries, length, tensors.lse + (begin + first) * shape.heads + head,
                 shape.heads);
    if (shape.threshold) {
      float* keep = scratch(1, queries * length);
      mask_rows(shape, slot, first, queries, head, length, keep);
      multiply(s, keep, queries * length);
    }
    gemm(false, false, queries, d, length, 1, s, length, v, stride, 0,
         tensors.out + offset + first * stride, stride);
  }
}

void attend_backward(const AttentionShape& shape, const AttentionBackward& tensors, int64_t begin,
                     int64_t end, uint32_t slot, int64_t head) {
  const int64_t length = end - begin, d = shape.head_size, stride = shape.stride;
  const int64_t offset = begin * stride + head * d;
  const float* k = tensors.k + offset;
  const float* v = tensors.v + offset;
  for (int64_t first = 0; first < length; first += query_block) {
    const int64_t queries = std::min(query_block, length - first);
    const float beta = first == 0 ? 0.f : 1.f;
    const int64_t here = offset + first * stride;
    const float* q = tensors.q + here;
    const float* grad = tensors.grad_out + here;
    float* p = scratch(0, queries * length);
    float* dp = scratch(2, queries * length);
    gemm(false, true, queries, length, d, shape.scale, q, stride, k, stride, 0, p, length);
    exp_rows(p, queries, length, tensors.lse + (begin + first) * shape.heads + head, shape.heads);
    gemm(false, true, queries, length, d, 1, grad, stride, v, stride, 0, dp, length);
    float* keep = scratch(1, queries * length);
    if (shape.threshold) {
      mask_rows(shape, slot, first, queries, head, length, keep);
    } else {
      std::fill_n(keep, queries * length, 1.f);
    }
    for (int64_t i = 0; i < queries; ++i) {
      // sum_j p_ij keep_ij dp_ij is the inner product of the output with its gradient.
      const float delta = dot(grad + i * stride, tensors.out + here + i * stride, d);
      softmax_backward_row(p + i * length, keep + i * length, dp + i * length, delta, shape.scale,
                           length);
    }
    gemm(true, false, length, d, queries, 1, p, length, grad, stride, beta, tensors.grad_v + offset,
         stride);
    gemm(false, false, queries, d, length, 1, dp, length, k, stride, 0, tensors.grad_q + here,
         stride);
    gemm(true, false, length, d, queries, 1, dp, length, q, stride, beta, tensors.grad_k + offset,
         stride);
  }
}

}  // namespace yoke
