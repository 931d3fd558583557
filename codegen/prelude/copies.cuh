// copies.cuh: copies to shared memory in the background, in groups that are waited for in order.

// 16 bytes past the first-level cache, or zeros: then `from` is not read. `at` is an address of
// shared memory.
__device__ __forceinline__ void stg_copy_or_clear_async(unsigned at, const void *from, bool copy) {
  const unsigned bytes = copy ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
}
// What was asked for since the last call is a group, be it nothing.
__device__ __forceinline__ void stg_copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Wait for all groups of this thread but the latest N.
template <int N> __device__ __forceinline__ void stg_copy_wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
