/*
 * attn_bed.h: a case of rope or attend on an engine, ready to be launched: cache, rows, parts, and
 * tensors that are filled.
 */
#ifndef STG_TOOLS_BENCH_ATTN_BED_H
#define STG_TOOLS_BENCH_ATTN_BED_H

#include <steergraph/attention.h>

#include "tools/bench/attn_case.h"
#include "tools/bench/bed.h"

/* {0} is none. Tensors are in the engine's memory, `sets` of each that there is, so that launches
 * in turn find theirs in device memory; set i is layer i of the cache. */
struct stg_attn_bed {
  stg_engine *engine;
  const struct stg_attn_case *work; /* borrowed */
  uint32_t sets;
  stg_kv *kv;
  stg_rows *rows;
  stg_rope *rope;
  stg_attend *attend;
  stg_block *block;
  struct stg_bench_batch batch; /* of what steers a block */
  struct stg_bench_bed steer;
  struct stg_bench_mix mix;
  stg_kv_tensors cache;
  int32_t *pos;                /* of a rope to tensors */
  void *qkv, *q, *k, *v, *out; /* v NULL where V stays in qkv */
};

/**
 * Make all of it and set the step. Nothing is launched. What is in `ret` refers to itself: it may
 * not be moved. Finish before the engine is closed, also after a failure.
 */
STG_NODISCARD stg_status stg_attn_bed_init(stg_engine *engine, const struct stg_attn_case *work,
                                           uint32_t sets, struct stg_attn_bed *ret,
                                           stg_error *reterr);
void stg_attn_bed_finish(struct stg_attn_bed *bed);

/** Set `index % sets` of the work (timing.h); `user` is the bed. */
STG_NODISCARD stg_status stg_attn_bed_launch(void *user, const struct stg_bench_buffers *buffers,
                                             size_t index, stg_stream stream, stg_error *reterr);

/** Bytes from a set of a tensor to the next. */
size_t stg_attn_bed_pitch(const struct stg_attn_bed *bed, int64_t elems_of_row);

/** Where the cache has a row's key or value, of one head of layer 0, in elements. */
int64_t stg_attn_bed_place(const struct stg_attn_bed *bed, int64_t row, uint32_t head);

#endif
