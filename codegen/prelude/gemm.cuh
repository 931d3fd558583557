// gemm.cuh: a tile of states through one linear map, in float32 or in TF32.
//
// A block has all 256 outputs of the tile's states in registers, thread by thread R states times 8
// outputs; R is 8, 4 or 2, for tiles of 64, 32 or 16 states. An output is one chain from its bias
// on, over the inputs in ascending order, whatever the tile: of fused multiply-adds, or of products
// of eight inputs (tf32.cuh); its bits depend on its state alone. Weights come in stages of 8
// inputs, the next one while one is worked on.
//
// Warp w has outputs from 64 * (w % 4) on and half w / 4 of the states; lane l eight of the outputs
// and R of the states. In float32 the outputs are four from 4 * (l / 4) on and four 32 further, the
// states from 4 * (l % 4) on; in TF32 they are where a product has its sums: outputs l / 4, by
// eights, and pairs of states from 2 * (l % 4) on, by eights.

#define STG_STAGE_INPUTS 8
#define STG_STAGE_ROW (STG_TILE_ELEMS + 8) // floats; so that TF32 does not meet in one bank
#define STG_STAGE_FLOATS (STG_STAGE_INPUTS * STG_STAGE_ROW)
#define STG_STAGE_UNITS (STG_STAGE_INPUTS * STG_TILE_ELEMS / 4) // of 16 bytes, without gaps
#define STG_THREAD_OUTS 8
#define STG_GEMM_THREADS 256

template <class G, int R> struct stg_patch {
  static constexpr bool tf32 = G::products != 0;
  static constexpr int states = stg_tile_states(R);
  static constexpr int run = tf32 || R == 2 ? 2 : 4; // states that are neighbours
  float y[R][STG_THREAD_OUTS];

  static __device__ __forceinline__ int column() { // of warps: a quarter of the outputs
    return (int)(threadIdx.x / STG_LANES) % 4;
  }
  static __device__ __forceinline__ int first_of_half() { // the warp's states
    return (int)(threadIdx.x / STG_LANES) / 4 * (4 * R);
  }
  static __device__ __forceinline__ int first_out() {
    return column() * 64 + (int)stg_lane() / 4 * (tf32 ? 1 : 4);
  }
  // Output j, from the first one.
  static __device__ __forceinline__ constexpr int out(int j) {
    return tf32 ? 8 * j : j < 4 ? j : 32 + j - 4;
  }
  static __device__ __forceinline__ int first_state() {
    return first_of_half() + (int)stg_lane() % 4 * run;
  }
  // State r, from the first one.
  static __device__ __forceinline__ constexpr int state(int r) {
    return tf32 ? r / 2 * 8 + r % 2 : r < 4 ? r : 16 + r - 4;
  }
};

// A thread's states of a row of the tile.
template <class P, int R>
__device__ __forceinline__ void stg_load_states(const float *at, float (&x)[R]) {
#pragma unroll
  for (int r = 0; r < R; r += P::run) {
    if constexpr (P::run == 2) {
      const float2 v = *(const float2 *)(at + P::state(r));
      x[r] = v.x;
      x[r + 1] = v.y;
    } else {
      const float4 v = *(const float4 *)(at + P::state(r));
      x[r] = v.x;
      x[r + 1] = v.y;
      x[r + 2] = v.z;
      x[r + 3] = v.w;
    }
  }
}

template <class P, int R>
__device__ __forceinline__ void stg_store_states(float *at, const float (&x)[R]) {
#pragma unroll
  for (int r = 0; r < R; r += P::run) {
    if constexpr (P::run == 2) {
      *(float2 *)(at + P::state(r)) = make_float2(x[r], x[r + 1]);
    } else {
      *(float4 *)(at + P::state(r)) = make_float4(x[r], x[r + 1], x[r + 2], x[r + 3]);
    }
  }
}

