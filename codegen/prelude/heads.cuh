// heads.cuh: work=transpose: heads from [rows, heads, dim] to [heads, rows, dim] or back, which is
// what combines the output of an attention as well. A block has a row; bytes pass as they are.

struct stg_transpose_args {
  const void *from;
  void *to;
  long long from_stride, to_stride; // from a row to the next, or from a head to the next
  int rows;
  unsigned heads;
  unsigned flags;
  unsigned unused;
};
static_assert(sizeof(stg_transpose_args) == 48, "codegen/rope_args.h has the same");
#define STG_ALIGNED 1u    // addresses and strides by 16 bytes
#define STG_FROM_HEADS 2u // heads come first in `from`, else in `to`

// A row's head in a tensor, in elements.
template <class G>
__device__ __forceinline__ long long stg_head_at(bool heads_first, long long stride, int row,
                                                 int head) {
  return heads_first ? head * stride + (long long)row * G::dim
                     : row * stride + (long long)head * G::dim;
}

// By units of type Unit, of which a head has `units`.
template <class G, class Unit>
__device__ __forceinline__ void stg_transpose_row(const stg_transpose_args &a, int units) {
  typedef typename G::element element;
  const bool from_heads = (a.flags & STG_FROM_HEADS) != 0;
  const int row = blockIdx.x, count = (int)a.heads * units;
  for (int first = threadIdx.x; first < count; first += G::turns * G::threads) {
    Unit moved[G::turns];
#pragma unroll
    for (int j = 0; j < G::turns; j++) {
      const int i = first + j * G::threads;
      if (i < count) {
        const long long at = stg_head_at<G>(from_heads, a.from_stride, row, i / units);
        moved[j] = ((const Unit *)((const element *)a.from + at))[i % units];
      }
    }
#pragma unroll
    for (int j = 0; j < G::turns; j++) {
      const int i = first + j * G::threads;
      if (i < count) {
        const long long at = stg_head_at<G>(!from_heads, a.to_stride, row, i / units);
        ((Unit *)((element *)a.to + at))[i % units] = moved[j];
      }
    }
  }
}

template <class G> __device__ __forceinline__ void stg_transpose_run(const stg_transpose_args &a) {
  constexpr int bytes = G::dim * (int)sizeof(typename G::element);
  stg_wait_for_earlier_launches();
  stg_let_next_launch_begin();
  if constexpr (bytes % 16 == 0) {
    if ((a.flags & STG_ALIGNED) != 0) {
      stg_transpose_row<G, uint4>(a, bytes / 16);
      return;
    }
  }
  stg_transpose_row<G, typename G::element>(a, G::dim);
}
