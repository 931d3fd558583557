// components_apply.cuh: work=apply: y of a tile of rows, or turned its dx and dd.
//
// A block has the rows of a tile in shared memory, and walks over the components in chunks, which a
// ring of stages brings ahead of their use: of a chunk the first matrix, the second one and the
// mask. The chunk's t goes through shared memory as s, so that no product waits for memory of the
// device. Rows that begin at no multiple of 16 bytes come by words, and are settled behind the
// barrier that ends their copies. With delta the chunks of its product come first, through the same ring.
//
// Each sum is one accumulator's, over k in its order, from chunk to chunk: which warp has it, the
// tile, the chunk and the stages change no bit.
//
// The generated text supplies a struct G with the literal extents.

template <class G> struct stg_components_block {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_layout<G> layout;
  static constexpr int tiles = G::warp_rows / 16;
  static constexpr int columns = G::warp_columns / 16;
  static constexpr int delta_chunks = G::delta ? (G::in + G::chunk - 1) / G::chunk : 0;
  static constexpr int chunks = (G::components + G::chunk - 1) / G::chunk;
  static constexpr int all_chunks = delta_chunks + chunks;
  // of a chunk's s
  static constexpr int s_tiles = G::s_rows / 16, s_columns = G::s_columns / 16;
  static constexpr int s_warps_n = G::chunk / G::s_columns;
  // whether those who make the s of some rows are those who need it
  static constexpr bool own_rows = G::s_rows == G::warp_rows && s_warps_n == G::warps_n;
  // whether a thread has room for its rows of the first factor, beside its sums
  static constexpr int in_steps = layout::in_columns / 16;
  static constexpr bool holds = in_steps * s_tiles * 4 + tiles * columns * 8 <= 128;
  static constexpr int held_steps = holds ? in_steps : 1;
  // what of a packed matrix begins in the middle of a word, where it came by words
  static constexpr bool odd_first = (G::turned ? G::in : G::components) % 2 != 0;
  static constexpr bool odd_second = (G::turned ? G::components : G::out) % 2 != 0;
  static constexpr bool odd_delta = G::delta && (G::turned ? G::out : G::in) % 2 != 0;

  const stg_components_apply_args &a;
  stg_components_rows<G> &rows;
  float *const dd; // of each of them
  const int first_row;
  const unsigned memory; // of the block
  const unsigned lane, warp;
  // of the second product
  const int row, column;
  float acc[tiles][2 * columns][4];
  unsigned held[held_steps][s_tiles][4];

  __device__ __forceinline__ stg_components_block(const stg_components_apply_args &args,
                                                  stg_components_rows<G> &of_rows, float *of_dd,
                                                  unsigned shared)
      : a(args), rows(of_rows), dd(of_dd), first_row((int)blockIdx.x * G::tile), memory(shared),
        lane(threadIdx.x % STG_LANES), warp(threadIdx.x / STG_LANES),
        row((int)warp / G::warps_n * G::warp_rows), column((int)warp % G::warps_n * G::warp_columns) {
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int n = 0; n < 2 * columns; n++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          acc[m][n][j] = 0.0f;
        }
      }
    }
  }

  __device__ __forceinline__ unsigned stage(int n) const {
    return memory + layout::in_bytes + layout::s_bytes + (unsigned)(n % G::stages) * layout::stage_bytes;
  }
  __device__ __forceinline__ bool is_aligned(unsigned flag) const {
    return (a.flags & flag) != 0;
  }
  // Otherwise: whether rows come by words, or else by elements.
  static __device__ __forceinline__ bool has_words(const void *tensor) {
    return ((unsigned long long)tensor & 3u) == 0;
  }

  // ---- what comes from the device's memory ----

  __device__ __forceinline__ void bring_in() const {
    stg_bring_rows<G::threads, G::tile, layout::in_pieces, G::in % 8 == 0, element>(
        memory, is_aligned(STG_ALIGNED_IN), has_words(a.in), [&](int r, int &left) {
          left = rows.is_live(r) ? G::in : 0;
          return (const element *)a.in + (first_row + r) * a.in_stride;
        });
  }

  // Of a packed matrix of Height x Width: Rows from `top` on, and pieces from `left` on.
  template <int Height, int Width, int Rows, int Pieces>
  __device__ __forceinline__ void bring_matrix(unsigned to, const void *matrix, int top, int left,
                                               unsigned flag) const {
    stg_bring_rows<G::threads, Rows, Pieces, Width % 8 == 0, element>(
        to, Width % 8 == 0 && is_aligned(flag), has_words(matrix), [&](int r, int &of_row) {
          of_row = top + r < Height ? Width - left : 0;
          return (const element *)matrix + ((top + r) * Width + left);
        });
  }

  __device__ __forceinline__ void bring_mask(unsigned to, int begin) const {
    if constexpr (G::mask == STG_MASK_ELEMENTS) {
      bring_mask_of<element>(to, begin);
    } else if constexpr (G::mask == STG_MASK_BYTES) {
      bring_mask_of<unsigned char>(to, begin);
    }
  }
  template <class E> __device__ __forceinline__ void bring_mask_of(unsigned to, int begin) const {
    constexpr bool whole = G::components % (16 / (int)sizeof(E)) == 0;
    stg_bring_rows<G::threads, G::tile, layout::mask_pieces, whole, E>(
        to, is_aligned(STG_ALIGNED_MASK), has_words(a.mask), [&](int r, int &left) {
          const long long at = rows.mask[r];
          left = at >= 0 ? G::components - begin : 0;
          return (const E *)a.mask + (at + begin);
        });
  }

  // Begin to bring chunk n, if there is one, into its stage: a group.
  __device__ __forceinline__ void bring(int n) const {
    const unsigned to = stage(n);
    if (n < delta_chunks) {
      const int k = n * G::chunk;
      if constexpr (G::turned) {
        bring_matrix<G::in, G::out, G::chunk, layout::out_pieces>(to, a.delta, k, 0,
                                                                  STG_ALIGNED_DELTA);
      } else {
        bring_matrix<G::out, G::in, layout::out_columns, layout::chunk_pieces>(to, a.delta, 0, k,
                                                                               STG_ALIGNED_DELTA);
      }
    } else if (n < all_chunks) {
      const int begin = (n - delta_chunks) * G::chunk;
      const unsigned second = to + layout::first_bytes;
      if constexpr (G::turned) {
        bring_matrix<G::components, G::in, G::chunk, layout::in_pieces>(to, a.first, begin, 0,
                                                                        STG_ALIGNED_FIRST);
        bring_matrix<G::out, G::components, layout::out_columns, layout::chunk_pieces>(
            second, a.second, 0, begin, STG_ALIGNED_SECOND);
      } else {
        bring_matrix<G::in, G::components, layout::in_columns, layout::chunk_pieces>(
            to, a.first, 0, begin, STG_ALIGNED_FIRST);
        bring_matrix<G::components, G::out, G::chunk, layout::out_pieces>(second, a.second, begin,
                                                                          0, STG_ALIGNED_SECOND);
      }
      bring_mask(second + layout::second_bytes, begin);
    }
    stg_copy_commit();
  }

  // Of the two warps that a scheduler has, one asks for its part of a later chunk before it makes s
  // and one behind that, so that both do not keep the tensor cores waiting at once. Only where there
  // are registers for it.
  __device__ __forceinline__ bool is_late() const {
    return holds && G::stages > 1 && warp >= G::threads / STG_LANES / 2;
  }
  // Chunk n is there, for all; and the stages ahead of it are on their way, but for what is left to
  // late warps.
  __device__ __forceinline__ void meet(int n, bool late) const {
    if constexpr (G::stages == 1) {
      __syncthreads();
      bring(n);
      stg_copy_wait_but<0>();
      __syncthreads();
    } else {
      stg_copy_wait_but<G::stages - 2>();
      __syncthreads();
      if (!late) {
        bring(n + G::stages - 1);
      }
    }
  }

  // ---- rows that came by words, into their places; true: the block has to meet ----
  // Tiles and chunks begin at even rows and columns, so that a row's own parity says whether it is
  // late.

  __device__ __forceinline__ bool settle_in() const {
    const int odd = (int)a.in_stride & 1;
    if (odd == 0 || !has_words(a.in)) {
      return false;
    }
    stg_settle_words<G::threads, G::tile, layout::in_pieces>(memory,
                                                             [](int r) { return r % 2 != 0; });
    return true;
  }
  template <bool Odd, int Rows, int Pieces>
  __device__ __forceinline__ bool settle_matrix(unsigned at, const void *matrix) const {
    if constexpr (Odd) {
      if (has_words(matrix)) {
        stg_settle_words<G::threads, Rows, Pieces>(at, [](int r) { return r % 2 != 0; });
        return true;
      }
    }
    return false;
  }
  __device__ __forceinline__ bool settle_delta(int n) const {
    return settle_matrix<odd_delta, G::turned ? G::chunk : layout::out_columns,
                         G::turned ? layout::out_pieces : layout::chunk_pieces>(stage(n), a.delta);
  }
  __device__ __forceinline__ bool settle_first(int n) const {
    bool is = settle_matrix<odd_first, G::turned ? G::chunk : layout::in_columns,
                            G::turned ? layout::in_pieces : layout::chunk_pieces>(stage(n), a.first);
    if constexpr (G::mask == STG_MASK_ELEMENTS) {
      if ((a.mask_stride & 1) != 0 && has_words(a.mask)) {
        stg_settle_words<G::threads, G::tile, layout::mask_pieces>(
            stage(n) + layout::first_bytes + layout::second_bytes,
            [&](int r) { return rows.is_live(r) && rows.mask[r] % 2 != 0; });
        is = true;
      }
    }
    return is;
  }
  __device__ __forceinline__ bool settle_second(int n) const {
    return settle_matrix<odd_second, G::turned ? layout::out_columns : G::chunk,
                         G::turned ? layout::chunk_pieces : layout::out_pieces>(
        stage(n) + layout::first_bytes, a.second);
  }

  // ---- products ----

  template <int Pitch, bool ByK> __device__ __forceinline__ unsigned of_lane() const {
    return ByK ? stg_lane_by_k<Pitch>(lane) : stg_lane_by_n<Pitch>(lane);
  }

  __device__ __forceinline__ void add_delta(int n) {
    constexpr int pitch = layout::delta_pitch;
    const unsigned from = memory + (unsigned)(row * layout::in_pitch + n * layout::chunk_pieces) * 16u;
    const unsigned b = stage(n) + of_lane<pitch, G::turned>() +
                       (G::turned ? (unsigned)column * 2u : (unsigned)(column * pitch) * 16u);
    // the last chunk may reach behind what the rows have
    constexpr int last = (layout::in_columns - (delta_chunks - 1) * G::chunk) / 16;
    constexpr int steps = G::chunk / 16;
    if (last == steps || n < delta_chunks - 1) {
      stg_multiply16<data, tiles, columns, steps, layout::in_pitch, pitch, G::turned>(
          acc, from + stg_lane_by_k<layout::in_pitch>(lane), b);
    } else {
      stg_multiply16<data, tiles, columns, last, layout::in_pitch, pitch, G::turned>(
          acc, from + stg_lane_by_k<layout::in_pitch>(lane), b);
    }
  }

  __device__ __forceinline__ unsigned in_of_lane(int top) const {
    return memory + (unsigned)(top * layout::in_pitch) * 16u + stg_lane_by_k<layout::in_pitch>(lane);
  }
  __device__ __forceinline__ void hold_in() {
    if constexpr (holds) {
      const int top = (int)warp / s_warps_n * G::s_rows;
      if (top < G::tile) {
        stg_hold16<s_tiles, in_steps, layout::in_pitch>(held, in_of_lane(top));
      }
    }
  }

  // The chunk's t and s, by warps that are spread as the chunk is.
  __device__ __forceinline__ void make_s(int n) const {
    constexpr int pitch = layout::first_pitch;
    if ((int)warp >= s_warps_n * (G::tile / G::s_rows)) {
      return;
    }
    const int top = (int)warp / s_warps_n * G::s_rows, left = (int)warp % s_warps_n * G::s_columns;
    const unsigned first = stage(n);
    float t[s_tiles][2 * s_columns][4] = {};
    const unsigned b = first + of_lane<pitch, !G::turned>() +
                       (G::turned ? (unsigned)(left * pitch) * 16u : (unsigned)left * 2u);
    if constexpr (holds) {
      stg_multiply_held16<data, s_tiles, s_columns, in_steps, pitch, !G::turned>(t, held, b);
    } else {
      stg_multiply16<data, s_tiles, s_columns, in_steps, layout::in_pitch, pitch, !G::turned>(
          t, in_of_lane(top), b);
    }
    const unsigned masks = first + layout::first_bytes + layout::second_bytes;
    constexpr unsigned element_bytes = layout::in_place ? 2u : 1u;
    const int r = top + (int)lane / 4, c = left + (int)lane % 4 * 2;
    const unsigned mask = masks + (unsigned)(r * layout::mask_pitch) * 16u + c * element_bytes;
    const unsigned s = s_of(n) + (unsigned)(r * layout::s_pitch) * 16u + c * 2u;
#pragma unroll
    for (int m = 0; m < s_tiles; m++) {
#pragma unroll
      for (int k = 0; k < 2 * s_columns; k++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const unsigned down = m * 16u + half * 8u;
          float x = t[m][k][2 * half], y = t[m][k][2 * half + 1];
          if constexpr (G::mask != STG_MASK_NONE) {
            float of_x, of_y;
            stg_mask_pair<G>(mask + down * (layout::mask_pitch * 16u) + k * 8u * element_bytes, of_x,
                             of_y);
            x = __fmul_rn(x, of_x);
            y = __fmul_rn(y, of_y);
          }
          stg_store_word(s + down * (layout::s_pitch * 16u) + k * 16u, data::narrow2(x, y));
        }
      }
    }
  }

  // Where s of chunk n is.
  __device__ __forceinline__ unsigned s_of(int n) const {
    return layout::in_place ? stage(n) + layout::first_bytes + layout::second_bytes
                            : memory + layout::in_bytes;
  }

  __device__ __forceinline__ void add_second(int n) {
    constexpr int pitch = layout::second_pitch;
    stg_multiply16<data, tiles, columns, G::chunk / 16, layout::s_pitch, pitch, !G::turned>(
        acc, s_of(n) + (unsigned)(row * layout::s_pitch) * 16u + stg_lane_by_k<layout::s_pitch>(lane),
        stage(n) + layout::first_bytes + of_lane<pitch, !G::turned>() +
            (G::turned ? (unsigned)(column * pitch) * 16u : (unsigned)column * 2u));
  }

  // ---- what a thread has of a row: of m and half, row `r`, columns c(n) and the one behind ----

  __device__ __forceinline__ int row_of(int m, int half) const {
    return row + m * 16 + half * 8 + (int)lane / 4;
  }
  __device__ __forceinline__ int column_of(int n) const {
    return column + n * 8 + (int)lane % 4 * 2;
  }

  __device__ __forceinline__ void scale_by_d() {
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const float d = rows.d[row_of(m, half)];
#pragma unroll
        for (int n = 0; n < 2 * columns; n++) {
          acc[m][n][2 * half] = __fmul_rn(acc[m][n][2 * half], d);
          acc[m][n][2 * half + 1] = __fmul_rn(acc[m][n][2 * half + 1], d);
        }
      }
    }
  }

  // dd: sums of 16 columns, which are added in their order, from a warp to the next.
  __device__ __forceinline__ void sum_dd() {
    const int turn = (int)warp % G::warps_n;
#pragma unroll 1
    for (int w = 0; w < G::warps_n; w++) {
      if (w == turn) {
#pragma unroll
        for (int i = 0; i < 2 * tiles; i++) {
          if (first_row + row + i * 8 < a.rows) { // as below
            add_to_dd(i / 2, i % 2);
          }
        }
      }
      __syncthreads();
    }
    for (int r = threadIdx.x; r < G::tile && first_row + r < a.rows; r += G::threads) {
      ((element *)a.dd)[first_row + r] =
          (element)(data::narrow2(rows.is_live(r) ? dd[r] : 0.0f, 0.0f) & 0xffffu);
    }
  }
  __device__ __forceinline__ void add_to_dd(int m, int half) {
    const int r = row_of(m, half);
    const int end = rows.is_live(r) ? G::out : 0;
    const element *const x = (const element *)a.x + (long long)(first_row + r) * a.x_stride;
    float sum = column == 0 ? 0.0f : dd[r];
#pragma unroll
    for (int n = 0; n < 2 * columns; n += 2) {
      if (column + n * 8 >= G::out) { // a branch, so that loads of x do not pile up in registers
        continue;
      }
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int c = column_of(n + j / 2) + j % 2;
        if (c < end) {
          part = __fmaf_rn(data::widen(x[c]), acc[m][n + j / 2][2 * half + j % 2], part);
        }
      }
      part += __shfl_xor_sync(STG_ALL, part, 1);
      part += __shfl_xor_sync(STG_ALL, part, 2);
      sum += part;
    }
    __syncwarp();
    if (lane % 4 == 0) {
      dd[r] = sum;
    }
  }

  // By way of shared memory, which no warp reads any more, so that rows go out in whole pieces.
  __device__ __forceinline__ void store() const {
    constexpr int pieces = layout::strip_pieces, pitch = stg_pitch_of(pieces);
    const unsigned strip = memory + warp * layout::strip_bytes;
    const unsigned mine = strip + (lane / 4 * pitch) * 16u + lane % 4 * 4u;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
      const bool live[2] = {rows.is_live(row_of(m, 0)), rows.is_live(row_of(m, 1))};
#pragma unroll
      for (int n = 0; n < 2 * columns; n++) {
        float bias[2] = {0.0f, 0.0f};
        if constexpr (G::bias) {
#pragma unroll
          for (int j = 0; j < 2; j++) {
            const int c = column_of(n) + j;
            bias[j] = c < G::out ? data::widen(((const element *)a.bias)[c]) : 0.0f;
          }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float y[2] = {acc[m][n][2 * half], acc[m][n][2 * half + 1]};
          if constexpr (G::bias) {
            y[0] += bias[0], y[1] += bias[1];
          }
          stg_store_word(mine + half * (8u * pitch * 16u) + n * 16u,
                         live[half] ? data::narrow2(y[0], y[1]) : 0);
        }
      }
      __syncwarp();
      const int top = first_row + row + m * 16;
      element *const to = (element *)a.out + (long long)top * a.out_stride + column;
      const int left = G::out - column, n = left < G::warp_columns ? left : G::warp_columns;
      if (is_aligned(STG_ALIGNED_OUT)) {
        stg_put_pieces<pieces>(strip, to, a.out_stride, a.rows - top, n);
      } else {
        stg_put_words<pieces>(strip, to, a.out_stride, a.rows - top, n);
      }
      __syncwarp();
    }
  }

  __device__ __forceinline__ void run() {
    stg_wait_for_earlier_launches();
    stg_let_next_launch_begin();
    if (first_row >= a.rows) { // a launch of no rows has a block, and perhaps no matrices
      return;
    }
    rows.find(a, first_row, a.rows);
    __syncthreads();
    bring_in();
    stg_copy_commit();
#pragma unroll 1
    for (int n = 0; n < G::stages - 1; n++) {
      bring(n);
    }
    stg_copy_wait_but<G::stages - 1>();
    __syncthreads();
    if (!is_aligned(STG_ALIGNED_IN) && settle_in()) {
      __syncthreads();
    }
    if constexpr (G::delta) {
#pragma unroll 1
      for (int n = 0; n < delta_chunks; n++) {
        meet(n, false);
        if (settle_delta(n)) {
          __syncthreads();
        }
        add_delta(n);
      }
      if (G::turned && a.dd != nullptr) {
        sum_dd();
        if (a.out == nullptr) { // dd alone is wanted
          stg_copy_wait_but<0>();
          return;
        }
      }
      scale_by_d();
    }
    hold_in();
#pragma unroll 1
    for (int n = delta_chunks; n < all_chunks; n++) {
      meet(n, is_late());
      if (settle_first(n)) {
        __syncthreads();
      }
      make_s(n);
      if (is_late()) {
        bring(n + G::stages - 1);
      }
      if (settle_second(n) || !own_rows) {
        __syncthreads();
      } else {
        stg_meet_some(1u + warp / G::warps_n, G::warps_n * STG_LANES);
      }
      add_second(n);
    }
    __syncthreads();
    store();
  }
};

template <class G>
__device__ __forceinline__ void stg_components_apply_run(const stg_components_apply_args &a) {
  extern __shared__ uint4 stg_shared[];
  __shared__ stg_components_rows<G> rows;
  __shared__ float dd[G::tile];
  stg_components_block<G> block(a, rows, dd, (unsigned)__cvta_generic_to_shared(stg_shared));
  block.run();
}
