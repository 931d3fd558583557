/*
 * steer_launch.c: see steer_launch.h. Hot: a launch asks for its size each time.
 */
#include "engine/steer_launch.h"

#include "engine/engine.h"
#include "runtime/base/intmath.h"

struct stg_launch_dims stg_steer_dims(const struct stg_engine *engine,
                                      const struct stg_kernel *kernel, uint32_t chain_bytes,
                                      struct stg_steer_args *args) {
  const struct stg_launch_rule *rule = &kernel->rule;
  const size_t blocks = stg_ceil_div((size_t)args->rows, rule->rows_per_block);
  const bool wide = blocks <= (size_t)stg_device_get_info(engine->device)->multiprocessors;
  const uint32_t bytes = stg_launch_stage_bytes(rule, wide);
  args->staged_vectors = wide ? rule->wide_staged : rule->staged;
  args->stage_words = bytes / (uint32_t)sizeof(uint32_t);
  return (struct stg_launch_dims){
      .grid_x = (uint32_t)blocks,
      .block_x = rule->threads,
      .shared_bytes = bytes + chain_bytes,
  };
}

uint32_t stg_steer_shared_bytes(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                int64_t rows, uint32_t chain_bytes) {
  struct stg_steer_args args = {.rows = (int32_t)rows};
  const struct stg_launch_dims dims = stg_steer_dims(engine, kernel, chain_bytes, &args);
  return kernel->loaded.info.shared_bytes + dims.shared_bytes;
}
