/*
 * run_files.c: see run_files.h.
 */
#include "tools/run_files.h"

#include <steergraph/warm.h>

#include "runtime/base/interrupt.h"

stg_status stg_run_write_tensors(const char *path, const struct stg_tensor_out *tensors,
                                 size_t count, const char *signature, stg_error *reterr) {
  const char *const metadata[] = {"signature", signature};
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_safetensors_write(path, tensors, count, metadata, 1, reterr);
  stg_interrupt_release(&hold);
  return status;
}

stg_status stg_run_save_traffic(stg_engine *engine, const char *path, stg_error *reterr) {
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_traffic_save(engine, path, reterr);
  stg_interrupt_release(&hold);
  return status;
}
