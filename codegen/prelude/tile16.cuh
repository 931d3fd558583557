// tile16.cuh: matrices of 16-bit elements in shared memory, by rows of pieces of 8 elements; how
// they come there, and how a warp multiplies them. Knows no op.
//
// From a row to the next there is an odd number of pieces, so that the pieces that 8 rows have at
// one place lie in 8 different groups of 4 banks: what 8 lanes of a ldmatrix read, and what the
// warp reads or writes of a sum as words, has no two in a bank.

// The thread's number, where it stands: what follows from it is worked out there anew, and does not
// take registers all through a loop.
__device__ __forceinline__ int stg_thread_here() {
  int thread = (int)threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}

// An address as one, so that what lies behind it is told by a count that is known, and is not
// worked out anew.
template <class E> __device__ __forceinline__ const E *stg_as_one(const E *address) {
  asm volatile("" : "+l"(address));
  return address;
}

// Pieces from a row to the next.
constexpr __device__ int stg_pitch_of(int pieces) {
  return pieces | 1;
}
// Where the pieces of a matrix are, of which rows are Pitch pieces apart.
template <int Pitch> struct stg_by_rows {
  static constexpr __device__ unsigned at(int row, int piece) {
    return (unsigned)(row * Pitch + piece) * 16u;
  }
};
constexpr __device__ int stg_round_up(int n, int by) {
  return (n + by - 1) / by * by;
}

// The first `bytes` of 16, at a multiple of 16, and zeros behind them.
__device__ __forceinline__ void stg_copy_some_async(unsigned at, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
}
// All of them, or zeros: then `from` is not read. A count that is not known takes a dozen
// instructions, this none.
__device__ __forceinline__ void stg_copy_piece_async(unsigned at, const void *from, bool copy) {
  asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %2, 0;\n"
               "cp.async.cg.shared.global [%0], [%1], 16, p;\n}" ::"r"(at),
               "l"(from), "r"((unsigned)copy)
               : "memory");
}
__device__ __forceinline__ void stg_store_piece(unsigned at, const uint4 &w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(w.x), "r"(w.y), "r"(w.z),
               "r"(w.w)
               : "memory");
}
__device__ __forceinline__ void stg_load_piece(unsigned at, uint4 &w) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void stg_store_word(unsigned at, unsigned w) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(w) : "memory");
}
__device__ __forceinline__ unsigned stg_load_word(unsigned at) {
  unsigned w;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(at) : "memory");
  return w;
}
__device__ __forceinline__ unsigned stg_load_half(unsigned at) {
  unsigned short w;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(w) : "r"(at) : "memory");
  return w;
}

