// attend_tile.cuh: a tile of positions for the query heads that share their K and V, of elements of
// 4 bytes: scores, weights, weighted sum of V. Knows nothing of rows, chunks or other blocks.
//
// Which thread has which element and position follows from the geometry, and sums have one order.

// Lane l of L that share a position gets the sum over them of s[l / (L/R)].
template <int R, int L> __device__ __forceinline__ float stg_fold_lanes(float (&s)[R], int lane) {
  int apart = L / 2;
#pragma unroll
  for (int n = R; n > 1; n /= 2) {
    const bool upper = (lane & apart) != 0;
#pragma unroll
    for (int j = 0; j < n / 2; j++) {
      const float keep = upper ? s[j + n / 2] : s[j];
      const float send = upper ? s[j] : s[j + n / 2];
      s[j] = keep + __shfl_xor_sync(STG_ALL, send, apart);
    }
    apart /= 2;
  }
#pragma unroll
  for (; apart > 0; apart /= 2) {
    s[0] += __shfl_xor_sync(STG_ALL, s[0], apart);
  }
  return s[0];
}

// e^(x - base) is taken of scores; where all are -Inf, 0 is as good as any and no NaN.
__device__ __forceinline__ float stg_weight_base(float largest) {
  return largest == __uint_as_float(0xff800000u) ? 0.0f : largest;
}

// A quad of elements of a head, over some positions: not yet divided by the sum of their weights.
struct stg_attend_part {
  float largest, sum; // the largest score, by which weights are; of weights
  float4 values;
};

