// components_apply.cuh: work=apply: y of a tile of rows, or turned its dx and dd.
//
// A block has the rows of a tile in shared memory, and walks over the components in chunks, which a
// ring of stages brings ahead of their use: of a chunk the first matrix, the second one and the
// mask. The chunk's t goes through shared memory as s, so that no product waits for memory of the
// device. Rows that begin at no multiple of 16 bytes come by words, and are settled behind the
// barrier that ends their copies. With delta the chunks of its product come first, through the same
// ring. Where a warp has its rows of the result in whole (G::own), it makes their s itself, which
// then stays in its registers.
//
// Each sum is one accumulator's, over k in its order, from chunk to chunk: which warp has it, the
// tile, the chunk and the stages change no bit.
//
// The generated text supplies a struct G with the literal extents.

template <class G> struct stg_components_block : stg_components_sums<G> {
  typedef stg_components_sums<G> sums;
  typedef typename sums::data data;
  typedef typename sums::layout layout;
  typedef typename sums::operands operands;
  typedef typename sums::place place;
  using sums::acc;
  using sums::bytes;
  using sums::columns;
  using sums::from;
  using sums::memory;
  using stg_components_sums<G>::stg_components_sums;
  using sums::tiles;
  static constexpr int delta_chunks = stg_components_bring<G>::delta_chunks;
  static constexpr int all_chunks = stg_components_bring<G>::all_chunks;
  // of a chunk's s
  static constexpr int s_tiles = G::s_rows / 16, s_columns = G::s_columns / 16;
  static constexpr int s_warps_n = G::chunk / G::s_columns;
  // whether those who make the s of some rows are those who need it
  static constexpr bool own_rows = G::s_rows == G::warp_rows && s_warps_n == G::warps_n;
  // whether a thread has room for its rows of the first factor, beside its sums
  static constexpr int in_steps = layout::in_columns / 16;
  static constexpr int held_and_sums = in_steps * s_tiles * 4 + tiles * columns * 8;
  static constexpr bool holds =
      bytes == 2 && (G::own ? held_and_sums + s_tiles * s_columns * 8 <= 224 : held_and_sums <= 128);
  static constexpr int held_steps = holds ? in_steps : 1;

  unsigned held[held_steps][s_tiles][4];

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
      round(n);
      __syncthreads();
    } else {
      stg_copy_wait_but<G::stages - 2>();
      round(n);
      __syncthreads();
      if (!late) {
        from.bring(n + G::stages - 1);
      }
    }
  }

  __device__ __forceinline__ void round(int n) const {
    if constexpr (operands::rounds) {
      from.round_chunk(n);
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
      const int top = G::own ? at.row : at.warp / s_warps_n * G::s_rows;
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

  // ---- a warp that has rows of its own, in whole ----
  // What a thread has of two strips of t, rows g and g + 8 by columns 2t and 2t + 1 of 8, is what it
  // has of a first factor of 16 x 16, so that s goes from one product into the next in registers.

  // Of chunk n, the components from `left` on of as many as a warp makes at once.
  __device__ __forceinline__ void add_own(int n, int left) {
    constexpr int steps = G::s_columns / 16;
    constexpr int pitch = layout::first_pitch, second_pitch = layout::second_pitch;
    const place at;
    const unsigned first = from.stage(n), second = first + layout::first_bytes;
    float t[s_tiles][2 * steps][4] = {};
    const unsigned b = first + of_lane<pitch, !G::turned>(at) +
                       (G::turned ? (unsigned)(left * pitch) * 16u : (unsigned)left * bytes);
    if constexpr (holds) {
      stg_multiply_held16<data, s_tiles, steps, in_steps, pitch, !G::turned>(t, held, b);
    } else {
      operands::template multiply<s_tiles, steps, in_steps, layout::in_pitch, pitch, !G::turned>(
          t, in_of_lane(at, at.row), b);
    }
    constexpr unsigned element_bytes = layout::in_place ? bytes : 1u;
    const unsigned mask = second + layout::second_bytes +
                          (unsigned)((at.row + (int)at.lane / 4) * layout::mask_pitch) * 16u +
                          (unsigned)(left + (int)at.lane % 4 * 2) * element_bytes;
    unsigned s[steps][s_tiles][4];
#pragma unroll
    for (int m = 0; m < s_tiles; m++) {
#pragma unroll
      for (int k = 0; k < 2 * steps; k++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float x = t[m][k][2 * half], y = t[m][k][2 * half + 1];
          if constexpr (G::mask != STG_MASK_NONE) {
            float of_x, of_y;
            stg_mask_pair<G>(mask + (m * 16u + half * 8u) * (layout::mask_pitch * 16u) +
                                 k * 8u * element_bytes,
                             of_x, of_y);
            x = __fmul_rn(x, of_x);
            y = __fmul_rn(y, of_y);
          }
          s[k / 2][m][k % 2 * 2 + half] = data::narrow2(x, y);
        }
      }
    }
    stg_multiply_held16<data, tiles, columns, steps, second_pitch, !G::turned>(
        acc, s,
        second + of_lane<second_pitch, !G::turned>(at) +
            (G::turned ? (unsigned)left * bytes : (unsigned)(left * second_pitch) * 16u));
  }

  __device__ __forceinline__ void add_own_chunk(int n) {
    meet(n, is_late());
    const bool first = from.settle_first(n), second = from.settle_second(n);
    if (first || second) {
      __syncthreads();
    }
#pragma unroll
    for (int left = 0; left < G::chunk; left += G::s_columns) {
      add_own(n, left);
      if (left == 0 && is_late()) {
        from.bring(n + G::stages - 1);
      }
    }
  }

  __device__ __forceinline__ void add_chunk(int n) {
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

  __device__ __forceinline__ void run() {
    if (!sums::start()) {
      return;
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
      if (!sums::end_delta()) {
        return;
      }
    }
    hold_in();
#pragma unroll 1
    for (int n = delta_chunks; n < all_chunks; n++) {
      if constexpr (G::own) {
        add_own_chunk(n);
      } else {
        add_chunk(n);
      }
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
  stg_components_block<G> block(a, rows, dd, (unsigned)__cvta_generic_to_shared(stg_shared));
  block.run();
}
