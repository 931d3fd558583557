// components_gmma.cuh: work=apply by products of four warps at once, where the architecture has
// them.
//
// A warp has 16 rows of the tile, in registers. Of a chunk it makes the t of its rows, and of that
// s, which is a first factor as it stands: so it goes through no memory, and no warp waits for
// another but at the ring. Each sum is one accumulator's, over k in its order.

template <class G> struct stg_components_gmma : stg_components_sums<G> {
  typedef stg_components_sums<G> sums;
  typedef typename sums::data data;
  typedef typename sums::layout layout;
  typedef typename sums::place place;
  using stg_components_sums<G>::stg_components_sums;
  using sums::acc;
  using sums::columns;
  using sums::from;
  using sums::memory;
  static constexpr int delta_chunks = stg_components_bring<G>::delta_chunks;
  static constexpr int all_chunks = stg_components_bring<G>::all_chunks;
  static constexpr int in_steps = layout::in_columns / 16, steps = G::chunk / 16;

  // of the warp's rows
  unsigned held[in_steps][4];

  // Chunk n is there, for all. What the next in its stage brings, `ahead` of it, may begin.
  __device__ __forceinline__ void meet() const {
    stg_copy_wait_but<G::stages - 2>();
    stg_gmma_publish();
    __syncthreads();
  }
  __device__ __forceinline__ void meet_again(bool is) const {
    if (is) {
      stg_gmma_publish();
      __syncthreads();
    }
  }

  // d += a . b of so many Columns, over k of the first factor's steps; begun and not waited for.
  template <int Columns, bool ByK, class Place, int Steps>
  static __device__ __forceinline__ void multiply(float (*d)[4], const unsigned (*a)[4], unsigned b,
                                                  bool keep) {
    constexpr unsigned eight = 8 * 16u, apart = Place::at(0, 1);
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      stg_gmma_add<data, Columns, ByK>(d, *(const unsigned(*)[4])a[k],
                                       b + k * 2 * (ByK ? eight : apart), ByK ? eight : apart,
                                       ByK ? apart : eight, keep || k > 0);
    }
  }

  template <int Steps>
  __device__ __forceinline__ void load_rows(int piece, unsigned (*a)[4]) const {
    const place at;
    const unsigned first =
        memory + layout::rows_place::at(at.row + (int)at.lane % 16, piece + (int)at.lane / 16);
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      stg_load_matrices<false>(first + layout::rows_place::at(0, 2 * k), *(unsigned(*)[4])a[k]);
    }
  }

  template <int Steps> __device__ __forceinline__ void add_delta_steps(int n) {
    unsigned a[Steps][4];
    load_rows<Steps>(n * layout::chunk_pieces, a);
    stg_gmma_begin();
    multiply<16 * columns, G::turned, typename layout::delta_place, Steps>(acc[0], a, from.stage(n),
                                                                           true);
    stg_gmma_end();
  }
  __device__ __forceinline__ void add_delta(int n) {
    // the last chunk may reach behind what the rows have
    constexpr int last = (layout::in_columns - (delta_chunks - 1) * G::chunk) / 16;
    if (last == steps || n < delta_chunks - 1) {
      add_delta_steps<steps>(n);
    } else {
      add_delta_steps<last>(n);
    }
  }

  // s of a chunk, as a first factor, from its t.
  __device__ __forceinline__ void make_s(int n, const float (&t)[2 * steps][4],
                                         unsigned (&s)[steps][4]) const {
    const place at;
    const unsigned masks = from.stage(n) + layout::first_bytes + layout::second_bytes;
    const int r = at.row + (int)at.lane / 4, pair = (int)at.lane % 4 * 2;
    const unsigned mask =
        masks + layout::mask_place::at(r, 0) + pair * (layout::in_place ? 2u : 1u);
#pragma unroll
    for (int j = 0; j < 2 * steps; j++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float x = t[j][2 * half], y = t[j][2 * half + 1];
        if constexpr (G::mask != STG_MASK_NONE) {
          constexpr int of_piece = layout::in_place ? 1 : 2;
          float of_x, of_y;
          stg_mask_pair<G>(mask + layout::mask_place::at(half * 8, j / of_piece) +
                               j % of_piece * 8u,
                           of_x, of_y);
          x = __fmul_rn(x, of_x);
          y = __fmul_rn(y, of_y);
        }
        s[j / 2][j % 2 * 2 + half] = data::narrow2(x, y);
      }
    }
  }

  __device__ __forceinline__ void add_chunk(int n) {
    float t[2 * steps][4];
    unsigned s[steps][4];
    stg_gmma_begin();
    multiply<G::chunk, !G::turned, typename layout::first_place, in_steps>(t, held, from.stage(n),
                                                                           false);
    stg_gmma_commit();
    from.bring(n + G::stages - 1);
    stg_gmma_wait();
    make_s(n, t, s);
    stg_gmma_begin();
    multiply<16 * columns, !G::turned, typename layout::second_place, steps>(
        acc[0], s, from.stage(n) + layout::first_bytes, true);
    stg_gmma_end();
  }

  __device__ __forceinline__ void run() {
    if (!sums::start()) {
      return;
    }
    if constexpr (G::delta) {
#pragma unroll 1
      for (int n = 0; n < delta_chunks; n++) {
        meet();
        from.bring(n + G::stages - 1);
        meet_again(from.settle_delta(n));
        add_delta(n);
      }
      if (!sums::end_delta()) {
        return;
      }
    }
    load_rows<in_steps>(0, held);
#pragma unroll 1
    for (int n = delta_chunks; n < all_chunks; n++) {
      meet();
      const bool first = from.settle_first(n), second = from.settle_second(n);
      meet_again(first || second);
      add_chunk(n);
    }
    __syncthreads();
    sums::store();
  }
};
