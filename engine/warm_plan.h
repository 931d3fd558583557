/*
 * warm_plan.h: a plan and its graph made ahead of the first step, and launched over no rows.
 */
#ifndef STG_ENGINE_WARM_PLAN_H
#define STG_ENGINE_WARM_PLAN_H

#include "engine/plan.h"

/* A row map in device memory that says that there are no rows; 0 on the CPU. */
struct stg_no_rows {
  uint64_t row_map;
};

STG_NODISCARD stg_status stg_no_rows_init(struct stg_engine *engine, struct stg_no_rows *ret,
                                          stg_error *reterr);
/** {0} is fine. */
void stg_no_rows_finish(struct stg_engine *engine, struct stg_no_rows *no_rows);

/**
 * Make the plan of a shape, whose declared kernels are there; `variant` is of the varying part; on
 * CUDA instantiate and upload its graph, launch it over no rows and wait for that. The graph is
 * left for the first stream that steps this shape. Where the plan has a graph already, nothing is
 * launched.
 */
STG_NODISCARD stg_status stg_warm_plan(struct stg_engine *engine,
                                       const struct stg_plan_parts *parts, unsigned variant,
                                       const struct stg_graph_shape *shape,
                                       const struct stg_no_rows *no_rows, bool *ret_graph,
                                       stg_error *reterr);

#endif
