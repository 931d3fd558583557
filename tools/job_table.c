/*
 * job_table.c: see job_table.h.
 */
#include "tools/job_table.h"

#include "engine/hostmem.h"
#include "runtime/base/error.h"
#include "tools/report.h"

stg_status stg_job_table_init(struct stg_job *job, struct stg_job_table *table, stg_error *reterr) {
  stg_status status = stg_job_slots_init(job, &table->slots, reterr);
  if (status == STG_OK) {
    status = stg_steer_create(job->engine, &job->desc, &table->steer, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "%s: ", job->workload.file);
    }
  }
  if (status == STG_OK) {
    status = stg_job_slots_set(job, &table->slots, table->steer, reterr);
  }
  if (status == STG_OK) {
    status = stg_frame_create(table->steer, &table->frame, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const stg_step step = {.struct_size = sizeof step,
                         .rows = job->workload.rows,
                         .row_map = job->row_map,
                         .requests = job->requests,
                         .longest = job->longest,
                         .positions = job->positions,
                         .prompt_lens = job->prompt_lens};
  status = stg_steer_step(table->frame, &step, stg_mem_stream(job->engine), reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: batch: ", job->workload.file);
  }
  return status;
}

void stg_job_table_finish(struct stg_job *job, struct stg_job_table *table) {
  stg_error err = STG_ERROR_INIT;
  stg_frame_destroy(table->frame);
  if (table->steer != NULL && stg_steer_destroy(table->steer, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
  stg_job_slots_fini(job, &table->slots);
  *table = (struct stg_job_table){0};
}
