// layer.cuh: a tile of states through the policy, layer by layer: a linear map, then what is behind
// it: nothing for the last one, ReLU for all others, a norm but for the last two, the sum with what
// came in for blocks. The tile is worked on where it lies.
//
// A sum over a state's outputs has one order: eight of a thread, eight lanes, four warps.

// A layer in memory: [inputs, 256] weights, then [256] each of bias, gain and shift.
#define STG_LAYER_VECTORS 3

// Sums of a tile's states, quarter by quarter: of elements, and of squares.
struct stg_tile_sums {
  float part[2][4][STG_TILE_STATES];
};

// Sum each state's term over all outputs. Ends with a barrier, behind which no thread reads what it
// had read before.
template <class patch, int R>
__device__ __forceinline__ void stg_sum_states(float (&sum)[R], float (&part)[4][STG_TILE_STATES]) {
#pragma unroll
  for (int r = 0; r < R; r++) {
    sum[r] += __shfl_xor_sync(STG_ALL, sum[r], 4);
    sum[r] += __shfl_xor_sync(STG_ALL, sum[r], 8);
    sum[r] += __shfl_xor_sync(STG_ALL, sum[r], 16);
  }
  if (stg_lane() < 4) {
    stg_store_states<patch>(&part[patch::column()][patch::first_state()], sum);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < R; r++) {
    const int state = patch::first_state() + patch::state(r);
    sum[r] = (part[0][state] + part[1][state]) + (part[2][state] + part[3][state]);
  }
}

__device__ __forceinline__ float stg_sum_outs(const float (&t)[STG_THREAD_OUTS]) {
  return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
}

// Outputs past the last one are zeros and stay zeros: gain and shift are, there.
template <class G, int R>
__device__ __forceinline__ void stg_norm(const float *gain, const float *shift, float epsilon,
                                         stg_tile_sums &sums, stg_patch<G, R> &patch) {
  typedef stg_patch<G, R> patch_type;
  const int first = patch_type::first_out();
  float mean[R], scale[R];
#pragma unroll
  for (int r = 0; r < R; r++) {
    mean[r] = stg_sum_outs(patch.y[r]);
  }
  stg_sum_states<patch_type>(mean, sums.part[0]);
#pragma unroll
  for (int r = 0; r < R; r++) {
    float square[STG_THREAD_OUTS];
    mean[r] = mean[r] / (float)G::hidden;
#pragma unroll
    for (int j = 0; j < STG_THREAD_OUTS; j++) {
      const float off = patch.y[r][j] - mean[r];
      square[j] = first + patch_type::out(j) < G::hidden ? off * off : 0.0f;
    }
    scale[r] = stg_sum_outs(square);
  }
  stg_sum_states<patch_type>(scale, sums.part[1]);
#pragma unroll
  for (int r = 0; r < R; r++) {
    scale[r] = 1.0f / __fsqrt_rn(scale[r] / (float)G::hidden + epsilon);
  }
#pragma unroll
  for (int j = 0; j < STG_THREAD_OUTS; j++) {
    const float by = gain[first + patch_type::out(j)];
    const float plus = shift[first + patch_type::out(j)];
#pragma unroll
    for (int r = 0; r < R; r++) {
      patch.y[r][j] = (patch.y[r][j] - mean[r]) * scale[r] * by + plus;
    }
  }
}

// All layers. The first stage of the weights was asked for; there is a barrier before each use of
// the tile, and one behind the last.
template <class G, int R>
__device__ __forceinline__ void stg_evaluate(const stg_prover_args &a, stg_weights &weights,
                                             stg_tile_sums &sums, float *tile) {
  typedef stg_patch<G, R> patch_type;
  constexpr int head = G::blocks + 1; // and the last one behind it
  const float *layer = (const float *)a.layers;
  const int first = patch_type::first_out();
  float *const own = tile + first * STG_TILE_ROW + patch_type::first_state();
#pragma unroll 1
  for (int l = 0; l <= head + 1; l++) {
    const int inputs = l == 0 ? G::embed_rows : G::hidden_rows;
    const float *const vectors = layer + inputs * STG_TILE_ELEMS; // bias, gain, shift
    patch_type patch;
    float bias[STG_THREAD_OUTS];
    stg_load_outs<patch_type>(vectors + first, bias);
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
      for (int j = 0; j < STG_THREAD_OUTS; j++) {
        patch.y[r][j] = bias[j];
      }
    }
    stg_multiply<G, R>(tile, inputs / STG_STAGE_INPUTS, STG_LAYER_VECTORS * STG_TILE_ELEMS / 4,
                       l <= head, weights, patch);
    layer = vectors + STG_LAYER_VECTORS * STG_TILE_ELEMS;
    if (l <= head) {
#pragma unroll
      for (int r = 0; r < R; r++) {
#pragma unroll
        for (int j = 0; j < STG_THREAD_OUTS; j++) {
          patch.y[r][j] = patch.y[r][j] > 0.0f ? patch.y[r][j] : 0.0f;
        }
      }
    }
    if (l < head) {
      stg_norm<G, R>(vectors + STG_TILE_ELEMS, vectors + 2 * STG_TILE_ELEMS, a.epsilon, sums,
                     patch);
    } else {
      __syncthreads(); // all have read the tile
    }
#pragma unroll
    for (int j = 0; j < STG_THREAD_OUTS; j++) {
      float *const at = own + patch_type::out(j) * STG_TILE_ROW;
      float y[R];
      if (l > 0 && l < head) {
        stg_load_states<patch_type>(at, y);
      }
#pragma unroll
      for (int r = 0; r < R; r++) {
        y[r] = l > 0 && l < head ? y[r] + patch.y[r][j] : patch.y[r][j];
      }
      stg_store_states<patch_type>(at, y);
    }
  }
  __syncthreads();
}
