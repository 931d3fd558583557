/*
 * attention_workload.h: a workload of the families rope, decode and step (specs/README.md) as a
 * checked, plain struct.
 *
 * The reader checks everything that can be known without a device: shapes, types, ranges, and what
 * rules what else out. A row past the capacity of its sequence is no fault of a workload: it is
 * what a cache refuses. Read by stg_spec_load (spec.h).
 *
 * Shapes: R rows of the step, H query heads, K KV heads, D elements of a head, B sequences, S
 * positions of a sequence.
 */
#ifndef STG_SPECS_ATTENTION_WORKLOAD_H
#define STG_SPECS_ATTENTION_WORKLOAD_H

#include "specs/spec_family.h"
#include "specs/workload.h"

/* Limits of a workload (specs/README.md); rows, requests and buckets have those of workload.h. */
#define STG_ATTENTION_MAX_HEADS 1024
#define STG_ATTENTION_MIN_DIM 8
#define STG_ATTENTION_MAX_DIM 256
#define STG_ATTENTION_MAX_BATCH 65536
#define STG_ATTENTION_MAX_POSITION ((int64_t)INT32_MAX - 1)
#define STG_ATTENTION_MAX_CAPACITY ((int64_t)1 << 30)
#define STG_ATTENTION_MIN_BLOCK 8
#define STG_ATTENTION_MAX_BLOCK 1024
#define STG_ATTENTION_MAX_BLOCKS (1 << 24)
#define STG_ATTENTION_MAX_CACHE_ELEMS ((int64_t)1 << 40) /* of K, over all layers */
#define STG_ATTENTION_MAX_TABLE (1 << 26)                /* entries of a block table */

/* The words of a workload, each in the order of its table where it is read. */
enum stg_spec_layout {
  STG_SPEC_LAYOUT_CONCAT,       /* [H + K + K, D] */
  STG_SPEC_LAYOUT_INTERLEAVED,  /* [3, H, D], K = H */
  STG_SPEC_LAYOUT_GROUPED,      /* [K, H/K + 2, D] */
  STG_SPEC_LAYOUT_HEAD_FASTEST, /* [D, H] [D, K] [D, K] */
};
enum stg_spec_pairs { STG_SPEC_PAIRS_HALF, STG_SPEC_PAIRS_INTERLEAVED };
enum stg_spec_round { STG_SPEC_ROUND_FINAL, STG_SPEC_ROUND_EACH_OP };
enum stg_spec_trig { STG_SPEC_TRIG_F32, STG_SPEC_TRIG_DTYPE, STG_SPEC_TRIG_SWAPPED_BF16 };
enum stg_spec_scaling { STG_SPEC_SCALING_NONE, STG_SPEC_SCALING_LINEAR, STG_SPEC_SCALING_LLAMA3 };
enum stg_spec_xpos { STG_SPEC_XPOS_NONE, STG_SPEC_XPOS_HALVES, STG_SPEC_XPOS_PAIRS };
enum stg_spec_order { STG_SPEC_ORDER_ROWS /* [R, H, D] */, STG_SPEC_ORDER_HEADS /* [H, R, D] */ };
enum stg_spec_tail { STG_SPEC_TAIL_NAN, STG_SPEC_TAIL_ZEROS };
enum stg_spec_positions {
  STG_SPEC_POSITIONS_LEN, /* a row is at its sequence's length, which the device knows */
  STG_SPEC_POSITIONS_I32,
  STG_SPEC_POSITIONS_I64,
};

/* "rope", of rope and step. */
struct stg_spec_rope {
  enum stg_spec_layout layout;
  uint32_t rot; /* even, 2 to dim */
  enum stg_spec_pairs pairs;
  enum stg_spec_round round;
  enum stg_spec_trig trig;
  enum stg_spec_xpos xpos;
  double xpos_base; /* > 0 */
  double base;      /* > 0 */
  enum stg_spec_scaling scaling;
  double factor, low, high; /* > 0, low < high */
  int64_t original;
  bool has_table;
  struct stg_spec_array table; /* float32 [positions, 2, rot/2], cosines before sines */
  enum stg_spec_order order;   /* of q, and of k and v where they go out */
  bool backward;               /* the gradients of q, k and v are given, in `order` */
  bool to_cache;               /* K and V are appended to the cache; else they go out */
};

/* "attend", of decode and step. */
struct stg_spec_attend {
  float scale;    /* of the scores */
  int64_t window; /* positions that a row reads, its own with them; 0: all up to its own */
  enum stg_spec_order order; /* of q and out */
};