// A barrier of `threads` of the block, whole warps that have a number from 1 to 15 in common.
__device__ __forceinline__ void stg_meet_some(unsigned number, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// A piece of elements of type E, of which the first `left` are there; zeros behind them. Aligned:
// in the background.
template <class E>
__device__ __forceinline__ void stg_bring_piece(unsigned at, const E *from, int left,
                                                bool aligned) {
  constexpr int elements = 16 / (int)sizeof(E);
  const int n = left < 0 ? 0 : left < elements ? left : elements;
  if (aligned) {
    stg_copy_some_async(at, from, n * (int)sizeof(E));
    return;
  }
  alignas(16) E e[elements]; // read as whole words below
#pragma unroll
  for (int j = 0; j < elements; j++) {
    e[j] = j < n ? from[j] : (E)0;
  }
  stg_store_piece(at, *(const uint4 *)e);
}

// What each of a block's threads brings of a matrix of Rows x Pieces: one piece of a row, and of
// every so manieth row behind it, so that addresses follow from the first one by what is known;
// where rows do not divide the block, some threads have nothing, and turns come one by one. `bring`
// is given row and piece, of `Turns` of them at once.
template <int Threads, int Pieces> struct stg_shares {
  static constexpr int step = Threads / Pieces; // rows
  static_assert(step > 0, "a row is no wider than the block");
  const int row, piece;
  __device__ __forceinline__ explicit stg_shares(int thread)
      : row(thread / Pieces), piece(thread % Pieces) {
  }
  __device__ __forceinline__ bool has(int i, int rows) const {
    return i < turns(rows) && (Threads % Pieces == 0 || row < step) &&
           (rows % step == 0 || row + i * step < rows);
  }
  static constexpr __device__ int turns(int rows) {
    return (rows + step - 1) / step;
  }
};
template <int Threads, int Rows, int Pieces, int Turns = 4, class F>
__device__ __forceinline__ void stg_share_out(const F &bring, int thread = (int)threadIdx.x) {
  typedef stg_shares<Threads, Pieces> shares;
  const shares mine(thread);
#pragma unroll(Threads % Pieces == 0 ? Turns : 1)
  for (int i = 0; i < shares::turns(Rows); i++) {
    if (mine.has(i, Rows)) {
      bring(mine.row + i * shares::step, mine.piece);
    }
  }
}

// Rows x Pieces of a packed matrix of Height x Width elements of type E, which begins at a multiple
// of 16 bytes and has rows of 16 in whole, from row `top` and column `left` on; zeros behind it.
// In the background.
template <int Threads, int Rows, int Pieces, class Place, int Height, int Width, class E>
__device__ __forceinline__ void stg_bring_packed(unsigned to, const void *matrix, int top,
                                                 int left) {
  typedef stg_shares<Threads, Pieces> shares;
  constexpr int elements = 16 / (int)sizeof(E), turns = shares::turns(Rows);
  const shares mine(stg_thread_here());
  const int row = top + mine.row, column = left + mine.piece * elements;
  const E *from = stg_as_one((const E *)matrix + (row * Width + column));
  const unsigned at = to + Place::at(mine.row, mine.piece);
  if (top + Rows <= Height && left + Pieces * elements <= Width) { // mostly, and then nothing to ask
#pragma unroll(turns <= 8 ? turns : 4)
    for (int i = 0; i < turns; i++) {
      if (mine.has(i, Rows)) {
        stg_copy_piece_async(at + Place::at(i * shares::step, 0), from, true);
      }
      from = stg_as_one(from + shares::step * Width); // so that one address is there at a time
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < turns; i++) {
    if (mine.has(i, Rows)) {
      stg_copy_piece_async(at + Place::at(i * shares::step, 0), from,
                           column < Width && row + i * shares::step < Height);
    }
    from += shares::step * Width;
  }
}

// Rows x Pieces of rows that each begin where `at_of` says, in elements from `matrix` on, less than
// 0: there is no such row; all at multiples of 16 bytes. Of each there are `columns`, pieces in
// whole; zeros behind them. In the background.
template <int Threads, int Rows, int Pieces, class Place, class E, class F>
__device__ __forceinline__ void stg_bring_placed(unsigned to, const E *matrix, int columns,
                                                 const F &at_of) {
  typedef stg_shares<Threads, Pieces> shares;
  constexpr int elements = 16 / (int)sizeof(E);
  const shares mine(stg_thread_here());
  const E *const from = stg_as_one(matrix + mine.piece * elements);
  const unsigned to_piece = to + Place::at(mine.row, mine.piece);
  const bool some = mine.piece * elements < columns;
  constexpr int at_once = 4; // a copy that may be zeros takes four instructions more
#pragma unroll 1
  for (int first = 0; first < shares::turns(Rows); first += at_once) {
    long long at[at_once];
    bool all = some;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      at[i] = mine.has(first + i, Rows) ? at_of(mine.row + (first + i) * shares::step) : 0;
      all = all && at[i] >= 0;
    }
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      if (!mine.has(first + i, Rows)) {
        continue;
      }
      const unsigned to_row = to_piece + Place::at((first + i) * shares::step, 0);
      if (all) {
        stg_copy_piece_async(to_row, from + at[i], true);
      } else {
        stg_copy_piece_async(to_row, from + at[i], at[i] >= 0 && some);
      }
    }
  }
}
// The same of rows that are `stride` apart.
template <int Threads, int Rows, int Pieces, class Place, class E, class F>
__device__ __forceinline__ void stg_bring_strided(unsigned to, const E *matrix, long long stride,
                                                  int columns, const F &is_live) {
  typedef stg_shares<Threads, Pieces> shares;
  constexpr int elements = 16 / (int)sizeof(E);
  const shares mine(stg_thread_here());
  const E *from = matrix + mine.row * stride + mine.piece * elements;
  const unsigned to_piece = to + Place::at(mine.row, mine.piece);
  const bool some = mine.piece * elements < columns;
#pragma unroll 4
  for (int i = 0; i < shares::turns(Rows); i++) {
    if (mine.has(i, Rows)) {
      stg_copy_piece_async(to_piece + Place::at(i * shares::step, 0), from,
                           is_live(mine.row + i * shares::step) && some);
    }
    from += shares::step * stride;
  }
}

// Where a lane's row of ldmatrix begins, from the first element on. Four matrices of 8 x 8 are 16
// rows by 16 columns: of a first factor, of a second one that stands by rows of k, and of a second
// one that stands by columns, rows of n.
template <int Pitch> __device__ __forceinline__ unsigned stg_lane_by_k(unsigned lane) {
  return ((lane & 15u) * Pitch + (lane >> 4)) * 16u;
}
template <int Pitch> __device__ __forceinline__ unsigned stg_lane_by_n(unsigned lane) {
  return (((lane & 7u) + (lane >> 4) * 8u) * Pitch + (lane >> 3 & 1u)) * 16u;
}

// A first factor of Tiles * 16 rows by Steps * 16 of k, in registers.
template <int Tiles, int Steps, int PitchA>
__device__ __forceinline__ void stg_hold16(unsigned (&held)[Steps][Tiles][4], unsigned a) {
#pragma unroll
  for (int k = 0; k < Steps; k++) {
#pragma unroll
    for (int m = 0; m < Tiles; m++) {
      stg_load_matrices<false>(a + k * 32u + m * (16u * PitchA * 16u), held[k][m]);
    }
  }
}

