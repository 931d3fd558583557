// components_weights.cuh: work=weights: parts of dV, dU, dDelta, dbias and shared dm, and dm of
// rows.
//
// Of a tile of rows a block of components makes t = x V and g = dy U^T, from which come dm = g*t
// and the operands s = t*m and h = g*m, in shared memory. Then dV += x^T h and dU^T += dy^T s: both
// are a wide matrix, turned, times a narrow one, with sums that stay in registers over the span.
// Such a product is dDelta too, (d*dy)^T x by blocks of columns of x; and dbias, dy^T 1.
//
// Each sum is one accumulator's, over the rows in their order, and t and g alike over theirs: the
// tile, the block and the stages change no bit.

// Sums of a wide matrix, which has Columns, turned, times the block's narrow one.
template <class G, int Columns, int Strips> struct stg_components_product {
  static constexpr int warps_m = G::threads / STG_LANES / G::warps_n;
  static constexpr int all = stg_round_up(Columns, 16) / 16;
  static constexpr int tiles = (all + warps_m - 1) / warps_m;
  typedef stg_factors<typename G::data> factors;
  static constexpr int bytes = sizeof(typename G::data::element);
  static constexpr int pitch = stg_pitch_of(all * bytes);
  typedef typename factors::template tiles<pitch, true, warps_m> wide;

  float acc[tiles][Strips][4];

  __device__ __forceinline__ stg_components_product() {
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int n = 0; n < Strips; n++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          acc[m][n][j] = 0.0f;
        }
      }
    }
  }

  // The first tile and strip of a thread's warp.
  static __device__ __forceinline__ int row_of(int thread) {
    return thread / STG_LANES / G::warps_n;
  }
  static __device__ __forceinline__ int strip_of(int thread) {
    return thread / STG_LANES % G::warps_n * Strips;
  }

  // The rows of a tile. Narrow: a second factor.
  template <class Narrow>
  __device__ __forceinline__ void add(unsigned of_wide, unsigned of_narrow) {
    const int thread = stg_thread_here(), lane = thread % STG_LANES;
    const int row = row_of(thread), strip = strip_of(thread);
    const int mine = all % warps_m == 0 || row + (tiles - 1) * warps_m < all ? tiles : tiles - 1;
    factors::template multiply<wide, Narrow, G::tile / factors::depth, 0>(
        acc, of_wide + wide::of_lane(lane) + row * 16u * bytes,
        of_narrow + Narrow::of_lane(lane) + strip * Narrow::strip, mine, Strips);
  }

  // The rows of a tile, times ones, without a rounding: three operands have all bits of a float32.
  __device__ __forceinline__ void add_whole(unsigned of_wide) {
    const int thread = stg_thread_here(), row = row_of(thread);
    const unsigned at = of_wide + wide::of_lane(thread % STG_LANES) + row * 16u * bytes;
    constexpr int steps = G::tile / factors::depth, part = 2; // whatever the tile
#pragma unroll 1
    for (int k = 0; k < steps; k += part) {
#pragma unroll
      for (int m = 0; m < tiles; m++) {
        if (row + m * warps_m >= all) {
          continue;
        }
        float sums[4] = {};
#pragma unroll
        for (int i = 0; i < part; i++) {
          add_ones(sums, at + (k + i) * wide::step + m * wide::tile);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
          acc[m][0][i] += sums[i];
        }
      }
    }
  }
  static __device__ __forceinline__ void add_ones(float (&sums)[4], unsigned at) {
    const unsigned one = __float_as_uint(1.0f);
    unsigned rest[4];
    wide::load(at, rest);
#pragma unroll
    for (int part = 0; part < 3; part++) {
      unsigned of_a[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        of_a[i] = stg_round_to_tf32(rest[i]);
        rest[i] = of_a[i] == rest[i]
                      ? 0
                      : __float_as_uint(__uint_as_float(rest[i]) - __uint_as_float(of_a[i]));
      }
      stg_add_tf32(sums, of_a, one, one);
    }
  }

  // Give each pair of sums that there is to `to`, by its row, of Columns, and its first column.
  template <class F> __device__ __forceinline__ void store(const F &to) const {
    const int thread = stg_thread_here(), lane = thread % STG_LANES;
    const int row = row_of(thread), strip = strip_of(thread);
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int r = (row + m * warps_m) * 16 + half * 8 + lane / 4;
        if (r >= Columns) {
          continue;
        }
#pragma unroll
        for (int n = 0; n < Strips; n++) {
          to(r, (strip + n) * 8 + lane % 4 * 2, acc[m][n][2 * half], acc[m][n][2 * half + 1]);
        }
      }
    }
  }
};

