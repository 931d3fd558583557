// pick.cuh: logits of a slot's children, one of which is picked, and what becomes of the query
// then. A warp does this for its slot alone.
//
// Of the children evaluated so far only the best one's row is kept: it is the state's, once that
// child is the state.

// What a pick goes by: the largest wins, of equal ones the first.
__device__ __forceinline__ float stg_key_of(const stg_prover_args &a, const stg_slot &slot,
                                            unsigned child) {
  const float logit = slot.logits[child];
  if ((a.flags & STG_PROVER_SAMPLE) == 0) {
    return logit;
  }
  return logit + stg_gumbel_noise(stg_gumbel_word(a.seed, a.first + slot.index, slot.depth, child));
}

__device__ __forceinline__ float stg_sum_lanes(float x) {
#pragma unroll
  for (int by = STG_LANES / 2; by > 0; by /= 2) {
    x += __shfl_xor_sync(STG_ALL, x, by);
  }
  return x;
}

__device__ __forceinline__ float stg_most_of_lanes(float x) {
#pragma unroll
  for (int by = STG_LANES / 2; by > 0; by /= 2) {
    x = fmaxf(x, __shfl_xor_sync(STG_ALL, x, by));
  }
  return x;
}

// A lane's elements of a state of the tile.
__device__ __forceinline__ void stg_load_column(const float *tile, unsigned state,
                                                float (&x)[STG_LANE_ELEMS]) {
#pragma unroll
  for (int j = 0; j < STG_LANE_ELEMS; j++) {
    x[j] = tile[((int)stg_lane() + j * STG_LANES) * STG_TILE_ROW + state];
  }
}

// And of a row; a lane reads what it stored itself.
__device__ __forceinline__ void stg_load_row(const float *row, float (&x)[STG_LANE_ELEMS]) {
#pragma unroll
  for (int j = 0; j < STG_LANE_ELEMS; j++) {
    x[j] = row[stg_lane() + j * STG_LANES];
  }
}
__device__ __forceinline__ void stg_store_row(const float (&x)[STG_LANE_ELEMS], float *row) {
#pragma unroll
  for (int j = 0; j < STG_LANE_ELEMS; j++) {
    row[stg_lane() + j * STG_LANES] = x[j];
  }
}

// Logits of those of the slot's children that are in a tile: items from `first` on.
template <class G>
__device__ __forceinline__ void stg_judge(const stg_prover_args &a, stg_slot *slots, unsigned first,
                                          unsigned states, const float *tile) {
  const unsigned warp = threadIdx.x / STG_LANES;
  stg_slot &slot = slots[warp];
  unsigned begin = 0;
  for (unsigned s = 0; s < warp; s++) {
    begin += slots[s].items;
  }
  unsigned item = begin > first ? begin : first;
  const unsigned end = begin + slot.items < first + states ? begin + slot.items : first + states;
  if (item >= end) {
    return;
  }
  const unsigned first_child = begin + (slot.judged ? 0u : 1u);
  stg_slot_memory<G> &memory = stg_memory_of<G>(a, warp);
  float mine[STG_LANE_ELEMS], best[STG_LANE_ELEMS];
  if (item < first_child) {
    stg_load_column(tile, item - first, mine);
    stg_store_row(mine, memory.rows[slot.mine]);
    item++;
  } else {
    stg_load_row(memory.rows[slot.mine], mine);
  }
  bool has_best = slot.has_best != 0, better = false;
  float best_key = slot.best_key;
  unsigned best_child = slot.best;
#pragma unroll 1
  for (; item < end; item++) {
    const unsigned child = item - first_child;
    float row[STG_LANE_ELEMS];
    float product = 0.0f;
    stg_load_column(tile, item - first, row);
#pragma unroll
    for (int j = 0; j < STG_LANE_ELEMS; j++) {
      product = __fmaf_rn(mine[j], row[j], product);
    }
    const float logit = stg_sum_lanes(product) * G::scale();
    if (stg_lane() == 0) {
      slot.logits[child] = logit;
    }
    __syncwarp();
    const float key = stg_key_of(a, slot, child);
    if (!has_best || key > best_key) {
      has_best = better = true;
      best_key = key;
      best_child = child;
#pragma unroll
      for (int j = 0; j < STG_LANE_ELEMS; j++) {
        best[j] = row[j];
      }
    }
  }
  if (better) {
    stg_store_row(best, memory.rows[slot.mine ^ 1u]);
  }
  __syncwarp(); // all have read the slot
  if (stg_lane() == 0) {
    slot.has_best = has_best;
    slot.best_key = best_key;
    slot.best = best_child;
  }
  __syncwarp();
}

