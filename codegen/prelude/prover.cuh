// prover.cuh: the proof search: a pool of queries from the first to the last, in one launch.
//
// A block has eight slots, each a warp's. In a round every slot derives, the block evaluates all
// states that came of it, tile by tile, and every slot picks. A slot whose query has ended takes
// the next one at once, from a counter; where there is none it idles until its block is through.
// What becomes of a query depends on its number and the seed, not on its slot, its block or the
// others.

// The shared memory of a block. While slots derive, lanes build their children where the tile is.
struct stg_room {
  float tile[STG_TILE_ELEMS * STG_TILE_ROW];
  float stages[2 * STG_STAGE_FLOATS];
  stg_tile_sums sums;
  stg_slot slots[STG_PROVER_SLOTS];
};
static_assert(sizeof(stg_prove_state) * STG_GEMM_THREADS <= sizeof(stg_room::tile), "lanes' room");

__device__ __forceinline__ stg_room &stg_room_here() {
  extern __shared__ float4 stg_shared[];
  return *(stg_room *)stg_shared;
}

// The two that need most registers are functions of their own, which so have them for themselves.
template <class G> __device__ __noinline__ void stg_derive(const stg_prover_args &a) {
  const unsigned warp = threadIdx.x / STG_LANES;
  stg_room &room = stg_room_here();
  stg_derivation<G> derivation = {a.base, room.slots[warp],
                                  ((stg_prove_state *)room.tile)[threadIdx.x],
                                  stg_memory_of<G>(a, warp).children};
  derivation.run();
}

// The first stage of the weights has been asked for.
template <class G, int R> __device__ __noinline__ void stg_evaluate_tile(const stg_prover_args &a) {
  stg_room &room = stg_room_here();
  stg_weights weights = stg_weights_of(a, room.stages);
  weights.skip_asked();
  stg_evaluate<G, R>(a, weights, room.sums, room.tile);
}

// Query `index` into a slot; past the last one there is none.
__device__ __forceinline__ void stg_begin_query(const stg_prover_args &a, stg_slot &slot,
                                                unsigned index, unsigned n) {
  if (stg_lane() == 0) {
    slot.live = index < n;
    slot.index = index;
    slot.depth = slot.close = slot.judged = slot.mine = 0;
    slot.logp = 0.0f;
    if (index < n) {
      slot.query = a.queries[index];
      slot.state.n = 1;
      slot.state.atoms[0] = slot.query;
      slot.path[0] = stg_unify_hash(&slot.state);
    }
  }
  if (index < n && stg_lane() < STG_PROVE_DEPTH / 4) {
    ((unsigned *)a.results[index].actions)[stg_lane()] = 0;
  }
  __syncwarp();
}

// The first queries are spread over blocks, then over their slots; the others are in a queue.
__device__ __forceinline__ unsigned stg_next_query(const stg_prover_args &a) {
  unsigned index = 0;
  if (stg_lane() == 0) {
    index = STG_PROVER_SLOTS * gridDim.x + atomicAdd(&a.words->taken, 1u);
  }
  return __shfl_sync(STG_ALL, index, 0);
}

// Of the tiles the smallest that has room for all that is left, or the largest.
__device__ __forceinline__ unsigned stg_tile_for(unsigned items) {
  return items > stg_tile_states(4)   ? stg_tile_states(8)
         : items > stg_tile_states(2) ? stg_tile_states(4)
                                      : stg_tile_states(2);
}

// States from item `first` on through the policy, and their slots told of it.
template <class G>
__device__ __forceinline__ void stg_run_tile(const stg_prover_args &a, stg_room &room,
                                             unsigned first, unsigned items, unsigned states) {
  stg_weights_of(a, room.stages).ask();
  stg_embed<G>(a, room.slots, first, items, states, room.tile);
  if (states == stg_tile_states(8)) {
    stg_evaluate_tile<G, 8>(a);
  } else if (states == stg_tile_states(4)) {
    stg_evaluate_tile<G, 4>(a);
  } else {
    stg_evaluate_tile<G, 2>(a);
  }
  stg_judge<G>(a, room.slots, first, states, room.tile);
  __syncthreads(); // the tile is free, and what is said of slots
}

// The queue is empty again, and nobody counts, for the launch that comes next.
__device__ __forceinline__ void stg_leave(const stg_prover_args &a, const stg_slot &slot,
                                          unsigned n) {
  if (stg_lane() < STG_COUNTS && slot.counts[stg_lane()] != 0) {
    atomicAdd(&a.words->counts[stg_lane()], slot.counts[stg_lane()]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system(); // what was said of `done` comes before the last word
    if (atomicAdd(&a.words->left, 1u) + 1u == gridDim.x) {
      if (a.done != nullptr) {
        *a.done = n;
      }
      a.words->taken = 0;
      a.words->done = 0;
      a.words->left = 0;
    }
  }
}

template <class G> __device__ __forceinline__ void stg_prover_run(const stg_prover_args &a) {
  static_assert(sizeof(stg_room) == G::shared_bytes, "codegen/prover_extents.c has the same");
  static_assert(sizeof(stg_slot_memory<G>) <= G::scratch_bytes, "and the same");
  stg_room &room = stg_room_here();
  const unsigned warp = threadIdx.x / STG_LANES;
  const unsigned n = *a.n < a.capacity ? *a.n : a.capacity;
  stg_slot &slot = room.slots[warp];
  if (stg_lane() < STG_COUNTS) {
    slot.counts[stg_lane()] = 0;
  }
  stg_begin_query(a, slot, warp * gridDim.x + blockIdx.x, n);
  for (;;) {
    if (slot.live) {
      stg_derive<G>(a);
    } else if (stg_lane() == 0) {
      slot.items = 0;
    }
    if (!__syncthreads_or((int)slot.live)) {
      break;
    }
    unsigned items = 0;
    for (unsigned s = 0; s < STG_PROVER_SLOTS; s++) {
      items += room.slots[s].items;
    }
    __syncthreads(); // all know how many, before any slot goes on
    for (unsigned first = 0; first < items;) {
      const unsigned states = stg_tile_for(items - first);
      stg_run_tile<G>(a, room, first, items, states);
      first += states;
    }
    if (slot.live) {
      stg_pick<G>(a, slot);
      if (!slot.live) {
        stg_begin_query(a, slot, stg_next_query(a), n);
      }
    }
  }
  stg_leave(a, slot, n);
}