// A second factor of ones.
template <class D> struct stg_ones16 {
  static constexpr int halves = 1;
  static constexpr unsigned step = 0, strip = 0;

  static __device__ __forceinline__ unsigned of_lane(unsigned) {
    return 0;
  }
  template <int Halves>
  static __device__ __forceinline__ void load(unsigned, int, unsigned (&r)[1][4]) {
    r[0][0] = r[0][1] = D::narrow2(1.0f, 1.0f);
  }
};

// Two neighbours of a row of Width that begins at a multiple of 16 bytes times Width.
template <int Width>
__device__ __forceinline__ void stg_store_sums(float *row, int column, float x, float y) {
  if (Width % 2 == 0 && column < Width) {
    *(float2 *)(row + column) = make_float2(x, y);
    return;
  }
  if (column < Width) {
    row[column] = x;
  }
  if (column + 1 < Width) {
    row[column + 1] = y;
  }
}

// Where a span's part of a result begins, in the manner of codegen/components_parts.c: each result
// has one of every span, from 16 bytes in whole on.
struct stg_components_at {
  float *at;
  const int spans;

  __device__ __forceinline__ float *part(long long elements, int span) const {
    return at + elements * span;
  }
  __device__ __forceinline__ void pass(long long elements) {
    at += (elements * spans + 3) / 4 * 4;
  }
};

