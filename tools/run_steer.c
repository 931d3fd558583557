/*
 * run_steer.c: apply a workload of steering once, judge the result, time it, report.
 *
 * The checked output comes from one apply on the input as the workload gives it; the time from
 * further applies on a copy. Must not know what any op does.
 */
#include "tools/run_steer.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "specs/vector_file.h"
#include "tools/job_table.h"
#include "tools/run_files.h"
#include "tools/run_report.h"
#include "tools/run_tensors.h"

/* A run in progress. Destroyed from the last member to the first. */
struct run {
  struct stg_job *job;
  struct stg_job_table table;
  struct stg_run_tensors tensors;
  double *times_us;
};

static void run_finish(struct run *run) {
  stg_run_tensors_finish(run->job, &run->tensors);
  stg_job_table_finish(run->job, &run->table);
  stg_free(run->times_us);
}

static stg_status apply_once(struct run *run, stg_device_report *ret_device, stg_error *reterr) {
  stg_engine *engine = run->job->engine;
  const stg_apply apply = stg_run_tensors_apply(run->job, &run->tensors);
  stg_status status = stg_steer_apply(run->table.frame, &apply, stg_mem_stream(engine), reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(engine, reterr);
  }
  if (status == STG_OK) {
    status = stg_run_tensors_fetch(run->job, &run->tensors, reterr);
  }
  if (status == STG_OK) {
    *ret_device = (stg_device_report){.struct_size = sizeof *ret_device};
    status = stg_device_status(run->table.steer, stg_mem_stream(engine), ret_device, reterr);
  }
  return status;
}

static stg_status check_rows(const struct run *run, struct stg_oracle_report *ret_check,
                             stg_error *reterr) {
  struct stg_oracle_batch batch = stg_run_tensors_batch(run->job, &run->tensors);
  batch.row_chain = run->table.slots.oracle_map;
  batch.chains = run->table.slots.oracle;
  return stg_oracle_check(&batch, ret_check, reterr);
}

static stg_status measure(struct run *run, struct stg_times *ret_times, stg_error *reterr) {
  const struct stg_workload *w = &run->job->workload;
  size_t count = w->repeats;
  run->times_us = stg_calloc(count, sizeof *run->times_us);
  if (run->times_us == NULL) {
    return stg_error_memory(reterr, "the measured times", count * sizeof *run->times_us);
  }
  stg_status status = stg_run_tensors_reset(run->job, &run->tensors, reterr);
  if (status == STG_OK) {
    const stg_apply apply = stg_run_tensors_apply(run->job, &run->tensors);
    status = stg_mem_time_applies(run->table.frame, &apply, w->warmup, w->repeats, run->times_us,
                                  reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  *ret_times = stg_times_of(run->times_us, count);
  return STG_OK;
}

static stg_status write_output(const struct run *run, const char *path, const char *signature,
                               stg_error *reterr) {
  const struct stg_workload *w = &run->job->workload;
  struct stg_tensor_out tensors[3] = {
      {"hidden", w->dtype, 2, {w->rows, w->hidden_size}, run->tensors.after},
  };
  size_t count = 1;
  if (w->pair) {
    tensors[count++] = (struct stg_tensor_out){
        "residual", w->dtype, 2, {w->rows, w->hidden_size}, run->tensors.residual_after};
  }
  if (run->job->desc.probes > 0) {
    tensors[count++] = (struct stg_tensor_out){
        "probes", STG_F32, 2, {w->rows, run->job->desc.probes}, run->tensors.probes_after};
  }
  return stg_run_write_tensors(path, tensors, count, signature, reterr);
}

static stg_status write_files(const struct run *run, const struct stg_run_options *options,
                              const char *signature, stg_error *reterr) {
  stg_status status = STG_OK;
  if (options->output != NULL) {
    status = write_output(run, options->output, signature, reterr);
  }
  if (status == STG_OK && options->traffic != NULL) {
    status = stg_run_save_traffic(run->job->engine, options->traffic, reterr);
  }
  return status;
}

/* Apply, judge, time, and turn the outcome into text while everything it borrows is alive. */
static stg_status work(struct run *run, const struct stg_run_options *options, bool *ret_ok,
                       struct stg_strbuf *ret_text, stg_error *reterr) {
  struct stg_run_result result = {.spec = options->spec,
                                  .job = run->job,
                                  .engine = {.struct_size = sizeof result.engine},
                                  .plan = {.struct_size = sizeof result.plan},
                                  .timed = !options->no_timing && run->job->workload.repeats > 0};
  char checksum[STG_KEY_HEX_CHARS + 1];
  stg_status status = apply_once(run, &result.device, reterr);
  if (status == STG_OK) {
    status = stg_run_tensors_bystanders(run->job, &run->tensors, reterr);
  }
  if (status == STG_OK) {
    status = check_rows(run, &result.check, reterr);
  }
  if (status == STG_OK) {
    status = stg_frame_plan(run->table.frame, &result.plan, reterr);
  }
  if (status == STG_OK && result.timed) {
    status = measure(run, &result.times, reterr);
  }
  struct stg_key key;
  if (status == STG_OK) {
    stg_run_tensors_pack(run->job, &run->tensors);
    status = stg_run_tensors_key(run->job, &run->tensors, &key, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_key_hex(key, checksum);
  result.checksum = checksum;
  result.ok = result.check.ok && result.device.bad_slot_rows == 0;
  if (result.ok) {
    status = write_files(run, options, result.plan.signature, reterr);
    if (status != STG_OK) {
      return status;
    }
    result.output = options->output;
  }
  stg_engine_get_info(run->job->engine, &result.engine);
  if (options->json) {
    stg_run_report_json(&result, ret_text);
  } else {
    stg_run_report_text(&result, ret_text);
  }
  *ret_ok = result.ok;
  return STG_OK;
}

stg_status stg_run_steer(struct stg_job *job, const struct stg_run_options *options, bool *ret_ok,
                         struct stg_strbuf *ret_text, stg_error *reterr) {
  struct run run = {.job = job};
  stg_status status = stg_run_tensors_check(job, reterr);
  if (status == STG_OK) {
    status = stg_job_table_init(job, &run.table, reterr);
  }
  if (status == STG_OK) {
    status = stg_run_tensors_init(job, &run.tensors, reterr);
  }
  if (status == STG_OK) {
    status = work(&run, options, ret_ok, ret_text, reterr);
  }
  run_finish(&run);
  return status;
}