/* "cache", or "tokens": K and V of a window of tokens that are given whole, with no cache. */
struct stg_spec_cache {
  bool exists; /* a cache or tokens */
  bool tokens; /* `capacity` is the window, `layers` 1, and there are no blocks */
  uint32_t batch;
  int64_t capacity;
  uint32_t block;          /* positions of a block, a power of two; 0: dense */
  uint32_t n_blocks;       /* of a layer's pool */
  const int32_t *lengths;  /* [batch], 0 to capacity; of tokens: those that are valid */
  const int32_t *reach;    /* [batch]: positions below the length or of a row, within capacity */
  const int32_t *filled;   /* [batch]: positions whose K and V are given before the launch: those
                              below the length, and in decode with a cache `reach` */
  enum stg_spec_tail tail; /* what all positions behind them have */
  const uint8_t *key_mask; /* [batch, capacity], or [capacity] of all sequences where one_mask; 0:
                              is not read; NULL: none. Of tokens */
  bool one_mask;
};

/* Rows of one sequence; "repeat" is expanded. seq < 0: padding. */
struct stg_spec_stretch {
  int32_t seq;
  int64_t rows;
  int64_t position;         /* of the first row, the others behind it; not read of form LEN */
  const int64_t *positions; /* [rows], instead of `position`; NULL: none */
};

struct stg_attention_workload {
  enum stg_spec_kind kind; /* STG_SPEC_ROPE, STG_SPEC_DECODE or STG_SPEC_STEP */
  const char *file;
  uint32_t heads, kv_heads, dim, layers;
  stg_dtype dtype;
  struct stg_spec_rope rope;     /* of rope and step */
  struct stg_spec_attend attend; /* of decode and step */
  struct stg_spec_cache cache;
  enum stg_spec_positions positions;
  const struct stg_spec_stretch *stretches; /* "rows.requests" */
  size_t n_stretches;
  uint32_t layer;     /* of the cache */
  int64_t rows;       /* over all stretches */
  uint32_t sequences; /* different ones that rows are of */
  uint32_t batch;     /* sequences that there are: the cache's, else the largest seq + 1 */
  int64_t longest;    /* rows of one sequence at most */
  bool advance;       /* of step: lengths grow at its end */
  bool steered;       /* of step */
  /* Of a steered step: what geometry, ops, vectors, slots and batch of a steer workload give. It
   * has no inputs; hidden_size is heads * dim, and it has as many rows. */
  struct stg_workload steer;
  bool has_qkv, has_q, has_k, has_v;
  struct stg_spec_array qkv; /* [R, (H + 2K) * D] in the layout */
  struct stg_spec_array q;   /* [R, H, D], or [H, R, D], as the order is */
  struct stg_spec_array k;   /* [B, K, S, D] of the cache; backward [R, K, D] or [K, R, D] */
  struct stg_spec_array v;
  const int64_t *row_buckets; /* ascending; NULL: the default series */
  size_t n_row_buckets;
  const int64_t *batch_buckets;
  size_t n_batch_buckets;
  uint32_t warmup;  /* default 10 */
  uint32_t repeats; /* default 100 */
  struct stg_open_file *open;
  struct stg_arena arena;
};

void stg_attention_finish(struct stg_attention_workload *workload);

/** Elements of one of the workload's arrays, see stg_spec_array_read. One thread at a time. */
STG_NODISCARD stg_status stg_attention_read(const struct stg_attention_workload *workload,
                                            const struct stg_spec_array *array, int64_t first,
                                            size_t count, stg_dtype dtype, void *ret_elems,
                                            stg_error *reterr);
/** Fill [rows]: the sequence of each row, negative for padding. */
void stg_attention_fill_seq(const struct stg_attention_workload *workload, int32_t *ret_seq);
/** Fill [rows] with positions, 0 for padding: int32, or int64 for form I64. Not of form LEN. */
void stg_attention_fill_positions(const struct stg_attention_workload *workload, void *ret_pos);
/** Blocks that a sequence needs at most, ceil(capacity / block); 0 of a dense cache. */
int64_t stg_attention_table_row(const struct stg_attention_workload *workload);
/**
 * Fill [batch, table_row] of a paged cache. Blocks are given out in ascending order: the first one
 * of every sequence, then the second of every sequence that has two, and so on; first those with
 * positions that are filled, then those that rows reach. -1: none, also where the pool ended.
 */
void stg_attention_fill_table(const struct stg_attention_workload *workload, int32_t *ret_table);

#endif
