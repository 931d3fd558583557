/*
 * attn_script.h: decode and prefill steps through the public API, drawn from a seed: the same on
 * whichever engine, so that what two engines leave can be compared. For cmocka.
 *
 * Nothing waits for the device between steps, but for a look at the cache's status now and then;
 * lengths are foreseen by a count of the script's own.
 */
#ifndef STG_TESTS_SUPPORT_ATTN_SCRIPT_H
#define STG_TESTS_SUPPORT_ATTN_SCRIPT_H

#include <steergraph/steergraph.h>

struct attn_script {
  const char *name;
  stg_dtype dtype;
  uint32_t heads, kv_heads, dim, layers, batch;
  int64_t capacity;
  uint32_t block; /* 0: dense */
  int64_t window;
  stg_qkv_layout layout;
  stg_pairs pairs;
  stg_order order;
  stg_xpos xpos;
  bool table, key_mask, borrowed;
  bool steer;    /* `add` on even sequences; float32, rows first */
  int32_t begin; /* length of the first sequence, a multiple of it of others; K and V are there */
  uint32_t steps;
};

/* How a layer is launched. */
enum attn_way { ATTN_APART, ATTN_BLOCK };

/* What is left. */
struct attn_trace {
  unsigned char *exact; /* q of all steps, K, V, lengths, and what was refused */
  size_t exact_bytes;
  float *out; /* of all steps */
  size_t n_out;
};

/** The scripts that there are. */
extern const struct attn_script attn_scripts[];
extern const size_t n_attn_scripts;

/** Run one. A failing call fails the test. */
void attn_script_run(stg_engine *engine, const struct attn_script *script, enum attn_way way,
                     struct attn_trace *ret);
void attn_trace_finish(struct attn_trace *trace);
/** Fail the test unless all bytes are equal, and results but for `tolerance`. */
void attn_trace_compare(const char *name, const struct attn_trace *a, const struct attn_trace *b,
                        float tolerance);

#endif
