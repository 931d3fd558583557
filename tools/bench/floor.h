/*
 * floor.h: the least that moving rows can cost: a copy of the same bytes in place, cold, on the
 * same card.
 */
#ifndef STG_TOOLS_BENCH_FLOOR_H
#define STG_TOOLS_BENCH_FLOOR_H

#include "tools/bench/timing.h"

/**
 * Time the in-place copy of every buffer, in several launch shapes, and keep the fastest. Needs
 * NVRTC. Buffer sizes are multiples of 16 bytes.
 */
STG_NODISCARD stg_status stg_bench_floor(stg_engine *engine,
                                         const struct stg_bench_buffers *buffers,
                                         struct stg_times *ret_time, stg_error *reterr);

#endif
