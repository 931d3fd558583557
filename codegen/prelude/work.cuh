// work.cuh: the work on one tile: dots, chains, update, store.
//
// Stages: (2) one reduction for all dots of the chain; (3) one warp per row runs the chain on
// scalars, lane i holding coefficient i; (4) one rank-k update, one store.

// The work on one tile. An object lives for one tile, so that none of its registers are carried to
// the next.
template <class G> struct stg_steer_tile {
  static_assert(G::held || G::rows == 1, "rows that are not held are tiles of one");

  const stg_steer_args &a;
  stg_tile<G> &tile;
  unsigned *staged; // room for a chain
  stg_rows<G> rows;
  stg_vector<G> vector;
  const int lane, warp;

  __device__ __forceinline__ stg_steer_tile(const stg_steer_args &args, stg_tile<G> &shared,
                                            uint4 *memory, const stg_found &found)
      : a(args), tile(shared), staged((unsigned *)(memory + G::stage_words / 4)),
        rows(args, memory + G::vector_words / 4), vector{args, memory, found.record, found.head},
        lane(threadIdx.x % STG_LANES), warp(threadIdx.x / STG_LANES) {
  }

  // ---- stage 2 ----

  // Sum acc[r] over the warp and put it down for vector v.
  __device__ __forceinline__ void put_sums(float (&acc)[G::rows], float (*part)[G::warps]) const {
    const float total = stg_fold<G::rows>(acc, lane);
    constexpr int lanes_per_sum = STG_LANES / G::rows;
    if (lane % lanes_per_sum == 0) {
      part[lane / lanes_per_sum][warp] = total;
    }
  }

  // Chunk i of the state of row r.
  __device__ __forceinline__ void state(int r, int i, float (&f)[8]) const {
    if constexpr (G::held) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] = rows.x[r][i][j];
      }
    } else {
      rows.read_state(r, i, f);
    }
  }

  // All dots that the chain reads. The first has been asked for; the last stays at hand.
  __device__ __forceinline__ void dots(unsigned left) {
#pragma unroll 1
    for (bool any = vector.v >= 0; any;) {
      float acc[G::rows] = {};
#pragma unroll(G::unroll)
      for (int i = 0; i < G::chunks_per_thread; i++) {
        if (!stg_has_chunk<G>(i)) {
          break;
        }
        float w[8];
        vector.chunk(i, w);
#pragma unroll
        for (int r = 0; r < G::rows; r++) {
          float f[8];
          state(r, i, f);
#pragma unroll
          for (int j = 0; j < 8; j++) {
            acc[r] = __fmaf_rn(f[j], w[j], acc[r]);
          }
        }
      }
      const int v = vector.v;
      any = left != 0;
      if (any) {
        left = vector.ask(left); // on its way while this one is summed
      }
      put_sums(acc, tile.part[v]);
    }
  }

  // The same for a tile of one row, of which none has been asked for.
  __device__ __forceinline__ void dots_by_few(unsigned wanted) {
#pragma unroll 1
    while (wanted != 0) {
      stg_few_vectors<G> few;
      float acc[few.most];
      wanted = few.take(vector, wanted);
      few.dot(rows.x[0], acc);
      const float total = stg_fold<few.most>(acc, lane);
      constexpr int lanes_per_sum = STG_LANES / few.most;
      const int k = lane / lanes_per_sum;
      int v = few.v[0];
#pragma unroll
      for (int m = 1; m < few.most; m++) {
        v = k == m ? few.v[m] : v;
      }
      if (lane % lanes_per_sum == 0 && k < few.n) {
        tile.part[v][0][warp] = total;
      }
    }
  }

  // state . state of every row.
  __device__ __forceinline__ void squares(float (*part)[G::warps]) const {
    float acc[G::rows] = {};
#pragma unroll(G::unroll)
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (!stg_has_chunk<G>(i)) {
        break;
      }
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
        float f[8];
        state(r, i, f);
#pragma unroll
        for (int j = 0; j < 8; j++) {
          acc[r] = __fmaf_rn(f[j], f[j], acc[r]);
        }
      }
    }
    put_sums(acc, part);
  }

  // ---- stage 3 ----

  // The chain of row r: lane i gets coefficient i, every lane the scale.
  __device__ __forceinline__ void run_chain(int r, float &ret_c, float &ret_a) {
    const unsigned head = __shfl_sync(STG_ALL, vector.head, 0);
    const unsigned wanted = __shfl_sync(STG_ALL, vector.head, 1);
    const unsigned at = __shfl_sync(STG_ALL, vector.head, 2);
    const unsigned n_ops = head & 0xffu;
    const unsigned *op = staged + (at & 0xffffu);
    stg_chain_run run;
    run.args = &a;
    run.words = staged;
    run.gram = (const float *)(staged + (at >> 16));
    run.hidden_row = rows.at(a.hidden, r);
    run.residual_row = G::pair ? rows.at(a.residual, r) : 0;
    run.n = head >> 8 & 0xffu;
    run.lane = lane;
    run.a = 1.0f;
    run.c = 0.0f;
    run.d0 = wanted >> lane & 1u ? stg_total<G>(tile.part[lane][r]) : 0.0f;
    run.d = run.d0;
    run.n0 = head >> 16 & 1u ? stg_total<G>(tile.part[STG_NORM_SLOT][r]) : 0.0f;
    unsigned code = op[0], first = op[1];
#pragma unroll 1
    for (unsigned k = 0; k < n_ops; k++) {
      const unsigned at_hand = code;
      run.first = first;
      run.params = op + 4;
      op += STG_OP_WORDS;
      if (k + 1 < n_ops) {
        code = op[0], first = op[1]; // on their way while this one runs
      }
      G::run_op(at_hand, run);
    }
    const bool finite = fabsf(run.c) <= 3.402823466e38f && fabsf(run.a) <= 3.402823466e38f;
    if (__any_sync(STG_ALL, !finite) && lane == 0 && (G::rows > 1 || warp == 0)) {
      atomicAdd(a.report + 2, 1u);
    }
    ret_c = run.c;
    ret_a = run.a;
  }

  // What the chain came to.
  struct outcome {
    float c;          // of a tile of one row: lane i has coefficient i,
    float scale;      // every lane the scale
    unsigned used;    // coefficients that are not 0 in some row
    unsigned changed; // rows
  };

  __device__ __forceinline__ outcome run_chains() {
    outcome end;
    if constexpr (G::rows == 1) {
      run_chain(0, end.c, end.scale); // every warp for itself, which saves a barrier
      if (!G::epilogue && (__shfl_sync(STG_ALL, vector.head, 0) >> 16 & 1u)) {
        // a norm may have been taken from the row in memory: no warp stores before all have read it
        __syncthreads();
      }
      end.used = __ballot_sync(STG_ALL, end.c != 0.0f);
      end.changed = end.used != 0 || end.scale != 1.0f ? 1u : 0u;
    } else {
#pragma unroll 1
      for (int r = warp; r < rows.size; r += G::warps) {
        float c, scale;
        run_chain(r, c, scale);
        const unsigned used = __ballot_sync(STG_ALL, c != 0.0f);
        tile.coef[lane][r] = c;
        if (lane == 0) {
          tile.coef[STG_NORM_SLOT][r] = scale;
          tile.used[r] = used;
        }
      }
      __syncthreads();
      const bool mine = lane < rows.size;
      const unsigned used = mine ? tile.used[lane] : 0;
      const float scale = mine ? tile.coef[STG_NORM_SLOT][lane] : 1.0f;
      end.used = __reduce_or_sync(STG_ALL, used);
      end.changed = __ballot_sync(STG_ALL, used != 0 || scale != 1.0f);
    }
    return end;
  }

  // Of a row beyond the tile's it is whatever an earlier tile left, and its result is not stored.
  __device__ __forceinline__ float coefficient(const outcome &end, int v, int r) const {
    return G::rows == 1 ? __shfl_sync(STG_ALL, end.c, v) : tile.coef[v][r];
  }
  __device__ __forceinline__ float scale_of(const outcome &end, int r) const {
    return G::rows == 1 ? end.scale : tile.coef[STG_NORM_SLOT][r];
  }

  // ---- stage 4 ----

  static __device__ __forceinline__ void add(float (&f)[8], float c, const float (&w)[8]) {
    if (c != 0.0f) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] = __fmaf_rn(c, w[j], f[j]);
      }
    }
  }

  // Rows in registers: each vector, in order, is added to all of them.
  __device__ __forceinline__ void update_held(const outcome &end) {
    if (end.changed == 0) {
      return;
    }
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      const float scale = scale_of(end, r);
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        rows.begin(rows.x[r][i], scale);
      }
    }
    unsigned left = end.used;
    if constexpr (stg_few_vectors<G>::apply) {
#pragma unroll 1
      while (left != 0) {
        stg_few_vectors<G> few;
        left = few.take(vector, left);
        few.add(end.c, rows.x[0]); // none of the coefficients is 0
      }
      return;
    }
    if (vector.v >= 0 && left == 1u << vector.v) {
      left = 0; // the only one is at hand since its dot was taken
    } else if (left != 0) {
      left = vector.ask(left);
    }
