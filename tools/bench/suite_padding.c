/*
 * suite_padding.c: `bench padding`: the cost of padding, and the compiles that it avoids.
 *
 * What is counted is the same on every backend; times need a GPU, and rows without one have none.
 */
#include "tools/bench/padding.h"
#include "tools/workload_job.h"

stg_status stg_bench_suite_padding(const struct stg_bench_options *options,
                                   struct stg_bench_report *report, stg_error *reterr) {
  stg_engine *engine = NULL;
  stg_status status = stg_bench_engine_open(STG_BACKEND_AUTO, STG_COMPILE_BLOCK, &engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(engine, &info);
  status = stg_padding_shapes(engine, options, report, reterr);
  if (status == STG_OK && info.backend == STG_BACKEND_CUDA) {
    status = stg_padding_captures(engine, options, report, reterr);
  }
  stg_job_close_engine(engine);
  return status;
}
