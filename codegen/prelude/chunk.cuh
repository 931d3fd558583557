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
__device__ __forceinline__ void stg_bank_wide(const uint4 *p, stg_raw16 &r) {
  r.w = __ldg(p);
}
__device__ __forceinline__ void stg_bank_wide(const uint4 *p, stg_raw32 &r) {
  r.lo = __ldg(p), r.hi = __ldg(p + 1);
}

// Chunk `chunk` of a row: 16-byte accesses where rows are aligned and the chunk is whole, elements
// otherwise. Elements past the row read as +0 and are not stored. Only whole-chunk kernels (G::tail
// == 0) skip the test.
template <class G>
__device__ __forceinline__ void stg_load_chunk(const void *row, int chunk, bool aligned,
                                               typename G::data::raw &r) {
  typedef typename G::data::element element;
  const int first = chunk * 8;
  if (aligned && (G::tail == 0 || first + 8 <= G::hidden)) {
    stg_load_wide((const uint4 *)((const element *)row + first), r);
    return;
  }
  alignas(16) element e[8]; // read as whole words below
#pragma unroll
  for (int j = 0; j < 8; j++) {
    e[j] = first + j < G::hidden ? ((const element *)row)[first + j] : (element)0;
  }
  r = *(const typename G::data::raw *)e;
}

template <class G>
__device__ __forceinline__ void stg_store_chunk(void *row, int chunk, bool aligned,
                                                const typename G::data::raw &r) {
  typedef typename G::data::element element;
  const int first = chunk * 8;
  if (aligned && (G::tail == 0 || first + 8 <= G::hidden)) {
    stg_store_wide((uint4 *)((element *)row + first), r);
    return;
  }
  const element *e = (const element *)&r;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    if (first + j < G::hidden) {
      ((element *)row)[first + j] = e[j];
    }
  }
}

// Chunk `chunk` of a bank vector; the bank is padded with zeros to whole chunks and always aligned.
template <class G>
__device__ __forceinline__ void stg_bank_chunk(const stg_steer_args &a, unsigned vector, int chunk,
                                               typename G::bank::raw &raw) {
  typedef typename G::bank::element element;
  const element *row = (const element *)a.bank + (unsigned long long)vector * G::padded;
  stg_bank_wide((const uint4 *)(row + chunk * 8), raw);
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
