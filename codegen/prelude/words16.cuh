// words16.cuh: rows of elements that begin at any multiple of 2 bytes, or of 4: to shared memory by
// words, in the background, and from there by words. Knows no op.
//
// Of a row of 16-bit elements the first element may be the upper half of a word. It then lies in
// shared memory one element late, until a warp settles it; a row has a piece more than its own for
// that, the one that makes its pitch odd.

// A word, or zeros: then `from` is not read.
__device__ __forceinline__ void stg_copy_word_async(unsigned at, const void *from, bool copy) {
  asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %2, 0;\n"
               "cp.async.ca.shared.global [%0], [%1], 4, p;\n}" ::"r"(at),
               "l"(from), "r"((unsigned)copy)
               : "memory");
}
// The lower half of a word, and zeros in the upper one.
__device__ __forceinline__ void stg_copy_half_async(unsigned at, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, 2;" ::"r"(at), "l"(from) : "memory");
}

// Rows x Pieces; `row_of` is given a row, and leaves how many elements there are from the address
// that it returns, which is not read where there are none; zeros behind them. What lies in a first
// word before a late row is read too.
template <int Threads, int Rows, int Pieces, class Place, int Bytes, class F>
__device__ __forceinline__ void stg_bring_by_words(unsigned to, const F &row_of) {
  constexpr int words = Pieces * 4 + (Bytes == 2 ? 1 : 0);
  const int thread = stg_thread_here(), lane = thread % STG_LANES;
#pragma unroll 1
  for (int r = thread / STG_LANES; r < Rows; r += Threads / STG_LANES) {
    int left;
    const void *const row = row_of(r, left);
    const int late = Bytes == 2 ? (int)((unsigned long long)row & 2u) : 0;
    const int bytes = left > 0 ? left * Bytes + late : 0, behind = bytes - lane * 4;
    const char *const from = (const char *)row - late + lane * 4;
    const unsigned at = to + Place::at(r, lane / 4) + lane % 4 * 4u;
#pragma unroll
    for (int i = 0; i < (words + STG_LANES - 1) / STG_LANES; i++) {
      const int n = behind - i * STG_LANES * 4;
      if (lane + i * STG_LANES < words && n != 2) {
        stg_copy_word_async(at + Place::at(0, i * STG_LANES / 4), from + i * STG_LANES * 4, n > 0);
      }
    }
    if ((bytes & 2) != 0 && bytes < words * 4 && lane == 0) { // the half that ends the row
      stg_copy_half_async(to + Place::at(r, (bytes - 2) / 16) + (bytes - 2) % 16u,
                          from + bytes - 2);
    }
  }
}

// Rows x Pieces of elements of type E; `row_of` as above. Which way it goes is asked once, so that
// what is aligned has a short loop. `Whole`: no piece is there in part. `words`: rows begin at
// multiples of their elements, the tensor of 4 bytes.
template <int Threads, int Rows, int Pieces, class Place, bool Whole, class E, class F>
__device__ __forceinline__ void stg_bring_rows(unsigned to, bool aligned, bool words,
                                               const F &row_of) {
  constexpr int elements = 16 / (int)sizeof(E);
  const int thread = stg_thread_here();
  if (aligned) {
    stg_share_out<Threads, Rows, Pieces>(
        [&](int r, int piece) {
          int left;
          const E *const row = row_of(r, left);
          left -= piece * elements;
          const unsigned at = to + Place::at(r, piece);
          if constexpr (Whole) {
            stg_copy_piece_async(at, row + piece * elements, left > 0);
          } else {
            const int n = left < 0 ? 0 : left < elements ? left : elements;
            stg_copy_some_async(at, row + piece * elements, n * (int)sizeof(E));
          }
        },
        thread);
    return;
  }
  if constexpr (sizeof(E) != 1) {
    if (words) {
      stg_bring_by_words<Threads, Rows, Pieces, Place, sizeof(E)>(to, row_of);
      return;
    }
  }
  stg_share_out<Threads, Rows, Pieces, 2>(
      [&](int r, int piece) {
        int left;
        const E *const row = row_of(r, left);
        stg_bring_piece(to + Place::at(r, piece), row + piece * elements, left - piece * elements,
                        false);
      },
      thread);
}

