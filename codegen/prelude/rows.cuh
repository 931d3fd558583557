// rows.cuh: which sequence and which position a row of a step is, and whether a cache has room for
// it. Append, attention and advance all ask here, so that they never disagree. codegen/kv.h and
// codegen/kv_args.h say the same to the host; they change together.

struct stg_rows_args {
  const int *map;  // header [4], seq [room], positions; or null: rows of sequence 0 at `pos`
  const void *pos; // [rows] without a map
  const int *len;  // [batch]
  int rows;        // of the launch; the map says how many there are
  unsigned batch;
  unsigned pos_is_64; // of `pos`
  unsigned unused;
};

// map[0]: its rows. map[1]: where positions come from. map[2]: the word where they begin. map[3]: the
// word where the largest positions of the rows' sequences begin, or 0.
#define STG_ROWS_HEADER 4
#define STG_ROWS_AT_LEN 0
#define STG_ROWS_AT_POS32 1
#define STG_ROWS_AT_POS64 2

// One layer of a cache; strides in elements.
struct stg_kv_args {
  void *k, *v;
  const int *block_table; // [batch, table_row], or null: dense
  long long seq_stride;   // from a sequence to the next, or with a table from a block to the next
  long long head_stride, pos_stride;
  int capacity; // positions of a sequence
  int table_row;
  unsigned block_shift;
  int n_blocks;
};

// Rows that an append refused; `full` and `bad` are the lowest such row << 32 | its sequence.
struct stg_kv_words {
  unsigned long long full, bad;
  unsigned full_rows, bad_rows;
};

static_assert(sizeof(stg_rows_args) == 40, "codegen/kv_args.h has the same");
static_assert(sizeof(stg_kv_args) == 64, "codegen/kv_args.h has the same");
static_assert(sizeof(stg_kv_words) == 24, "codegen/kv.h has the same");

// What becomes of a row.
#define STG_ROW_PADDING 0 // nothing of it is read or written
#define STG_ROW_BAD 1     // no such sequence, or no such position: zeros, nothing appended
#define STG_ROW_FULL 2    // no room at its position: nothing appended, attention gives zeros
#define STG_ROW_LIVE 3

#define STG_NO_POSITION (-1)
#define STG_MAX_POSITION 2147483646

// A row as the map has it. Earlier launches do not write a map, so this may be read ahead of them.
struct stg_row_entry {
  int seq;         // negative: padding
  const void *pos; // where its position stands, or null: it is len[seq]
  bool pos_is_64;
  const int *largest; // position of its sequence in this step, or null: the map does not say
};

__device__ __forceinline__ stg_row_entry stg_row_entry_of(const stg_rows_args &a, int row) {
  int seq = 0;
  int rows = a.rows;
  const char *positions = (const char *)a.pos;
  bool pos_is_64 = a.pos_is_64 != 0;
  int largest_at = 0;
  if (a.map != 0) {
    const int4 header = *(const int4 *)a.map;
    seq = a.map[STG_ROWS_HEADER + row];
    rows = header.x;
    positions = header.y == STG_ROWS_AT_LEN ? 0 : (const char *)(a.map + header.z);
    pos_is_64 = header.y == STG_ROWS_AT_POS64;
    largest_at = header.w;
  }
  stg_row_entry entry;
  entry.seq = row < rows ? seq : -1;
  entry.pos = positions == 0 ? 0 : positions + (long long)row * (pos_is_64 ? 8 : 4);
  entry.pos_is_64 = pos_is_64;
  entry.largest = largest_at == 0 ? 0 : a.map + largest_at + row;
  return entry;
}

// The position of a row as it stands; STG_NO_POSITION of padding, and where there is no such sequence.
__device__ __forceinline__ long long stg_row_position(const stg_rows_args &a,
                                                      const stg_row_entry &entry) {
  if ((unsigned)entry.seq >= a.batch) {
    return STG_NO_POSITION;
  }
  return entry.pos == 0      ? (long long)a.len[entry.seq]
         : entry.pos_is_64 ? *(const long long *)entry.pos
                           : (long long)*(const int *)entry.pos;
}

__device__ __forceinline__ bool stg_is_position(long long position) {
  return position >= 0 && position <= STG_MAX_POSITION;
}

// Whether a position of a sequence has memory; where its K and V of head 0 are, in elements.
__device__ __forceinline__ bool stg_kv_find(const stg_kv_args &kv, bool paged, int seq,
                                            int position, long long &offset) {
  int unit = seq;
  int within = position;
  if (position < 0 || position >= kv.capacity) {
    return false;
  }
  if (paged) {
    unit = kv.block_table[(long long)seq * kv.table_row + (position >> kv.block_shift)];
    within = position & ((1 << kv.block_shift) - 1);
    if (unit < 0 || unit >= kv.n_blocks) {
      return false;
    }
  }
  offset = unit * kv.seq_stride + within * kv.pos_stride;
  return true;
}

struct stg_place {
  int fate;
  int seq;
  int position;     // of a live or full row
  long long offset; // of a live row in a cache
};

// Where a row stands that is at `position`, as stg_row_position gave it. Without a cache every
// position has room.
__device__ __forceinline__ stg_place stg_place_at(const stg_row_entry &entry, long long position,
                                                  const stg_kv_args &kv, bool cached, bool paged) {
  stg_place place = {STG_ROW_PADDING, entry.seq, 0, 0};
  if (entry.seq < 0) {
    return place;
  }
  place.fate = STG_ROW_BAD;
  if (!stg_is_position(position)) {
    return place;
  }
  place.position = (int)position;
  place.fate = !cached || stg_kv_find(kv, paged, entry.seq, place.position, place.offset)
                   ? STG_ROW_LIVE
                   : STG_ROW_FULL;
  return place;
}

// The same for who has nothing to do meanwhile.
__device__ __forceinline__ stg_place stg_place_of(const stg_rows_args &a,
                                                  const stg_row_entry &entry,
                                                  const stg_kv_args &kv, bool cached, bool paged) {
  return stg_place_at(entry, stg_row_position(a, entry), kv, cached, paged);
}

// Note a row that was refused: one thread's work. Minima and counts of integers, so that the words
// do not depend on who comes first. `words` may be null.
__device__ __forceinline__ void stg_refuse(stg_kv_words *words, int row, const stg_place &place) {
  if (words != 0) {
    const bool full = place.fate == STG_ROW_FULL;
    const unsigned long long word = (unsigned long long)row << 32 | (unsigned)place.seq;
    atomicMin(full ? &words->full : &words->bad, word);
    atomicAdd(full ? &words->full_rows : &words->bad_rows, 1u);
  }
}
