// components_apply.cuh: work=apply: y of a tile of rows, or turned its dx and dd.
//
// A block has the rows of a tile in shared memory, and walks over the components in chunks, which a
// ring of stages brings ahead of their use: of a chunk the first matrix, the second one and the
// mask. The chunk's t goes through shared memory as s, so that no product waits for memory of the
// device. Rows that begin at no multiple of 16 bytes come by words, and are settled behind the
// barrier that ends their copies. With delta the chunks of its product come first, through the same
// ring.
//
// Each sum is one accumulator's, over k in its order, from chunk to chunk: which warp has it, the
// tile, the chunk and the stages change no bit.
//
// The generated text supplies a struct G with the literal extents.

// A thread's place, worked out where it stands; row and column are of the second product.
template <class G> struct stg_components_place {
  const int warp = stg_thread_here() / STG_LANES;
  const unsigned lane = (unsigned)stg_thread_here() % STG_LANES;
  const int row = warp / G::warps_n * G::warp_rows, column = warp % G::warps_n * G::warp_columns;

  // What it has of a row: of m and half, row `r`, columns c(n) and the one behind.
  __device__ __forceinline__ int row_of(int m, int half) const {
    return row + m * 16 + half * 8 + (int)lane / 4;
  }
  __device__ __forceinline__ int column_of(int n) const {
    return column + n * 8 + (int)lane % 4 * 2;
  }
};

