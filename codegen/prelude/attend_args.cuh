// attend_args.cuh: what the decode kernel is given, and which positions a row reads.
// codegen/decode_kernel.h says the same to the host; the two change together.

#ifndef STG_ATTEND_PROBE
#define STG_ATTEND_PROBE 0 // 1: a test asks for times of each block behind the partials
#endif

struct stg_decode_args {
  const void *q;                  // [rows, heads, dim], or [heads, rows, dim]
  void *out;                      // likewise
  long long q_stride, out_stride; // elements from a row to the next, or from a head to the next
  stg_rows_args rows;
  stg_kv_args kv;
  const unsigned char *key_mask; // [batch, mask_stride], 0: not read; where G::masked
  long long mask_stride;
  const int *valid;   // [batch], or null; rows from this position on give zeros
  float4 *partials;   // [rows, tiles, chunks] of chunks; null where blocks own rows
  unsigned *counters; // [rows, tiles], zeros between launches
  int window;         // positions that a row reads, its own with them; where G::windowed
  int chunks;         // of a row that have room in `partials`
  float scale;
  unsigned flags;
};
#define STG_ATTEND_ALIGNED 1u // out and its stride, by 16 bytes
#define STG_ATTEND_OWNER 2u   // a block takes all chunks of a row, one after the other

// Note a time of the block as its k-th, where times are measured.
__device__ __forceinline__ void stg_attend_note(long long *times, int k) {
  if (STG_ATTEND_PROBE && times != 0 && threadIdx.x == 0) {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    times[k] = now;
    times[k + 8] = clock64();
  }
}

static_assert(sizeof(stg_decode_args) == 192, "codegen/decode_kernel.h has the same");

// Of a launch in which blocks do not own rows: rows, and chunks of a row.
#define STG_ATTEND_SPLIT_ROWS 512
#define STG_ATTEND_MAX_CHUNKS 64

// The literals of a geometry, and what follows from them.
template <class G> struct stg_attend {
  static constexpr int threads = G::threads;
  static constexpr int warps = threads / STG_LANES;
  static constexpr int quads = G::padded / 4; // of 4 elements, of a head
  // quads of all heads that are a thread's
  static constexpr int units = (G::tile_heads * quads + threads - 1) / threads;
  // of partial sums: the quads of all heads, and two floats of each head
  static constexpr int slot_quads = G::tile_heads * quads + (G::tile_heads + 1) / 2;
};

// 16 words of each block: times by the machine's clock, and by the multiprocessor's.
template <class G> __device__ __forceinline__ long long *stg_attend_times(const stg_decode_args &a) {
  const long long slots = (long long)a.rows.rows * G::tiles * a.chunks;
  return STG_ATTEND_PROBE && a.partials != 0
             ? (long long *)(a.partials + slots * stg_attend<G>::slot_quads) + blockIdx.x * 16
             : 0;
}

// Where query head `head` of a row stands, in elements.
template <class G>
__device__ __forceinline__ long long stg_head_at(long long stride, int row, int head) {
  return G::heads_first ? head * stride + (long long)row * G::dim : row * stride + head * G::dim;
}

// A row with its position, or STG_NO_POSITION where it has to give zeros. False: it is padding.
template <class G>
__device__ __forceinline__ bool stg_attend_find(const stg_decode_args &a,
                                                const stg_row_entry &entry, int &seq,
                                                int &position) {
  const stg_place place =
      stg_place_at(entry, stg_row_position(a.rows, entry), a.kv, true, G::paged);
  const bool reads = place.fate == STG_ROW_LIVE &&
                     (a.valid == 0 || place.position < a.valid[place.seq]);
  seq = place.seq;
  position = reads ? place.position : STG_NO_POSITION;
  return place.fate != STG_ROW_PADDING;
}

// The same as a guess, while earlier launches may still change lengths. False: it has no position.
__device__ __forceinline__ bool stg_attend_guess(const stg_decode_args &a,
                                                 const stg_row_entry &entry, int &seq,
                                                 int &position) {
  long long at = STG_NO_POSITION;
  if ((unsigned)entry.seq < a.rows.batch) {
    at = entry.pos == 0      ? (long long)__ldcg(a.rows.len + entry.seq)
         : entry.pos_is_64 ? __ldcg((const long long *)entry.pos)
                           : (long long)__ldcg((const int *)entry.pos);
  }
  const bool is = at >= 0 && at < a.kv.capacity;
  seq = entry.seq;
  position = is ? (int)at : STG_NO_POSITION;
  return is;
}

// The first position that a row at `position` reads.
template <class G>
__device__ __forceinline__ int stg_attend_first(const stg_decode_args &a, int position) {
  return G::windowed && position >= a.window ? position - a.window + 1 : 0;
}

// The chunks in which they lie, the first of them not counted by its number but as 0.
template <class G>
__device__ __forceinline__ int stg_attend_chunks(const stg_decode_args &a, int position) {
  return position == STG_NO_POSITION
             ? 1
             : position / G::chunk - stg_attend_first<G>(a, position) / G::chunk + 1;
}

// The rows of a launch in a block's shared memory, with the chunks that stand before each.
struct stg_attend_rows {
  int begin[STG_ATTEND_SPLIT_ROWS + 1];
  int seq[STG_ATTEND_SPLIT_ROWS];
  int position[STG_ATTEND_SPLIT_ROWS];
  int of_warp[STG_LANES];
};

// Rows that a thread counts the chunks of, which follow each other.
template <class G> __device__ __forceinline__ int stg_attend_rows_each(const stg_decode_args &a) {
  return (a.rows.rows + stg_attend<G>::threads - 1) / stg_attend<G>::threads;
}

