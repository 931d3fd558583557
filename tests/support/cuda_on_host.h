/*
 * cuda_on_host.h: enough of CUDA to run the text of a kernel on the host: in C++, one block after
 * the other, its threads as fibers of one thread. What a thread does between two barriers, votes or
 * shuffles is done whole, in the order of the threads, so a race goes by unseen.
 */
#ifndef STG_TESTS_SUPPORT_CUDA_ON_HOST_H
#define STG_TESTS_SUPPORT_CUDA_ON_HOST_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define CUDA_ON_HOST_SHARED_BYTES 101376

struct cuda_on_host_index {
  unsigned x;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};

extern cuda_on_host_index threadIdx, blockIdx, gridDim;
extern float4 stg_shared[CUDA_ON_HOST_SHARED_BYTES / sizeof(float4)];

/** Run a block of `threads` fibers after the other. */
void cuda_on_host_launch(void (*kernel)(const void *args), const void *args, unsigned blocks,
                         unsigned threads);
/** Wait for the block; the or of all values. */
int cuda_on_host_meet(int value);
/** Wait for the warp; what lane `from` gave. */
uint32_t cuda_on_host_swap(uint32_t value, unsigned from);
/** Wait for the warp; the lanes whose value was true. */
unsigned cuda_on_host_vote(bool value);

/** Wait for the warp; words that lanes gave, until the next but one of these calls. */
#define CUDA_ON_HOST_WORDS 6
typedef uint32_t cuda_on_host_words[CUDA_ON_HOST_WORDS];
const cuda_on_host_words *cuda_on_host_show(const cuda_on_host_words &words);

#define __CUDACC__ 1
#define __device__
#define __forceinline__ inline
#define __global__
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(threads, blocks)
#define __shared__

static inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
static inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
static inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
static inline float2 make_float2(float x, float y) {
  return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
template <class T> static inline T atomicAdd(T *at, T by) {
  const T before = *at;
  *at += by;
  return before;
}
static inline void __threadfence_system() {
}

static inline void __syncthreads() {
  cuda_on_host_meet(0);
}
static inline int __syncthreads_or(int value) {
  return cuda_on_host_meet(value);
}
static inline void __syncwarp() {
  cuda_on_host_vote(false);
}
static inline unsigned __ballot_sync(unsigned, bool value) {
  return cuda_on_host_vote(value);
}
static inline int __any_sync(unsigned, bool value) {
  return cuda_on_host_vote(value) != 0;
}
static inline unsigned __shfl_sync(unsigned, unsigned value, unsigned from) {
  return cuda_on_host_swap(value, from);
}
static inline float __shfl_xor_sync(unsigned, float value, unsigned by) {
  return __uint_as_float(cuda_on_host_swap(__float_as_uint(value), threadIdx.x % 32 ^ by));
}

/* Shared memory has addresses from 0 on. */
static inline size_t __cvta_generic_to_shared(const void *at) {
  return (size_t)((const unsigned char *)at - (const unsigned char *)stg_shared);
}

/* In the place of prelude/copies.cuh: a copy has arrived when it was asked for. */
static inline void stg_copy_or_clear_async(unsigned at, const void *from, bool copy) {
  unsigned char *const to = (unsigned char *)stg_shared + at;
  if (copy) {
    std::memcpy(to, from, 16);
  } else {
    std::memset(to, 0, 16);
  }
}
static inline void stg_copy_commit() {
}
template <int N> static inline void stg_copy_wait_but() {
}

/* In the place of prelude/tf32_mma.cuh, with sums that are rounded after each product. */
static inline void stg_tf32_add(float &d0, float &d1, float &d2, float &d3, const unsigned (&a)[4],
                                const unsigned (&b)[2]) {
  const cuda_on_host_words own = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const cuda_on_host_words *const lanes = cuda_on_host_show(own);
  const unsigned g = threadIdx.x % 32 / 4;
  const unsigned t = threadIdx.x % 4;
  float *const sums[] = {&d0, &d1, &d2, &d3};
  for (unsigned i = 0; i < 4; i++) {
    const unsigned state = 2 * t + i % 2;
    for (unsigned k = 0; k < 8; k++) {
      const uint32_t x = lanes[4 * g + k % 4][k / 4 * 2 + i / 2];
      const uint32_t y = lanes[4 * state + k % 4][4 + k / 4];
      *sums[i] = std::fma(__uint_as_float(x), __uint_as_float(y), *sums[i]);
    }
  }
}

#endif
