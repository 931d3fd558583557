// steer.cuh: the steer kernel: rows in, one reduction, chains on scalars, one update, rows out.
//
// The generated text supplies a struct G with the literal extents and the switch over ops; this
// file does the rest. It includes nothing: NVRTC compiles header-free text three times faster.
//
// A block owns a run of rows and walks it by tiles; its G::threads threads share every row. While a
// tile is at work the next one's rows and the head of its chain are on their way. Which thread
// holds which element depends on the hidden size alone, sums run in one fixed order, and absent
// work is skipped by uniform branches, so a row's bits do not depend on its batch mates, its place
// or the tile.
//
// Stage 1 of a tile, that its rows and their chain come, is here; the others are in work.cuh.

// When the head is there: bring the chain, where it is not `there` yet, and the first
// vectors to shared memory.
template <class G>
__device__ __forceinline__ void stg_open(const stg_steer_args &a, const stg_found &found,
                                         uint4 *memory, bool there) {
  unsigned *staged = (unsigned *)(memory + G::stage_words / 4);
  const unsigned n = __shfl_sync(STG_ALL, found.head, 3);
  if (!there) {
    if (threadIdx.x < STG_LANES && threadIdx.x < a.chain_words) {
      staged[threadIdx.x] = found.head;
    }
#pragma unroll 1
    for (unsigned w = STG_LANES + 4 * threadIdx.x; w < n; w += 4 * G::threads) {
      stg_copy_async((uint4 *)(staged + w), stg_chain_of(a, found.record) + w);
    }
  }
  if constexpr (G::staged_vectors > 0) {
    const stg_vector<G> vector{a, memory, found.record, found.head};
    vector.bring();
  }
}

template <class G> __device__ __forceinline__ void stg_steer_run(const stg_steer_args &a) {
  extern __shared__ uint4 stg_shared[];
  __shared__ stg_tile<G> shared;
  constexpr int stages = G::rows == 1 ? 1 : 2;
  stg_let_next_launch_begin();
  stg_walk<G> walk(a);
  walk.find_rows();
  stg_found found = walk.find();
  int staged_record = STG_UNSTEERED; // whose chain stands in shared memory
  if (G::rows == 1 && found.size > 0 && __shfl_sync(STG_ALL, found.head, 0) != 0) {
    stg_open<G>(a, found, stg_shared, false); // none of it is what earlier launches write
    staged_record = found.record;
  }
  stg_wait_for_earlier_launches();
  const stg_rows<G> ahead(a, stg_shared + G::vector_words / 4);
  if (found.size > 0) {
    ahead.bring(0, found.first, found.size);
  }
#pragma unroll 1
  for (int turn = 0; found.size > 0; turn ^= 1) {
    stg_steer_tile<G> tile(a, shared, stg_shared, found);
    const int first = found.first, size = found.size;
    const unsigned first_word = __shfl_sync(STG_ALL, found.head, 0); // 0: no chain here
    unsigned left = 0;
    if (first_word != 0) {
      if (G::rows > 1) {
        stg_open<G>(a, found, stg_shared, found.record == staged_record);
        staged_record = found.record;
      }
      left = __shfl_sync(STG_ALL, found.head, 1);
      if (left != 0 && G::staged_vectors == 0 && !stg_few_vectors<G>::apply) {
        left = tile.vector.ask(left);
      }
    }
    found = walk.find();
    stg_copy_wait();
    tile.rows.arrive(turn % stages, first, size);
    if (G::rows > 1 && found.size > 0) {
      ahead.bring((turn ^ 1) % stages, found.first, found.size);
    }
    if (left != 0 && G::staged_vectors > 0 && !stg_few_vectors<G>::apply) {
      left = tile.vector.ask(left);
    }
    tile.work(first_word, left, turn);
    if (G::rows == 1 && found.size > 0) {
      __syncthreads(); // every warp has read the sums and the chain of this tile
      ahead.bring(0, found.first, found.size);
      if (__shfl_sync(STG_ALL, found.head, 0) != 0) {
        stg_open<G>(a, found, stg_shared, found.record == staged_record);
        staged_record = found.record;
      }
    }
  }
}