#pragma unroll 1
    for (bool any = end.used != 0; any;) {
      float c[G::rows];
#pragma unroll
      for (int r = 0; r < G::rows; r++) {
        c[r] = coefficient(end, vector.v, r);
      }
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        if (stg_has_chunk<G>(i)) {
          float w[8];
          vector.chunk(i, w);
#pragma unroll
          for (int r = 0; r < G::rows; r++) {
            add(rows.x[r][i], c[r], w);
          }
        }
      }
      any = left != 0;
      if (any) {
        left = vector.ask(left);
      }
    }
  }

  __device__ __forceinline__ void store_held(unsigned mask) {
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      if (mask >> r & 1u) {
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
            rows.finish(r, i, rows.x[r][i]);
          }
        }
      }
    }
    rows.end_store(mask);
  }

  // Chunk i of a row that is not held, updated. All lanes come here, also those that are outside.
  __device__ __forceinline__ void updated(const outcome &end, int i, float (&f)[8]) {
    const bool inside = stg_has_chunk<G>(i);
    if (inside) {
      rows.read_state(0, i, f);
      if (end.changed != 0) {
        rows.begin(f, end.scale);
      }
    }
#pragma unroll 1
    for (unsigned left = end.changed != 0 ? end.used : 0; left != 0;) {
      left = vector.ask(left);
      const float c = coefficient(end, vector.v, 0);
      if (inside) {
        float w[8];
        vector.chunk(i, w);
        add(f, c, w);
      }
    }
  }

  __device__ __forceinline__ void update_read(const outcome &end) {
#pragma unroll 1
    for (int i = 0; i < G::chunks_per_thread; i++) {
      float f[8];
      updated(end, i, f);
      if (stg_has_chunk<G>(i)) {
        rows.finish(0, i, f);
      }
    }
  }

  // ---- the epilogue: every row is stored in both tensors ----

  __device__ __forceinline__ void norm_held(int turn) {
    const stg_norm<G> norm{a};
    squares(tile.square[turn]);
    __syncthreads();
    float by[G::rows];
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      by[r] = norm.factor(stg_total<G>(tile.square[turn][r]));
    }