template <class G> struct stg_components_weights_block {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_span_layout<G> layout;
  static constexpr int strips = G::block / 8 / G::warps_n;
  static constexpr int warps = G::threads / STG_LANES;
  typedef stg_operands<data> operands;
  typedef stg_factors<data> factors;
  typedef typename factors::template rows<layout::block_pitch> narrow;
  static constexpr int depth = factors::depth;
  static constexpr unsigned bytes = sizeof(element);
  // of t and g
  static constexpr int s_tiles = G::s_rows / 16;
  static constexpr int s_warps_n = warps / (G::tile / G::s_rows);
  static constexpr int s_strips = (G::block / 8 + s_warps_n - 1) / s_warps_n;
  static constexpr int last_strips = G::block / 8 % s_strips; // of the last warp that has some

  stg_components_ring<G> ring;
  stg_components_heads<G> &heads;
  stg_components_at to;

  __device__ __forceinline__ stg_components_weights_block(const stg_components_ring<G> &of_ring,
                                                          stg_components_heads<G> &of_heads)
      : ring(of_ring),
        heads(of_heads), to{of_ring.a.parts,
                            stg_components_spans_of(of_ring.a.rows, of_ring.a.span)} {
  }

  __device__ __forceinline__ unsigned s_of(int tile) const {
    return layout::in_place ? ring.stage(tile) + layout::dy_bytes + layout::x_bytes
                            : ring.memory + layout::s;
  }

  // A row of a tile, worked out once for all of its components.
  struct row {
    int place; // in the tile
    bool live;
    element *dm; // of the block's components; null: not wanted, or there is no such row
  };
  __device__ __forceinline__ row row_of(int tile, int place) const {
    const int r = ring.top(tile) + place;
    const bool has_dm = G::mask == STG_MASK_ELEMENTS && ring.a.dm != nullptr && r < ring.end;
    return {place, ring.rows_of(tile).is_live(place),
            has_dm ? (element *)ring.a.dm + r * ring.a.dm_stride + ring.begin : nullptr};
  }
  // Components c and the one behind.
  __device__ __forceinline__ void store_dm(element *of_row, int c, float x, float y) const {
    constexpr bool whole = G::components % G::block == 0; // blocks, of which nothing is to be asked
    const int column = ring.begin + c;
    if (whole || column + 1 < G::components) {
      operands::store_two(of_row + c, x, y, ring.has(STG_ALIGNED_DM));
    } else if (column < G::components) {
      operands::store(of_row + c, x);
    }
  }

  // What follows from t and g of 16 rows from `top` of the tile on, of which the thread has two,
  // and of 8 components from `left`.
  __device__ __forceinline__ void give(int tile, int top, int left, const row (&rows)[2],
                                       const float (&t)[4], const float (&g)[4],
                                       const stg_components_groups<G> &groups) const {
    constexpr unsigned element_bytes = layout::in_place ? bytes : 1u;
    const int c = left + stg_thread_here() % 4 * 2;
    const unsigned mask = ring.stage(tile) + layout::dy_bytes + layout::x_bytes;
    float dm[2][2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const row &of = rows[half];
      const float t0 = of.live ? t[2 * half] : 0.0f, t1 = of.live ? t[2 * half + 1] : 0.0f;
      const float g0 = of.live ? g[2 * half] : 0.0f, g1 = of.live ? g[2 * half + 1] : 0.0f;
      float of_x = 1.0f, of_y = 1.0f;
      if constexpr (G::mask != STG_MASK_NONE) {
        stg_mask_pair<G>(mask + (unsigned)(of.place * layout::mask_pitch) * 16u + c * element_bytes,
                         of_x, of_y);
      }
      const unsigned at = (unsigned)(of.place * layout::block_pitch) * 16u + c * bytes;
      operands::store_pair(s_of(tile) + at, __fmul_rn(t0, of_x), __fmul_rn(t1, of_y));
      operands::store_pair(ring.memory + layout::h + at, __fmul_rn(g0, of_x), __fmul_rn(g1, of_y));
      if constexpr (G::mask == STG_MASK_ELEMENTS) {
        dm[half][0] = __fmul_rn(g0, t0), dm[half][1] = __fmul_rn(g1, t1);
        if (of.dm != nullptr) {
          store_dm(of.dm, c, dm[half][0], dm[half][1]);
        }
      }
    }
    if constexpr (G::mask == STG_MASK_ELEMENTS) {
      if (ring.has(STG_SHARED_DM)) {
        groups.take(top / 16, ring.top(tile) + top, c, dm[0], dm[1]);
      }
    }
  }

  // The tile's s and h, by warps that are spread as both are.
  __device__ __forceinline__ void make(int tile, const stg_components_groups<G> &groups) const {
    typedef typename factors::template tiles<layout::in_pitch, false, 1> of_x;
    typedef typename factors::template tiles<layout::out_pitch, false, 1> of_dy;
    typedef typename factors::template strips<layout::block_pitch, true> of_v;
    typedef typename factors::template strips<layout::out_pitch, false> of_u;
    const int thread = stg_thread_here(), lane = thread % STG_LANES, warp = thread / STG_LANES;
    const int top = warp / s_warps_n * G::s_rows, strip = warp % s_warps_n * s_strips;
    const int rest = G::block / 8 - strip;
    const int mine = G::block / 8 % s_warps_n == 0 || rest >= s_strips ? s_strips : rest;
    const unsigned dy = ring.stage(tile), x = dy + layout::dy_bytes;
    float t[s_tiles][s_strips][4] = {}, g[s_tiles][s_strips][4] = {};
    factors::template multiply<of_x, of_v, layout::in_columns / depth, last_strips>(
        t, x + (unsigned)(top * layout::in_pitch) * 16u + of_x::of_lane(lane),
        ring.memory + strip * of_v::strip + of_v::of_lane(lane), s_tiles, mine);
    factors::template multiply<of_dy, of_u, layout::out_columns / depth, last_strips>(
        g, dy + (unsigned)(top * layout::out_pitch) * 16u + of_dy::of_lane(lane),
        ring.memory + layout::u + strip * of_u::strip + of_u::of_lane(lane), s_tiles, mine);
#pragma unroll
    for (int m = 0; m < s_tiles; m++) {
      const int first = top + m * 16, mine_of = first + lane / 4;
      const row rows[2] = {row_of(tile, mine_of), row_of(tile, mine_of + 8)};
#pragma unroll
      for (int n = 0; n < s_strips; n++) {
        if (n < mine) {
          give(tile, first, (strip + n) * 8, rows, t[m][n], g[m][n], groups);
        }
      }
    }
  }

  __device__ __forceinline__ void run_components() {
    constexpr long long of_dv = (long long)G::in * G::components;
    constexpr long long of_du = (long long)G::components * G::out;
    float *const dv = to.part(of_dv, ring.span);
    to.pass(of_dv);
    float *const du = to.part(of_du, ring.span);
    to.pass(of_du);
    to.pass(G::delta ? (long long)G::out * G::in : 0);
    to.pass(G::bias ? G::out : 0);
    stg_components_groups<G> groups(heads, to.at, ring.a.share, ring.span, ring.end, ring.begin);
    stg_components_product<G, G::in, strips> of_v;
    stg_components_product<G, G::out, strips> of_u;
    ring.template start<STG_OF_COMPONENTS>();
#pragma unroll 1
    for (int i = 0; i < ring.tiles(); i++) {
      ring.template meet<STG_OF_COMPONENTS>(i);
      make(i, groups);
      __syncthreads();
      of_v.template add<narrow>(ring.stage(i) + layout::dy_bytes, ring.memory + layout::h);
      of_u.template add<narrow>(ring.stage(i), s_of(i));
      if (G::mask == STG_MASK_ELEMENTS && ring.has(STG_SHARED_DM)) {
        groups.add(ring.top(i));
      }
    }
    if (G::mask == STG_MASK_ELEMENTS && ring.has(STG_SHARED_DM)) {
      groups.store();
    }
    if (ring.a.parts == nullptr) { // dm alone is wanted
      return;
    }
    of_v.store([&](int r, int c, float x, float y) {
      stg_store_sums<G::components>(dv + (long long)r * G::components, ring.begin + c, x, y);
    });
    of_u.store([&](int r, int c, float x, float y) { // turned
      const int component = ring.begin + c;
      if (component < G::components) {
        du[(long long)component * G::out + r] = x;
      }
      if (component + 1 < G::components) {
        du[(long long)(component + 1) * G::out + r] = y;
      }
    });
  }

  // d*dy in the place of dy, and x, as operands.
  __device__ __forceinline__ void scale(int tile) const {
    stg_share_out<G::threads, G::tile, layout::out_pieces>(
        [&](int r, int piece) {
          const unsigned at = ring.stage(tile) + (unsigned)(r * layout::out_pitch + piece) * 16u;
          operands::scale_piece(at, ring.rows_of(tile).d[r]);
        },
        stg_thread_here());
    if constexpr (operands::rounds) {
      ring.template round_matrix<G::tile, layout::block_pieces, layout::block_pitch>(
          ring.stage(tile) + layout::dy_bytes);
    }
  }

  __device__ __forceinline__ void run_delta() {
    to.pass((long long)G::in * G::components);
    to.pass((long long)G::components * G::out);
    float *const ddelta = to.part((long long)G::out * G::in, ring.span);
    stg_components_product<G, G::out, strips> sums;
    ring.template start<STG_OF_DELTA>();
#pragma unroll 1
    for (int i = 0; i < ring.tiles(); i++) {
      ring.template meet<STG_OF_DELTA>(i);
      scale(i);
      __syncthreads();
      sums.template add<narrow>(ring.stage(i), ring.stage(i) + layout::dy_bytes);
    }
    sums.store([&](int r, int c, float x, float y) {
      stg_store_sums<G::in>(ddelta + (long long)r * G::in, ring.begin + c, x, y);
    });
  }

  __device__ __forceinline__ void run_bias() {
    to.pass((long long)G::in * G::components);
    to.pass((long long)G::components * G::out);
    to.pass(G::delta ? (long long)G::out * G::in : 0);
    float *const dbias = to.part(G::out, ring.span);
    stg_components_product<G, G::out, 1> sums;
    ring.template start<STG_OF_BIAS>();
#pragma unroll 1
    for (int i = 0; i < ring.tiles(); i++) {
      ring.template meet<STG_OF_BIAS>(i);
      if constexpr (bytes == 4) {
        sums.add_whole(ring.stage(i));
      } else {
        sums.template add<stg_ones16<data>>(ring.stage(i), 0);
      }
    }
    sums.store([&](int r, int c, float x, float) {
      if (c == 0) {
        dbias[r] = x;
      }
    });
  }
};

