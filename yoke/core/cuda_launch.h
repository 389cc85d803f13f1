// Starts a CUDA kernel by a function call: the <<<…>>> that only nvcc reads stands here alone, so
// that tests can compile the .cu files for the host, where tests/cuda_on_host.h has a twin of this
// function.
//
//   return launch_kernel(kernel, dim3(blocks), threads, stream, x, y, n);
#pragma once

#ifdef __CUDACC__

namespace yoke {

// Returns at once, with the launch's error code (0: none).
template <class... Parameters, class... Arguments>
int launch_kernel(void (*kernel)(Parameters...), dim3 blocks, int threads, void* stream,
                  Arguments... arguments) {
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return int(cudaGetLastError());
}

}  // namespace yoke

#endif
