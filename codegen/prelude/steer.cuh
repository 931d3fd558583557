// steer.cuh: the steer kernel, written once for every geometry and set of ops.
//
// The generated text supplies a struct G with the literal extents and the switch over ops; this
// file does the rest. It includes nothing: NVRTC compiles header-free text three times faster.
//
// A block owns a tile of G::rows rows; its G::threads threads share every row. Which thread holds
// which element depends on the hidden size alone, sums run in one fixed order, and absent work is
// skipped by uniform branches, so a row's bits do not depend on its batch mates, its place or the
// tile.
//
// Stages: (1) look up each row's chain and bring it to shared memory; (2) load the rows; (3) one
// reduction for all dots of all chains in the tile; (4) one warp per row runs its chain on scalars,
// lane i holding coefficient i; (5) one rank-k update, one store. Between two loads that depend on
// each other lie some hundred cycles, so the path to the first dot has three: map, chain, vector.

// One block's work, stage by stage.
template <class G> struct stg_steer_block {
  typedef typename G::data data;
  typedef typename data::raw raw;
  typedef typename data::element element;

  const stg_steer_args &a;
  stg_tile<G> &tile;
  unsigned *staged; // [G::rows, chain_words]
  stg_rows<G> rows;
  long long row0;
  int lane, warp;
  bool aligned;
  int record; // of row `lane`: in 16-byte units, -1 unsteered, -2 padding

  __device__ __forceinline__ stg_steer_block(const stg_steer_args &args, stg_tile<G> &shared,
                                             unsigned *chains)
      : a(args), tile(shared), staged(chains), row0((long long)blockIdx.x * G::rows),
        lane(threadIdx.x % STG_LANES), warp(threadIdx.x / STG_LANES),
        aligned((args.flags & 2u) != 0), record(-2) {
  }

  // A map that was written on the device holds slots: translate, and report what is no slot.
  __device__ __forceinline__ void translate() {
    if (record >= 0 && (unsigned)record < a.slots) {
      record = a.table[record];
    } else if (record >= 0 || record < -2) {
      if (warp == 0) {
        atomicAdd(a.report, 1u);
        a.report[1] = (unsigned)record;
      }
      record = -1;
    }
  }

  // Stage 1. Every warp looks the rows up for itself, lane r for row r: no barrier.
  __device__ __forceinline__ void look_up() {
    const int holds_slots = a.row_map[0];
    if (lane < G::rows && row0 + lane < a.rows) {
      record = a.row_map[STG_MAP_HEADER + row0 + lane];
    }
    if (holds_slots) {
      translate();
    }
  }

  __device__ __forceinline__ unsigned *words_of(int r) const {
    return staged + r * a.chain_words;
  }

  // Bring the chains of this warp's rows to shared memory: the first words at once, what they say
  // is behind them after that.
  __device__ __forceinline__ void stage(unsigned steered) {
#pragma unroll 1
    for (int r = warp; r < G::rows; r += G::threads / STG_LANES) {
      if (!(steered >> r & 1u)) {
        continue;
      }
      const unsigned *from = (const unsigned *)(a.records + __shfl_sync(STG_ALL, record, r)) +
                             (unsigned long long)a.layer * a.chain_words;
      unsigned *to = words_of(r);
      const unsigned word = lane < a.chain_words ? __ldg(from + lane) : 0;
      const unsigned n = __shfl_sync(STG_ALL, word, 3);
      if (lane < a.chain_words) {
        to[lane] = word;
      }
#pragma unroll 1
      for (unsigned w = STG_LANES + lane; w < n; w += STG_LANES) {
        to[w] = __ldg(from + w);
      }
    }
  }

  // The rows of `todo` that share the record of its first row.
  __device__ __forceinline__ unsigned group(unsigned todo) const {
    const int first = __shfl_sync(STG_ALL, record, __ffs(todo) - 1);
    return __ballot_sync(STG_ALL, record == first) & todo;
  }

  // State chunk i of row r as the ops see it.
  __device__ __forceinline__ void state(int r, int i, float (&f)[8]) const {
    raw x;
    rows.hidden(a, row0, aligned, r, i, x);
    stg_widen<data>(x, f);
    if (G::pair) {
      float g[8];
      rows.residual(a, row0, aligned, r, i, x);
      stg_widen<data>(x, g);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] += g[j];
      }
    }
  }

  // Sum acc[k][r] over the warp and put it into the tile, for vectors v[0..count) of rows in
  // `mask`.
  template <int N>
  __device__ __forceinline__ void put_sums(float (&acc)[N * G::rows], unsigned mask,
                                           const unsigned *v, unsigned count) {
    const float total = stg_fold<N * G::rows>(acc, lane);
    const int lanes_per_sum = STG_LANES / (N * G::rows);
    const int sum = lane / lanes_per_sum, k = sum / G::rows, r = sum % G::rows;
    if (lane % lanes_per_sum == 0 && k < count && (mask >> r & 1u)) {
      unsigned slot = v[0];
#pragma unroll
      for (int m = 1; m < N; m++) {
        slot = k == m ? v[m] : slot;
      }
      tile.part[warp][r][slot] = total;
    }
  }

  // Partial sums of state . v for the vectors of a group and the rows in `mask`.
  __device__ __forceinline__ void dot(unsigned mask, const stg_vector_group<G> &vectors,
                                      const unsigned *words) {
    float acc[G::group * G::rows];
#pragma unroll
    for (int s = 0; s < G::group * G::rows; s++) {
      acc[s] = 0.0f;
    }
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      const int chunk = threadIdx.x + i * G::threads;
      if (chunk >= G::chunks) {
        break;
      }
      typename G::bank::raw w_raw[G::group];
      vectors.load(a, words, chunk, w_raw);
#pragma unroll
      for (int k = 0; k < G::group; k++) {
        if (k < vectors.count) {
          float w[8];
          stg_widen<typename G::bank>(w_raw[k], w);
#pragma unroll
          for (int r = 0; r < G::rows; r++) {
            if (mask >> r & 1u) {
              float f[8];
              state(r, i, f);
#pragma unroll
              for (int j = 0; j < 8; j++) {
                acc[k * G::rows + r] = __fmaf_rn(f[j], w[j], acc[k * G::rows + r]);
              }
            }
          }
        }
      }
    }
    put_sums<G::group>(acc, mask, vectors.v, vectors.count);
  }

  // Partial sums of state . state for the rows in `mask`.
  __device__ __forceinline__ void square(unsigned mask) {
    float acc[G::rows];
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      acc[r] = 0.0f;
    }
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (threadIdx.x + i * G::threads >= G::chunks) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
        if (mask >> r & 1u) {
          float f[8];
          state(r, i, f);
#pragma unroll
          for (int j = 0; j < 8; j++) {
            acc[r] = __fmaf_rn(f[j], f[j], acc[r]);
          }
        }
      }
    }
    const unsigned slot[1] = {STG_NORM_SLOT};
    put_sums<1>(acc, mask, slot, 1);
  }

  // Stage 3: all dots that any chain of the tile reads.
  __device__ __forceinline__ void dots(unsigned steered) {
#pragma unroll 1
    for (unsigned todo = steered; todo != 0;) {
      const unsigned *words = words_of(__ffs(todo) - 1);
      const unsigned mask = group(todo);
      todo &= ~mask;
#pragma unroll 1
      for (unsigned wanted = words[1]; wanted != 0;) {
        stg_vector_group<G> vectors;
        wanted = vectors.take(wanted);
        dot(mask, vectors, words);
      }
      if (words[0] >> 16 & 1u) {
        square(mask);
      }
    }
  }

  __device__ __forceinline__ float total(int r, int v) const {
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < G::threads / STG_LANES; w++) {
      sum += tile.part[w][r][v];
    }
    return sum;
  }

  // Stage 4 for row r, by this warp.
  __device__ __forceinline__ void run_chain(int r) {
    const unsigned *words = words_of(r);
    const unsigned head = words[0], wanted = words[1], at = words[2];
    const unsigned n_ops = head & 0xffu;
    const unsigned *op = words + (at & 0xffffu);
    stg_chain_run run;
    run.args = &a;
    run.words = words;
    run.gram = (const float *)(words + (at >> 16));
    run.hidden_row = (const element *)a.hidden + (row0 + r) * a.row_stride;
    run.residual_row = G::pair ? (const element *)a.residual + (row0 + r) * a.row_stride : 0;
    run.n = head >> 8 & 0xffu;
    run.lane = lane;
    run.a = 1.0f;
    run.c = 0.0f;
    run.d0 = wanted >> lane & 1u ? total(r, lane) : 0.0f;
    run.d = run.d0;
    run.n0 = head >> 16 & 1u ? total(r, STG_NORM_SLOT) : 0.0f;
#pragma unroll 1
    for (unsigned k = 0; k < n_ops; k++, op += STG_OP_WORDS) {
      run.first = op[1];
      run.params = op + 4;
      stg_edit edit;
      edit.scales = false;
      edit.mask = 0;
      G::run_op(op[0], run, edit);
      stg_apply_edit(run, edit);
    }
    const unsigned used = __ballot_sync(STG_ALL, run.c != 0.0f);
    const bool finite = fabsf(run.c) <= 3.402823466e38f && fabsf(run.a) <= 3.402823466e38f;
    if (__ballot_sync(STG_ALL, !finite) != 0 && lane == 0) {
      atomicAdd(a.report + 2, 1u);
    }
    tile.coef[r][lane] = run.c;
    if (lane == 0) {
      tile.coef[r][STG_NORM_SLOT] = run.a;
      tile.used[r] = used;
    }
  }

  // Stage 4. Returns the rows that their chains change.
  __device__ __forceinline__ unsigned run_chains(unsigned steered) {
#pragma unroll 1
    for (int r = warp; r < G::rows; r += G::threads / STG_LANES) {
      if (steered >> r & 1u) {
        run_chain(r);
      }
    }
    __syncthreads();
    const bool mine = lane < G::rows && (steered >> lane & 1u);
    const int row = mine ? lane : 0;
    return __ballot_sync(STG_ALL,
                         mine && (tile.used[row] != 0 || tile.coef[row][STG_NORM_SLOT] != 1.0f));
  }

  // What the vectors are added to: a*h, or in pair mode (a-1)*(h + residual), which `finish` adds
  // to h.
  __device__ __forceinline__ void start(int r, int i, float (&f)[8]) {
    const float scale = tile.coef[r][STG_NORM_SLOT];
    state(r, i, f);
    if (G::pair) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] = scale != 1.0f ? (scale - 1.0f) * f[j] : 0.0f;
      }
    } else if (scale != 1.0f) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] *= scale;
      }
    }
  }

  __device__ __forceinline__ void finish(int r, int i, int chunk, float (&f)[8]) {
    raw x;
    if (G::pair) {
      float h[8];
      rows.hidden(a, row0, aligned, r, i, x);
      stg_widen<data>(x, h);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] += h[j];
      }
    }
    stg_narrow<data>(f, x);
    stg_store_chunk<G>((element *)a.out + (row0 + r) * a.row_stride, chunk, aligned, x);
  }

  // f[k] += c_v v for rows r.. of `mask` and the vectors in `used`, in their order.
  template <int W>
  __device__ __forceinline__ void add_vectors(float (&f)[W][8], int r, int chunk, unsigned mask,
                                              unsigned used, const unsigned *words) const {
#pragma unroll 1
    for (unsigned left = used; left != 0;) {
      stg_vector_group<G> vectors;
      typename G::bank::raw w_raw[G::group];
      left = vectors.take(left);
      vectors.load(a, words, chunk, w_raw);
#pragma unroll
      for (int m = 0; m < G::group; m++) {
        if (m < vectors.count) {
          float w[8];
          stg_widen<typename G::bank>(w_raw[m], w);
#pragma unroll
          for (int k = 0; k < W; k++) {
            const float c = mask >> (r + k) & 1u ? tile.coef[r + k][vectors.v[m]] : 0.0f;
            if (c != 0.0f) {
#pragma unroll
              for (int j = 0; j < 8; j++) {
                f[k][j] = __fmaf_rn(c, w[j], f[k][j]);
              }
            }
          }
        }
      }
    }
  }

  // Stage 5 for the rows of `mask`, which share a chain: rows by pairs, so that a vector serves
  // two.
  __device__ __forceinline__ void update_group(unsigned mask, unsigned used,
                                               const unsigned *words) {
    const int width = G::rows > 1 ? 2 : 1;
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      const int chunk = threadIdx.x + i * G::threads;
      if (chunk >= G::chunks) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r += width) {
        if ((mask >> r & ((1u << width) - 1)) == 0) {
          continue;
        }
        float f[width][8];
#pragma unroll
        for (int k = 0; k < width; k++) {
          if (mask >> (r + k) & 1u) {
            start(r + k, i, f[k]);
          }
        }
        add_vectors(f, r, chunk, mask, used, words);
#pragma unroll
        for (int k = 0; k < width; k++) {
          if (mask >> (r + k) & 1u) {
            finish(r + k, i, chunk, f[k]);
          }
        }
      }
    }
  }

  // Stage 5: update and store what chains change.
  __device__ __forceinline__ void update(unsigned changed) {
#pragma unroll 1
    for (unsigned todo = changed; todo != 0;) {
      const unsigned *words = words_of(__ffs(todo) - 1);
      const unsigned mask = group(todo);
      todo &= ~mask;
      const unsigned mine = lane < G::rows && (mask >> lane & 1u) ? tile.used[lane] : 0;
      update_group(mask, __reduce_or_sync(STG_ALL, mine), words);
    }
  }

  // Out of place: rows that nothing changes are stored as they are.
  __device__ __forceinline__ void copy(unsigned mask) {
#pragma unroll(G::unroll_chunks)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      const int chunk = threadIdx.x + i * G::threads;
      if (chunk >= G::chunks) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
        if (mask >> r & 1u) {
          raw x;
          rows.hidden(a, row0, aligned, r, i, x);
          stg_store_chunk<G>((element *)a.out + (row0 + r) * a.row_stride, chunk, aligned, x);
        }
      }
    }
  }

  // A record without a chain for this layer steers nothing.
  __device__ __forceinline__ unsigned drop_empty(unsigned steered) const {
    const bool empty = lane < G::rows && (steered >> lane & 1u) && words_of(lane)[0] == 0;
    return steered & ~__ballot_sync(STG_ALL, empty);
  }

  __device__ __forceinline__ void run() {
    look_up();
    const bool in_place = (a.flags & 1u) != 0;
    const unsigned live = __ballot_sync(STG_ALL, record != -2);
    unsigned steered = __ballot_sync(STG_ALL, record >= 0);
    if ((in_place ? steered : live) == 0) {
      return;
    }
    // before anything is known of the chains: that a record has none for this layer is rare
    rows.load(a, row0, in_place ? steered : live, aligned);
    stage(steered);
    __syncthreads();
    steered = drop_empty(steered);
    unsigned changed = 0;
    if (steered != 0) {
      dots(steered);
      __syncthreads();
      changed = run_chains(steered);
      update(changed);
    }
    if (!in_place) {
      copy(live & ~changed);
    }
  }
};

template <class G> __device__ __forceinline__ void stg_steer_run(const stg_steer_args &a) {
  extern __shared__ unsigned stg_chains[];
  __shared__ stg_tile<G> tile;
  stg_steer_block<G> block(a, tile, stg_chains);
  block.run();
}
