// components_parts.cuh: work=weights by products of four warps at once, where the architecture has
// them: what a block of components does, of a mask of which no rows share a row.
//
// Of a tile of rows a first group of four warps makes t, turned, 64 components by rows, and of that
// s, which is a first factor as it stands: dU += s . dy. A second one makes g alike, and dV^T += h
// . x. Their parts of V and U stay in registers, sums as well; t goes from the first to the second
// by way of shared memory, for dm. A ring of stages brings x, dy and the mask.
//
// Each sum is one accumulator's, over the rows in their order: tile and stages change no bit.

// The extents with the tiles of groups in the place of those of warps.
template <class G> struct stg_group_extents : G {
  static constexpr int tile = G::group_tile, stages = G::group_stages;
};

template <class G> struct stg_components_parts_layout {
  static constexpr int in_columns = stg_round_up(G::in, 16), out_columns = stg_round_up(G::out, 16);
  static constexpr int in_pieces = in_columns / 8, out_pieces = out_columns / 8;
  static constexpr bool elements = G::mask == STG_MASK_ELEMENTS;
  static constexpr int mask_pieces = G::block / (elements ? 8 : 16);
  static constexpr int tile = G::group_tile;
  typedef stg_place<true, tile, 0> rows_place; // of x, dy and the mask
  typedef stg_place<true, in_columns, 0> v_place;
  typedef stg_place<true, G::block, 0> u_place;

  static constexpr int v_bytes = v_place::bytes(G::block / 8);
  static constexpr int u_bytes = u_place::bytes(out_pieces);
  static constexpr int t_bytes = elements ? tile * G::block * 4 : 0;
  static constexpr int dm_pitch = stg_pitch_of(G::block / 8);
  static constexpr int dm_bytes = elements ? tile * dm_pitch * 16 : 0;
  static constexpr int dy_bytes = rows_place::bytes(out_pieces);
  static constexpr int x_bytes = rows_place::bytes(in_pieces);
  static constexpr int mask_bytes = G::mask == STG_MASK_NONE ? 0 : rows_place::bytes(mask_pieces);
  static constexpr int stage_bytes = dy_bytes + x_bytes + mask_bytes;

  static constexpr int u = v_bytes, t = u + u_bytes, dm = t + t_bytes, ring = dm + dm_bytes;
  static constexpr int bytes = ring + G::group_stages * stage_bytes;
  static_assert(bytes <= G::shared_bytes, "codegen/components_extents.c has the same");
  static_assert(G::block == 64 && G::threads == 256, "two groups of four warps");
};

