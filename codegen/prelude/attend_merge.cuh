// attend_merge.cuh: what a thread has of the heads of a tile, of however many positions: merged in
// the order of these, written to be merged by another block, or given out.

template <class G> struct stg_attend_kept {
  float4 values[stg_attend<G>::units][stg_attend<G>::threads];
  float2 facts[stg_attend<G>::units][stg_attend<G>::threads];
};

template <class G> struct stg_attend_sums {
  typedef stg_attend<G> shape;
  typedef typename G::data data;
  typedef typename data::element element;

  float4 values[shape::units]; // not yet divided
  float largest[shape::units], sum[shape::units]; // of the head; sum -1: nothing was read

  static __device__ __forceinline__ int unit(int i) {
    return (int)threadIdx.x + i * shape::threads;
  }
  static __device__ __forceinline__ bool has(int i) {
    return G::tile_heads * shape::quads % shape::threads == 0 ||
           unit(i) < G::tile_heads * shape::quads;
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      values[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      largest[i] = 0.0f;
      sum[i] = -1.0f;
    }
  }

  // To a place of this thread's own, and back.
  __device__ __forceinline__ void keep(stg_attend_kept<G> &kept) const {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      kept.values[i][threadIdx.x] = values[i];
      kept.facts[i][threadIdx.x] = make_float2(largest[i], sum[i]);
    }
  }
  __device__ __forceinline__ void load(const stg_attend_kept<G> &kept) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      values[i] = kept.values[i][threadIdx.x];
      largest[i] = kept.facts[i][threadIdx.x].x;
      sum[i] = kept.facts[i][threadIdx.x].y;
    }
  }

  __device__ __forceinline__ void mix(int i, float old_weight, float weight, float4 more) {
    values[i].x = __fmaf_rn(weight, more.x, old_weight * values[i].x);
    values[i].y = __fmaf_rn(weight, more.y, old_weight * values[i].y);
    values[i].z = __fmaf_rn(weight, more.z, old_weight * values[i].z);
    values[i].w = __fmaf_rn(weight, more.w, old_weight * values[i].w);
  }

  // Unit i: sums of the positions behind those that it has.
  __device__ __forceinline__ void add(int i, const stg_attend_part &more) {
    if (more.sum < 0.0f) {
      return;
    }
    if (sum[i] < 0.0f) {
      largest[i] = more.largest;
      sum[i] = more.sum;
      values[i] = more.values;
      return;
    }
    const float new_largest = more.largest > largest[i] ? more.largest : largest[i];
    const float base = stg_weight_base(new_largest);
    const float old_weight = stg_math_exp(largest[i] - base);
    const float weight = stg_math_exp(more.largest - base);
    mix(i, old_weight, weight, more.values);
    sum[i] = __fmaf_rn(weight, more.sum, old_weight * sum[i]);
    largest[i] = new_largest;
  }

  __device__ __forceinline__ void add(const stg_attend_sums &more) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      add(i, {more.largest[i], more.sum[i], more.values[i]});
    }
  }

  // A tile that has run.
  template <class Tile> __device__ __forceinline__ void add_tile(const Tile &tile) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        add(i, tile.part(unit(i) / shape::quads, unit(i) % shape::quads));
      }
    }
    __syncthreads(); // the ring is free again
  }

  // ---- partials: the quads of all heads, then a largest score and a sum for each head ----

  static __device__ __forceinline__ float2 *facts_of(float4 *slot) {
    return (float2 *)(slot + G::tile_heads * shape::quads);
  }

  __device__ __forceinline__ void store(float4 *slot) const {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        slot[unit(i)] = values[i];
        if (unit(i) % shape::quads == 0) {
          facts_of(slot)[unit(i) / shape::quads] = make_float2(largest[i], sum[i]);
        }
      }
    }
  }

  // ---- merging the partials of a row, up to STG_ATTEND_MAX_CHUNKS: what `add` does, chunk by
  // chunk, but for the weights, which are worked out for all chunks at once ----

  // How a chunk is merged: `old_weight` of what came before, `weight` of its own.
  struct step {
    float old_weight, weight, sum;
    int kind; // 0: nothing was read; 1: the first that was; 2: a later one
  };
  static constexpr int row = 8; // heads of a chunk in shared memory

  static __device__ __forceinline__ step step_of(const float2 *facts, int c, int h) {
    const float2 mine = facts[c * row + h];
    float before = 0.0f;
    bool any = false;
#pragma unroll 4
    for (int k = 0; k < c; k++) {
      const float2 fact = facts[k * row + h];
      if (!(fact.y < 0.0f)) {
        before = any && !(fact.x > before) ? before : fact.x;
        any = true;
      }
    }
    if (mine.y < 0.0f || !any) {
      return {0.0f, 0.0f, mine.y, mine.y < 0.0f ? 0 : 1};
    }
    const float base = stg_weight_base(mine.x > before ? mine.x : before);
    return {stg_math_exp(before - base), stg_math_exp(mine.x - base), mine.y, 2};
  }

  // Slots that other blocks have written are read past the first-level cache, which is not told of
  // them; several are on their way at once. The ring is empty, before and afterwards.
  __device__ __forceinline__ void add_slots(float4 *slots, int count, uint4 *ring) {
    constexpr int at_once = shape::units == 1 ? 8 : shape::units == 2 ? 4 : 2;
    constexpr int heads = G::tile_heads;
    float2 *const facts = (float2 *)ring;
    step *const steps = (step *)(facts + STG_ATTEND_MAX_CHUNKS * row);
    float4 more[at_once][shape::units];
    ask_slots(slots, 0, count, more);
    for (int i = threadIdx.x; i < count * heads; i += shape::threads) {
      float4 *const slot = slots + (long long)(i / heads) * shape::slot_quads;
      facts[i / heads * row + i % heads] = __ldcg(facts_of(slot) + i % heads);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count * heads; i += shape::threads) {
      steps[i / heads * row + i % heads] = step_of(facts, i / heads, i % heads);
    }
    __syncthreads();
#pragma unroll 1
    for (int c = 0; c < count; c += at_once) {
      if (c > 0) {
        ask_slots(slots, c, count, more);
      }
#pragma unroll
      for (int k = 0; k < at_once; k++) {
        if (c + k < count) {
          take(steps + (c + k) * row, more[k]);
        }
      }
    }
    __syncthreads();
  }

  template <int N>
  static __device__ __forceinline__ void ask_slots(const float4 *slots, int c, int count,
                                                   float4 (&more)[N][shape::units]) {
#pragma unroll
    for (int k = 0; k < N; k++) {
#pragma unroll
      for (int i = 0; i < shape::units; i++) {
        if (has(i) && c + k < count) {
          more[k][i] = __ldcg(slots + (long long)(c + k) * shape::slot_quads + unit(i));
        }
      }
    }
  }

  // A chunk's quads by its steps, of which every head has one.
  __device__ __forceinline__ void take(const step *steps, const float4 (&more)[shape::units]) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        const step s = steps[unit(i) / shape::quads];
        if (s.kind == 1) {
          values[i] = more[i];
          sum[i] = s.sum;
        } else if (s.kind == 2) {
          mix(i, s.old_weight, s.weight, more[i]);
          sum[i] = __fmaf_rn(s.weight, s.sum, s.old_weight * sum[i]);
        }
      }
    }
  }

  // ---- the result ----

  static __device__ __forceinline__ void put(element *to, const float (&f)[4], int count,
                                             bool aligned) {
    alignas(16) element e[8]; // narrowed as a whole chunk, of which half is used
    const float eight[8] = {f[0], f[1], f[2], f[3], 0.0f, 0.0f, 0.0f, 0.0f};
    stg_narrow<data>(eight, *(typename data::raw *)e);
    if (aligned && count == 4) {
      if constexpr (sizeof(element) == 2) {
        *(uint2 *)to = *(const uint2 *)e;
      } else {
        *(uint4 *)to = *(const uint4 *)e;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (j < count) {
          to[j] = e[j];
        }
      }
    }
  }

  // Divide, round and store; zeros where nothing was read.
  __device__ __forceinline__ void give(const stg_decode_args &a,
                                       const stg_attend_item &item) const {
    const int group_begin = item.tile % G::group_tiles * G::tile_heads;
    const int kv_head = item.tile / G::group_tiles;
    const bool aligned = G::whole && (a.flags & STG_ATTEND_ALIGNED) != 0;
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      const int h = group_begin + unit(i) / shape::quads;
      const int begin = unit(i) % shape::quads * 4;
      if (has(i) && h < G::group && begin < G::dim) {
        float f[4] = {values[i].x, values[i].y, values[i].z, values[i].w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
          f[j] = sum[i] < 0.0f ? 0.0f : __fdiv_rn(f[j], sum[i]);
        }
        element *const out = (element *)a.out +
                             stg_head_at<G>(a.out_stride, item.row, kv_head * G::group + h) + begin;
        put(out, f, G::dim - begin < 4 ? G::dim - begin : 4, aligned);
      }
    }
  }
};
