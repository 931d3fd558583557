/*
 * signature.h: canonical text, buckets and keys. Text in, text out: no device, no plan.
 */
#ifndef STG_ENGINE_SIGNATURE_H
#define STG_ENGINE_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/steer.h>

#include "codegen/op.h"
#include "runtime/base/key.h"

/* Padded sizes, ascending. {NULL, 0} is the default series. */
struct stg_buckets {
  const int64_t *sizes;
  size_t count;
};

/** Smallest row bucket >= rows: 1 2 4 8, by 8 to 64, by 16 to 128, by 32 to 256, then powers of
 * two. */
STG_NODISCARD stg_status stg_row_bucket(const struct stg_buckets *buckets, int64_t rows,
                                        int64_t *ret_bucket, stg_error *reterr);
/** Smallest batch bucket >= requests: powers of two from 8. STG_E_CAPACITY beyond a given list. */
STG_NODISCARD stg_status stg_batch_bucket(const struct stg_buckets *buckets, int64_t requests,
                                          int64_t *ret_bucket, stg_error *reterr);

/* The kernel half of a steer signature. `ops` sorted by stg_op_compare. */
struct stg_steer_signature {
  const struct stg_op *const *ops;
  size_t n_ops;
  int64_t hidden_size;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  bool pair;
  bool prefill; /* tile */
  stg_epilogue epilogue;
  bool windows, counters, probes;
  const char *arch; /* NULL: leave it out */
};

/**
 * "steer v1 | ops=add,user:<hash> chain<=16 | hidden=4096 dtype=bf16 bank=bf16 state=hidden |
 * tile=prefill epilogue=none windows=0 counters=0 probes=0 | sm_90". The kernel holds any chain up
 * to the limit, so the declared length is no part of it.
 */
void stg_steer_signature_print(const struct stg_steer_signature *signature, struct stg_strbuf *out);

/* The graph half: what a user thinks in. */
struct stg_graph_shape {
  int64_t batch, seq, rows;
};
/** " | batch<=32 seq<=64 rows<=2048" */
void stg_graph_shape_print(const struct stg_graph_shape *shape, struct stg_strbuf *out);
/** The graph key: XXH3-128 of "kernel=<request key hex> batch<=.. seq<=.. rows<=..". */
struct stg_key stg_graph_key(struct stg_key kernel_key, const struct stg_graph_shape *shape);

/* Both halves, as a manifest has them: without an architecture. */
struct stg_steer_parsed {
  struct stg_steer_signature kernel;
  struct stg_graph_shape shape;
};
struct stg_op_table;
struct stg_arena;
/**
 * Read what stg_steer_signature_print and stg_graph_shape_print wrote; nothing else is taken, so
 * printing gives the same text again. User ops are looked up in `ops` by the hash of their body;
 * the list of ops lives in the arena, the ops in their table.
 * @return STG_E_FORMAT with "column N: ".
 */
STG_NODISCARD stg_status stg_steer_signature_parse(const char *text, struct stg_op_table *ops,
                                                   struct stg_arena *arena,
                                                   struct stg_steer_parsed *ret, stg_error *reterr);

#endif