template <class G> struct stg_components_parts_block {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_parts_layout<G> layout;
  typedef typename layout::rows_place place;
  typedef stg_group_extents<G> extents;
  static constexpr int known = G::group_stages + 1;
  typedef stg_components_rows<extents> rows_of_tiles[known];
  static constexpr int tile = layout::tile, steps = tile / 16;

  const stg_components_weights_args &a;
  rows_of_tiles &rows;
  const unsigned memory;
  const int begin, first, end; // of the components; and rows of the span

  __device__ __forceinline__ int tiles() const {
    return (end - first + tile - 1) / tile;
  }
  __device__ __forceinline__ int top(int n) const {
    return first + n * tile;
  }
  __device__ __forceinline__ unsigned stage(int n) const {
    return memory + layout::ring + (unsigned)(n % G::group_stages) * layout::stage_bytes;
  }
  __device__ __forceinline__ bool has(unsigned flag) const {
    return (a.flags & flag) != 0;
  }
  static __device__ __forceinline__ bool has_words(const void *tensor) {
    return ((unsigned)(unsigned long long)tensor & 3u) == 0;
  }

  // ---- what comes ----

  // Of a packed matrix of Height x Width: Rows from `top_row` on, Pieces from column `left` on.
  template <int Height, int Width, int Rows, int Pieces, class Place>
  __device__ __forceinline__ void bring_matrix(unsigned to, const void *matrix, int top_row,
                                               int left, unsigned flag) const {
    stg_bring_rows<G::threads, Rows, Pieces, Place, Width % 8 == 0, element>(
        to, Width % 8 == 0 && has(flag), has_words(matrix), [&](int r, int &of_row) {
          of_row = top_row + r < Height ? Width - left : 0;
          return (const element *)matrix + ((long long)(top_row + r) * Width + left);
        });
  }
  template <int Width, int Pieces>
  __device__ __forceinline__ void bring_rows(unsigned to, int n, const void *matrix,
                                             long long stride, unsigned flag) const {
    const stg_components_rows<extents> &of_tile = rows[n % known];
    stg_bring_rows<G::threads, tile, Pieces, place, Width % 8 == 0, element>(
        to, has(flag), has_words(matrix), [&](int r, int &left) {
          left = of_tile.is_live(r) ? Width : 0;
          return (const element *)matrix + (top(n) + r) * stride;
        });
  }
  template <class E> __device__ __forceinline__ void bring_mask(unsigned to, int n) const {
    constexpr bool whole = G::components % (16 / (int)sizeof(E)) == 0;
    const stg_components_rows<extents> &of_tile = rows[n % known];
    stg_bring_rows<G::threads, tile, layout::mask_pieces, place, whole, E>(
        to, has(STG_ALIGNED_MASK), has_words(a.mask), [&](int r, int &left) {
          const long long at = of_tile.mask[r];
          left = at >= 0 ? G::components - begin : 0;
          return (const E *)a.mask + (at + begin);
        });
  }
  // Begin to bring a tile, if there is one, into its stage: a group.
  __device__ __forceinline__ void bring(int n) const {
    if (n < tiles()) {
      const unsigned to = stage(n), x = to + layout::dy_bytes;
      bring_rows<G::out, layout::out_pieces>(to, n, a.dy, a.dy_stride, STG_ALIGNED_DY);
      bring_rows<G::in, layout::in_pieces>(x, n, a.x, a.x_stride, STG_ALIGNED_X);
      if constexpr (G::mask == STG_MASK_ELEMENTS) {
        bring_mask<element>(x + layout::x_bytes, n);
      } else if constexpr (G::mask == STG_MASK_BYTES) {
        bring_mask<unsigned char>(x + layout::x_bytes, n);
      }
    }
    stg_copy_commit();
  }
  __device__ __forceinline__ void find(int n) const {
    if (n < tiles()) {
      rows[n % known].find(a, top(n), end);
    }
  }

  // Rows that came by words, into their places; true: the block has to meet.
  template <int Pieces>
  __device__ __forceinline__ bool settle_rows(unsigned at, const void *matrix,
                                              long long stride) const {
    if ((stride & 1) == 0 || !has_words(matrix)) {
      return false;
    }
    stg_settle_words<G::threads, tile, Pieces, place>(at, [](int r) { return r % 2 != 0; });
    return true;
  }
  __device__ __forceinline__ bool settle(int n) const {
    const unsigned dy = stage(n), x = dy + layout::dy_bytes;
    const bool of_dy = settle_rows<layout::out_pieces>(dy, a.dy, a.dy_stride);
    const bool of_x = settle_rows<layout::in_pieces>(x, a.x, a.x_stride);
    bool of_mask = false;
    if constexpr (G::mask == STG_MASK_ELEMENTS) { // each row has one of its own
      of_mask = settle_rows<layout::mask_pieces>(x + layout::x_bytes, a.mask, a.mask_stride);
    }
    return of_dy || of_x || of_mask;
  }
  template <bool Odd, int Rows, int Pieces, class Place>
  __device__ __forceinline__ void settle_matrix(unsigned at, const void *matrix) const {
    if constexpr (Odd) {
      if (has_words(matrix)) {
        stg_settle_words<G::threads, Rows, Pieces, Place>(at, [](int r) { return r % 2 != 0; });
      }
    }
  }

  __device__ __forceinline__ void start() const {
    for (int i = 0; i < G::group_stages; i++) {
      find(i);
    }
    __syncthreads();
    bring_matrix<G::in, G::components, layout::in_columns, G::block / 8, typename layout::v_place>(
        memory, a.v, 0, begin, STG_ALIGNED_V);
    bring_matrix<G::components, G::out, G::block, layout::out_pieces, typename layout::u_place>(
        memory + layout::u, a.u, begin, 0, STG_ALIGNED_U);
    stg_copy_commit();
#pragma unroll 1
    for (int i = 0; i < G::group_stages - 1; i++) {
      bring(i);
    }
    stg_copy_wait_but<G::group_stages - 1>();
    __syncthreads();
    settle_matrix<G::components % 2 != 0, layout::in_columns, G::block / 8,
                  typename layout::v_place>(memory, a.v);
    settle_matrix<G::out % 2 != 0, G::block, layout::out_pieces, typename layout::u_place>(
        memory + layout::u, a.u);
    __syncthreads();
  }
  __device__ __forceinline__ void meet(int n) const {
    stg_copy_wait_but<G::group_stages - 2>();
    stg_gmma_publish();
    __syncthreads();
    if (settle(n)) {
      stg_gmma_publish();
      __syncthreads();
    }
  }

  // ---- a thread's place ----

  static __device__ __forceinline__ int lane() {
    return stg_thread_here() % STG_LANES;
  }
  // Of its group: components from 16 times that on.
  static __device__ __forceinline__ int warp() {
    return stg_thread_here() / STG_LANES % 4;
  }

  // A first factor of the warp's 16 components: of V, turned, or of U.
  template <int Steps> __device__ __forceinline__ void load_v(unsigned (&r)[Steps][4]) const {
    typedef typename layout::v_place v;
    // rows 0-7 and 8-15 of k, of 8 components and of the next
    const unsigned at = memory + v::at(lane() % 8 + lane() / 16 * 8, warp() * 2 + lane() / 8 % 2);
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      stg_load_matrices<true>(at + v::at(16 * k, 0), r[k]);
    }
  }
  template <int Steps> __device__ __forceinline__ void load_u(unsigned (&r)[Steps][4]) const {
    typedef typename layout::u_place u;
    const unsigned at = memory + layout::u + u::at(warp() * 16 + lane() % 16, lane() / 16);
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      stg_load_matrices<false>(at + u::at(0, 2 * k), r[k]);
    }
  }

  // ---- products ----

  // Of the tile's rows, which are the columns; begun and not waited for.
  template <int Steps>
  static __device__ __forceinline__ void
  begin_product(float (&d)[2 * steps][4], const unsigned (&of)[Steps][4], unsigned from) {
    constexpr unsigned eight = 8 * 16u, apart = place::at(0, 1);
    stg_gmma_begin();
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      stg_gmma_add<data, tile, false>(d, of[k], from + k * 2 * apart, apart, eight, k > 0);
    }
    stg_gmma_commit();
  }
  // sums += s . rows; begun and not waited for.
  template <int Columns>
  static __device__ __forceinline__ void begin_sum(float (&sums)[Columns / 8][4],
                                                   const unsigned (&s)[steps][4], unsigned from) {
    constexpr unsigned eight = 8 * 16u, apart = place::at(0, 1);
    stg_gmma_begin();
#pragma unroll
    for (int k = 0; k < steps; k++) {
      stg_gmma_add<data, Columns, true>(sums, s[k], from + k * 2 * eight, eight, apart, 1);
    }
    stg_gmma_commit();
  }

  // Masks of the warp's components, of rows 8j + 2t and the one behind: `half`: of components 8-15.
  __device__ __forceinline__ void mask_of(unsigned masks, int j, int half, float &x,
                                          float &y) const {
    if constexpr (G::mask == STG_MASK_BYTES) {
      const int c = warp() * 16 + half * 8 + lane() / 4, r = j * 8 + lane() % 4 * 2;
      const unsigned at = masks + place::at(r, c / 16) + c % 16u;
      x = (stg_load_half(at & ~1u) >> (at % 2 * 8) & 0xffu) != 0 ? 1.0f : 0.0f;
      const unsigned next = at + place::at(1, 0);
      y = (stg_load_half(next & ~1u) >> (next % 2 * 8) & 0xffu) != 0 ? 1.0f : 0.0f;
    }
  }
  // What has been multiplied by the mask, as a first factor.
  __device__ __forceinline__ void narrow(int n, const float (&t)[2 * steps][4],
                                         unsigned (&s)[steps][4]) const {
    const unsigned masks = stage(n) + layout::dy_bytes + layout::x_bytes;
    const unsigned at =
        masks + place::at(lane() % 8 + lane() / 16 * 8, warp() * 2 + lane() / 8 % 2);
#pragma unroll
    for (int k = 0; k < steps; k++) {
      unsigned words[4] = {0, 0, 0, 0}; // of rows 0-7 and components 0-7 and 8-15; of rows 8-15
      if constexpr (G::mask == STG_MASK_ELEMENTS) {
        stg_load_matrices<true>(at + place::at(16 * k, 0), words);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) { // rows of k by i / 2, components by i % 2
        const int j = 2 * k + i / 2, half = i % 2;
        float x = 1.0f, y = 1.0f;
        if constexpr (G::mask == STG_MASK_ELEMENTS) {
          data::widen2(words[i], x, y);
        } else {
          mask_of(masks, j, half, x, y);
        }
        s[k][i] = data::narrow2(__fmul_rn(t[j][2 * half], x), __fmul_rn(t[j][2 * half + 1], y));
      }
    }
  }

  // ---- dm ----

  // By the first group: t, for the second.
  __device__ __forceinline__ unsigned t_of_thread() const {
    return memory + layout::t + (unsigned)(stg_thread_here() % 128) * 16u;
  }
  __device__ __forceinline__ void give_t(const float (&t)[2 * steps][4]) const {
#pragma unroll
    for (int j = 0; j < 2 * steps; j++) {
      uint4 w;
      w.x = __float_as_uint(t[j][0]), w.y = __float_as_uint(t[j][1]);
      w.z = __float_as_uint(t[j][2]), w.w = __float_as_uint(t[j][3]);
      stg_store_piece(t_of_thread() + j * 128u * 16u, w);
    }
  }
  // By the second: g*t, by rows.
  __device__ __forceinline__ void stage_dm(const float (&g)[2 * steps][4]) const {
    const unsigned staged = memory + layout::dm;
#pragma unroll
    for (int j = 0; j < 2 * steps; j++) {
      uint4 t;
      stg_load_piece(t_of_thread() + j * 128u * 16u, t);
      const unsigned lower = data::narrow2(__fmul_rn(g[j][0], __uint_as_float(t.x)),
                                           __fmul_rn(g[j][1], __uint_as_float(t.y)));
      const unsigned upper = data::narrow2(__fmul_rn(g[j][2], __uint_as_float(t.z)),
                                           __fmul_rn(g[j][3], __uint_as_float(t.w)));
      stg_store_two_turned(staged + ((unsigned)(j * 8 + lane() % 8) * layout::dm_pitch +
                                     (unsigned)(warp() * 2 + lane() / 8 % 2)) *
                                        16u,
                           lower, upper);
    }
  }
  // From there, as the tensor has them.
  __device__ __forceinline__ void store_dm(int n) const {
    const unsigned staged = memory + layout::dm;
    stg_meet_some(2, 128);
    const int left = G::components - begin;
    const int columns = left < G::block ? left : G::block;
    const bool aligned =
        ((unsigned long long)a.dm & 15u) == 0 && a.dm_stride % 8 == 0 && begin % 8 == 0;
#pragma unroll 1
    for (int r = warp() * 16; r < tile; r += 64) {
      const int row = top(n) + r;
      element *const to = (element *)a.dm + row * a.dm_stride + begin;
      const unsigned from = staged + (unsigned)(r * layout::dm_pitch) * 16u;
      if (aligned) {
        stg_put_pieces<G::block / 8>(from, to, a.dm_stride, end - row, columns);
      } else {
        stg_put_words<G::block / 8>(from, to, a.dm_stride, end - row, columns);
      }
    }
  }

  // ---- what the groups do ----

  template <int Columns>
  __device__ __forceinline__ void clear(float (&sums)[Columns / 8][4]) const {
#pragma unroll
    for (int i = 0; i < Columns / 2; i++) {
      sums[i / 4][i % 4] = 0.0f;
    }
  }

  __device__ __forceinline__ void run_first(float *du) const {
    constexpr int columns = layout::out_columns;
    unsigned v[layout::in_columns / 16][4];
    float sums[columns / 8][4];
    load_v(v);
    clear<columns>(sums);
#pragma unroll 1
    for (int n = 0; n < tiles(); n++) {
      float t[2 * steps][4];
      unsigned s[steps][4];
      meet(n);
      find(n + G::group_stages);
      begin_product(t, v, stage(n) + layout::dy_bytes);
      bring(n + G::group_stages - 1);
      stg_gmma_wait();
      if (layout::elements && a.dm != nullptr) {
        give_t(t);
        stg_arrive_some(1, G::threads);
      }
      narrow(n, t, s);
      begin_sum<columns>(sums, s, stage(n));
      stg_gmma_wait();
    }
    if (a.parts == nullptr) {
      return;
    }
#pragma unroll
    for (int i = 0; i < columns / 4; i++) {
      const int c = begin + warp() * 16 + i % 2 * 8 + lane() / 4;
      if (c < G::components) {
        stg_store_sums<G::out>(du + (long long)c * G::out, i / 2 * 8 + lane() % 4 * 2,
                               sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
      }
    }
  }

  __device__ __forceinline__ void run_second(float *dv) const {
    constexpr int columns = layout::in_columns;
    unsigned u[layout::out_columns / 16][4];
    float sums[columns / 8][4];
    load_u(u);
    clear<columns>(sums);
#pragma unroll 1
    for (int n = 0; n < tiles(); n++) {
      float g[2 * steps][4];
      unsigned h[steps][4];
      meet(n);
      find(n + G::group_stages);
      begin_product(g, u, stage(n));
      bring(n + G::group_stages - 1);
      stg_gmma_wait();
      const bool has_dm = layout::elements && a.dm != nullptr;
      if (has_dm) {
        stg_meet_some(1, G::threads);
        stage_dm(g);
      }
      narrow(n, g, h);
      begin_sum<columns>(sums, h, stage(n) + layout::dy_bytes);
      if (has_dm) {
        store_dm(n);
      }
      stg_gmma_wait();
    }
    if (a.parts == nullptr) {
      return;
    }
#pragma unroll
    for (int i = 0; i < columns / 2; i++) { // components of 8 lanes follow each other
      const int c = begin + warp() * 16 + i / 2 % 2 * 8 + lane() / 4;
      const int d = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      if (c < G::components && d < G::in) {
        dv[(long long)d * G::components + c] = sums[i / 4][i % 4];
      }
    }
  }

  __device__ __forceinline__ void run(float *dv, float *du) const {
    start();
    if (stg_thread_here() < 128) {
      run_first(du);
    } else {
      run_second(dv);
    }
  }
};

template <class G>
__device__ __forceinline__ void stg_components_parts_run(const stg_components_ring<G> &ring,
                                                         int spans) {
  __shared__ typename stg_components_parts_block<G>::rows_of_tiles rows;
  stg_components_at to{ring.a.parts, spans};
  constexpr long long of_dv = (long long)G::in * G::components;
  float *const dv = to.part(of_dv, ring.span);
  to.pass(of_dv);
  float *const du = to.part((long long)G::components * G::out, ring.span);
  const stg_components_parts_block<G> block = {ring.a,     rows,       ring.memory,
                                               ring.begin, ring.first, ring.end};
  block.run(dv, du);
}
