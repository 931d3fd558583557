// steer.cuh: the steer kernel: a row in, one reduction, its chain on scalars, one update, out.
//
// The generated text supplies a struct G with the literal extents and the switch over ops; this
// file does the rest. It includes nothing: NVRTC compiles header-free text three times faster.
//
// A block has one row, and blocks are small and many: they hide each other's waits. Which of a
// row's sums an element belongs to depends on the hidden size alone, sums run in one fixed order,
// and absent work is skipped by uniform branches, so a row's bits do not depend on its batch mates,
// its place or the tile.

// The chain of the row. A short one is run by every warp for itself, a longer one by the first,
// which tells the others: what that costs in waiting it saves in work that is done once.
template <class G>
__device__ __forceinline__ stg_outcome stg_run(const stg_steer_args &a,
                                               const stg_vectors<G> &vectors,
                                               const unsigned *staged, const stg_row<G> &row,
                                               stg_sums<G> &sums) {
  const unsigned lane = threadIdx.x % STG_LANES;
  const unsigned head = vectors.word(0), wanted = vectors.word(1), at = vectors.word(2);
  const unsigned n_ops = head & 0xffu;
  const bool each = n_ops <= STG_OPS_OF_EACH_WARP;
  stg_chain_run run;
  run.c = 0.0f;
  run.a = 1.0f;
  if (each || threadIdx.x < STG_LANES) {
    run.args = &a;
    run.words = staged;
    run.gram = (const float *)(staged + (at >> 16));
    run.hidden_row = row.in(a.hidden);
    run.residual_row = G::pair ? row.in(a.residual) : 0;
    run.n = head >> 8 & 0xffu;
    run.lane = lane;
    run.d0 = wanted >> lane & 1u ? stg_total<G>(sums.part[lane]) : 0.0f;
    run.n0 = head >> 16 & 1u ? stg_total<G>(sums.part[STG_NORM_SLOT]) : 0.0f;
    stg_run_chain<G>(run, staged + (at & 0xffffu), n_ops);
    const bool finite = fabsf(run.c) <= 3.402823466e38f && fabsf(run.a) <= 3.402823466e38f;
    if (__any_sync(STG_ALL, !finite) && threadIdx.x == 0) {
      atomicAdd(a.report + 2, 1u);
    }
  }
  if (!each) {
    if (threadIdx.x < STG_LANES) {
      sums.coef[lane] = run.c;
      sums.scale = run.a;
    }
    __syncthreads();
    run.c = sums.coef[lane];
    run.a = sums.scale;
  } else if (!G::epilogue && (head >> 16 & 1u) != 0) {
    // a norm may have been taken from the row in memory: no warp stores before all have read it
    __syncthreads();
  }
  return {run.c, run.a, __ballot_sync(STG_ALL, run.c != 0.0f)};
}

// The row, in place or not, when its chain has run.
template <class G>
__device__ __forceinline__ void stg_finish(const stg_row<G> &row, const stg_update<G> &update,
                                           const stg_dots<G> &dots, stg_sums<G> &sums,
                                           const uint4 *stage) {
  if constexpr (G::epilogue) {
    const stg_norm<G> norm{row, dots, update, sums, stage};
    if (!row.held) {
      norm.read();
    } else if constexpr (G::held) {
      norm.held();
    }
  } else if (!update.end.changes()) {
    if ((row.a.flags & STG_IN_PLACE) == 0) {
      row.copy();
    }
  } else if (!row.held) {
    update.store_read();
  } else if constexpr (G::held) {
    update.store_held();
  }
}

// A launch of few blocks lets the next one begin when its rows are on their way: were it earlier,
// the launches behind that one would crowd in as well, and take from those that have work. One of
// many has the next one fill the multiprocessors that its last blocks leave idle.
__device__ __forceinline__ bool stg_is_long() {
  return gridDim.x > STG_BLOCKS_OF_SHORT_LAUNCH;
}

template <class G> __device__ __forceinline__ void stg_steer_run(const stg_steer_args &a) {
  extern __shared__ uint4 stg_shared[];
  __shared__ stg_sums<G> sums;
  unsigned *staged = (unsigned *)stg_shared + a.stage_words;
  uint4 *const vectors_at = stg_shared + (G::weight_staged ? stg_norm<G>::pieces * G::chunks : 0);
  if (stg_is_long()) {
    stg_let_next_launch_begin();
  }
  stg_row<G> row(a, blockIdx.x);
  const int record = stg_record_of(a, row.index);
  stg_vectors<G> vectors(a, vectors_at, record);
  // none of it is what earlier launches write
  if (record >= STG_UNSTEERED) {
    stg_norm<G>::bring_weight(row, stg_shared);
  }
  if (record >= 0) {
    vectors.bring();
    vectors.bring_chain(staged);
  }
  stg_wait_for_earlier_launches();
  const int least = (a.flags & STG_IN_PLACE) != 0 && !G::epilogue ? 0 : STG_UNSTEERED;
  if (record < least) {
    return;
  }
  const unsigned head = vectors.word(0);
  if (head != 0 || G::epilogue) {
    row.ask();
  }
  if (!stg_is_long()) {
    stg_let_next_launch_begin();
  }
  stg_copy_wait();
  row.settle();
  const int lane = threadIdx.x % STG_LANES, warp = threadIdx.x / STG_LANES;
  const stg_dots<G> dots{row, sums, lane, warp};
  stg_outcome end = {0.0f, 1.0f, 0};
  if (head != 0) {
    const bool wants_norm = (head >> 16 & 1u) != 0;
    dots.run(vectors, vectors.word(1), wants_norm);
    __syncthreads();
    end = stg_run<G>(a, vectors, staged, row, sums);
  }
  stg_finish<G>(row, stg_update<G>{row, vectors, end}, dots, sums, stg_shared);
}
