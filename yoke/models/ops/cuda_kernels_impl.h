// The CUDA kernels of this folder as plain functions over device pointers, so that the .cu files do
// without LibTorch (they compile in seconds) and ops_cuda.cpp without nvcc. `stream` is a
// cudaStream_t; each returns at once, with the launch's error code (0: none).
#pragma once

#include <cstdint>

#include "yoke/models/ops/dropout_element_impl.h"

namespace yoke::cuda_kernels {

// x, y (tokens, channels), slots and positions (tokens).
int row_dropout(const float* x, float* y, const int64_t* slots, const int64_t* positions,
                int64_t tokens, int64_t channels, uint32_t step, const DropoutMask& mask,
                void* stream);

// table (count, size), grad (tokens, size), ids (tokens).
int embedding_add(float* table, const float* grad, const int64_t* ids, int64_t count,
                  int64_t tokens, int64_t size, int64_t padding_idx, void* stream);

}  // namespace yoke::cuda_kernels
