// YOKE_MULTIVERSION before a function compiles it for AVX-512, AVX2 and the base instruction set;
// the loader picks one at start. What it calls must be YOKE_INLINE to be compiled along. Sanitisers
// and other architectures get the base version only.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define YOKE_MULTIVERSION \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define YOKE_MULTIVERSION
#endif

#define YOKE_INLINE inline __attribute__((always_inline))