// The first of them, which is asked for while earlier launches are still at work.
template <class G>
__device__ __forceinline__ stg_row_entry stg_attend_ahead(const stg_decode_args &a) {
  const int row = (int)threadIdx.x * stg_attend_rows_each<G>(a);
  return row < a.rows.rows ? stg_row_entry_of(a.rows, row) : stg_row_entry{-1, 0, false, 0};
}

// Count the chunks of all rows; `ahead` is this thread's first one. `early`: by a guess.
template <class G, bool early>
__device__ __forceinline__ void stg_attend_count(const stg_decode_args &a,
                                                const stg_row_entry &ahead,
                                                stg_attend_rows &rows) {
  const int thread = threadIdx.x, lane = thread % STG_LANES, warp = thread / STG_LANES;
  const int n = a.rows.rows;
  const int each = stg_attend_rows_each<G>(a);
  const int from = thread * each, to = from + each < n ? from + each : n;
  int mine = 0;
  for (int row = from; row < to; row++) {
    int seq, position;
    const stg_row_entry entry = row == from ? ahead : stg_row_entry_of(a.rows, row);
    const bool is = early ? stg_attend_guess(a, entry, seq, position)
                          : stg_attend_find<G>(a, entry, seq, position);
    rows.seq[row] = seq;
    rows.position[row] = position;
    rows.begin[row] = mine;
    mine += is ? stg_attend_chunks<G>(a, position) : 0;
  }
  int sum = mine;
#pragma unroll
  for (int apart = 1; apart < STG_LANES; apart *= 2) {
    const int before = __shfl_up_sync(STG_ALL, sum, apart);
    sum += lane >= apart ? before : 0;
  }
  int begin = sum - mine;
  const bool is_one_warp = n <= STG_LANES; // that has all rows
  if (!is_one_warp) {
    if (lane == STG_LANES - 1) {
      rows.of_warp[warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < stg_attend<G>::warps; w++) {
      begin += w < warp ? rows.of_warp[w] : 0;
    }
  }
  for (int row = from; row < to; row++) {
    rows.begin[row] += begin;
  }
  if (thread == (is_one_warp ? STG_LANES : stg_attend<G>::threads) - 1) {
    rows.begin[n] = begin + mine;
  }
  __syncthreads();
}

// The row that has chunk `at` of all.
__device__ __forceinline__ int stg_attend_row_of(const stg_attend_rows &rows, int n, int at) {
  int low = 0, high = n;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (rows.begin[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// A block's work on chunks of a row that follow each other, for the query heads of a tile.
struct stg_attend_item {
  int row, seq, position, first; // position STG_NO_POSITION: zeros
  int tile;
  int from, to; // chunks, as the row counts them
  int chunks;   // of the row
};

// The items of a block. All chunks, row by row, tile by tile and in the order of positions, are cut
// into as many shares as there are blocks: so a block's chunks follow each other in memory, and it
// meets few rows. A block that owns rows has whole ones instead, each gridDim.x-th of all tiles.
template <class G> struct stg_attend_share {
  const stg_decode_args &a;
  const stg_attend_rows &rows;
  int at, end; // chunks, or tiles of rows

  __device__ __forceinline__ stg_attend_share(const stg_decode_args &args,
                                              const stg_attend_rows &counted)
      : a(args), rows(counted) {
    if (is_owner()) {
      at = blockIdx.x;
      end = a.rows.rows * G::tiles;
    } else {
      const int block = blockIdx.x, blocks = gridDim.x;
      const int all = rows.begin[a.rows.rows] * G::tiles;
      const int least = all / blocks, more = all % blocks;
      at = block * least + (block < more ? block : more);
      end = at + least + (block < more ? 1 : 0);
    }
  }

  __device__ __forceinline__ bool is_owner() const {
    return (a.flags & STG_ATTEND_OWNER) != 0;
  }

  // The block's next item. False: there is none, and `item` is as it was.
  __device__ __forceinline__ bool next(stg_attend_item &item) {
    if (!is_owner()) {
      return next_of_chunks(item);
    }
    while (at < end) {
      const int index = at;
      int seq, position;
      at += gridDim.x;
      const stg_row_entry entry = stg_row_entry_of(a.rows, index / G::tiles);
      if (stg_attend_find<G>(a, entry, seq, position)) {
        const int chunks = stg_attend_chunks<G>(a, position);
        item = {index / G::tiles, seq, position, stg_attend_first<G>(a, position),
                index % G::tiles, 0, chunks, chunks};
        return true;
      }
    }
    return false;
  }

  __device__ __forceinline__ bool next_of_chunks(stg_attend_item &item) {
    if (at >= end) {
      return false;
    }
    item.row = stg_attend_row_of(rows, a.rows.rows, at / G::tiles);
    item.seq = rows.seq[item.row];
    item.position = rows.position[item.row];
    item.first = stg_attend_first<G>(a, item.position);
    item.chunks = rows.begin[item.row + 1] - rows.begin[item.row];
    const int within = at - rows.begin[item.row] * G::tiles;
    item.tile = within / item.chunks;
    item.from = within % item.chunks;
    item.to = item.from + end - at < item.chunks ? item.from + end - at : item.chunks;
    at += item.to - item.from;
    return true;
  }
};

// Nobody else has chunks of the row.
__device__ __forceinline__ bool stg_attend_is_alone(const stg_attend_item &item) {
  return item.to - item.from == item.chunks;
}
