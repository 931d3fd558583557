/*
 * attn_run.h: a run of a script, between the files that open it and that step it.
 */
#ifndef STG_TESTS_SUPPORT_ATTN_RUN_H
#define STG_TESTS_SUPPORT_ATTN_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/attn_script.h"

#define MAX_ROWS 24
#define MAX_BATCH 8
#define STATUS_EVERY 5
#define SLOT_STEERED 0

struct attn_run {
  stg_engine *engine;
  const struct attn_script *script;
  enum attn_way way;
  stg_stream stream;
  uint64_t random;
  stg_kv *kv;
  stg_rows *rows;
  stg_rope *rope;
  stg_attend *attend;
  stg_block *block;
  stg_steer *steer;
  stg_frame *frame;
  stg_vector ones;
  void *k, *v; /* the cache's, or lent to it */
  uint8_t *mask;
  void *inputs;                 /* packed rows of one layer and step, all layers */
  void *q, *out;                /* of all steps and layers */
  size_t row_bytes, step_bytes; /* of q and out */
  int32_t len[MAX_BATCH];       /* as foreseen */
  int64_t blocks[MAX_BATCH];    /* that a sequence has */
  int32_t next_block;
  struct attn_trace trace;
  size_t reports;
};

static inline void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

/** Make all that the run needs. */
void attn_run_open(struct attn_run *run);
void attn_run_close(struct attn_run *run);
/** Below a limit, from the run's seed. */
uint32_t attn_run_below(struct attn_run *run, uint32_t limit);
/** Elements of a packed row; bytes of K, and of V; blocks of a sequence, 0: dense. */
size_t attn_packed_elems(const struct attn_script *script);
size_t attn_kv_bytes(const struct attn_script *script);
int64_t attn_blocks_of(const struct attn_script *script);

#endif
