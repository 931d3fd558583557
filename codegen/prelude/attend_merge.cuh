// attend_merge.cuh: what a thread has of the heads of a tile, of however many positions: merged in
// the order of these, written to be merged by another block, or given out.

template <class G> struct stg_attend_kept {
  float4 values[stg_attend<G>::units][stg_attend<G>::threads];
  float2 facts[stg_attend<G>::units][stg_attend<G>::threads];
};

// How a chunk is merged: `old_weight` of what came before, -1 where nothing was read; `weight` of its
// own, -1 where nothing was read of it.
struct stg_attend_step {
  float old_weight, weight, sum;
};

// A row that is summed has left the registers, or a row is merged that is not summed any more.
template <class G> union stg_attend_aside {
  stg_attend_kept<G> kept;
  stg_attend_step steps[STG_ATTEND_MAX_CHUNKS * G::tile_heads];
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

  static __device__ __forceinline__ float weight_of(float x) {
    if constexpr (G::products) {
      return stg_weight_of(x);
    } else {
      return stg_math_exp(x);
    }
  }

  // Unit i: sums of the positions behind those that it has. Without a branch, so that the weights of
  // several are under way at once.
  __device__ __forceinline__ void add(int i, const stg_attend_part &more) {
    const bool is_none = more.sum < 0.0f, is_first = sum[i] < 0.0f;
    const float new_largest = more.largest > largest[i] ? more.largest : largest[i];
    const float base = stg_weight_base(new_largest);
    const float old_weight = weight_of(largest[i] - base);
    const float weight = weight_of(more.largest - base);
    const float4 had = values[i];
    mix(i, old_weight, weight, more.values);
    const float new_sum = __fmaf_rn(weight, more.sum, old_weight * sum[i]);
    largest[i] = is_none ? largest[i] : is_first ? more.largest : new_largest;
    sum[i] = is_none ? sum[i] : is_first ? more.sum : new_sum;
    values[i].x = is_none ? had.x : is_first ? more.values.x : values[i].x;
    values[i].y = is_none ? had.y : is_first ? more.values.y : values[i].y;
    values[i].z = is_none ? had.z : is_first ? more.values.z : values[i].z;
    values[i].w = is_none ? had.w : is_first ? more.values.w : values[i].w;
  }

  __device__ __forceinline__ void add(const stg_attend_sums &more) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      add(i, {more.largest[i], more.sum[i], more.values[i]});
    }
  }

  // Unit i: these alone.
  __device__ __forceinline__ void set(int i, const stg_attend_part &only) {
    values[i] = only.values;
    largest[i] = only.largest;
    sum[i] = only.sum;
  }

  // A tile that has run, behind what is `kept` of others, or none. Where its parts stood is free once
  // all threads have met.
  template <class Tile>
  __device__ __forceinline__ void take_tile(const Tile &tile, const stg_attend_kept<G> *kept) {
    stg_attend_part parts[shape::units] = {};
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        parts[i] = tile.part(unit(i) / shape::quads, unit(i) % shape::quads);
      }
    }
    if (kept == 0) {
#pragma unroll
      for (int i = 0; i < shape::units; i++) {
        set(i, parts[i]);
      }
    } else {
      load(*kept);
#pragma unroll
      for (int i = 0; i < shape::units; i++) {
        add(i, parts[i]);
      }
    }
  }

  // A tile that has run. Where its parts stood is free once all threads have met.
  template <class Tile> __device__ __forceinline__ void add_tile(const Tile &tile) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        add(i, tile.part(unit(i) / shape::quads, unit(i) % shape::quads));
      }
    }
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

  // Of all chunks and heads; a warp has those of a head, a lane a chunk.
  static __device__ __forceinline__ void weigh_slots(float4 *slots, int count,
                                                     stg_attend_step *steps) {
    const int lane = threadIdx.x % STG_LANES;
#pragma unroll 1
    for (int h = threadIdx.x / STG_LANES; h < G::tile_heads; h += shape::warps) {
      float before = __uint_as_float(0xff800000u); // the largest score of the chunks before these
      bool any = false;                            // and whether one of them was read
#pragma unroll 1
      for (int c = lane; c - lane < count; c += STG_LANES) {
        float2 fact = make_float2(0.0f, -1.0f);
        if (c < count) {
          fact = __ldcg(facts_of(slots + (long long)c * shape::slot_quads) + h);
        }
        const bool is = !(fact.y < 0.0f);
        const unsigned read = __ballot_sync(STG_ALL, is);
        float largest = is ? fact.x : __uint_as_float(0xff800000u);
#pragma unroll
        for (int apart = 1; apart < STG_LANES; apart *= 2) {
          const float other = __shfl_up_sync(STG_ALL, largest, apart);
          largest = lane >= apart && other > largest ? other : largest;
        }
        float had = __shfl_up_sync(STG_ALL, largest, 1);
        had = lane > 0 && had > before ? had : before;
        const bool is_first = !any && (read & ((1u << lane) - 1u)) == 0u;
        const float base = stg_weight_base(fact.x > had ? fact.x : had);
        if (c < count) {
          steps[c * G::tile_heads + h] = {is_first ? -1.0f : weight_of(had - base),
                                          is ? weight_of(fact.x - base) : -1.0f, fact.y};
        }
        any = any || read != 0u;
        const float last = __shfl_sync(STG_ALL, largest, STG_LANES - 1);
        before = last > before ? last : before;
      }
    }
  }

  // Slots that other blocks have written are read past the first-level cache, which is not told of
  // them; several are on their way at once. All threads meet within, and at the end; they have met
  // since what stands in place of `steps` was read.
  __device__ __forceinline__ void add_slots(float4 *slots, int count, stg_attend_step *steps) {
    // as many as leave registers to what a warp knows of its stream; of a paged cache it knows more
    constexpr int at_once = shape::units == 1 ? 8 : shape::units > 2 ? 2 : G::paged ? 3 : 4;
#pragma unroll 1
    for (int c = 0; c < count; c += at_once) {
      float4 more[at_once][shape::units];
      ask_slots(slots + (long long)c * shape::slot_quads, count - c, more);
      if (c == 0) {
        weigh_slots(slots, count, steps);
        __syncthreads();
      }
#pragma unroll
      for (int k = 0; k < at_once; k++) {
        if (c + k < count) {
          take(steps + (c + k) * G::tile_heads, more[k]);
        }
      }
    }
    __syncthreads(); // the steps have been read
  }

  // The same through shared memory, `room` bytes of which nobody uses: as many slots at once as it
  // holds. A thread reads what it has asked for itself.
  template <int room>
  __device__ __forceinline__ void add_slots_through(uint4 *memory, float4 *slots, int count,
                                                    stg_attend_step *steps) {
    constexpr int at_once = room / (shape::units * shape::threads * 16);
    static_assert(at_once > 0, "a slot has room");
    uint4 *const own = memory + threadIdx.x;
#pragma unroll 1
    for (int c = 0; c < count; c += at_once) {
      const int here = count - c < at_once ? count - c : at_once;
#pragma unroll 1
      for (int k = 0; k < here; k++) {
#pragma unroll
        for (int i = 0; i < shape::units; i++) {
          stg_copy_or_clear_async(
              (unsigned)__cvta_generic_to_shared(own + (k * shape::units + i) * shape::threads),
              slots + (long long)(c + k) * shape::slot_quads + (has(i) ? unit(i) : 0), has(i));
        }
      }
      stg_copy_commit();
      if (c == 0) {
        weigh_slots(slots, count, steps);
        __syncthreads();
      }
      stg_copy_wait_but<0>();
#pragma unroll 1
      for (int k = 0; k < here; k++) {
        float4 more[shape::units];
#pragma unroll
        for (int i = 0; i < shape::units; i++) {
          more[i] = *(const float4 *)(own + (k * shape::units + i) * shape::threads);
        }
        take(steps + (c + k) * G::tile_heads, more);
      }
    }
    __syncthreads(); // the steps have been read
  }

  template <int N>
  static __device__ __forceinline__ void ask_slots(const float4 *slots, int count,
                                                   float4 (&more)[N][shape::units]) {
#pragma unroll
    for (int k = 0; k < N; k++) {
#pragma unroll
      for (int i = 0; i < shape::units; i++) {
        if (has(i) && k < count) {
          more[k][i] = __ldcg(slots + k * shape::slot_quads + unit(i));
        }
      }
    }
  }

  // A chunk's quads by its steps, of which every head has one.
  __device__ __forceinline__ void take(const stg_attend_step *steps,
                                       const float4 (&more)[shape::units]) {
#pragma unroll
    for (int i = 0; i < shape::units; i++) {
      if (has(i)) {
        const stg_attend_step s = steps[unit(i) / shape::quads];
        if (s.weight < 0.0f) {
          continue;
        }
        if (s.old_weight < 0.0f) {
          values[i] = more[i];
          sum[i] = s.sum;
        } else {
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
  __device__ __forceinline__ void give(const stg_decode_args &a, int row, int tile) const {
    const int group_begin = tile % G::group_tiles * G::tile_heads;
    const int kv_head = tile / G::group_tiles;
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
                             stg_head_at<G>(a.out_stride, row, kv_head * G::group + h) + begin;
        put(out, f, G::dim - begin < 4 ? G::dim - begin : 4, aligned);
      }
    }
  }
};

// Where the partials of a row begin, for the heads of a tile.
template <class G>
__device__ __forceinline__ float4 *stg_attend_slots(const stg_decode_args &a, int row, int tile) {
  return a.partials + ((long long)row * G::tiles + tile) * a.chunks * stg_attend<G>::slot_quads;
}

// An item whose row others have chunks of as well, once its own have been written.
struct stg_attend_left {
  int row, tile, chunks, mine;
  bool is_last; // all others had been written
};

// Count the chunks of an item as written, by one thread that has met those who wrote them. What is
// returned tells, in time, whether all others had been counted. The addition is a release of what the
// block wrote ahead of its meeting, and an acquire of what others did ahead of theirs; who is last
// meets with all who then read: whatever the order of the blocks, they read what was written.
template <class G>
__device__ __forceinline__ unsigned stg_attend_leave(const stg_decode_args &a,
                                                     const stg_attend_item &item,
                                                     stg_attend_left &left) {
  left.row = item.row;
  left.tile = item.tile;
  left.chunks = item.chunks;
  left.mine = item.to - item.from;
  unsigned *const counter = a.counters + (long long)item.row * G::tiles + item.tile;
  unsigned counted;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(counted)
               : "l"(counter), "r"((unsigned)left.mine)
               : "memory");
  return counted;
}

