// gemm.cuh: a tile of states through one linear map, in float32.
//
// A block has all 256 outputs of the tile's states in registers, thread by thread R states times 8
// outputs; R is 8, 4 or 2, for tiles of 64, 32 or 16 states. An output is one chain of fused
// multiply-adds, from its bias on, over the inputs in ascending order, whatever the tile: its bits
// depend on its state alone. Weights come in stages of 8 inputs, the next one while one is worked on.
//
// Warp w has outputs from 64 * (w % 4) on and half w / 4 of the states; lane l eight of the outputs,
// four from 4 * (l / 4) on and four 32 further, and the states of l % 4, four at a time.

#define STG_STAGE_INPUTS 8
#define STG_STAGE_FLOATS (STG_STAGE_INPUTS * STG_TILE_ELEMS)
#define STG_THREAD_OUTS 8
#define STG_GEMM_THREADS 256

template <int R> struct stg_patch {
  static constexpr int states = 8 * R; // of the tile
  static constexpr int run = R < 4 ? R : 4; // states that are neighbours
  float y[R][STG_THREAD_OUTS];

  static __device__ __forceinline__ int column() { // of warps: a quarter of the outputs
    return (int)(threadIdx.x / STG_LANES) % 4;
  }
  static __device__ __forceinline__ int first_out() {
    return column() * 64 + (int)stg_lane() / 4 * 4;
  }
  // Output j, from the first one.
  static __device__ __forceinline__ constexpr int out(int j) {
    return j < 4 ? j : 32 + j - 4;
  }
  static __device__ __forceinline__ int first_state() {
    return (int)(threadIdx.x / STG_LANES) / 4 * (4 * R) + (int)stg_lane() % 4 * run;
  }
  // State r, from the first one.
  static __device__ __forceinline__ constexpr int state(int r) {
    return r < 4 ? r : 16 + r - 4;
  }
};

// A thread's states of a row of the tile.
template <int R> __device__ __forceinline__ void stg_load_states(const float *at, float (&x)[R]) {
  if constexpr (R == 2) {
    const float2 v = *(const float2 *)at;
    x[0] = v.x;
    x[1] = v.y;
  } else {
#pragma unroll
    for (int r = 0; r < R; r += 4) {
      const float4 v = *(const float4 *)(at + stg_patch<R>::state(r));
      x[r] = v.x;
      x[r + 1] = v.y;
      x[r + 2] = v.z;
      x[r + 3] = v.w;
    }
  }
}

template <int R> __device__ __forceinline__ void stg_store_states(float *at, const float (&x)[R]) {
  if constexpr (R == 2) {
    *(float2 *)at = make_float2(x[0], x[1]);
  } else {
#pragma unroll
    for (int r = 0; r < R; r += 4) {
      *(float4 *)(at + stg_patch<R>::state(r)) =
          make_float4(x[r], x[r + 1], x[r + 2], x[r + 3]);
    }
  }
}

// A thread's outputs of a row of 256.
__device__ __forceinline__ void stg_load_outs(const float *at, float (&w)[STG_THREAD_OUTS]) {
#pragma unroll
  for (int j = 0; j < STG_THREAD_OUTS; j += 4) {
    const float4 v = *(const float4 *)(at + stg_patch<8>::out(j));
    w[j] = v.x;
    w[j + 1] = v.y;
    w[j + 2] = v.z;
    w[j + 3] = v.w;
  }
}

// The weights of a policy as they come: stage after stage, through two buffers in turn.
struct stg_weights {
  const float4 *from; // of the next stage
  float *buffers;     // [2, STG_STAGE_FLOATS]
  unsigned turn;      // which of them has the latest stage

  // One that was asked for elsewhere.
  __device__ __forceinline__ void skip_asked() {
    turn ^= 1u;
    from += STG_STAGE_FLOATS / 4;
  }

  __device__ __forceinline__ void ask() {
    const float4 *const at_from = from;
    skip_asked();
    const unsigned to = (unsigned)__cvta_generic_to_shared(buffers + turn * STG_STAGE_FLOATS);
#pragma unroll
    for (int i = 0; i < STG_STAGE_FLOATS / 4 / STG_GEMM_THREADS; i++) {
      const unsigned at = threadIdx.x + i * STG_GEMM_THREADS;
      stg_copy_or_clear_async(to + at * 16, at_from + at, true);
    }
    stg_copy_commit();
  }

  // The stage that was asked for last, once all threads have it; then they have no other in use.
  __device__ __forceinline__ const float *wait() const {
    stg_copy_wait_but<0>();
    __syncthreads();
    return buffers + turn * STG_STAGE_FLOATS;
  }
};

__device__ __forceinline__ stg_weights stg_weights_of(const stg_prover_args &a, float *buffers) {
  return {a.layers, buffers, 0};
}

// Add `stages` of inputs; the first one was asked for, and the first one of what follows will have
// been, if `more`. What follows the weights of the layer in memory is skipped.
template <int R>
__device__ __forceinline__ void stg_multiply(const float *tile, int stages, int skipped, bool more,
                                             stg_weights &weights, stg_patch<R> &patch) {
  const float *x_at = tile + stg_patch<R>::first_state();
#pragma unroll 1
  for (int stage = 0; stage < stages; stage++) {
    const float *const w_at = weights.wait() + stg_patch<R>::first_out();
    if (stage + 1 == stages) {
      weights.from += skipped;
    }
    if (stage + 1 < stages || more) {
      weights.ask();
    }
#pragma unroll
    for (int k = 0; k < STG_STAGE_INPUTS; k++) {
      float x[R], w[STG_THREAD_OUTS];
      stg_load_states<R>(x_at + k * STG_TILE_ROW, x);
      stg_load_outs(w_at + k * STG_TILE_ELEMS, w);
#pragma unroll
      for (int r = 0; r < R; r++) {
#pragma unroll
        for (int j = 0; j < STG_THREAD_OUTS; j++) {
          patch.y[r][j] = __fmaf_rn(x[r], w[j], patch.y[r][j]);
        }
      }
    }
    x_at += STG_STAGE_INPUTS * STG_TILE_ROW;
  }
}