// The logarithm of the pick's probability, and whether another was close.
__device__ __forceinline__ float stg_log_softmax(const stg_prover_args &a, const stg_slot &slot,
                                                 unsigned action, bool &close) {
  const unsigned n = slot.children;
  float most = slot.logits[0], sum = 0.0f;
  for (unsigned i = stg_lane(); i < n; i += STG_LANES) {
    most = fmaxf(most, slot.logits[i]);
  }
  most = stg_most_of_lanes(most);
  float next = __uint_as_float(0xff800000u);
  for (unsigned i = stg_lane(); i < n; i += STG_LANES) {
    sum += stg_math_exp(slot.logits[i] - most);
    if (i != action) {
      next = fmaxf(next, stg_key_of(a, slot, i));
    }
  }
  sum = stg_sum_lanes(sum);
  close = slot.best_key - stg_most_of_lanes(next) <= STG_PROVE_CLOSE;
  return slot.logits[action] - most - stg_math_log(sum);
}

template <class G>
__device__ __forceinline__ void stg_write_step(const stg_prover_args &a, const stg_slot &slot,
                                               const stg_prove_state *children, unsigned action) {
  stg_prover_step &step = ((stg_prover_step *)a.trace)[slot.depth];
  stg_copy_state(&slot.state, &step.state);
  for (unsigned i = 0; i < slot.children; i++) {
    stg_copy_state(&children[i], &step.children[i]);
  }
  for (unsigned i = stg_lane(); i < slot.children; i += STG_LANES) {
    step.logits[i] = slot.children > 1 ? slot.logits[i] : 0.0f;
  }
  if (stg_lane() == 0) {
    step.n_children = slot.children;
    step.action = action;
  }
}

__device__ __forceinline__ unsigned stg_outcome_of(const stg_prover_args &a, const stg_slot &slot) {
  const int word = slot.state.atoms[0].pred - a.base.predicates;
  return word == STG_PROVE_TRUE    ? STG_PROVE_PROVED
         : word == STG_PROVE_FALSE ? STG_PROVE_FAILED
         : word == STG_PROVE_ENDF  ? STG_PROVE_GAVE_UP
         : slot.depth == a.depth   ? STG_PROVE_OUT_OF_STEPS
                                   : STG_PROVE_RUNNING;
}

// The query has ended; by lane 0.
__device__ __forceinline__ void stg_finish_query(const stg_prover_args &a, stg_slot &slot,
                                                 unsigned outcome) {
  stg_prove_result &result = a.results[slot.index];
  result.logp = slot.logp;
  result.depth = slot.depth;
  result.outcome = outcome;
  result.close = slot.close;
  slot.live = 0;
  slot.counts[STG_COUNT_QUERY_STEPS] += slot.depth;
  slot.counts[STG_COUNT_CLOSE] += slot.close;
  slot.counts[STG_COUNT_PROOFS] += outcome == STG_PROVE_PROVED;
  const unsigned done = atomicAdd(&a.words->done, 1u) + 1u;
  if (a.done != nullptr && done % 64 == 0) {
    *a.done = done;
  }
}

// Pick a child, which is the slot's state then.
template <class G>
__device__ __forceinline__ void stg_pick(const stg_prover_args &a, stg_slot &slot) {
  const stg_slot_memory<G> &memory = stg_memory_of<G>(a, threadIdx.x / STG_LANES);
  const bool judged = slot.children > 1;
  const unsigned action = judged ? slot.best : 0u;
  bool close = false;
  const float logp = judged ? stg_log_softmax(a, slot, action, close) : 0.0f;
  if (a.trace != nullptr && a.first + slot.index == a.traced) {
    stg_write_step<G>(a, slot, memory.children, action);
  }
  __syncwarp();
  stg_copy_state(&memory.children[action], &slot.state);
  __syncwarp();
  if (stg_lane() == 0) {
    a.results[slot.index].actions[slot.depth] = (unsigned char)action;
    slot.logp += logp;
    slot.close += close ? 1u : 0u;
    slot.depth++;
    slot.path[slot.depth] = stg_unify_hash(&slot.state);
    if (judged) {
      slot.judged = 1;
      slot.mine ^= 1u;
    }
    const unsigned outcome = stg_outcome_of(a, slot);
    if (outcome != STG_PROVE_RUNNING) {
      stg_finish_query(a, slot, outcome);
    }
  }
  __syncwarp();
}
