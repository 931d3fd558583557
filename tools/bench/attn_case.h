/*
 * attn_case.h: the workloads of the suites rope and attend: shapes, and elements that a peer in
 * another language makes again from the same numbers.
 *
 * Sequence s has length_of(s) positions when the step is over; its rows are the last of them. Rows
 * stand sequence by sequence.
 */
#ifndef STG_TOOLS_BENCH_ATTN_CASE_H
#define STG_TOOLS_BENCH_ATTN_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#include "runtime/base/strbuf.h"

#define STG_ATTN_ROPE_BASE 10000.0
/* Rows whose results are looked at, at most: the first, the last, and some between them. */
#define STG_ATTN_SAMPLE 64
/* Of a loop over every length the last step of each so many. */
#define STG_ATTN_LOOP_STRIDE 16

/* What a case launches. */
enum stg_attn_work {
  STG_ATTN_ROPE,     /* to tensors, or where there is a cache K and V into it */
  STG_ATTN_BACKWARD, /* gradients of q, k and v into those of packed rows */
  STG_ATTN_ATTEND,   /* over a cache that is full up to the rows */
  STG_ATTN_BLOCK,    /* rope and attend, one launch of a graph where graphs are on */
  STG_ATTN_STEERED,  /* the same, and an addition to each row of the result */
};

struct stg_attn_case {
  const char *suite, *name;
  enum stg_attn_work work;
  uint32_t heads, kv_heads, dim;
  stg_dtype dtype;
  uint32_t batch;
  uint32_t rows_each;        /* of a sequence; 1 with a cache: the decode form */
  int64_t shortest, longest; /* lengths of the first and of the last sequence, others between */
  int64_t capacity;          /* of the cache; 0: none */
  uint32_t block;            /* positions of a block of a paged one; 0: dense */
  bool v_stays;              /* of a rope to tensors: in the packed rows, as models leave it */
  bool each_op;              /* rounded after every operation, as eager code does */
  bool advance;              /* a block's last layer ends with the advance of lengths */
  bool compiled;             /* its peers compile too, for seconds each: few cases */
};

static inline int64_t stg_attn_rows(const struct stg_attn_case *c) {
  return (int64_t)c->batch * c->rows_each;
}
/** Elements of a packed row, and of its queries and of its keys alone. */
static inline int64_t stg_attn_packed(const struct stg_attn_case *c) {
  return ((int64_t)c->heads + 2 * (int64_t)c->kv_heads) * c->dim;
}
static inline int64_t stg_attn_q_elems(const struct stg_attn_case *c) {
  return (int64_t)c->heads * c->dim;
}
static inline int64_t stg_attn_k_elems(const struct stg_attn_case *c) {
  return (int64_t)c->kv_heads * c->dim;
}
static inline bool stg_attn_has_rope(const struct stg_attn_case *c) {
  return c->work != STG_ATTN_ATTEND;
}
static inline bool stg_attn_has_attend(const struct stg_attn_case *c) {
  return c->work >= STG_ATTN_ATTEND;
}

int64_t stg_attn_length(const struct stg_attn_case *c, uint32_t seq);
/** The position of a row, which is one of sequence row / rows_each. */
int64_t stg_attn_position(const struct stg_attn_case *c, int64_t row);
/** How many rows are looked at, and which the i-th of them is. */
int64_t stg_attn_samples(const struct stg_attn_case *c);
int64_t stg_attn_sample(const struct stg_attn_case *c, int64_t i);
/** Bytes that must move at least: packed rows in or out of a rope, but for a V that stays; valid K
 * and V of an attend. */
size_t stg_attn_bytes(const struct stg_attn_case *c);

/* Tensors that are made up. Queries and packed rows of a step are in [-4, 4), others in [-1, 1), in
 * steps that every type holds exactly. */
enum stg_attn_tensor {
  STG_ATTN_QKV = 1, /* [rows, packed] */
  STG_ATTN_Q = 2,   /* [rows, heads, dim] */
  STG_ATTN_K = 3,   /* [batch, kv_heads, capacity, dim]; of a backward [rows, kv_heads, dim] */
  STG_ATTN_V = 4,
  STG_ATTN_TOKENS = 5, /* packed rows of a loop, [capacity, batch, packed] */
};
float stg_attn_value(enum stg_attn_tensor tensor, int64_t index);
/** Elements [first, first + count) of a tensor, of `dtype`. */
void stg_attn_fill(enum stg_attn_tensor tensor, stg_dtype dtype, int64_t first, int64_t count,
                   void *ret);

/** Append the case as JSON: all numbers, and the rows that are looked at. */
void stg_attn_case_print(const struct stg_attn_case *c, struct stg_strbuf *out);

/* Cases of the two suites, in the order of their rows. Those of blocks stand last. */
enum stg_rope_case {
  STG_ROPE_PROMPTS_APPEND,
  STG_ROPE_PROMPTS,
  STG_ROPE_PROMPTS_EACH_OP,
  STG_ROPE_PROMPTS_BACKWARD,
  STG_ROPE_PROMPT,
  STG_ROPE_DECODING,
  STG_ROPE_PUBLISHED, /* of torch.compile in place of eager, 2.79 times as fast */
  STG_ROPE_CASES
};
enum stg_attend_case {
  STG_ATTEND_LONG,
  STG_ATTEND_LONG_PAGED,
  STG_ATTEND_SHORT,
  STG_ATTEND_SHORT_PAGED,
  STG_ATTEND_PROMPT,
  STG_ATTEND_LONG_BLOCK,
  STG_ATTEND_SHORT_BLOCK,
  STG_ATTEND_LONG_STEERED,
  STG_ATTEND_SHORT_STEERED,
  STG_ATTEND_CASES
};
extern const struct stg_attn_case stg_rope_cases[STG_ROPE_CASES];
extern const struct stg_attn_case stg_attend_cases[STG_ATTEND_CASES];
/* A block that is stepped through every length from 1 to the capacity. */
extern const struct stg_attn_case stg_attn_loop_case;

#endif
