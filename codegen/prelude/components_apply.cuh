// components_apply.cuh: work=apply: y of a tile of rows, or turned its dx and dd.
//
// A block has the rows of a tile in shared memory, and walks over the components in chunks, which a
// ring of stages brings ahead of their use: of a chunk the first matrix, the second one and the
// mask. The chunk's t goes through shared memory as s, so that no product waits for memory of the
// device. With delta the chunks of its product come first, through the same ring.
//
// Each sum is one accumulator's, over k in its order, from chunk to chunk: which warp has it, the
// tile, the chunk and the stages change no bit.
//
// The generated text supplies a struct G with the literal extents.

// How shared memory is laid out, in bytes. codegen/components_extents.c counts the same.
template <class G> struct stg_components_layout {
  typedef stg_operands<typename G::data> operands;
  static constexpr bool in_place = G::mask == STG_MASK_ELEMENTS; // s takes the place of the mask
  static constexpr int of_piece = operands::of_piece;
  static constexpr int in_columns = stg_round_up(G::in, 16);
  static constexpr int out_columns = G::warps_n * G::warp_columns;
  static constexpr int in_pieces = in_columns / of_piece, out_pieces = out_columns / of_piece;
  static constexpr int chunk_pieces = G::chunk / of_piece;
  static constexpr int mask_pieces = in_place ? chunk_pieces : G::chunk / 16;

  static constexpr int in_pitch = stg_pitch_of(in_pieces);
  static constexpr int s_pitch = stg_pitch_of(chunk_pieces);
  static constexpr int mask_pitch = stg_pitch_of(mask_pieces);
  static constexpr int first_pitch =
      G::turned ? stg_pitch_of(in_pieces) : operands::pitch_by_k(chunk_pieces);
  static constexpr int second_pitch =
      G::turned ? stg_pitch_of(chunk_pieces) : operands::pitch_by_k(out_pieces);
  static constexpr int delta_pitch =
      G::turned ? operands::pitch_by_k(out_pieces) : stg_pitch_of(chunk_pieces);

  static constexpr int first_bytes = (G::turned ? G::chunk : in_columns) * first_pitch * 16;
  static constexpr int second_bytes = (G::turned ? out_columns : G::chunk) * second_pitch * 16;
  static constexpr int delta_bytes =
      G::delta ? (G::turned ? G::chunk : out_columns) * delta_pitch * 16 : 0;
  static constexpr int mask_bytes = G::mask == STG_MASK_NONE ? 0 : G::tile * mask_pitch * 16;
  static constexpr int chunk_bytes = first_bytes + second_bytes + mask_bytes;
  static constexpr int stage_bytes = chunk_bytes > delta_bytes ? chunk_bytes : delta_bytes;
  static constexpr int in_bytes = G::tile * in_pitch * 16;
  static constexpr int s_bytes = in_place ? 0 : G::tile * s_pitch * 16;
  static constexpr int bytes = in_bytes + s_bytes + G::stages * stage_bytes;
  static_assert(bytes == G::shared_bytes, "codegen/components_extents.c has the same");
};

