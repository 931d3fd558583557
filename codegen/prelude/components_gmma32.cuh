// components_gmma32.cuh: what components_gmma.cuh does, of float32 in TF32, whose second factors stand
// by rows of n alone: those that do not in the tensors are turned as they come. All are rounded in
// shared memory, where the rows stay. And the entry.
//
// Of t a thread has columns t and t + 4 of each 8, by the order in which the rows of the first matrix
// lie: so that s is a first factor as it stands.

template <class G> struct stg_components_gmma32 : stg_components_sums<G> {
  typedef stg_components_sums<G> sums;
  typedef typename sums::layout layout;
  typedef typename sums::place place;
  using stg_components_sums<G>::stg_components_sums;
  using sums::acc;
  using sums::columns;
  using sums::from;
  using sums::memory;
  static constexpr int delta_chunks = stg_components_bring<G>::delta_chunks;
  static constexpr int all_chunks = stg_components_bring<G>::all_chunks;
  static constexpr int in_steps = layout::in_columns / 8, steps = G::chunk / 8;

  // Chunk n is there, for all, as operands.
  template <bool Delta> __device__ __forceinline__ void meet(int n) const {
    stg_copy_wait_but<G::stages - 2>();
    __syncthreads();
    if constexpr (Delta) {
      from.round_delta(n);
    } else {
      from.round_chunk(n);
    }
    stg_gmma_publish();
    __syncthreads();
  }

  // d += rows . b over Steps of k, of the rows from a piece on; begun and not waited for.
  template <int Columns, int Steps, class Place>
  __device__ __forceinline__ void multiply_rows(float (*d)[4], int piece, unsigned b,
                                                bool keep) const {
    typedef typename layout::rows_place rows;
    const unsigned a = memory + rows::at((int)stg_thread_here() / 128 * 64, piece);
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      stg_gmma_add32<Columns>(d, stg_gmma_factor(a + rows::at(0, 2 * k), rows::at(0, 1), 8 * 16u),
                              b + Place::at(0, 2 * k), Place::at(0, 1), keep || k > 0);
    }
  }

  template <int Steps> __device__ __forceinline__ void add_delta_steps(int n) {
    stg_gmma_begin();
    multiply_rows<16 * columns, Steps, typename layout::delta_place>(
        acc[0], n * layout::chunk_pieces, from.stage(n), true);
    stg_gmma_end();
  }
  __device__ __forceinline__ void add_delta(int n) {
    // the last chunk may reach behind what the rows have
    constexpr int last = (layout::in_columns - (delta_chunks - 1) * G::chunk) / 8;
    if (last == steps || n < delta_chunks - 1) {
      add_delta_steps<steps>(n);
    } else {
      add_delta_steps<last>(n);
    }
  }

  static __device__ __forceinline__ unsigned operand(float t, float mask) {
    return stg_round_to_tf32(__float_as_uint(__fmul_rn(t, mask)));
  }
  // s of a chunk, as a first factor, from its t.
  __device__ __forceinline__ void make_s(int n, const float (&t)[steps][4],
                                         unsigned (&s)[steps][4]) const {
    const place at;
    const unsigned masks = from.stage(n) + layout::first_bytes + layout::second_bytes;
    const int r = at.row + (int)at.lane / 4, c = (int)at.lane % 4;
#pragma unroll
    for (int j = 0; j < steps; j++) {
#pragma unroll
      for (int i = 0; i < 4; i++) { // row r + 8 by i % 2, column c + 4 by i / 2
        const unsigned of_row = masks + layout::mask_place::at(r + i % 2 * 8, 0);
        float mask = 1.0f;
        if constexpr (G::mask == STG_MASK_ELEMENTS) {
          mask = __uint_as_float(
              stg_load_word(of_row + c * 4u + layout::mask_place::at(0, 2 * j + i / 2)));
        } else if constexpr (G::mask == STG_MASK_BYTES) {
          const unsigned word = stg_load_word(of_row + layout::mask_place::at(0, j / 2) +
                                              (unsigned)(j % 2 * 8 + i / 2 * 4));
          mask = (word >> c * 8 & 0xffu) != 0 ? 1.0f : 0.0f;
        }
        s[j][i] = operand(t[j][i % 2 * 2 + i / 2], mask);
      }
    }
  }

  __device__ __forceinline__ void add_chunk(int n) {
    typedef typename layout::second_place second;
    float t[steps][4];
    unsigned s[steps][4];
    stg_gmma_begin();
    multiply_rows<G::chunk, in_steps, typename layout::first_place>(t, 0, from.stage(n), false);
    stg_gmma_commit();
    from.bring(n + G::stages - 1);
    stg_gmma_wait();
    make_s(n, t, s);
    stg_gmma_begin();
#pragma unroll
    for (int k = 0; k < steps; k++) {
      stg_gmma_add32<16 * columns>(acc[0], s[k],
                                   from.stage(n) + layout::first_bytes + second::at(0, 2 * k),
                                   second::at(0, 1), 1);
    }
    stg_gmma_end();
  }

  __device__ __forceinline__ void run() {
    if (!sums::start()) {
      return;
    }
    if constexpr (G::delta) {
#pragma unroll 1
      for (int n = 0; n < delta_chunks; n++) {
        meet<true>(n);
        from.bring(n + G::stages - 1);
        add_delta(n);
      }
      if (!sums::end_delta()) {
        return;
      }
    }
#pragma unroll 1
    for (int n = delta_chunks; n < all_chunks; n++) {
      meet<false>(n);
      add_chunk(n);
    }
    __syncthreads();
    sums::store();
  }
};

template <class G>
__device__ __forceinline__ void stg_components_apply_run(const stg_components_apply_args &a) {
  extern __shared__ uint4 stg_shared[];
  __shared__ stg_components_rows<G> rows;
  __shared__ float dd[G::tile];
  const unsigned memory = (unsigned)__cvta_generic_to_shared(stg_shared);
  if constexpr (G::groups && sizeof(typename G::data::element) == 4) {
    stg_components_gmma32<G>(a, rows, dd, memory).run();
  } else if constexpr (G::groups) {
    stg_components_gmma<G>(a, rows, dd, memory).run();
  } else {
    stg_components_block<G>(a, rows, dd, memory).run();
  }
}
