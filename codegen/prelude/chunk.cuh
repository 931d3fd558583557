// chunk.cuh: rows by chunks of 8 elements, as stored and as float; scalars that keep NaN; sums over
// a warp. Knows no op and no chain.

struct stg_raw16 {
  uint4 w;
};
struct stg_raw32 {
  uint4 lo, hi;
};

struct stg_bf16 {
  typedef stg_raw16 raw;
  typedef unsigned short element;
  static __device__ __forceinline__ float widen(element e) {
    return __uint_as_float((unsigned)e << 16);
  }
  static __device__ __forceinline__ void widen2(unsigned w, float &a, float &b) {
    a = __uint_as_float(w << 16);
    b = __uint_as_float(w & 0xffff0000u);
  }
  static __device__ __forceinline__ unsigned narrow2(float a, float b) {
    unsigned w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};

struct stg_f16 {
  typedef stg_raw16 raw;
  typedef unsigned short element;
  static __device__ __forceinline__ float widen(element e) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(e));
    return f;
  }
  static __device__ __forceinline__ void widen2(unsigned w, float &a, float &b) {
    a = widen((element)(w & 0xffffu));
    b = widen((element)(w >> 16));
  }
  static __device__ __forceinline__ unsigned narrow2(float a, float b) {
    unsigned w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};

struct stg_f32 {
  typedef stg_raw32 raw;
  typedef unsigned element;
  static __device__ __forceinline__ float widen(element e) {
    return __uint_as_float(e);
  }
};

template <class D> __device__ __forceinline__ void stg_widen(const stg_raw16 &r, float (&f)[8]) {
  D::widen2(r.w.x, f[0], f[1]);
  D::widen2(r.w.y, f[2], f[3]);
  D::widen2(r.w.z, f[4], f[5]);
  D::widen2(r.w.w, f[6], f[7]);
}

template <class D> __device__ __forceinline__ void stg_widen(const stg_raw32 &r, float (&f)[8]) {
  f[0] = __uint_as_float(r.lo.x), f[1] = __uint_as_float(r.lo.y);
  f[2] = __uint_as_float(r.lo.z), f[3] = __uint_as_float(r.lo.w);
  f[4] = __uint_as_float(r.hi.x), f[5] = __uint_as_float(r.hi.y);
  f[6] = __uint_as_float(r.hi.z), f[7] = __uint_as_float(r.hi.w);
}

template <class D> __device__ __forceinline__ void stg_narrow(const float (&f)[8], stg_raw16 &r) {
  r.w.x = D::narrow2(f[0], f[1]);
  r.w.y = D::narrow2(f[2], f[3]);
  r.w.z = D::narrow2(f[4], f[5]);
  r.w.w = D::narrow2(f[6], f[7]);
}

template <class D> __device__ __forceinline__ void stg_narrow(const float (&f)[8], stg_raw32 &r) {
  r.lo.x = __float_as_uint(f[0]), r.lo.y = __float_as_uint(f[1]);
  r.lo.z = __float_as_uint(f[2]), r.lo.w = __float_as_uint(f[3]);
  r.hi.x = __float_as_uint(f[4]), r.hi.y = __float_as_uint(f[5]);
  r.hi.z = __float_as_uint(f[6]), r.hi.w = __float_as_uint(f[7]);
}

__device__ __forceinline__ void stg_load_wide(const uint4 *p, stg_raw16 &r) {
  r.w = *p;
}
__device__ __forceinline__ void stg_load_wide(const uint4 *p, stg_raw32 &r) {
  r.lo = p[0], r.hi = p[1];
}
__device__ __forceinline__ void stg_store_wide(uint4 *p, const stg_raw16 &r) {
  *p = r.w;
}
__device__ __forceinline__ void stg_store_wide(uint4 *p, const stg_raw32 &r) {
  p[0] = r.lo, p[1] = r.hi;
}
// A load that stands where it is written: the compiler would put it behind a wait.
__device__ __forceinline__ void stg_load_now(const uint4 *p, stg_raw16 &r) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.w.x), "=r"(r.w.y), "=r"(r.w.z), "=r"(r.w.w)
               : "l"(p));
}
__device__ __forceinline__ void stg_load_now(const uint4 *p, stg_raw32 &r) {
  stg_raw16 half;
  stg_load_now(p, half);
  r.lo = half.w;
  stg_load_now(p + 1, half);
  r.hi = half.w;
}

// A row's sums are those of G::row_threads threads, of which thread u has the chunks u, u +
// row_threads and so on. In a block of fewer threads each stands for several of them, one after the
// other: in turn h for thread threadIdx.x + h * threads. The chunks of a turn follow each other.
template <class G> __device__ __forceinline__ int stg_chunk(int i) {
  return (int)threadIdx.x + i / G::chunks_per_turn * G::threads +
         i % G::chunks_per_turn * G::row_threads;
}

// True where this thread's chunk i lies in the row: only a turn's last one may not.
template <class G> __device__ __forceinline__ bool stg_has_chunk(int i) {
  constexpr bool all_stand = G::turns * G::threads == G::row_threads;
  return (all_stand && G::chunks % G::row_threads == 0) ||
         ((all_stand || (int)threadIdx.x + i / G::chunks_per_turn * G::threads < G::row_threads) &&
          stg_chunk<G>(i) < G::chunks);
}

