/*
 * block.h: a block, between its two files.
 */
#ifndef STG_ENGINE_BLOCK_H
#define STG_ENGINE_BLOCK_H

#include "engine/attn.h"

/* Without the advance, and with it. */
#define STG_BLOCK_PLANS 2

/* One thread and one stream. The parts are named, so they stay. */
struct stg_block {
  struct stg_engine *engine;
  stg_rope *rope;     /* or NULL */
  stg_attend *attend; /* or NULL */
  stg_steer *steer;   /* or NULL */
  bool advance;
  stg_kv *kv;
  /* since the last step; borrowed */
  stg_rows *rows;
  stg_frame *frame;
  const struct stg_kernel *kernel; /* that serves of the part that varies, or of the first */
  struct stg_plan *plans[STG_BLOCK_PLANS]; /* used, so they stay; NULL: never launched */
  struct stg_exec *execs[STG_BLOCK_PLANS]; /* on the step's stream; NULL: plainly */
};

#endif