template <class G> struct stg_components_block {
  typedef typename G::data data;
  typedef typename data::element element;
  typedef stg_components_layout<G> layout;
  typedef stg_operands<data> operands;
  static constexpr int of_piece = operands::of_piece;
  static constexpr unsigned bytes = sizeof(element);
  static constexpr int tiles = G::warp_rows / 16;
  static constexpr int columns = G::warp_columns / 16;
  static constexpr int delta_chunks = G::delta ? (G::in + G::chunk - 1) / G::chunk : 0;
  static constexpr int chunks = (G::components + G::chunk - 1) / G::chunk;
  static constexpr int all_chunks = delta_chunks + chunks;

  const stg_components_apply_args &a;
  stg_components_rows<G> &rows;
  float *const dd; // of each of them
  const int first_row;
  const unsigned memory; // of the block
  const unsigned lane, warp;
  // of the second product
  const int row, column;
  float acc[tiles][2 * columns][4];

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

  // ---- what comes from the device's memory ----

  __device__ __forceinline__ void bring_in() const {
    const bool aligned = is_aligned(STG_ALIGNED_IN);
    stg_share_out<G::threads, G::tile, layout::in_pieces>([&](int r, int piece) {
      const bool live = rows.is_live(r);
      const element *const from =
          (const element *)a.in + (live ? (long long)(first_row + r) * a.in_stride + piece * of_piece : 0);
      stg_bring_piece(memory + (unsigned)(r * layout::in_pitch + piece) * 16u, from,
                      live ? G::in - piece * of_piece : 0, aligned);
    });
  }

  // The rows as operands, once they are there; before the block meets.
  __device__ __forceinline__ void round_in() const {
    if constexpr (G::stages == 1) {
      stg_copy_commit();
    }
    stg_copy_wait_but<(G::stages > 1 ? G::stages - 2 : 0)>();
    __syncthreads();
    stg_share_out<G::threads, G::tile, layout::in_pieces>([&](int r, int piece) {
      operands::round_piece(memory + (unsigned)(r * layout::in_pitch + piece) * 16u);
    });
  }

  // Of a packed matrix of Height x Width: Rows from `top` on, and pieces from `left` on.
  template <int Height, int Width, int Rows, int Pieces, int Pitch>
  __device__ __forceinline__ void bring_matrix(unsigned to, const void *matrix, int top, int left,
                                               unsigned flag) const {
    const bool aligned = Width % of_piece == 0 && is_aligned(flag);
    stg_share_out<G::threads, Rows, Pieces>([&](int r, int piece) {
      const int from_row = top + r, from_column = left + piece * of_piece;
      const bool is = from_row < Height && from_column < Width;
      const element *const from =
          (const element *)matrix + (is ? (long long)from_row * Width + from_column : 0);
      stg_bring_piece(to + (unsigned)(r * Pitch + piece) * 16u, from, is ? Width - from_column : 0,
                      aligned);
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
    constexpr int elements = 16 / (int)sizeof(E);
    const bool aligned = is_aligned(STG_ALIGNED_MASK);
    stg_share_out<G::threads, G::tile, layout::mask_pieces>([&](int r, int piece) {
      const int at = begin + piece * elements;
      const bool is = rows.is_live(r) && at < G::components;
      const E *const from = (const E *)a.mask + (is ? rows.mask[r] + at : 0);
      stg_bring_piece(to + (unsigned)(r * layout::mask_pitch + piece) * 16u, from,
                      is ? G::components - at : 0, aligned);
    });
  }

  // Begin to bring chunk n, if there is one, into its stage: a group.
  __device__ __forceinline__ void bring(int n) const {
    const unsigned to = stage(n);
    if (n < delta_chunks) {
      const int k = n * G::chunk;
      if constexpr (G::turned) {
        bring_matrix<G::in, G::out, G::chunk, layout::out_pieces, layout::delta_pitch>(
            to, a.delta, k, 0, STG_ALIGNED_DELTA);
      } else {
        bring_matrix<G::out, G::in, layout::out_columns, layout::chunk_pieces, layout::delta_pitch>(
            to, a.delta, 0, k, STG_ALIGNED_DELTA);
      }
    } else if (n < all_chunks) {
      const int begin = (n - delta_chunks) * G::chunk;
      const unsigned second = to + layout::first_bytes;
      if constexpr (G::turned) {
        bring_matrix<G::components, G::in, G::chunk, layout::in_pieces, layout::first_pitch>(
            to, a.first, begin, 0, STG_ALIGNED_FIRST);
        bring_matrix<G::out, G::components, layout::out_columns, layout::chunk_pieces,
                     layout::second_pitch>(second, a.second, 0, begin, STG_ALIGNED_SECOND);
      } else {
        bring_matrix<G::in, G::components, layout::in_columns, layout::chunk_pieces,
                     layout::first_pitch>(to, a.first, 0, begin, STG_ALIGNED_FIRST);
        bring_matrix<G::components, G::out, G::chunk, layout::out_pieces, layout::second_pitch>(
            second, a.second, begin, 0, STG_ALIGNED_SECOND);
      }
      bring_mask(second + layout::second_bytes, begin);
    }
    stg_copy_commit();
  }

  // Chunk n is there, for all; and the stages ahead of it are on their way.
  __device__ __forceinline__ void meet(int n) const {
    if constexpr (G::stages == 1) {
      __syncthreads();
      bring(n);
      stg_copy_wait_but<0>();
      __syncthreads();
    } else {
      stg_copy_wait_but<G::stages - 2>();
      __syncthreads();
      bring(n + G::stages - 1);
    }
  }

  // ---- products ----

  template <int Pitch, bool ByK> __device__ __forceinline__ unsigned of_lane() const {
    return operands::template of_lane<Pitch, ByK>(lane);
  }

  __device__ __forceinline__ void add_delta(int n) {
    constexpr int pitch = layout::delta_pitch;
    const unsigned from = memory + (unsigned)(row * layout::in_pitch + n * layout::chunk_pieces) * 16u;
    const unsigned b = stage(n) + of_lane<pitch, G::turned>() +
                       (G::turned ? (unsigned)column * bytes : (unsigned)(column * pitch) * 16u);
    // the last chunk may reach behind what the rows have
    constexpr int last = (layout::in_columns - (delta_chunks - 1) * G::chunk) / 16;
    constexpr int steps = G::chunk / 16;
    if (last == steps || n < delta_chunks - 1) {
      operands::template multiply<tiles, columns, steps, layout::in_pitch, pitch, G::turned>(
          acc, from + stg_lane_by_k<layout::in_pitch>(lane), b);
    } else {
      operands::template multiply<tiles, columns, last, layout::in_pitch, pitch, G::turned>(
          acc, from + stg_lane_by_k<layout::in_pitch>(lane), b);
    }
  }

  // The chunk's t and s, by warps that are spread as the chunk is.
  __device__ __forceinline__ void make_s(int n) const {
    constexpr int s_tiles = G::s_rows / 16, s_columns = G::s_columns / 16;
    constexpr int s_warps_n = G::chunk / G::s_columns;
    constexpr int pitch = layout::first_pitch;
    if ((int)warp >= s_warps_n * (G::tile / G::s_rows)) {
      return;
    }
    const int top = (int)warp / s_warps_n * G::s_rows, left = (int)warp % s_warps_n * G::s_columns;
    const unsigned first = stage(n);
    float t[s_tiles][2 * s_columns][4] = {};
    operands::template multiply<s_tiles, s_columns, layout::in_columns / 16, layout::in_pitch, pitch,
                   !G::turned>(
        t, memory + (unsigned)(top * layout::in_pitch) * 16u + stg_lane_by_k<layout::in_pitch>(lane),
        first + of_lane<pitch, !G::turned>() +
            (G::turned ? (unsigned)(left * pitch) * 16u : (unsigned)left * bytes));
    const unsigned masks = first + layout::first_bytes + layout::second_bytes;
    constexpr unsigned element_bytes = layout::in_place ? bytes : 1u;
    const int r = top + (int)lane / 4, c = left + (int)lane % 4 * 2;
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
            stg_mask_pair<G>(mask + down * (layout::mask_pitch * 16u) + k * 8u * element_bytes, of_x,
                             of_y);
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
    return layout::in_place ? stage(n) + layout::first_bytes + layout::second_bytes
                            : memory + layout::in_bytes;
  }

  __device__ __forceinline__ void add_second(int n) {
    constexpr int pitch = layout::second_pitch;
    operands::template multiply<tiles, columns, G::chunk / 16, layout::s_pitch, pitch, !G::turned>(
        acc, s_of(n) + (unsigned)(row * layout::s_pitch) * 16u + stg_lane_by_k<layout::s_pitch>(lane),
        stage(n) + layout::first_bytes + of_lane<pitch, !G::turned>() +
            (G::turned ? (unsigned)(column * pitch) * 16u : (unsigned)column * bytes));
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
      operands::store((element *)a.dd + first_row + r, rows.is_live(r) ? dd[r] : 0.0f);
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

  __device__ __forceinline__ void store() const {
    const bool aligned = is_aligned(STG_ALIGNED_OUT);
#pragma unroll
    for (int n = 0; n < 2 * columns; n++) {
      const int c = column_of(n);
      float bias[2] = {0.0f, 0.0f};
      if constexpr (G::bias) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
          bias[j] = c + j < G::out ? data::widen(((const element *)a.bias)[c + j]) : 0.0f;
        }
      }
#pragma unroll
      for (int i = 0; i < 2 * tiles; i++) {
        const int m = i / 2, half = i % 2, r = row_of(m, half);
        const bool live = rows.is_live(r);
        float y[2] = {acc[m][n][2 * half], acc[m][n][2 * half + 1]};
        if constexpr (G::bias) {
          y[0] += bias[0], y[1] += bias[1];
        }
        element *const to = (element *)a.out + (long long)(first_row + r) * a.out_stride + c;
        if (first_row + r >= a.rows || c >= G::out) {
          continue;
        }
        if (!live) {
          y[0] = y[1] = 0.0f;
        }
        if (c + 1 < G::out) {
          operands::store_two(to, y[0], y[1], aligned);
        } else {
          operands::store(to, y[0]);
        }
      }
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
    bring_in(); // in the group of the first chunk
#pragma unroll 1
    for (int n = 0; n < G::stages - 1; n++) {
      bring(n);
    }
    if constexpr (operands::rounds) {
      round_in();
    }
    if constexpr (G::delta) {
#pragma unroll 1
      for (int n = 0; n < delta_chunks; n++) {
        meet(n);
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
#pragma unroll 1
    for (int n = delta_chunks; n < all_chunks; n++) {
      meet(n);
      make_s(n);
      __syncthreads();
      add_second(n);
    }
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
