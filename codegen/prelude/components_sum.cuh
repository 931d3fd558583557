// components_sum.cuh: work=sum: gradients of the weights, of Delta, of the bias and of a mask that
// rows share, from the parts that spans of rows left: in the order of the spans, rounded once.
//
// A thread has an element. codegen/components_parts.c says where parts lie, and
// stg_components_sum_blocks how many blocks there are.

// As the host has it, in codegen/components_args.h.
struct stg_components_sum_args {
  const float *parts;
  void *dv, *du, *ddelta, *dbias, *dm; // or null: not wanted
  long long dm_stride;                 // elements
  int rows, span, share;
  unsigned flags;
};
static_assert(sizeof(stg_components_sum_args) == 72, "codegen/components_args.h has the same");

// `count` numbers, `step` apart; 0 of none, as of no rows.
__device__ __forceinline__ float stg_sum_parts(const float *first, int count, long long step) {
  float sum = count > 0 ? *first : 0.0f;
#pragma unroll 8
  for (int i = 1; i < count; i++) {
    sum += first[i * step];
  }
  return sum;
}

// Goes through the results one behind the other, as their parts lie.
template <class G> struct stg_components_sums {
  typedef typename G::data data;
  typedef typename data::element element;
  const stg_components_sum_args &a;
  const int spans;
  long long at;       // this thread's element, from the first one of the result on
  const float *parts; // of the result

  __device__ __forceinline__ stg_components_sums(const stg_components_sum_args &args)
      : a(args), spans(stg_components_spans_of(args.rows, args.span)),
        at((long long)blockIdx.x * G::threads + threadIdx.x), parts(args.parts) {
  }

  // A result of so many elements, of which there is a part for every span. True: it was this one.
  __device__ __forceinline__ bool take(void *to, long long elements) {
    if (at < elements) {
      if (to != nullptr) {
        stg_narrow_one<data>(stg_sum_parts(parts + at, spans, elements), ((element *)to)[at]);
      }
      return true;
    }
    at -= elements;
    parts += (elements * spans + 3) / 4 * 4;
    return false;
  }

  // Of a group of rows each span that has some of them has a row, at span + group.
  __device__ __forceinline__ void take_mask() const {
    const long long group = at / G::components, column = at % G::components;
    const long long first = group * a.share;
    if (first >= a.rows || a.dm == nullptr) {
      return;
    }
    const long long end = first + a.share < a.rows ? first + a.share : a.rows;
    const int span = (int)(first / a.span), last = (int)((end - 1) / a.span);
    element *const to = (element *)a.dm + group * a.dm_stride + column;
    stg_narrow_one<data>(stg_sum_parts(parts + (span + group) * G::components + column,
                                       last - span + 1, G::components),
                         *to);
  }
};

template <class G>
__device__ __forceinline__ void stg_components_sum_run(const stg_components_sum_args &a) {
  stg_wait_for_earlier_launches();
  stg_let_next_launch_begin();
  stg_components_sums<G> sums(a);
  if (sums.take(a.dv, (long long)G::d_in * G::components) ||
      sums.take(a.du, (long long)G::components * G::d_out) ||
      (G::delta && sums.take(a.ddelta, (long long)G::d_out * G::d_in)) ||
      (G::bias && sums.take(a.dbias, G::d_out))) {
    return;
  }
  sums.take_mask();
}
