// chain.cuh: one row's chain on scalars, run by one warp: lane i holds coefficient i and the dot of
// the state with vector i. The generated switch over ops calls into this file.

// A chain in progress.
struct stg_chain_run {
  const stg_steer_args *args;
  const unsigned *words; // the chain, in shared memory
  const float *gram;     // [n, n]
  const void *hidden_row;
  const void *residual_row;
  long long cells;  // where the row's begin in `probes`
  unsigned n;       // vectors
  unsigned first;   // first vector of the current op
  float4 params[2]; // of the current op
  float row;        // entry `lane` of the Gram row of its first vector
  unsigned lane;
  float a;  // state = a*h + sum c_i v_i
  float c;  // c_lane
  float d;  // state . v_lane
  float d0; // h . v_lane
  float n0; // h . h
};

__device__ __forceinline__ float stg_param(const stg_chain_run &run, unsigned k) {
  const float4 four = run.params[k / 4];
  return k % 4 == 0 ? four.x : k % 4 == 1 ? four.y : k % 4 == 2 ? four.z : four.w;
}

__device__ __forceinline__ float stg_dot(const stg_chain_run &run, unsigned k) {
  return __shfl_sync(STG_ALL, run.d, run.first + k);
}

__device__ __forceinline__ float stg_gram(const stg_chain_run &run, unsigned i, unsigned j) {
  return run.gram[(run.first + i) * run.n + run.first + j];
}

// The norm taken from the updated row itself: the warp walks the row again. Rare: only where the
// Gram form cancels.
template <class G>
__device__ __forceinline__ float
stg_norm2_from_row(const void *bank, const void *hidden_row, const void *residual_row,
                   const unsigned *vectors, unsigned n, float a, float c) {
  typedef typename G::data::element element;
  typedef typename G::bank::element bank_element;
  float sum = 0.0f;
#pragma unroll 1
  for (int base = 0; base < G::hidden; base += STG_LANES) {
    const int e = base + threadIdx.x % STG_LANES;
    const bool inside = e < G::hidden;
    float h = inside ? G::data::widen(((const element *)hidden_row)[e]) : 0.0f;
    if (G::pair && inside) {
      h += G::data::widen(((const element *)residual_row)[e]);
    }
    float f = a * h;
#pragma unroll 1
    for (unsigned i = 0; i < n; i++) {
      const float ci = __shfl_sync(STG_ALL, c, i);
      const unsigned long long at = (unsigned long long)vectors[i] * G::padded + e;
      const float v = inside ? G::bank::widen(((const bank_element *)bank)[at]) : 0.0f;
      f = __fmaf_rn(ci, v, f);
    }
    sum = __fmaf_rn(f, f, sum);
  }
  return stg_warp_sum(sum);
}

// Squared norm of a*h + sum c_i v_i: a^2 n + 2a sum c_i d_i + sum c_i c_j G_ij. When the terms
// cancel so far that fewer than 14 of float's bits could be left, or below 0, the row itself is
// asked; so the result is never negative.
template <class G>
__device__ __forceinline__ float stg_norm2_of(const void *bank, const void *hidden_row,
                                              const void *residual_row, const unsigned *words,
                                              float a, float c, float d0, float n0) {
  const unsigned lane = threadIdx.x % STG_LANES;
  const unsigned n = words[0] >> 8 & 0xffu;
  const float *gram = (const float *)(words + (words[2] >> 16));
  const float base = a * a * n0;
  float q = 0.0f, abs_q = 0.0f;
#pragma unroll 1
  for (unsigned i = 0; i < n; i++) {
    const float ci = __shfl_sync(STG_ALL, c, i);
    const float g = lane < n ? gram[i * n + lane] : 0.0f;
    q = __fmaf_rn(ci, g, q);
    abs_q += fabsf(ci * g);
  }
  const float ad = 2.0f * a * d0;
  const float sum = base + stg_warp_sum(c * (ad + q));
  const float terms = base + stg_warp_sum(fabsf(c) * (fabsf(ad) + abs_q));
  if (!(terms <= 1024.0f * sum)) { // NaN too
    return stg_norm2_from_row<G>(bank, hidden_row, residual_row, words + 4, n, a, c);
  }
  return sum;
}

// The same of s*state + sum t_m v_(first+m), for the op at hand.
template <class G>
__device__ __forceinline__ float stg_norm2(const stg_chain_run &run, float s, float t0, float t1,
                                           float t2, float t3) {
  const unsigned own = run.lane - run.first; // wraps for earlier vectors
  const float a = s * run.a;
  const float earlier = run.lane < run.first ? s * run.c : 0.0f;
  const float c = own == 0 ? t0 : own == 1 ? t1 : own == 2 ? t2 : own == 3 ? t3 : earlier;
  if (__ballot_sync(STG_ALL, c != 0.0f) == 0) {
    return a * a * run.n0;
  }
  return stg_norm2_of<G>(run.args->bank, run.hidden_row, run.residual_row, run.words, a, c, run.d0,
                         run.n0);
}

// What an op does to the state: h = scale*h + sum t_m v_m. The generated switch calls these, with
// the scale first and the vectors in their order.
__device__ __forceinline__ void stg_scale(stg_chain_run &run, float scale) {
  run.a *= scale;
  // later vectors have no part in the state yet: their 0 stays 0 where the scale is not finite
  run.c = run.lane < run.first ? run.c * scale : run.c;
  run.d *= scale;
}

__device__ __forceinline__ float stg_gram_row(const stg_chain_run &run, unsigned i) {
  return run.lane < run.n ? run.gram[i * run.n + run.lane] : 0.0f;
}
__device__ __forceinline__ void stg_add(stg_chain_run &run, unsigned m, float t) {
  const float g = m == 0 ? run.row : stg_gram_row(run, run.first + m);
  run.d = __fmaf_rn(t, g, run.d);
  run.c = run.lane == run.first + m ? t : run.c;
}

// What an op gives out. Several warps may run the chain; the first stores.
__device__ __forceinline__ void stg_give(const stg_chain_run &run, float column, float value) {
  if (threadIdx.x == 0) {
    run.args->probes[run.cells + (int)column] = value;
  }
}

// An op of a chain, as it stands in memory.
struct stg_chain_op {
  unsigned code, first;
  float4 params[2];
  float row;

  __device__ __forceinline__ void load(const stg_chain_run &run, const unsigned *op) {
    const uint2 head = *(const uint2 *)op;
    code = head.x, first = head.y;
    params[0] = *(const float4 *)(op + 4);
    params[1] = *(const float4 *)(op + 8);
    row = first < run.n ? stg_gram_row(run, first) : 0.0f; // an op may have no vectors
  }
};

// The whole chain of a row, whose first op is at `op`: d0 and n0 are what the dots came to. The
// next op is on its way while one runs.
template <class G>
__device__ __forceinline__ void stg_run_chain(stg_chain_run &run, const unsigned *op,
                                              unsigned n_ops) {
  stg_chain_op next;
  next.load(run, op);
  run.a = 1.0f;
  run.c = 0.0f;
  run.d = run.d0;
#pragma unroll 1
  for (unsigned k = 0; k < n_ops; k++) {
    const unsigned code = next.code;
    run.first = next.first;
    run.params[0] = next.params[0];
    run.params[1] = next.params[1];
    run.row = next.row;
    op += STG_OP_WORDS;
    if (k + 1 < n_ops) {
      next.load(run, op);
    }
    G::run_op(code, run);
  }
}
