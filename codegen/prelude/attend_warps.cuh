// attend_warps.cuh: a chunk of positions for the query heads that share their K and V, of 16-bit
// elements, by products of matrices: scores, weights, weighted sum of V. Each warp does all of it
// for slices of its own; what the warps have is merged at the end. Knows nothing of what comes next.
//
// Scores are [positions x 8 heads] = K . q^T, and sums [elements x 8 heads] += V^T . weights, so
// that a thread has the same two heads in both; heads that a tile has not are zeros. The weights are
// float, and multiply V as two parts (mma.cuh). Sums have one order.

// e^x of a score less the largest, so of 0 at most, or NaN: what stg_math_exp computes, but 0 below
// e^-87, so that it needs no branch and 2^n is one factor.
__device__ __forceinline__ float stg_weight_of(float x) {
  const bool is_small = x < -87.0f;
  const float y = is_small ? -87.0f : x;
  const float shifted = __fmaf_rn(y, 1.44269502f, 12582912.0f); // rounds to the nearest integer n
  const float n = shifted - 12582912.0f;
  float r = __fmaf_rn(n, -0.693359375f, y);
  r = __fmaf_rn(n, 2.12194442e-4f, r);
  float p = 1.38146931e-3f;
  p = __fmaf_rn(p, r, 8.36878456e-3f);
  p = __fmaf_rn(p, r, 4.16683927e-2f);
  p = __fmaf_rn(p, r, 0.166665196f);
  p = __fmaf_rn(p, r, 0.49999994f);
  const float e = __fmaf_rn(r * r, p, r) + 1.0f;
  const float power = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u); // 2^n
  return is_small ? 0.0f : e * power;
}