template <class G> struct stg_attend_tile {
  typedef stg_attend<G> shape;
  typedef stg_attend_lanes<G> lanes_of;
  typedef typename G::data data;
  typedef typename data::element element;

  // heads of a position's scores, with what keeps those of 4 in 16 bytes
  static constexpr int score_heads = G::tile_heads > 4   ? 8
                                     : G::tile_heads > 2 ? 4
                                                         : G::tile_heads;
  struct shared_type {
    stg_attend_keys<G> keys;
    float4 q[G::tile_heads][shape::quads];              // a lane's two quads `lanes` apart
    alignas(16) float scores[G::tile * score_heads];    // then weights; heads innermost
    float largest[shape::warps][8], sum[shape::warps][8]; // of heads
  };

  const stg_decode_args &a;
  shared_type &shared;
  uint4 *const ring;
  const stg_attend_item &item;
  stg_attend_stream<G> stream;

  __device__ __forceinline__ stg_attend_tile(const stg_decode_args &args,
                                             shared_type &block, uint4 *slots,
                                             const stg_attend_item &work)
      : a(args), shared(block), ring(slots), item(work), stream(args, block.keys, slots) {
  }

  // Head h of the tile is query head `head(h)`, where the group has so many.
  __device__ __forceinline__ int in_group(int h) const {
    return item.tile % G::group_tiles * G::tile_heads + h;
  }
  __device__ __forceinline__ int head(int h) const {
    return item.tile / G::group_tiles * G::group + in_group(h);
  }

  // The row's query heads to shared memory, as float.
  __device__ __forceinline__ void bring_query() const {
#pragma unroll 1
    for (int i = threadIdx.x; i < G::tile_heads * shape::quads; i += shape::threads) {
      const int h = i / shape::quads, begin = i % shape::quads * 4;
      const element *const q =
          (const element *)a.q + stg_head_at<G>(a.q_stride, item.row, head(h)) + begin;
      float f[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        f[j] = in_group(h) < G::group && begin + j < G::dim ? data::widen(q[j]) : 0.0f;
      }
      shared.q[h][i % shape::quads] = make_float4(f[0], f[1], f[2], f[3]);
    }
  }

  // Find the blocks of the tile's positions and its mask. False: nothing of it is read.
  __device__ __forceinline__ bool choose(int begin) const {
    if constexpr (!G::paged && !G::masked) {
      return true;
    }
    stg_attend_keys<G> &keys = shared.keys;
    if constexpr (G::paged) {
      const int before = begin >> a.kv.block_shift;
      const int until = item.position >> a.kv.block_shift;
      for (int i = threadIdx.x; i << a.kv.block_shift < G::tile; i += shape::threads) {
        int unit = -1;
        if (before + i <= until) {
          unit = a.kv.block_table[(long long)item.seq * a.kv.table_row + before + i];
        }
        keys.unit[i] = unit < a.kv.n_blocks ? unit : -1;
      }
    }
    if constexpr (G::masked) {
      const unsigned char *const mask = a.key_mask + item.seq * a.mask_stride + begin;
      for (int o = threadIdx.x; o < G::tile; o += shape::threads) {
        const int position = begin + o;
        keys.key[o] = position >= item.first && position <= item.position ? mask[o] : 0;
      }
    }
    __syncthreads();
    bool any = false;
    for (int o = threadIdx.x; o < G::tile; o += shape::threads) {
      any = any || stream.reads(o);
    }
    return __syncthreads_or(any) != 0;
  }

  // Scores of batch n to shared memory: of each position and head by one lane.
  __device__ __forceinline__ void score(int n, const float (&q)[G::tile_heads][8]) {
    constexpr int spread = G::lanes / G::batch; // lanes that have the same position's scores
    float s[G::tile_heads][G::batch];
#pragma unroll
    for (int r = 0; r < G::batch; r++) {
      float k[8];
      stream.read(n, r, k);
#pragma unroll
      for (int h = 0; h < G::tile_heads; h++) {
        s[h][r] = q[h][0] * k[0];
#pragma unroll
        for (int j = 1; j < 8; j++) {
          s[h][r] = __fmaf_rn(q[h][j], k[j], s[h][r]);
        }
      }
    }
    const int o = ((stream.first + n) * G::batch + stream.lane / spread) * lanes_of::step +
                  stream.place;
    const bool is = stream.reads(o);
    float mine = 0.0f;
#pragma unroll
    for (int h = 0; h < G::tile_heads; h++) {
      const float sum = stg_fold_lanes<G::batch, G::lanes>(s[h], stream.lane);
      mine = h % spread == stream.lane % spread ? sum : mine;
      if (h % spread == spread - 1 || h == G::tile_heads - 1) {
        const int whose = h / spread * spread + stream.lane % spread;
        if (whose <= h) {
          shared.scores[o * score_heads + whose] =
              is ? a.scale * mine : __uint_as_float(0xff800000u);
        }
      }
    }
  }

  // Scores to weights, of the batches that were read; their largest score and their sum by warp.
  // A thread's scores are all of one head.
  __device__ __forceinline__ void weigh() const {
    constexpr int heads = score_heads;
    constexpr int count = (G::tile * heads + shape::threads - 1) / shape::threads;
    const int lane = threadIdx.x % STG_LANES, warp = threadIdx.x / STG_LANES;
    const int h = threadIdx.x % heads;
    const int from = stream.first * lanes_of::batch_places * heads;
    const int to = (stream.first + stream.batches) * lanes_of::batch_places * heads;
    float x[count];
    float largest = __uint_as_float(0xff800000u);
#pragma unroll
    for (int i = 0; i < count; i++) {
      const int at = threadIdx.x + i * shape::threads;
      x[i] = at >= from && at < to && h < G::tile_heads ? shared.scores[at]
                                                        : __uint_as_float(0xff800000u);
      largest = x[i] > largest ? x[i] : largest;
    }
#pragma unroll
    for (int apart = heads; apart < STG_LANES; apart *= 2) {
      const float other = __shfl_xor_sync(STG_ALL, largest, apart);
      largest = other > largest ? other : largest;
    }
    if (lane < heads) {
      shared.largest[warp][h] = largest;
    }
    __syncthreads();
    const float base = stg_weight_base(largest_of(h));
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < count; i++) {
      const int at = threadIdx.x + i * shape::threads;
      if (at >= from && at < to && h < G::tile_heads) {
        const float weight = stg_math_exp(x[i] - base);
        shared.scores[at] = weight;
        sum += weight;
      }
    }
#pragma unroll
    for (int apart = heads; apart < STG_LANES; apart *= 2) {
      sum += __shfl_xor_sync(STG_ALL, sum, apart);
    }
    if (lane < heads) {
      shared.sum[warp][h] = sum;
    }
    __syncthreads();
  }

  __device__ __forceinline__ float largest_of(int h) const {
    float largest = shared.largest[0][h];
#pragma unroll
    for (int w = 1; w < shape::warps; w++) {
      largest = shared.largest[w][h] > largest ? shared.largest[w][h] : largest;
    }
    return largest;
  }
  __device__ __forceinline__ float sum_of(int h) const {
    float sum = shared.sum[0][h];
#pragma unroll
    for (int w = 1; w < shape::warps; w++) {
      sum += shared.sum[w][h];
    }
    return sum;
  }

  // Add batch n of V, each position by its weights.
  __device__ __forceinline__ void add_values(int n, float (&acc)[G::tile_heads][8]) const {
    constexpr int heads = score_heads;
#pragma unroll
    for (int r = 0; r < G::batch; r++) {
      const int o = ((stream.first + n - stream.batches) * G::batch + r) * lanes_of::step +
                    stream.place;
      const float *const at = shared.scores + o * heads;
      float weight[heads], v[8];
      if constexpr (heads >= 4) {
#pragma unroll
        for (int h = 0; h < heads; h += 4) {
          const float4 four = *(const float4 *)(at + h);
          weight[h] = four.x, weight[h + 1] = four.y, weight[h + 2] = four.z,
          weight[h + 3] = four.w;
        }
      } else {
#pragma unroll
        for (int h = 0; h < heads; h++) {
          weight[h] = at[h];
        }
      }
      stream.read(n, r, v);
#pragma unroll
      for (int h = 0; h < G::tile_heads; h++) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          acc[h][j] = __fmaf_rn(weight[h], v[j], acc[h][j]);
        }
      }
    }
  }

  // A thread's sums into its own column of the ring, which is empty by now.
  __device__ __forceinline__ void lay_out(const float (&acc)[G::tile_heads][8]) const {
    float4 *const column = (float4 *)ring + threadIdx.x;
#pragma unroll
    for (int h = 0; h < G::tile_heads; h++) {
      column[(h * 2) * shape::threads] = make_float4(acc[h][0], acc[h][1], acc[h][2], acc[h][3]);
      column[(h * 2 + 1) * shape::threads] =
          make_float4(acc[h][4], acc[h][5], acc[h][6], acc[h][7]);
    }
  }

  // A quad of a head over all positions: those of a warp, then the warps.
  __device__ __forceinline__ float4 collect(int h, int quad) const {
    const float4 *const rows = (const float4 *)ring +
                               (h * 2 + quad / G::lanes) * shape::threads + quad % G::lanes;
    float4 sum;
#pragma unroll
    for (int w = 0; w < shape::warps; w++) {
      float4 warp = rows[w * STG_LANES];
#pragma unroll 4
      for (int u = 1; u < lanes_of::warp_places; u++) {
        const float4 more = rows[w * STG_LANES + u * G::lanes];
        warp.x += more.x, warp.y += more.y, warp.z += more.z, warp.w += more.w;
      }
      if (w == 0) {
        sum = warp;
      } else {
        sum.x += warp.x, sum.y += warp.y, sum.z += warp.z, sum.w += warp.w;
      }
    }
    return sum;
  }

  __device__ __forceinline__ stg_attend_part part(int h, int quad) const {
    return {largest_of(h), sum_of(h), collect(h, quad)};
  }

  // The tile at `begin`; its parts are to be taken, and then all threads to meet. False: the row
  // reads nothing of it. `fresh`: the item's first that it reads.
  __device__ __forceinline__ bool run(int begin, bool fresh) {
    stream.open(item, begin);
    if (!choose(begin)) {
      return false;
    }
#pragma unroll 1
    for (int n = 0; n < G::depth - 1; n++) {
      stream.ask(n);
    }
    if (fresh) {
      bring_query();
    }
    __syncthreads();
    float q[G::tile_heads][8];
#pragma unroll
    for (int h = 0; h < G::tile_heads; h++) {
      const float4 low = shared.q[h][stream.lane], high = shared.q[h][G::lanes + stream.lane];
      q[h][0] = low.x, q[h][1] = low.y, q[h][2] = low.z, q[h][3] = low.w;
      q[h][4] = high.x, q[h][5] = high.y, q[h][6] = high.z, q[h][7] = high.w;
    }
#pragma unroll 1
    for (int n = 0; n < stream.batches; n++) {
      stream.ask(n + G::depth - 1);
      stg_copy_wait_but<G::depth - 1>();
      score(n, q);
    }
    __syncthreads();
    weigh();
    float acc[G::tile_heads][8] = {};
#pragma unroll 1
    for (int n = stream.batches; n < 2 * stream.batches; n++) {
      stream.ask(n + G::depth - 1);
      stg_copy_wait_but<G::depth - 1>();
      add_values(n, acc);
    }
    lay_out(acc);
    __syncthreads();
    return true;
  }
};
