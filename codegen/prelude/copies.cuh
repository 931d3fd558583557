// copies.cuh: copies to shared memory in the background, in groups that are waited for in order.

// 16 bytes past the first-level cache, or zeros: then `from` is not read. `at` is an address of
// shared memory.
__device__ __forceinline__ void stg_copy_or_clear_async(unsigned at, const void *from, bool copy) {
  const unsigned bytes = copy ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
}
// The same for what is most often read once: it is the first to leave the second-level cache, and
// what others keep there stays.
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
