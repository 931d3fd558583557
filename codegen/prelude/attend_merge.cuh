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

  // Unit i: sums of the positions behind those that it has.
  __device__ __forceinline__ void add(int i, float more_largest, float more_sum, float4 more) {
    if (more_sum < 0.0f) {
      return;
    }
    if (sum[i] < 0.0f) {
      largest[i] = more_largest;
      sum[i] = more_sum;
      values[i] = more;
      return;
    }
    const float new_largest = more_largest > largest[i] ? more_largest : largest[i];
    const float base = stg_weight_base(new_largest);
    const float old_weight = stg_math_exp(largest[i] - base);
    const float weight = stg_math_exp(more_largest - base);
    values[i].x = __fmaf_rn(weight, more.x, old_weight * values[i].x);
    values[i].y = __fmaf_rn(weight, more.y, old_weight * values[i].y);
    values[i].z = __fmaf_rn(weight, more.z, old_weight * values[i].z);
    values[i].w = __fmaf_rn(weight, more.w, old_weight * values[i].w);
    sum[i] = __fmaf_rn(weight, more_sum, old_weight * sum[i]);
    largest[i] = new_largest;
  }

  __device__ __forceinline__ void add(const stg_attend_sums &more) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      add(i, more.largest[i], more.sum[i], more.values[i]);
    }
  }

  // A tile that has run.
  __device__ __forceinline__ void add(const stg_attend_tile<G> &tile) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        const int h = unit(i) / shape::quads;
        add(i, tile.largest_of(h), tile.sum_of(h), tile.collect(h, unit(i) % shape::quads));
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

  // Merge `count` slots that other blocks have written: past the first-level cache, which is not
  // told of them. Several are on their way at once.
  __device__ __forceinline__ void add_slots(float4 *slots, int count) {
    constexpr int at_once = shape::units > 2 ? 2 : 4;
#pragma unroll 1
    for (int c = 0; c < count; c += at_once) {
#pragma unroll
      for (int i = 0; i < shape::units; i++) {
        float4 more[at_once];
        float2 facts[at_once];
#pragma unroll
        for (int k = 0; k < at_once; k++) {
          float4 *const slot = slots + (long long)(c + k) * shape::slot_quads;
          facts[k] = make_float2(0.0f, -1.0f);
          if (has(i) && c + k < count) {
            more[k] = __ldcg(slot + unit(i));
            facts[k] = __ldcg(facts_of(slot) + unit(i) / shape::quads);
          }
        }
#pragma unroll
        for (int k = 0; k < at_once; k++) {
          add(i, facts[k].x, facts[k].y, more[k]);
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
      const int begin = stg_quad_begin<G>(unit(i) % shape::quads);
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
