// attend.cuh: the decode kernel: attention of new rows over a cache, of which a row reads the
// positions up to its own.
//
// The generated text supplies a struct G with the literal extents. A row's positions are cut into
// chunks that begin at multiples of G::chunk; blocks have equal shares of all chunks, so that long
// and short sequences share the machine evenly, and who comes last with a row merges its chunks in
// the order of their positions. A block that has all of a row's chunks merges as it goes. The bits
// are the same: they depend on the row and on what it reads, not on its mates nor on the grid.

// Who works on a share: threads each on their elements, or warps by products of matrices.
template <class G, bool products> struct stg_attend_worker {
  typedef stg_attend_turns<G> type;
};
template <class G> struct stg_attend_worker<G, true> {
  typedef stg_attend_flow<G> type;
};
template <class G> using stg_attend_block =
    typename stg_attend_worker<G, G::products>::type::shared_type;

template <class G> __device__ __forceinline__ void stg_attend_run(const stg_decode_args &a) {
  extern __shared__ uint4 stg_ring[];
  __shared__ stg_attend_block<G> block;
  const bool is_owner = (a.flags & STG_ATTEND_OWNER) != 0;
  stg_attend_note(stg_attend_times<G>(a), 0);
  stg_row_entry ahead = {-1, 0, false, 0};
  if (!is_owner) {
    ahead = stg_attend_ahead<G>(a);
    if constexpr (stg_attend_hints<G>::are) {
      stg_attend_hints<G>::ask_first(a, ahead, block.rows);
    }
  } else if ((int)blockIdx.x < a.rows.rows * G::tiles) {
    // for the first-level cache, where the block finds its first row
    const stg_row_entry own = stg_row_entry_of(a.rows, blockIdx.x / G::tiles);
    asm volatile("" ::"r"(own.seq), "l"(own.pos));
  }
  stg_wait_for_earlier_launches();
  // what it has to wait for as well, it waits for itself
  stg_let_next_launch_begin();
  stg_attend_note(stg_attend_times<G>(a), 1);
  if (!is_owner) {
    stg_attend_count<G, false>(a, ahead, block.rows);
  }
  stg_attend_note(stg_attend_times<G>(a), 2);
  typename stg_attend_worker<G, G::products>::type worker(a, block, stg_ring);
  worker.run();
  stg_attend_note(stg_attend_times<G>(a), 5);
}
