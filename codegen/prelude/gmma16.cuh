// gmma16.cuh: products of 16-bit matrices by four warps at once, of which each has 16 of 64 rows;
// the second factor is read from shared memory as it is multiplied, in the background. Architecture
// sm_90a alone. Knows no op.
//
// In shared memory such a matrix is columns of pieces of 16 bytes, one piece of each row: 8 rows of
// a piece are 128 bytes in a row, which the tensor cores take at once. From a column of pieces to
// the next there is a piece more than there are rows, so that neither a row nor a column has two of
// 8 pieces in a bank.
//
// A warp's sums are as those of mma.cuh: of rows g and g + 8 columns 2t and 2t + 1 of each 8.

// What follows may read and write registers of products that were asked for before, and memory that
// was written by the usual ways may be multiplied.
__device__ __forceinline__ void stg_gmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// What was asked for since then is a group.
__device__ __forceinline__ void stg_gmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void stg_gmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ __forceinline__ void stg_gmma_end() {
  stg_gmma_commit();
  stg_gmma_wait();
}
// Between what a thread wrote to shared memory, copies that it waited for too, and the barrier
// behind which it is multiplied.
__device__ __forceinline__ void stg_gmma_publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Two matrices of 8 x 8 beside each other, turned; lanes 0-15 say where their rows begin.
__device__ __forceinline__ void stg_store_two_turned(unsigned at, unsigned first, unsigned second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at),
               "r"(first), "r"(second)
               : "memory");
}

// A second factor at an address of shared memory: bytes from 8 of k to the next, and from 8 columns
// to the next.
__device__ __forceinline__ unsigned long long stg_gmma_factor(unsigned at, unsigned by_k,
                                                              unsigned by_n) {
  return (unsigned long long)(at >> 4 & 0x3fffu) | (unsigned long long)(by_k >> 4) << 16 |
         (unsigned long long)(by_n >> 4) << 32;
}

// d += a . b of 64 x N x 16; `ByK`: b stands by rows of k. `keep` 0: d = a . b.
template <class D, int N, bool ByK> struct stg_gmma;

#define STG_GMMA_16(type, name, by_k)                                                              \
  template <> struct stg_gmma<type, 16, by_k> {                                                    \
    static __device__ __forceinline__ void add(float (*d)[4], const unsigned (&a)[4],              \
                                               unsigned long long b, int keep) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"                                    \
                   "wgmma.mma_async.sync.aligned.m64n16k16.f32." name "." name " {"                \
                   "%0, %1, %2, %3, %4, %5, %6, %7}, "                                             \
                   "{%8, %9, %10, %11}, %12, p, 1, 1, " #by_k ";\n}"                               \
                   : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]),    \
                     "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3])                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));               \
    }                                                                                              \
  };
#define STG_GMMA_32(type, name, by_k)                                                              \
  template <> struct stg_gmma<type, 32, by_k> {                                                    \
    static __device__ __forceinline__ void add(float (*d)[4], const unsigned (&a)[4],              \
                                               unsigned long long b, int keep) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"                                    \
                   "wgmma.mma_async.sync.aligned.m64n32k16.f32." name "." name " {"                \
                   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "       \
                   "{%16, %17, %18, %19}, %20, p, 1, 1, " #by_k ";\n}"                             \
                   : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]),    \
                     "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]),    \
                     "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]),    \
                     "+f"(d[3][3])                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));               \
    }                                                                                              \
  };
#define STG_GMMA_64(type, name, by_k)                                                              \
  template <> struct stg_gmma<type, 64, by_k> {                                                    \
    static __device__ __forceinline__ void add(float (*d)[4], const unsigned (&a)[4],              \
                                               unsigned long long b, int keep) {                   \
      asm volatile(                                                                                \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                             \
          "wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " {"                         \
          "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                 \
          "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "      \
          "{%32, %33, %34, %35}, %36, p, 1, 1, " #by_k ";\n}"                                      \
          : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]),             \
            "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]),             \
            "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]),             \
            "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),             \
            "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]),             \
            "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),             \
            "+f"(d[7][2]), "+f"(d[7][3])                                                           \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                        \
    }                                                                                              \
  };
#define STG_GMMA_128(type, name, by_k)                                                             \
  template <> struct stg_gmma<type, 128, by_k> {                                                   \
    static __device__ __forceinline__ void add(float (*d)[4], const unsigned (&a)[4],              \
                                               unsigned long long b, int keep) {                   \
      asm volatile(                                                                                \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                             \
          "wgmma.mma_async.sync.aligned.m64n128k16.f32." name "." name " {"                        \
          "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                 \
          "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "       \
          "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "       \
          "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "      \
          "{%64, %65, %66, %67}, %68, p, 1, 1, " #by_k ";\n}"                                      \
          : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]),             \
            "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]),             \
            "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]),             \
            "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),             \
            "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]),             \
            "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),             \
            "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]),             \
            "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]),             \
            "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]),        \
            "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]),        \
            "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]),        \
            "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),        \
            "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])                         \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                        \
    }                                                                                              \
  };
#define STG_GMMA(type, name, by_k)                                                                 \
  STG_GMMA_16(type, name, by_k)                                                                    \
  STG_GMMA_32(type, name, by_k)                                                                    \
  STG_GMMA_64(type, name, by_k)                                                                    \
  STG_GMMA_128(type, name, by_k)
STG_GMMA(stg_bf16, "bf16", 0)
STG_GMMA(stg_bf16, "bf16", 1)
STG_GMMA(stg_f16, "f16", 0)
STG_GMMA(stg_f16, "f16", 1)

// Of Columns, a multiple of 16: by the widest products that there are.
template <class D, int Columns, bool ByK>
__device__ __forceinline__ void stg_gmma_add(float (*d)[4], const unsigned (&a)[4], unsigned b,
                                             unsigned by_k, unsigned by_n, int keep) {
  if constexpr (Columns > 0) {
    constexpr int n = Columns >= 128 ? 128 : Columns >= 64 ? 64 : Columns >= 32 ? 32 : 16;
    stg_gmma<D, n, ByK>::add(d, a, stg_gmma_factor(b, by_k, by_n), keep);
    stg_gmma_add<D, Columns - n, ByK>(d + n / 8, a, b + n / 8 * by_n, by_k, by_n, keep);
  }
}