template <class G>
__device__ __forceinline__ void stg_components_weights_run(const stg_components_weights_args &a) {
  extern __shared__ uint4 stg_shared[];
  __shared__ stg_components_rows<G> rows[stg_components_ring<G>::known];
  __shared__ stg_components_heads<G> heads;
  constexpr int blocks = (G::components + G::block - 1) / G::block;
  constexpr int delta_blocks = (G::in + G::block - 1) / G::block;
  const int spans = stg_components_spans_of(a.rows, a.span);
  int number = (int)blockIdx.x;
  stg_wait_for_earlier_launches();
  stg_let_next_launch_begin();
  if (spans == 0) { // a launch of no rows has a block, and perhaps no tensors
    return;
  }
  stg_components_ring<G> ring(a, rows, (unsigned)__cvta_generic_to_shared(stg_shared));
  // the longest first
  if (number < blocks * spans) {
    ring.take(number, blocks);
    stg_components_weights_block<G>(ring, heads).run_components();
    return;
  }
  if (a.parts == nullptr) { // dm of rows alone is wanted
    return;
  }
  number -= blocks * spans;
  if constexpr (G::delta) {
    if (number < delta_blocks * spans) {
      ring.take(number, delta_blocks);
      stg_components_weights_block<G>(ring, heads).run_delta();
      return;
    }
    number -= delta_blocks * spans;
  }
  if constexpr (G::bias) {
    ring.take(number, 1);
    stg_components_weights_block<G>(ring, heads).run_bias();
  }
}