#pragma unroll
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (stg_has_chunk<G>(i)) {
        float w[8];
        norm.weight(i, rows.direct, w);
#pragma unroll
        for (int r = 0; r < G::rows; r++) {
          if (r < rows.size) {
            float f[8];
            norm.normalise(rows.x[r][i], by[r], w, f);
            rows.store(a.residual, 1, r, i, rows.x[r][i]);
            rows.store(a.out, 0, r, i, f);
          }
        }
      }
    }
    rows.end_store(STG_ALL);
  }

  // A row that is not held is updated twice: for its squares, and to be stored.
  __device__ __forceinline__ void norm_read(const outcome &end, int turn) {
    const stg_norm<G> norm{a};
    float acc[1] = {};
#pragma unroll 1
    for (int i = 0; i < G::chunks_per_thread; i++) {
      float f[8];
      updated(end, i, f);
      if (stg_has_chunk<G>(i)) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          acc[0] = __fmaf_rn(f[j], f[j], acc[0]);
        }
      }
    }
    put_sums(acc, tile.square[turn]);
    __syncthreads();
    const float by = norm.factor(stg_total<G>(tile.square[turn][0]));
#pragma unroll 1
    for (int i = 0; i < G::chunks_per_thread; i++) {
      float f[8], w[8], g[8];
      updated(end, i, f);
      if (stg_has_chunk<G>(i)) {
        norm.weight(i, rows.direct, w);
        norm.normalise(f, by, w, g);
        rows.store(a.residual, 1, 0, i, f);
        rows.store(a.out, 0, 0, i, g);
      }
    }
  }

  // ---- the tile ----

  // `first_word` is that of the chain, 0 where there is none; `left` are the vectors whose dots are
  // wanted beside the one that has been asked for.
  __device__ __forceinline__ void work(unsigned first_word, unsigned left, int turn) {
    outcome end;
    end.used = 0;
    end.changed = 0;
    if (first_word != 0) {
      rows.take();
      if constexpr (stg_few_vectors<G>::apply) {
        dots_by_few(left);
      } else {
        dots(left);
      }
      if (first_word >> 16 & 1u) {
        squares(tile.part[STG_NORM_SLOT]);
      }
      __syncthreads();
      end = run_chains();
    }
    // taken again, so that the state takes no registers from the chains; one row takes few
    if ((G::rows > 1 && (end.changed != 0 || G::epilogue)) || (G::epilogue && first_word == 0)) {
      rows.take();
    }
    if constexpr (G::epilogue && G::held) {
      update_held(end);
      norm_held(turn);
    } else if constexpr (G::epilogue) {
      norm_read(end, turn);
    } else if (end.changed == 0) {
    } else if constexpr (G::held) {
      update_held(end);
      store_held(end.changed);
    } else {
      update_read(end);
    }
    if (!G::epilogue && (a.flags & STG_IN_PLACE) == 0) {
      rows.copy(((1u << rows.size) - 1) & ~end.changed);
    }
  }
};
