// YOKE_MULTIVERSION before a function compiles it for AVX-512, AVX2 and the base instruction set;
// the loader picks one at start, by what the processor can do. (Levels, not names such as
// arch=haswell: those ask whether the processor is that very model, and newer ones get nothing.)
// What it calls must be YOKE_INLINE to be compiled along. Sanitisers and other architectures get
// the base version only.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define YOKE_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define YOKE_MULTIVERSION
#endif

#define YOKE_INLINE inline __attribute__((always_inline))