// acc += A . B: A of Tiles * 16 rows, B of Columns * 16 columns, over Steps * 16 of k. `a` and `b`
// are where this lane's rows of the first matrices begin; `by_k`: B stands by rows of k. Sums run
// over k in its order, in one accumulator each.
template <class D, int Tiles, int Columns, int Steps, int PitchA, int PitchB, bool ByK>
__device__ __forceinline__ void stg_multiply16(float (&acc)[Tiles][2 * Columns][4], unsigned a,
                                               unsigned b) {
  constexpr unsigned step = ByK ? 16u * PitchB * 16u : 32u;
  constexpr unsigned column = ByK ? 32u : 16u * PitchB * 16u;
#pragma unroll(Steps <= 8 ? Steps : 2)
  for (int k = 0; k < Steps; k++) {
    unsigned of_a[Tiles][4];
#pragma unroll
    for (int m = 0; m < Tiles; m++) {
      stg_load_matrices<false>(a + k * 32u + m * (16u * PitchA * 16u), of_a[m]);
    }
#pragma unroll
    for (int n = 0; n < Columns; n++) {
      unsigned of_b[4];
      stg_load_matrices<ByK>(b + k * step + n * column, of_b);
#pragma unroll
      for (int m = 0; m < Tiles; m++) {
        stg_mma<D>::add(acc[m][2 * n], of_a[m], of_b[0], of_b[1]);
        stg_mma<D>::add(acc[m][2 * n + 1], of_a[m], of_b[2], of_b[3]);
      }
    }
  }
}

// The same, where A is held.
template <class D, int Tiles, int Columns, int Steps, int PitchB, bool ByK>
__device__ __forceinline__ void stg_multiply_held16(float (&acc)[Tiles][2 * Columns][4],
                                                    const unsigned (&held)[Steps][Tiles][4],
                                                    unsigned b) {
  constexpr unsigned step = ByK ? 16u * PitchB * 16u : 32u;
  constexpr unsigned column = ByK ? 32u : 16u * PitchB * 16u;
#pragma unroll
  for (int k = 0; k < Steps; k++) {
#pragma unroll
    for (int n = 0; n < Columns; n++) {
      unsigned of_b[4];
      stg_load_matrices<ByK>(b + k * step + n * column, of_b);
#pragma unroll
      for (int m = 0; m < Tiles; m++) {
        stg_mma<D>::add(acc[m][2 * n], held[k][m], of_b[0], of_b[1]);
        stg_mma<D>::add(acc[m][2 * n + 1], held[k][m], of_b[2], of_b[3]);
      }
    }
  }
}

// What a tensor's type makes of its elements as operands of products, for who works on all types:
// here those of 16 bits. Steps are of 16 of k, whatever a product has.
template <class D> struct stg_operands {
  typedef typename D::element element;
  static constexpr int of_piece = 8;    // elements
  static constexpr bool rounds = false; // elements are operands as they are

  // From a row to the next of a second factor that stands by rows of k.
  static constexpr __device__ int pitch_by_k(int pieces) {
    return stg_pitch_of(pieces);
  }
  template <int Pitch, bool ByK> static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return ByK ? stg_lane_by_k<Pitch>(lane) : stg_lane_by_n<Pitch>(lane);
  }
  template <int Tiles, int Columns, int Steps, int PitchA, int PitchB, bool ByK>
  static __device__ __forceinline__ void multiply(float (&acc)[Tiles][2 * Columns][4], unsigned a,
                                                  unsigned b) {
    stg_multiply16<D, Tiles, Columns, Steps, PitchA, PitchB, ByK>(acc, a, b);
  }

  // Two neighbours in shared memory.
  static __device__ __forceinline__ void load_pair(unsigned at, float &x, float &y) {
    D::widen2(stg_load_word(at), x, y);
  }
  static __device__ __forceinline__ void store_pair(unsigned at, float x, float y) {
    stg_store_word(at, D::narrow2(x, y));
  }
  // A piece times d, in its place.
  static __device__ __forceinline__ void scale_piece(unsigned at, float d) {
    stg_raw16 raw;
    float f[8];
    stg_load_piece(at, raw.w);
    stg_widen<D>(raw, f);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      f[j] = __fmul_rn(f[j], d);
    }
    stg_narrow<D>(f, raw);
    stg_store_piece(at, raw.w);
  }
  // Elements of a tensor, whose address allows words where `aligned`.
  static __device__ __forceinline__ void store(element *to, float x) {
    *to = (element)(D::narrow2(x, 0.0f) & 0xffffu);
  }
  static __device__ __forceinline__ void store_two(element *to, float x, float y, bool aligned) {
    const unsigned both = D::narrow2(x, y);
    if (aligned) {
      *(unsigned *)to = both;
    } else {
      to[0] = (element)(both & 0xffffu);
      to[1] = (element)(both >> 16);
    }
  }
};
