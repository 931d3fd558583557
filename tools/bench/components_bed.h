/*
 * components_bed.h: a case of components on an engine, ready to be launched.
 */
#ifndef STG_TOOLS_BENCH_COMPONENTS_BED_H
#define STG_TOOLS_BENCH_COMPONENTS_BED_H

#include <steergraph/components.h>

#include "tools/bench/buffers.h"
#include "tools/bench/components_case.h"

/* What a set has, in the order of its memory. */
enum stg_bench_components_part {
  STG_BENCH_PART_X,
  STG_BENCH_PART_V,
  STG_BENCH_PART_U,
  STG_BENCH_PART_MASK,
  STG_BENCH_PART_DY,
  STG_BENCH_PART_Y,
  STG_BENCH_PART_DX,
  STG_BENCH_PART_DV,
  STG_BENCH_PART_DU,
  STG_BENCH_PART_DM,
  STG_BENCH_PARTS
};

/* {0} is none. `sets` of all tensors, so that launches in turn find theirs in device memory. */
struct stg_bench_components_bed {
  stg_engine *engine;
  const struct stg_bench_components *work; /* borrowed */
  stg_components *components;
  uint32_t sets;
  size_t bytes[STG_BENCH_PARTS],
      offsets[STG_BENCH_PARTS]; /* within a set; bytes 0: there is none */
  size_t pitch;                 /* from a set to the next */
  void *area;
  void *sums; /* memory that the way back works in */
  size_t sums_bytes;
};

/** Sets so that what launches in turn move is twice the L2; 1 without a GPU. */
uint32_t stg_bench_components_sets(stg_engine *engine, const struct stg_bench_components *work);
/**
 * Make all of it. Nothing is launched. Finish before the engine is closed, also after a failure.
 * @return STG_E_UNSUPPORTED of a size for which the backend has no kernel, with nothing made.
 */
STG_NODISCARD stg_status stg_bench_components_bed_init(stg_engine *engine,
                                                       const struct stg_bench_components *work,
                                                       uint32_t sets,
                                                       struct stg_bench_components_bed *ret,
                                                       stg_error *reterr);
void stg_bench_components_bed_finish(struct stg_bench_components_bed *bed);

/** Elements of a part in rows of `*ret_columns`; 0 where the case has none. */
int64_t stg_bench_components_shape(const struct stg_bench_components *work,
                                   enum stg_bench_components_part part, int64_t *ret_columns);
/** Where a set has a part; NULL where the case has none. */
void *stg_bench_components_at(const struct stg_bench_components_bed *bed,
                              enum stg_bench_components_part part, size_t set);

/** Set `index % sets` of the work (timing.h); `user` is the bed. */
STG_NODISCARD stg_status stg_bench_components_launch(void *user,
                                                     const struct stg_bench_buffers *buffers,
                                                     size_t index, stg_stream stream,
                                                     stg_error *reterr);

#endif