template <class G> struct stg_attend_warps {
  typedef stg_attend<G> shape;
  typedef stg_attend_slices<G> slices_of;
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_mma<data> mma;

  static constexpr int steps = G::padded / 16; // of elements of a head
  static constexpr int parts = G::slice / 16;  // of positions of a slice
  static constexpr int own_heads = G::tile_heads == 1 ? 1 : 2; // of a thread's two, that may be any
  static constexpr int query_elems = (steps + 1) / 2 * 32 + 8; // of a head in shared memory
  static constexpr int sum_elems = G::padded + 4;              // likewise, of a warp's sums
  static constexpr int query_pieces = query_elems / 8 - 1; // of 16 bytes, of a head
  static constexpr int own_pieces = (8 * query_pieces + shape::threads - 1) / shape::threads;
  static_assert(G::tile == G::chunk, "a chunk is not cut");
  static_assert(G::tile_heads * sum_elems * 4 <= slices_of::slice_bytes,
                "a warp's sums have room where its V was");

  struct shared_type {
    alignas(16) element q[8][query_elems]; // zeros behind the elements and the heads
    float largest[shape::warps][8], sum[shape::warps][8]; // of heads; sum -1: nothing was read
  };

  const stg_decode_args &a;
  shared_type &shared;
  uint4 *const ring;
  const int lane, warp;

  __device__ __forceinline__ stg_attend_warps(const stg_decode_args &args, shared_type &block,
                                              uint4 *slots)
      : a(args), shared(block), ring(slots), lane(threadIdx.x % STG_LANES),
        warp(threadIdx.x / STG_LANES) {
  }

  // 8 elements of a query head from element `begin` on, with zeros for those that it has not.
  static __device__ __forceinline__ uint4 query_piece(const element *from, int begin) {
    alignas(16) element e[8];
#pragma unroll
    for (int j = 0; j < 8; j++) {
      e[j] = begin + j < G::dim ? from[j] : (element)0;
    }
    return *(const uint4 *)e;
  }

  // A row's query heads, zeros in place of those that the tile has not, on their way to shared
  // memory: this thread's pieces. They may stand at any element.
  __device__ __forceinline__ void ask_query(const stg_attend_item &item,
                                            uint4 (&pieces)[own_pieces]) const {
    const int group_begin = item.tile % G::group_tiles * G::tile_heads;
    const int first_head = item.tile / G::group_tiles * G::group + group_begin;
#pragma unroll
    for (int i = 0; i < own_pieces; i++) {
      const int at = (int)threadIdx.x + i * shape::threads;
      const int h = at / query_pieces, begin = at % query_pieces * 8;
      pieces[i] = {0u, 0u, 0u, 0u};
      if (h < G::tile_heads && group_begin + h < G::group && begin < G::dim) {
        const element *const from = (const element *)a.q + begin +
                                    stg_head_at<G>(a.q_stride, item.row, first_head + h);
        pieces[i] = G::whole && (unsigned long long)from % 16 == 0 ? *(const uint4 *)from
                                                                   : query_piece(from, begin);
      }
    }
  }
  __device__ __forceinline__ void keep_query(const uint4 (&pieces)[own_pieces]) const {
#pragma unroll
    for (int i = 0; i < own_pieces; i++) {
      const int at = (int)threadIdx.x + i * shape::threads;
      if (at < 8 * query_pieces) {
        *(uint4 *)&shared.q[at / query_pieces][at % query_pieces * 8] = pieces[i];
      }
    }
  }

  // Scores of the slice in shared memory, not yet scaled. The query is read again for each slice:
  // it would take registers.
  __device__ __forceinline__ void score(unsigned keys_at, float (&s)[parts][4]) const {
    const unsigned query_at =
        (unsigned)__cvta_generic_to_shared(&shared.q[lane % 8][lane / 8 * 8]);
    const unsigned at = keys_at + lane % 16 * slices_of::row_bytes + lane / 16 * 16;
    unsigned q[4]; // of two steps
#pragma unroll
    for (int k = 0; k < steps; k++) {
      if (k % 2 == 0) {
        stg_load_matrices<false>(query_at + k * 32, q);
      }
#pragma unroll
      for (int m = 0; m < parts; m++) {
        unsigned keys[4];
        stg_load_matrices<false>(at + m * 16 * slices_of::row_bytes + k * 32, keys);
        mma::add(s[m], keys, q[k % 2 * 2], q[k % 2 * 2 + 1]);
      }
    }
  }

  // A warp's sums so far, of this thread's two heads; `sum` of its own positions alone.
  struct state {
    float values[steps][4];
    float largest[2], sum[2];

    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int d = 0; d < steps; d++) {
        values[d][0] = values[d][1] = values[d][2] = values[d][3] = 0.0f;
      }
      largest[0] = largest[1] = __uint_as_float(0xff800000u);
      sum[0] = sum[1] = 0.0f;
    }
  };

  // Scores to weights, of the positions that `word` has; what was summed before, by the new
  // largest.
  __device__ __forceinline__ void weigh(unsigned word, float (&s)[parts][4], state &so_far) const {
    const unsigned mine = word >> lane / 4;
    float largest[2] = {so_far.largest[0], so_far.largest[1]};
#pragma unroll
    for (int m = 0; m < parts; m++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (j % 2 >= own_heads) {
          continue;
        }
        const bool is = (mine >> (m * 16 + j / 2 * 8) & 1u) != 0u;
        s[m][j] = is ? a.scale * s[m][j] : __uint_as_float(0xff800000u);
        largest[j % 2] = s[m][j] > largest[j % 2] ? s[m][j] : largest[j % 2];
      }
    }
#pragma unroll
    for (int apart = 4; apart < STG_LANES; apart *= 2) {
#pragma unroll
      for (int j = 0; j < own_heads; j++) {
        const float other = __shfl_xor_sync(STG_ALL, largest[j], apart);
        largest[j] = other > largest[j] ? other : largest[j];
      }
    }
    float base[2], old_weight[2];
#pragma unroll
    for (int j = 0; j < own_heads; j++) {
      base[j] = stg_weight_base(largest[j]);
      old_weight[j] = stg_weight_of(so_far.largest[j] - base[j]);
      so_far.largest[j] = largest[j];
      so_far.sum[j] *= old_weight[j];
    }
#pragma unroll
    for (int m = 0; m < parts; m++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (j % 2 >= own_heads) {
          s[m][j] = 0.0f;
          continue;
        }
        s[m][j] = stg_weight_of(s[m][j] - base[j % 2]);
        so_far.sum[j % 2] += s[m][j];
      }
    }