// Move the rows that are late by one element. A warp has a row at a time, in registers in whole;
// rows of an even number come first, since it is mostly all of one parity that are late.
template <int Threads, int Rows, int Pieces, class Place, class F>
__device__ __forceinline__ void stg_settle_words(unsigned to, const F &is_late) {
  static_assert(Rows % 2 == 0, "there are as many of either parity");
  constexpr int turns = Pieces / STG_LANES + 1;
  const int thread = stg_thread_here(), lane = thread % STG_LANES;
#pragma unroll 1
  for (int i = thread / STG_LANES; i < Rows; i += Threads / STG_LANES) {
    const int r = i < Rows / 2 ? 2 * i : 2 * i - Rows + 1;
    if (!is_late(r)) {
      continue;
    }
    const unsigned at = to + Place::at(r, lane);
    uint4 w[turns];
#pragma unroll
    for (int k = 0; k < turns; k++) {
      w[k].x = w[k].y = w[k].z = w[k].w = 0;
      if (lane + k * STG_LANES <= Pieces) {
        stg_load_piece(at + Place::at(0, k * STG_LANES), w[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < turns; k++) {
      // lane 31's next piece is lane 0's in the next turn
      const unsigned mine = lane == 0 && k + 1 < turns ? w[k + 1 < turns ? k + 1 : k].x : w[k].x;
      const unsigned next = __shfl_sync(STG_ALL, mine, (lane + 1) % STG_LANES);
      uint4 moved;
      moved.x = __byte_perm(w[k].x, w[k].y, 0x5432);
      moved.y = __byte_perm(w[k].y, w[k].z, 0x5432);
      moved.z = __byte_perm(w[k].z, w[k].w, 0x5432);
      moved.w = __byte_perm(w[k].w, next, 0x5432);
      if (lane + k * STG_LANES < Pieces) {
        stg_store_piece(at + Place::at(0, k * STG_LANES), moved);
      }
    }
  }
}

// A warp's 16 rows x Pieces from shared memory: rows before `rows`, of each the first n elements.
template <int Pieces>
__device__ __forceinline__ void stg_put_pieces(unsigned from, unsigned short *to, long long stride,
                                               int rows, int n) {
  constexpr int pitch = stg_pitch_of(Pieces);
#pragma unroll 4
  for (int i = stg_thread_here() % STG_LANES; i < 16 * Pieces; i += STG_LANES) {
    const int r = i / Pieces, c = i % Pieces * 8;
    if (r >= rows || c >= n) {
      continue;
    }
    uint4 w;
    stg_load_piece(from + (unsigned)(r * pitch) * 16u + c * 2u, w);
    unsigned short *const at = to + r * stride + c;
    if (c + 8 <= n) {
      *(uint4 *)at = w;
      continue;
    }
    const unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int j = 0; j < 7; j++) {
      if (c + j < n) {
        at[j] = (unsigned short)(words[j / 2] >> j % 2 * 16);
      }
    }
  }
}
// Likewise to rows that begin anywhere.
template <int Pieces>
__device__ __forceinline__ void stg_put_words(unsigned from, unsigned short *to, long long stride,
                                              int rows, int n) {
  constexpr int pitch = stg_pitch_of(Pieces);
  const int lane = stg_thread_here() % STG_LANES;
#pragma unroll 1
  for (int r = 0; r < 16 && r < rows; r++) {
    unsigned short *const at = to + r * stride;
    const unsigned row = from + (unsigned)(r * pitch) * 16u;
    const int late = (int)((unsigned long long)at >> 1 & 1u);
    if (late != 0 && lane == 0 && n > 0) {
      at[0] = (unsigned short)stg_load_half(row);
    }
#pragma unroll
    for (int i = 0; i < (Pieces * 4 + STG_LANES - 1) / STG_LANES; i++) {
      const int c = (lane + i * STG_LANES) * 2; // of the even element of a word here
      if (c + late + 1 < n) {
        const unsigned w = stg_load_word(row + c * 2u);
        *(unsigned *)(at + c + late) =
            late != 0 ? __byte_perm(w, stg_load_word(row + c * 2u + 4u), 0x5432) : w;
      } else if (c + late < n) {
        at[c + late] = (unsigned short)stg_load_half(row + (c + late) * 2u);
      }
    }
  }
}