// Elements of chunk `chunk` that lie in the row: 8, but for the last one of a row with a tail.
template <class G> __device__ __forceinline__ int stg_elements_in(int chunk) {
  const int left = G::hidden - chunk * 8;
  return G::tail == 0 || left > 8 ? 8 : left;
}

// A chunk by its elements, for rows that are not aligned and for tails. Elements past the row read
// as +0 and are not stored.
template <class G>
__device__ __forceinline__ void stg_load_elements(const void *row, int chunk,
                                                  typename G::data::raw &r) {
  typedef typename G::data::element element;
  const int n = stg_elements_in<G>(chunk);
  alignas(16) element e[8]; // read as whole words below
#pragma unroll
  for (int j = 0; j < 8; j++) {
    e[j] = j < n ? ((const element *)row)[chunk * 8 + j] : (element)0;
  }
  r = *(const typename G::data::raw *)e;
}

template <class G>
__device__ __forceinline__ void stg_store_elements(void *row, int chunk,
                                                   const typename G::data::raw &r) {
  typedef typename G::data::element element;
  const int n = stg_elements_in<G>(chunk);
  const element *e = (const element *)&r;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    if (j < n) {
      ((element *)row)[chunk * 8 + j] = e[j];
    }
  }
}

// Chunk `chunk` of a row: 16-byte accesses where the row is aligned and the chunk is whole.
template <class G>
__device__ __forceinline__ void stg_load_chunk(const void *row, int chunk, bool aligned,
                                               typename G::data::raw &r) {
  if (aligned && (G::tail == 0 || stg_elements_in<G>(chunk) == 8)) {
    stg_load_wide((const uint4 *)((const typename G::data::element *)row + chunk * 8), r);
  } else {
    stg_load_elements<G>(row, chunk, r);
  }
}

template <class G>
__device__ __forceinline__ void stg_store_chunk(void *row, int chunk, bool aligned,
                                                const typename G::data::raw &r) {
  if (aligned && (G::tail == 0 || stg_elements_in<G>(chunk) == 8)) {
    stg_store_wide((uint4 *)((typename G::data::element *)row + chunk * 8), r);
  } else {
    stg_store_elements<G>(row, chunk, r);
  }
}

// Keep these as they are: the compiler would make them anew from their raw form at every use.
__device__ __forceinline__ void stg_keep(float (&f)[8]) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    asm volatile("" : "+f"(f[j]));
  }
}

// ---- copies from global to shared memory in the background, of which each thread waits for its
// own ----

// Through the first-level cache: blocks that share a vector would all ask the same lines of the
// second level for it, which takes microseconds where many do.
__device__ __forceinline__ void stg_copy_async(uint4 *to, const void *from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void stg_copy_wait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// From this thread's first chunk to its chunk i, in pieces of 16 bytes.
template <class G, class Raw> __device__ __forceinline__ int stg_step(int i) {
  return (stg_chunk<G>(i) - stg_chunk<G>(0)) * (int)(sizeof(Raw) / sizeof(uint4));
}

// Begin to copy all of this thread's chunks. `to` and `from` are those of its first one.
template <class G, class Raw>
__device__ __forceinline__ void stg_copy_chunks_async(uint4 *to, const uint4 *from) {
  constexpr int pieces = sizeof(Raw) / sizeof(uint4);
#pragma unroll
  for (int i = 0; i < G::chunks_per_thread; i++) {
    if (stg_has_chunk<G>(i)) {
#pragma unroll
      for (int p = 0; p < pieces; p++) {
        stg_copy_async(to + stg_step<G, Raw>(i) + p, from + stg_step<G, Raw>(i) + p);
      }
    }
  }
}

// ---- programmatic dependent launch: a launch may begin before the one ahead of it has ended ----

// From here on the memory that earlier launches wrote may be read, and any memory written.
__device__ __forceinline__ void stg_wait_for_earlier_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void stg_let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- scalars: NaN stays NaN, which min and max of CUDA would drop ----

__device__ __forceinline__ float stg_min(float a, float b) {
  return b < a ? b : a;
}
__device__ __forceinline__ float stg_max(float a, float b) {
  return b > a ? b : a;
}
__device__ __forceinline__ float stg_clamp(float p, float lo, float hi) {
  return p < lo ? lo : p > hi ? hi : p;
}

// ---- sums over a warp, in one fixed order ----

// Lane l gets the sum of acc[l / (32/R)] over all lanes. The tree (lanes 16 apart first) is the
// same for every R.
template <int R> __device__ __forceinline__ float stg_fold(float (&acc)[R], int lane) {
  int apart = 16;
#pragma unroll
  for (int n = R; n > 1; n >>= 1) {
    const bool upper = (lane & apart) != 0;
#pragma unroll
    for (int j = 0; j < n / 2; j++) {
      const float keep = upper ? acc[j + n / 2] : acc[j];
      const float send = upper ? acc[j] : acc[j + n / 2];
      acc[j] = keep + __shfl_xor_sync(STG_ALL, send, apart);
    }
    apart >>= 1;
  }
#pragma unroll
  for (; apart > 0; apart >>= 1) {
    acc[0] += __shfl_xor_sync(STG_ALL, acc[0], apart);
  }
  return acc[0];
}

__device__ __forceinline__ float stg_warp_sum(float x) {
  float acc[1] = {x};
  return stg_fold<1>(acc, 0);
}