// The same thread's, before it meets the others again. The counter is 0 again when the last has come.
template <class G>
__device__ __forceinline__ void stg_attend_settle(const stg_decode_args &a, unsigned counted,
                                                  stg_attend_left &left) {
  left.is_last = counted + (unsigned)left.mine == (unsigned)left.chunks;
  if (left.is_last) {
    a.counters[(long long)left.row * G::tiles + left.tile] = 0u;
  }
}

// All threads', behind that: who is last merges the row and gives it out.
template <class G>
__device__ __forceinline__ void stg_attend_finish(const stg_decode_args &a,
                                                  const stg_attend_left &left,
                                                  stg_attend_step *steps) {
  if (left.is_last) {
    stg_attend_sums<G> row;
    row.clear();
    row.add_slots(stg_attend_slots<G>(a, left.row, left.tile), left.chunks, steps);
    row.give(a, left.row, left.tile);
  }
}

// The same where nothing is on its way to `memory`, nor read there any more.
template <class G, int room>
__device__ __forceinline__ void stg_attend_finish_through(const stg_decode_args &a,
                                                          const stg_attend_left &left,
                                                          stg_attend_step *steps, uint4 *memory) {
  if (left.is_last) {
    stg_attend_sums<G> row;
    row.clear();
    row.template add_slots_through<room>(memory, stg_attend_slots<G>(a, left.row, left.tile),
                                         left.chunks, steps);
    row.give(a, left.row, left.tile);
  }
}