// A thread's outputs of a row of 256.
template <class P>
__device__ __forceinline__ void stg_load_outs(const float *at, float (&w)[STG_THREAD_OUTS]) {
  if constexpr (P::tf32) {
#pragma unroll
    for (int j = 0; j < STG_THREAD_OUTS; j++) {
      w[j] = at[P::out(j)];
    }
  } else {
#pragma unroll
    for (int j = 0; j < STG_THREAD_OUTS; j += 4) {
      const float4 v = *(const float4 *)(at + P::out(j));
      w[j] = v.x;
      w[j + 1] = v.y;
      w[j + 2] = v.z;
      w[j + 3] = v.w;
    }
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
    from += STG_STAGE_UNITS;
  }

  __device__ __forceinline__ void ask() {
    const float4 *const at_from = from;
    skip_asked();
    const unsigned to = (unsigned)__cvta_generic_to_shared(buffers + turn * STG_STAGE_FLOATS);
#pragma unroll
    for (int i = 0; i < STG_STAGE_UNITS / STG_GEMM_THREADS; i++) {
      const unsigned at = threadIdx.x + i * STG_GEMM_THREADS;
      const unsigned row = at / (STG_TILE_ELEMS / 4), unit = at % (STG_TILE_ELEMS / 4);
      stg_copy_or_clear_async(to + row * (STG_STAGE_ROW * 4) + unit * 16, at_from + at, true);
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

// Eight inputs: rows of the tile and of a stage, each from the warp's or the thread's own on.
template <class G, int R>
__device__ __forceinline__ void stg_multiply_f32(const float *x_at, const float *w_at,
                                                 stg_patch<G, R> &patch) {
  typedef stg_patch<G, R> patch_type;
  x_at += patch_type::first_state();
  w_at += patch_type::first_out();
#pragma unroll
  for (int k = 0; k < STG_STAGE_INPUTS; k++) {
    float x[R], w[STG_THREAD_OUTS];
    stg_load_states<patch_type>(x_at + k * STG_TILE_ROW, x);
    stg_load_outs<patch_type>(w_at + k * STG_STAGE_ROW, w);
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
      for (int j = 0; j < STG_THREAD_OUTS; j++) {
        patch.y[r][j] = __fmaf_rn(x[r], w[j], patch.y[r][j]);
      }
    }
  }
}

// Lane 4g + t has of a weight's 16 x 8 (outputs, inputs) the elements (g, t), (g + 8, t),
// (g, t + 4), (g + 8, t + 4), of the states' 8 x 8 (inputs, states) (t, g) and (t + 4, g), and of
// the sums (g, 2t), (g, 2t + 1) and those of output g + 8.
template <class G, int R>
__device__ __forceinline__ void stg_multiply_tf32(const float *x_at, const float *w_at,
                                                  stg_patch<G, R> &patch) {
  typedef stg_patch<G, R> patch_type;
  const int g = (int)stg_lane() / 4, t = (int)stg_lane() % 4;
  stg_tf32_parts<2> x[R / 2];
  x_at += t * STG_TILE_ROW + patch_type::first_of_half() + g;
  w_at += t * STG_STAGE_ROW + patch_type::first_out();
#pragma unroll
  for (int n = 0; n < R / 2; n++) {
    x[n].template set<G::products>({x_at[8 * n], x_at[8 * n + 4 * STG_TILE_ROW]});
  }
#pragma unroll
  for (int j = 0; j < STG_THREAD_OUTS; j += 2) {
    stg_tf32_parts<4> w;
    const float *const at = w_at + patch_type::out(j), *const further = at + 4 * STG_STAGE_ROW;
    w.template set<G::products>({at[0], at[8], further[0], further[8]});
#pragma unroll
    for (int n = 0; n < R / 2; n++) {
      float(&even)[STG_THREAD_OUTS] = patch.y[2 * n], (&odd)[STG_THREAD_OUTS] = patch.y[2 * n + 1];
      if constexpr (G::products == 3) {
        stg_tf32_add(even[j], odd[j], even[j + 1], odd[j + 1], w.low, x[n].high);
        stg_tf32_add(even[j], odd[j], even[j + 1], odd[j + 1], w.high, x[n].low);
      }
      stg_tf32_add(even[j], odd[j], even[j + 1], odd[j + 1], w.high, x[n].high);
    }
  }
}

// Add `stages` of inputs; the first one was asked for, and the first one of what follows will have
// been, if `more`. What follows the weights of the layer in memory is skipped.
template <class G, int R>
__device__ __forceinline__ void stg_multiply(const float *tile, int stages, int skipped, bool more,
                                             stg_weights &weights, stg_patch<G, R> &patch) {
#pragma unroll 1
  for (int stage = 0; stage < stages; stage++) {
    const float *const w_at = weights.wait();
    if (stage + 1 == stages) {
      weights.from += skipped;
    }
    if (stage + 1 < stages || more) {
      weights.ask();
    }
    if constexpr (G::products == 0) {
      stg_multiply_f32<G, R>(tile, w_at, patch);
    } else {
      stg_multiply_tf32<G, R>(tile, w_at, patch);
    }
    tile += STG_STAGE_INPUTS * STG_TILE_ROW;
  }
}
