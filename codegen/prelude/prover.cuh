// prover.cuh: the proof search: a pool of queries from the first to the last, in one launch.
//
// A block has eight slots, each a warp's. In a round every slot derives, the block evaluates all
// states that came of it, tile by tile, and every slot picks. A slot whose query has ended takes the
// next one at once, from a counter; where there is none it idles until its block is through. What
// becomes of a query depends on its number and the seed, not on its slot, its block or the others.

// The shared memory of a block. While slots derive, lanes build their children where the tile is.
struct stg_room {
  float tile[STG_TILE_ELEMS * STG_TILE_ROW];
  float stages[2 * STG_STAGE_FLOATS];
  stg_tile_sums sums;
  stg_slot slots[STG_PROVER_SLOTS];
};
static_assert(sizeof(stg_prove_state) * STG_GEMM_THREADS <= sizeof(stg_room::tile), "lanes' room");

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

// States from item `first` on through the policy, and their slots told of it.
template <class G, int R>
__device__ __forceinline__ void stg_run_tile(const stg_prover_args &a, stg_room &room,
                                             unsigned first, unsigned items) {
  stg_weights weights = {a.layers, room.stages, 0};
  weights.ask();
  stg_embed<G>(a, room.slots, first, items, stg_patch<R>::states, room.tile);
  stg_evaluate<G, R>(a, weights, room.sums, room.tile);
  stg_judge<G>(a, room.slots, first, stg_patch<R>::states, room.tile);
  __syncthreads(); // the tile is free, and what is said of slots
}

// The queue is empty again, and nobody counts, for the launch that comes next.
__device__ __forceinline__ void stg_leave(const stg_prover_args &a, const stg_slot &slot) {
  if (stg_lane() < STG_COUNTS && slot.counts[stg_lane()] != 0) {
    atomicAdd(&a.words->counts[stg_lane()], slot.counts[stg_lane()]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&a.words->left, 1u) + 1u == gridDim.x) {
      a.words->taken = 0;
      a.words->done = 0;
      a.words->left = 0;
    }
  }
}

template <class G> __device__ __forceinline__ void stg_prover_run(const stg_prover_args &a) {
  extern __shared__ float4 stg_shared[];
  static_assert(sizeof(stg_room) == G::shared_bytes, "codegen/prover_extents.c has the same");
  static_assert(sizeof(stg_slot_memory<G>) <= G::scratch_bytes, "and the same");
  stg_room &room = *(stg_room *)stg_shared;
  const unsigned warp = threadIdx.x / STG_LANES;
  const unsigned n = *a.n < a.capacity ? *a.n : a.capacity;
  stg_slot &slot = room.slots[warp];
  if (stg_lane() < STG_COUNTS) {
    slot.counts[stg_lane()] = 0;
  }
  stg_begin_query(a, slot, warp * gridDim.x + blockIdx.x, n);
  for (;;) {
    if (slot.live) {
      stg_derivation<G> derivation = {a.base, slot, ((stg_prove_state *)room.tile)[threadIdx.x],
                                      stg_memory_of<G>(a, warp).children};
      derivation.run();
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
      if (items - first > stg_patch<4>::states) {
        stg_run_tile<G, 8>(a, room, first, items);
        first += stg_patch<8>::states;
      } else if (items - first > stg_patch<2>::states) {
        stg_run_tile<G, 4>(a, room, first, items);
        first += stg_patch<4>::states;
      } else {
        stg_run_tile<G, 2>(a, room, first, items);
        first += stg_patch<2>::states;
      }
    }
    if (slot.live) {
      stg_pick<G>(a, slot, n);
      if (!slot.live) {
        stg_begin_query(a, slot, stg_next_query(a), n);
      }
    }
  }
  stg_leave(a, slot);
}