template <class G> struct stg_components_block {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_layout<G> layout;
  typedef stg_operands<data> operands;
  typedef stg_components_place<G> place;
  static constexpr unsigned bytes = sizeof(element);
  static constexpr int tiles = G::warp_rows / 16;
  static constexpr int columns = G::warp_columns / 16;
  static constexpr int delta_chunks = stg_components_bring<G>::delta_chunks;
  static constexpr int all_chunks = stg_components_bring<G>::all_chunks;
  // of a chunk's s
  static constexpr int s_tiles = G::s_rows / 16, s_columns = G::s_columns / 16;
  static constexpr int s_warps_n = G::chunk / G::s_columns;
  // whether those who make the s of some rows are those who need it
  static constexpr bool own_rows = G::s_rows == G::warp_rows && s_warps_n == G::warps_n;
  // whether a thread has room for its rows of the first factor, beside its sums
  static constexpr int in_steps = layout::in_columns / 16;
  static constexpr bool holds =
      bytes == 2 && in_steps * s_tiles * 4 + tiles * columns * 8 <= 128;
  static constexpr int held_steps = holds ? in_steps : 1;

  const stg_components_apply_args &a;
  stg_components_rows<G> &rows;
  float *const dd;       // of each of them
  const unsigned memory; // of the block
  const stg_components_bring<G> from;
  float acc[tiles][2 * columns][4];
  unsigned held[held_steps][s_tiles][4];

  __device__ __forceinline__ stg_components_block(const stg_components_apply_args &args,
                                                  stg_components_rows<G> &of_rows, float *of_dd,
                                                  unsigned shared)
      : a(args), rows(of_rows), dd(of_dd), memory(shared), from{args, of_rows, shared} {
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

  // Of the two warps that a scheduler has, one asks for its part of a later chunk before it makes s
  // and one behind that, so that both do not keep the tensor cores waiting at once. Only where
  // there are registers for it.
  __device__ __forceinline__ bool is_late() const {
    return holds && G::stages > 1 && place().warp >= (int)G::threads / STG_LANES / 2;
  }
  // Chunk n is there, for all; and the stages ahead of it are on their way, but for what is left to
  // late warps.
  __device__ __forceinline__ void meet(int n, bool late) const {
    if constexpr (G::stages == 1) {
      __syncthreads();
      from.bring(n);
      stg_copy_wait_but<0>();
      __syncthreads();
    } else {
      stg_copy_wait_but<G::stages - 2>();
      __syncthreads();
      if (!late) {
        from.bring(n + G::stages - 1);
      }
    }
  }

  // ---- products ----

  template <int Pitch, bool ByK>
  static __device__ __forceinline__ unsigned of_lane(const place &at) {
    return operands::template of_lane<Pitch, ByK>(at.lane);
  }

  __device__ __forceinline__ void add_delta(int n) {
    constexpr int pitch = layout::delta_pitch;
    const place at;
    const unsigned from_in =
        memory + (unsigned)(at.row * layout::in_pitch + n * layout::chunk_pieces) * 16u;
    const unsigned b =
        from.stage(n) + of_lane<pitch, G::turned>(at) +
        (G::turned ? (unsigned)at.column * bytes : (unsigned)(at.column * pitch) * 16u);
    // the last chunk may reach behind what the rows have
    constexpr int last = (layout::in_columns - (delta_chunks - 1) * G::chunk) / 16;
    constexpr int steps = G::chunk / 16;
    if (last == steps || n < delta_chunks - 1) {
      operands::template multiply<tiles, columns, steps, layout::in_pitch, pitch, G::turned>(
          acc, from_in + stg_lane_by_k<layout::in_pitch>(at.lane), b);
    } else {
      operands::template multiply<tiles, columns, last, layout::in_pitch, pitch, G::turned>(
          acc, from_in + stg_lane_by_k<layout::in_pitch>(at.lane), b);
    }
  }

  __device__ __forceinline__ unsigned in_of_lane(const place &at, int top) const {
    return memory + (unsigned)(top * layout::in_pitch) * 16u +
           stg_lane_by_k<layout::in_pitch>(at.lane);
  }
  __device__ __forceinline__ void hold_in() {
    if constexpr (holds) {
      const place at;
      const int top = at.warp / s_warps_n * G::s_rows;
      if (top < G::tile) {
        stg_hold16<s_tiles, in_steps, layout::in_pitch>(held, in_of_lane(at, top));
      }
    }
  }

  // The chunk's t and s, by warps that are spread as the chunk is.
  __device__ __forceinline__ void make_s(int n) const {
    constexpr int pitch = layout::first_pitch;
    const place at;
    if (at.warp >= s_warps_n * (G::tile / G::s_rows)) {
      return;
    }
    const int top = at.warp / s_warps_n * G::s_rows, left = at.warp % s_warps_n * G::s_columns;
    const unsigned first = from.stage(n);
    float t[s_tiles][2 * s_columns][4] = {};
    const unsigned b = first + of_lane<pitch, !G::turned>(at) +
                       (G::turned ? (unsigned)(left * pitch) * 16u : (unsigned)left * bytes);
    if constexpr (holds) {
      stg_multiply_held16<data, s_tiles, s_columns, in_steps, pitch, !G::turned>(t, held, b);
    } else {
      operands::template multiply<s_tiles, s_columns, in_steps, layout::in_pitch, pitch,
                                  !G::turned>(t, in_of_lane(at, top), b);
    }
    const unsigned masks = first + layout::first_bytes + layout::second_bytes;
    constexpr unsigned element_bytes = layout::in_place ? bytes : 1u;
    const int r = top + (int)at.lane / 4, c = left + (int)at.lane % 4 * 2;
    const unsigned mask = masks + (unsigned)(r * layout::mask_pitch) * 16u + c * element_bytes;
    const unsigned s = s_of(n) + (unsigned)(r * layout::s_pitch) * 16u + c * bytes;
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
            stg_mask_pair<G>(mask + down * (layout::mask_pitch * 16u) + k * 8u * element_bytes,
                             of_x, of_y);
            x = __fmul_rn(x, of_x);
            y = __fmul_rn(y, of_y);
          }
          operands::store_pair(s + down * (layout::s_pitch * 16u) + k * 8u * bytes, x, y);
        }
      }
    }
  }

  // Where s of chunk n is.
  __device__ __forceinline__ unsigned s_of(int n) const {
    return layout::in_place ? from.stage(n) + layout::first_bytes + layout::second_bytes
                            : memory + layout::in_bytes;
  }

  __device__ __forceinline__ void add_second(int n) {
    constexpr int pitch = layout::second_pitch;
    const place at;
    operands::template multiply<tiles, columns, G::chunk / 16, layout::s_pitch, pitch, !G::turned>(
        acc,
        s_of(n) + (unsigned)(at.row * layout::s_pitch) * 16u +
            stg_lane_by_k<layout::s_pitch>(at.lane),
        from.stage(n) + layout::first_bytes + of_lane<pitch, !G::turned>(at) +
            (G::turned ? (unsigned)(at.column * pitch) * 16u : (unsigned)at.column * bytes));
  }

  // ---- what comes of the sums ----

  __device__ __forceinline__ void scale_by_d() {
    const place at;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const float d = rows.d[at.row_of(m, half)];
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
#pragma unroll 1
    for (int w = 0; w < G::warps_n; w++) {
      if (w == place().warp % G::warps_n) {
#pragma unroll
        for (int i = 0; i < 2 * tiles; i++) {
          if (from.first_row() + place().row + i * 8 < a.rows) { // as below
            add_to_dd(i / 2, i % 2);
          }
        }
      }
      __syncthreads();
    }
    for (int r = threadIdx.x; r < G::tile && from.first_row() + r < a.rows; r += G::threads) {
      operands::store((element *)a.dd + from.first_row() + r, rows.is_live(r) ? dd[r] : 0.0f);
    }
  }
  __device__ __forceinline__ void add_to_dd(int m, int half) {
    const place at;
    const int r = at.row_of(m, half);
    const int end = rows.is_live(r) ? G::out : 0;
    const element *const x = (const element *)a.x + (long long)(from.first_row() + r) * a.x_stride;
    float sum = at.column == 0 ? 0.0f : dd[r];
#pragma unroll
    for (int n = 0; n < 2 * columns; n += 2) {
      if (at.column + n * 8 >= G::out) { // a branch, so that loads of x do not pile up in registers
        continue;
      }
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int c = at.column_of(n + j / 2) + j % 2;
        if (c < end) {
          part = __fmaf_rn(data::widen(x[c]), acc[m][n + j / 2][2 * half + j % 2], part);
        }
      }
      part += __shfl_xor_sync(STG_ALL, part, 1);
      part += __shfl_xor_sync(STG_ALL, part, 2);
      sum += part;
    }
    __syncwarp();
    if (at.lane % 4 == 0) {
      dd[r] = sum;
    }
  }

  // As the tensors' type has them, two neighbours at a time.
  __device__ __forceinline__ void store_pairs() const {
    const bool aligned = from.is_aligned(STG_ALIGNED_OUT);
    const place at;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int r = at.row_of(m, half);
        const bool live = rows.is_live(r);
        element *const to = (element *)a.out + (long long)(from.first_row() + r) * a.out_stride;
#pragma unroll
        for (int n = 0; n < 2 * columns; n++) {
          const int c = at.column_of(n);
          if (from.first_row() + r >= a.rows || c >= G::out) {
            continue;
          }
          float y[2];
#pragma unroll
          for (int j = 0; j < 2; j++) {
            y[j] = acc[m][n][2 * half + j];
            if (G::bias && c + j < G::out) {
              y[j] += data::widen(((const element *)a.bias)[c + j]);
            }
            y[j] = live ? y[j] : 0.0f;
          }
          if (c + 1 < G::out) {
            operands::store_two(to + c, y[0], y[1], aligned);
          } else {
            operands::store(to + c, y[0]);
          }
        }
      }
    }
  }

  // By way of shared memory, which no warp reads any more, so that rows go out in whole pieces.
  __device__ __forceinline__ void store_pieces() const {
    constexpr int pieces = layout::strip_pieces, pitch = stg_pitch_of(pieces);
    const place at;
    const unsigned strip = memory + at.warp * layout::strip_bytes;
    const unsigned mine = strip + (at.lane / 4 * pitch) * 16u + at.lane % 4 * 4u;
#pragma unroll
    for (int m = 0; m < tiles; m++) {
      const bool live[2] = {rows.is_live(at.row_of(m, 0)), rows.is_live(at.row_of(m, 1))};
#pragma unroll
      for (int n = 0; n < 2 * columns; n++) {
        float bias[2] = {0.0f, 0.0f};
        if constexpr (G::bias) {
#pragma unroll
          for (int j = 0; j < 2; j++) {
            const int c = at.column_of(n) + j;
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
      const int top = from.first_row() + at.row + m * 16;
      element *const to = (element *)a.out + (long long)top * a.out_stride + at.column;
      const int left = G::out - at.column, n = left < G::warp_columns ? left : G::warp_columns;
      if (from.is_aligned(STG_ALIGNED_OUT)) {
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
    if (from.first_row() >= a.rows) { // a launch of no rows has a block, and perhaps no matrices
      return;
    }
    rows.find(a, from.first_row(), a.rows);
    __syncthreads();
    from.bring_in();
    stg_copy_commit();
#pragma unroll 1
    for (int n = 0; n < G::stages - 1; n++) {
      from.bring(n);
    }
    stg_copy_wait_but<G::stages - 1>();
    __syncthreads();
    if (!from.is_aligned(STG_ALIGNED_IN) && from.settle_in()) {
      __syncthreads();
    }
    if constexpr (operands::rounds) { // those who read them have met by then
      from.round_in();
    }
    if constexpr (G::delta) {
#pragma unroll 1
      for (int n = 0; n < delta_chunks; n++) {
        meet(n, false);
        if (from.settle_delta(n)) {
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
      if (from.settle_first(n)) {
        __syncthreads();
      }
      make_s(n);
      if (is_late()) {
        from.bring(n + G::stages - 1);
      }
      if (from.settle_second(n) || !own_rows) {
        __syncthreads();
      } else {
        stg_meet_some(1u + (unsigned)place().warp / G::warps_n, G::warps_n * STG_LANES);
      }
      add_second(n);
    }
    __syncthreads();
    if constexpr (bytes == 2) {
      store_pieces();
    } else {
      store_pairs();
    }
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
