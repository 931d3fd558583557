/*
 * attn_bed.h: memory with guards around it, and calls of the families rope and decode that are run
 * on the CPU and held against the oracle.
 */
#ifndef STG_TESTS_SUPPORT_ATTN_BED_H
#define STG_TESTS_SUPPORT_ATTN_BED_H

#include "engine/cpu/decode.h"
#include "engine/cpu/rope.h"
#include "engine/oracle/decode.h"
#include "engine/oracle/rope.h"

struct attn_memory;
struct attn_bed {
  struct attn_memory *memory; /* all that was handed out */
  uint64_t random;
};

/** Begin with a seed. */
void attn_open(struct attn_bed *bed, uint64_t seed);
/** Fail the test where a guard byte changed; free all. */
void attn_close(struct attn_bed *bed);
/** Fail the test where a guard byte changed. */
void attn_check_guards(const struct attn_bed *bed);

/** `bytes` between two guards, each byte `fill`. */
void *attn_filled(struct attn_bed *bed, size_t bytes, int fill);
/** `elems` numbers in [-2, 2) of `dtype`, between two guards. */
void *attn_random(struct attn_bed *bed, stg_dtype dtype, int64_t elems);
/** Multiply `elems` elements by powers of two, two neighbours by one, that cover the type's range.
 */
void attn_spread(stg_dtype dtype, int64_t elems, void *tensor);
/** A copy of the elements that `tensor` has now. */
void *attn_copy(struct attn_bed *bed, stg_dtype dtype, const void *tensor, int64_t elems);
/** The next number, uniform below `limit`. */
uint32_t attn_below(struct attn_bed *bed, uint32_t limit);
/** A float32 array of NaN in the type. */
void *attn_nans(struct attn_bed *bed, stg_dtype dtype, int64_t elems);

/* A cache of one layer that the bed owns. */
struct attn_kv {
  struct stg_kv_view view;
  int64_t elems; /* of k, and of v */
  int32_t *len;  /* [batch], zeros */
};

/* What a cache is like. `block` 0: dense; else blocks in shuffled order, all of them there. */
struct attn_kv_shape {
  uint32_t batch, kv_heads, dim;
  int64_t capacity;
  stg_dtype dtype;
  uint32_t block;
};

/** A cache full of NaN. */
struct attn_kv attn_kv_open(struct attn_bed *bed, struct attn_kv_shape shape);
/** Element 0 of KV head `head` at a position that has memory. */
void *attn_kv_at(const struct attn_kv *kv, const void *tensor, int32_t seq, int64_t position,
                 uint32_t head);
/** Random K and V at positions [0, lens[seq]) of each sequence, and these lengths. */
void attn_kv_fill(struct attn_bed *bed, struct attn_kv *kv, const int32_t *lens);

/* A call of rope: frequencies, packed rows and where they go, of ROWS rows. */
struct attn_rope {
  struct attn_bed *bed;
  struct stg_rope_geometry geometry;
  struct stg_rope_freq freq;
  float inv_freq[STG_ROPE_MAX_DIM / 2], log_scale[STG_ROPE_MAX_DIM / 2];
  struct stg_rope_angles angles;
  struct stg_step_rows rows;
  struct attn_kv *kv; /* NULL: K and V go to k and v */
  void *qkv;
  void *q, *k, *v; /* v NULL without a cache: V stays in qkv */
  struct stg_kv_words words;
};

/** 8/2 heads of 64, f32, concat, half, final, base 10000: what a test does not change. */
struct stg_rope_geometry attn_rope_geometry(void);
#define ATTN_ROPE_ROUNDINGS 18
/** The k-th of all types, roundings, and roundings of cosine and sine; behind the last the first.
 */
void attn_rope_set_rounding(struct stg_rope_geometry *geometry, int k);
/** Rows of random numbers in, NaN out. `rows` as the test has them; `kv` may be NULL. */
void attn_rope_open(struct attn_bed *bed, const struct stg_rope_geometry *geometry,
                    const struct stg_rope_freq *freq, const struct stg_step_rows *rows,
                    struct attn_kv *kv, struct attn_rope *ret);
/** The call as the CPU takes it. */
struct stg_cpu_rope_batch attn_rope_batch(struct attn_rope *rope);
/** Run it, and fail the test where the oracle finds a violation, or where packed rows have changed;
 * returns the report. */
struct stg_oracle_heads_report attn_rope_run(struct attn_rope *rope);

/** The same, with what `run` does in place of the CPU. */
struct stg_oracle_heads_report
attn_rope_run_by(struct attn_rope *rope,
                 void (*run)(void *user, const struct stg_cpu_rope_batch *batch), void *user);

/** Elements from a row to the next, or from a head to the next, of a packed tensor of heads. */
int64_t attn_stride(enum stg_heads_order order, int64_t rows, int64_t heads, int64_t dim);

/** Run a batch on the CPU into its `out`, which is NaN before, and hold it against the oracle. */
struct stg_oracle_heads_report attn_attend_run(struct attn_bed *bed,
                                               const struct stg_cpu_attend_batch *batch);
/** Fail the test unless the report is ok. */
void attn_expect_ok(const struct stg_oracle_heads_report *report);

#endif
