/*
 * kv.h: the rows of a step, and the cache of fixed size that they append to and read.
 *
 * A cache is dense, [batch, kv_heads, capacity, dim], or paged: blocks of 2^block_shift positions,
 * [n_blocks, kv_heads, block, dim], and a table that names the block of each stretch of a sequence.
 * Whether a row has room is decided here for all that ask: the append, the attention and the
 * advance never disagree.
 */
#ifndef STG_CODEGEN_KV_H
#define STG_CODEGEN_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#define STG_MAX_POSITION ((int64_t)INT32_MAX - 1)

/* Which sequence and which position each row is. All borrowed. */
struct stg_step_rows {
  int64_t rows;
  uint32_t batch;     /* sequences that there are */
  const int32_t *seq; /* [rows], negative: padding; NULL: all rows are of sequence 0 */
  const void *pos;    /* [rows] int32, or int64 with pos_is_64; NULL: row r is at len[seq[r]], and
                         each sequence has one row at most */
  bool pos_is_64;
  const int32_t *len; /* [batch]; read without pos */
};

/* One layer of a cache. Strides are in elements. */
struct stg_kv_view {
  stg_dtype dtype;
  uint32_t batch, kv_heads, dim;
  int64_t capacity; /* positions of a sequence */
  void *k, *v;
  int64_t seq_stride; /* from a sequence to the next, or with a table from a block to the next */
  int64_t head_stride, pos_stride;
  const int32_t *block_table; /* [batch, table_row], negative: no block; NULL: dense */
  int64_t table_row;
  uint32_t block_shift, n_blocks;
};

/* Rows that an append refused. `full`, `bad`: the lowest such row and its sequence, as
 * row << 32 | seq, so that one atomic minimum keeps both. */
struct stg_kv_words {
  uint64_t full, bad;
  uint32_t full_rows, bad_rows;
};
#define STG_KV_NO_ROW UINT64_MAX
#define STG_KV_WORDS_INIT                                                                          \
  { STG_KV_NO_ROW, STG_KV_NO_ROW, 0, 0 }

static inline uint64_t stg_kv_word(int64_t row, int32_t seq) {
  return (uint64_t)row << 32 | (uint32_t)seq;
}

/** block_shift of blocks of so many positions, a power of two; 0: dense. */
static inline uint32_t stg_kv_block_shift(uint32_t block) {
  uint32_t shift = 0;
  while ((1U << shift) < block) {
    shift++;
  }
  return shift;
}

/** Whether a position of a sequence has memory; where its K and V of head 0 are, in elements. */
static inline bool stg_kv_find(const struct stg_kv_view *kv, int32_t seq, int64_t position,
                               int64_t *ret_offset) {
  if (position < 0 || position >= kv->capacity) {
    return false;
  }
  int64_t unit = seq;
  int64_t within = position;
  if (kv->block_table != NULL) {
    unit = kv->block_table[seq * kv->table_row + (position >> kv->block_shift)];
    within = position & (((int64_t)1 << kv->block_shift) - 1);
    if (unit < 0 || unit >= (int64_t)kv->n_blocks) {
      return false;
    }
  }
  *ret_offset = unit * kv->seq_stride + within * kv->pos_stride;
  return true;
}

/* What becomes of a row. */
enum stg_row_fate {
  STG_FATE_PADDING, /* nothing of it is read or written */
  STG_FATE_BAD,     /* no such sequence, or no such position: zeros, nothing appended */
  STG_FATE_FULL,    /* no room at its position: nothing appended, attention gives zeros */
  STG_FATE_LIVE,
};

struct stg_row_place {
  enum stg_row_fate fate;
  int32_t seq;
  int64_t position; /* of a live or full row */
  int64_t offset;   /* of a live row in `kv`, as stg_kv_find has it */
};

/** Row `row` of a step; `kv` NULL: there is no cache, and every position has room. */
static inline struct stg_row_place stg_row_find(const struct stg_step_rows *rows,
                                                const struct stg_kv_view *kv, int64_t row) {
  struct stg_row_place place = {.fate = STG_FATE_PADDING};
  place.seq = rows->seq == NULL ? 0 : rows->seq[row];
  if (place.seq < 0) {
    return place;
  }
  place.fate = STG_FATE_BAD;
  if ((uint32_t)place.seq >= rows->batch) {
    return place;
  }
  place.position = rows->pos == NULL ? (int64_t)rows->len[place.seq]
                   : rows->pos_is_64 ? ((const int64_t *)rows->pos)[row]
                                     : (int64_t)((const int32_t *)rows->pos)[row];
  if (place.position < 0 || place.position > STG_MAX_POSITION) {
    return place;
  }
  place.fate = kv == NULL || stg_kv_find(kv, place.seq, place.position, &place.offset)
                   ? STG_FATE_LIVE
                   : STG_FATE_FULL;
  return place;
}

#endif
