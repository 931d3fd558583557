/*
 * kv_args.h: the rows of a step and a cache as kernels are given them: parts of a launch's
 * arguments, and the form of a map of rows in device memory. What they mean is in kv.h.
 *
 * prelude/rows.cuh says the same to the device; the two change together.
 */
#ifndef STG_CODEGEN_KV_ARGS_H
#define STG_CODEGEN_KV_ARGS_H

#include <stddef.h>
#include <stdint.h>

#include "codegen/kv.h"

/*
 * A map of rows in device memory: a header of 32-bit words, then int32 seq[room], then, at the word
 * that the header names, the positions. Word 0: the rows that there are, which may be fewer than
 * the launch's; word 1: where positions come from; word 2: the word where they begin, even where
 * they are int64; word 3: the word where int32 [room] begin with the largest position that the step
 * has of each row's sequence, or 0: kernels that ask for it look at all rows. `room` is no less
 * than the rows of any launch. The map is 16-byte aligned.
 */
#define STG_ROWS_HEADER_WORDS 4
#define STG_ROWS_AT_LEN 0U   /* a row is at len[seq] */
#define STG_ROWS_AT_POS32 1U /* int32 positions */
#define STG_ROWS_AT_POS64 2U

/* struct stg_rows_args of the prelude, field by field. Addresses are of device memory. */
struct stg_rows_args {
  uint64_t map;       /* 0: all rows are of sequence 0, at `pos` */
  uint64_t pos;       /* [rows] without a map */
  uint64_t len;       /* int32 [batch]; 0 where no row is at its length */
  int32_t rows;       /* of the launch */
  uint32_t batch;     /* sequences that there are */
  uint32_t pos_is_64; /* of `pos` */
  uint32_t unused;
};

/* struct stg_kv_args of the prelude: one layer of a cache. Strides are in elements, of 16 bytes in
 * whole where a launch says that it is aligned. */
struct stg_kv_args {
  uint64_t k, v;
  uint64_t block_table; /* int32 [batch, table_row]; 0: dense */
  int64_t seq_stride, head_stride, pos_stride;
  int32_t capacity; /* of a cache at most STG_MAX_POSITION, of a window of tokens one more */
  int32_t table_row;
  uint32_t block_shift;
  int32_t n_blocks;
};

_Static_assert(sizeof(struct stg_rows_args) == 40, "rows.cuh has the same");
_Static_assert(sizeof(struct stg_kv_args) == 64, "rows.cuh has the same");
_Static_assert(sizeof(struct stg_kv_words) == 24, "rows.cuh has the same");
_Static_assert(offsetof(struct stg_kv_words, full_rows) == 16, "rows.cuh has the same");

#endif
