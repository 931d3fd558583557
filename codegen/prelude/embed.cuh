// embed.cuh: which states a block evaluates together, and their embeddings as a tile.
//
// The states of all slots are one list: slot by slot the state itself, where it was not judged yet,
// then its children. A tile is some of that list; in shared memory it lies element by element, a
// row of an element having all states.

#define STG_TILE_STATES 64
#define STG_TILE_ROW (STG_TILE_STATES + 4) // floats; by that much stores do not meet in one bank
#define STG_TILE_ELEMS 256                 // of a state, zeros past those that there are
#define STG_PROVER_SLOTS 8                 // of a block, a warp each

// Of a tile of whose states a thread has R.
__device__ __forceinline__ constexpr int stg_tile_states(int R) {
  return 8 * R;
}

// A slot's memory on the device: the list, and two rows, of its state and of the best child so far.
template <class G> struct stg_slot_memory {
  stg_prove_state children[G::children];
  float rows[2][STG_TILE_ELEMS];
};

template <class G>
__device__ __forceinline__ stg_slot_memory<G> &stg_memory_of(const stg_prover_args &a,
                                                             unsigned slot) {
  return *(stg_slot_memory<G> *)(a.scratch +
                                 (blockIdx.x * (size_t)STG_PROVER_SLOTS + slot) * G::scratch_bytes);
}

// Item `item` of the list: its slot, and the child; -1 is the state itself.
struct stg_item {
  unsigned slot;
  int child;
};

__device__ __forceinline__ stg_item stg_item_of(const stg_slot *slots, unsigned item) {
  unsigned slot = 0;
  while (item >= slots[slot].items) {
    item -= slots[slot].items;
    slot++;
  }
  const int skipped = slots[slot].judged ? 0 : 1;
  return {slot, (int)item - skipped};
}

// A lane's elements of a state: lane, lane + 32 and so on.
#define STG_LANE_ELEMS (STG_TILE_ELEMS / STG_LANES)

template <class G>
__device__ __forceinline__ void stg_embed_state(const stg_prover_args &a,
                                                const stg_prove_state &state,
                                                float (&x)[STG_LANE_ELEMS]) {
  const unsigned n = state.n;
#pragma unroll 1
  for (unsigned i = 0; i < n; i++) {
    const stg_prove_atom atom = state.atoms[i];
    const float *const pred = a.predicates + (long long)(atom.pred - 1) * G::embed;
    const float *const arg0 = a.arguments + (long long)(atom.arg0 - 1) * G::embed;
    const float *const arg1 = a.arguments + (long long)(atom.arg1 - 1) * G::embed;
#pragma unroll
    for (int j = 0; j < STG_LANE_ELEMS; j++) {
      const int k = (int)stg_lane() + j * STG_LANES;
      if (k < G::embed) {
        x[j] += pred[k];
        x[j] += atom.arg0 > 0 ? arg0[k] : 0.0f;
        x[j] -= atom.arg1 > 0 ? arg1[k] : 0.0f;
      }
    }
  }
}

// Items from `first` on into a tile of `states`; behind the last item zeros.
template <class G>
__device__ __forceinline__ void stg_embed(const stg_prover_args &a, const stg_slot *slots,
                                          unsigned first, unsigned items, unsigned states,
                                          float *tile) {
#pragma unroll 1
  for (unsigned s = threadIdx.x / STG_LANES; s < states; s += STG_PROVER_SLOTS) {
    float x[STG_LANE_ELEMS] = {};
    if (first + s < items) {
      const stg_item item = stg_item_of(slots, first + s);
      stg_embed_state<G>(a,
                         item.child < 0 ? slots[item.slot].state
                                        : stg_memory_of<G>(a, item.slot).children[item.child],
                         x);
    }
#pragma unroll
    for (int j = 0; j < STG_LANE_ELEMS; j++) {
      tile[((int)stg_lane() + j * STG_LANES) * STG_TILE_ROW + s] = x[j] / (float)G::atoms;
    }
  }
}
