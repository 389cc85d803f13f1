// As much of CUDA as yoke's kernels use, on the host: tests include it before a .cu file and run
// the kernels without a GPU. The threads of a block are fibres: a warp runs until all of it waits,
// then another, in random order, so that a missing barrier shows; a barrier that not all reach is
// an error. Blocks run one after another. So a kernel's arithmetic, indices and barriers are
// tested; of a GPU's memory, compiler and speed this says nothing.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#define __global__
#define __launch_bounds__(threads)
#define __shared__ static  // one block at a time

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace cuda_on_host {

class Block {
 public:
  static constexpr int warp = 32;

  Block(unsigned threads, std::function<void()> kernel)
      : kernel_(std::move(kernel)),
        fibres_(threads),
        all_{threads},
        warps_((threads + warp - 1) / warp, Barrier{warp}),
        words_(threads) {
    if (threads % warp) throw std::logic_error("a block of whole warps is needed");
    for (auto& fibre : fibres_) fibre.stack.resize(size_t{1} << 16);
  }

  void run() {
    current_block = this;
    for (auto& fibre : fibres_) {
      getcontext(&fibre.context);
      fibre.context.uc_stack.ss_sp = fibre.stack.data();
      fibre.context.uc_stack.ss_size = fibre.stack.size();
      fibre.context.uc_link = &scheduler_;
      makecontext(&fibre.context, &Block::enter, 0);
      fibre.done = false;
    }
    left_ = fibres_.size();
    std::vector<size_t> order(warps_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    while (left_) {
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const size_t which : order)
        while (run_warp(which)) moved = true;
      if (left_ && !moved)
        throw std::logic_error("threads wait at a barrier for others that ended");
    }
  }

  void wait_for_all() { wait(all_); }
  void wait_for_warp() { wait(warps_[current_ / warp]); }

  // A word of each thread, seen by all between two barriers.
  uint32_t& word(size_t thread) { return words_.at(thread); }
  size_t current() const { return current_; }

  static inline Block* current_block = nullptr;

 private:
  struct Fibre {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
  };
  struct Barrier {
    unsigned size = 0, arrived = 0, passed = 0;
  };

  // Whether one of its threads came anywhere.
  bool run_warp(size_t which) {
    moved_ = false;
    for (current_ = which * warp; current_ < (which + 1) * warp; ++current_) {
      if (fibres_[current_].done) continue;
      threadIdx = dim3(unsigned(current_));
      swapcontext(&scheduler_, &fibres_[current_].context);
      if (fibres_[current_].done) --left_;
    }
    return moved_;
  }

  static void enter() {
    Block& block = *current_block;
    block.kernel_();
    block.fibres_[block.current_].done = true;
    block.moved_ = true;
  }

  void wait(Barrier& barrier) {
    moved_ = true;
    const unsigned before = barrier.passed;
    if (++barrier.arrived == barrier.size) {
      barrier.arrived = 0;
      ++barrier.passed;
    }
    while (barrier.passed == before) swapcontext(&fibres_[current_].context, &scheduler_);
  }

  const std::function<void()> kernel_;
  std::vector<Fibre> fibres_;
  Barrier all_;
  std::vector<Barrier> warps_;
  std::vector<uint32_t> words_;
  ucontext_t scheduler_{};
  size_t current_ = 0, left_ = 0;
  bool moved_ = false;
  std::minstd_rand random_;
};

inline Block& block() { return *Block::current_block; }

}  // namespace cuda_on_host

inline void __syncthreads() { cuda_on_host::block().wait_for_all(); }

inline int __syncthreads_or(int value) {
  auto& block = cuda_on_host::block();
  block.word(block.current()) = value != 0;
  block.wait_for_all();
  int any = 0;
  for (unsigned t = 0; t < blockDim.x; ++t) any |= int(block.word(t));
  block.wait_for_all();
  return any;
}

inline unsigned __ballot_sync(unsigned, bool value) {
  auto& block = cuda_on_host::block();
  block.word(block.current()) = value;
  block.wait_for_warp();
  const size_t first = block.current() / block.warp * block.warp;
  unsigned votes = 0;
  for (int lane = 0; lane < block.warp; ++lane) votes |= block.word(first + size_t(lane)) << lane;
  block.wait_for_warp();
  return votes;
}

inline float __shfl_down_sync(unsigned, float value, int distance, int width) {
  auto& block = cuda_on_host::block();
  const size_t self = block.current();
  __builtin_memcpy(&block.word(self), &value, sizeof value);
  block.wait_for_warp();
  if (int(self) % width + distance < width)
    __builtin_memcpy(&value, &block.word(self + size_t(distance)), sizeof value);
  block.wait_for_warp();
  return value;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

namespace yoke {

template <class... Parameters, class... Arguments>
int launch_kernel(void (*kernel)(Parameters...), dim3 blocks, int threads, void*,
                  Arguments... arguments) {
  gridDim = blocks;
  blockDim = dim3(unsigned(threads));
  cuda_on_host::Block block(unsigned(threads), [&] { kernel(arguments...); });
  for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x) block.run();
  return 0;
}

}  // namespace yoke
