// copies.cuh: copies to shared memory in the background, in groups that are waited for in order.

// 16 bytes past the first-level cache, or zeros: then `from` is not read. `at` is an address of
// shared memory.
__device__ __forceinline__ void stg_copy_or_clear_async(unsigned at, const void *from, bool copy) {
  const unsigned bytes = copy ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
}
// The same for what is read once: it is the first to leave the second-level cache, and what others
// keep there stays.
__device__ __forceinline__ void stg_copy_or_clear_once_async(unsigned at, const void *from,
                                                             bool copy) {
  const unsigned bytes = copy ? 16u : 0u;
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(at),
               "l"(from), "r"(bytes), "l"(policy)
               : "memory");
}
// Bring `bytes` at `from` to the second-level cache, both multiples of 16. Nothing is read for good:
// whoever reads them later has what then stands there.
__device__ __forceinline__ void stg_prefetch(const void *from, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}
// What was asked for since the last call is a group, be it nothing.
__device__ __forceinline__ void stg_copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Wait for all groups of this thread but the latest N.
template <int N> __device__ __forceinline__ void stg_copy_wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// ---- whole rows to shared memory by the copy engine, counted in bytes by a barrier of one warp ----

// One thread's, before any copy that counts there.
__device__ __forceinline__ void stg_copies_init(unsigned barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// What this thread has read or written in shared memory comes before the engine's copies to there.
__device__ __forceinline__ void stg_copies_fence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// One thread's: so many bytes are to come.
__device__ __forceinline__ void stg_copies_expect(unsigned barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}
// `once`: as stg_copy_or_clear_once_async.
template <bool once>
__device__ __forceinline__ void stg_copy_row(unsigned at, const void *from, unsigned bytes,
                                             unsigned barrier) {
#if __CUDA_ARCH__ >= 900
  if constexpr (once) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(at),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
  } else {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(at),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
  }
#endif
}
// All that was expected has come, in a turn of this parity. What never comes ends the launch.
__device__ __forceinline__ void stg_copies_wait(unsigned barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  unsigned done = 0u;
  for (unsigned tries = 0u; done == 0u; tries++) {
    asm volatile("{\n .reg .pred p;\n"
                 " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 " selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    if (tries > 10000u) {
      __trap();
    }
  }
#endif
}