#pragma unroll
    for (int d = 0; d < steps; d++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (j % 2 < own_heads) { // the others stay 0
          so_far.values[d][j] *= old_weight[j % 2];
        }
      }
    }
  }

  // The slice's V in shared memory by its weights.
  __device__ __forceinline__ void add_values(unsigned keys_at, const float (&weights)[parts][4],
                                             float (&values)[steps][4]) const {
    constexpr int at_once = steps > 8 ? 2 : 4;
    const unsigned at = keys_at + slices_of::slice_bytes +
                        (lane % 8 + lane / 16 * 8) * slices_of::row_bytes + lane / 8 % 2 * 16;
#pragma unroll
    for (int m = 0; m < parts; m++) {
      unsigned high[2], low[2];
#pragma unroll
      for (int half = 0; half < 2; half++) {
        stg_split2<data>(weights[m][half * 2], weights[m][half * 2 + 1], high[half], low[half]);
        high[half] = stg_turn_matrix(high[half]);
        low[half] = stg_turn_matrix(low[half]);
      }
#pragma unroll
      for (int d = 0; d < steps; d += at_once) {
        unsigned v[at_once][4];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          if (d + i < steps) {
            stg_load_matrices<true>(at + m * 16 * slices_of::row_bytes + (d + i) * 32, v[i]);
          }
        }
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          if (d + i < steps) {
            mma::add(values[d + i], v[i], high[0], high[1]);
          }
        }
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          if (d + i < steps) {
            mma::add(values[d + i], v[i], low[0], low[1]);
          }
        }
      }
    }
  }

  // Where a warp's sums of a head are once its slices of a chunk are done with: where V was, while
  // the next K is on its way.
  __device__ __forceinline__ float *sums_of(int w, int h) const {
    return (float *)((char *)ring + w * slices_of::warp_bytes + slices_of::slice_bytes) +
           h * sum_elems;
  }

  // `any`: this warp has read something of the chunk.
  __device__ __forceinline__ void lay_out(state &so_far, bool any) const {
    const int g = lane / 4, t = lane % 4;
    constexpr float unit = 1.0f / mma::whole;
#pragma unroll
    for (int j = 0; j < own_heads; j++) {
#pragma unroll
      for (int apart = 4; apart < STG_LANES; apart *= 2) {
        so_far.sum[j] += __shfl_xor_sync(STG_ALL, so_far.sum[j], apart);
      }
      if (g == 0) {
        shared.largest[warp][2 * t + j] = so_far.largest[j];
        shared.sum[warp][2 * t + j] = any ? so_far.sum[j] : -1.0f;
      }
      if (2 * t + j < G::tile_heads) {
        float *const to = sums_of(warp, 2 * t + j) + g;
#pragma unroll
        for (int d = 0; d < steps; d++) {
          to[d * 16] = so_far.values[d][j] * unit;
          to[d * 16 + 8] = so_far.values[d][2 + j] * unit;
        }
      }
    }
  }

  // What the warps have of a quad of a head, in their order. A warp that has read nothing has zeros,
  // and no weight.
  __device__ __forceinline__ stg_attend_part part(int h, int quad) const {
    constexpr int at_once = shape::warps < 4 ? shape::warps : 4;
    stg_attend_part all;
    all.largest = shared.largest[0][h];
#pragma unroll
    for (int w = 1; w < shape::warps; w++) {
      all.largest = shared.largest[w][h] > all.largest ? shared.largest[w][h] : all.largest;
    }
    const float base = stg_weight_base(all.largest);
    bool any = false;
    all.sum = 0.0f;
    all.values = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll at_once
    for (int w = 0; w < shape::warps; w++) {
      const float sum = shared.sum[w][h];
      const bool is = !(sum < 0.0f);
      const float weight = is ? stg_weight_of(shared.largest[w][h] - base) : 0.0f;
      const float4 more = *(const float4 *)(sums_of(w, h) + quad * 4);
      any = any || is;
      all.sum = __fmaf_rn(weight, sum, all.sum);
      all.values.x = __fmaf_rn(weight, more.x, all.values.x);
      all.values.y = __fmaf_rn(weight, more.y, all.values.y);
      all.values.z = __fmaf_rn(weight, more.z, all.values.z);
      all.values.w = __fmaf_rn(weight, more.w, all.values.w);
    }
    all.sum = any ? all.sum : -1.0f;
    return all;
  }
};
