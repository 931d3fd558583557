/*
 * components/run.c: see run.h. Each direction once, judged; then further times, timed.
 *
 * A call writes what it reads nothing of, so that it can be done again on what it left.
 */
#include "tools/components/run.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/components/run_report.h"
#include "tools/report.h"
#include "tools/run_files.h"

/* A run in progress. Destroyed from the last member to the first. */
struct run {
  struct stg_components_job *job;
  stg_components *components;
  struct stg_components_all all;
  struct stg_arena arena; /* signatures */
  double *times_us;
};

static void run_finish(struct run *run) {
  stg_error err = STG_ERROR_INIT;
  stg_free(run->times_us);
  stg_arena_finish(&run->arena);
  stg_components_tensors_finish(run->job, &run->all);
  if (stg_components_destroy(run->components, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
}

static stg_status prepare(struct run *run, stg_error *reterr) {
  struct stg_components_job *job = run->job;
  stg_status status = stg_components_tensors_check(job, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_components_create(job->engine, &job->desc, &run->components, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", job->workload.file);
    return status;
  }
  return stg_components_tensors_init(job, run->components, &run->all, reterr);
}

static stg_status apply(void *user, stg_stream stream, stg_error *reterr) {
  const struct run *run = user;
  const stg_components_tensors call = stg_components_call_of(run->job, &run->all);
  stg_status status = stg_components_apply(run->components, &call, stream, reterr);
  if (status == STG_OK && run->job->workload.both) {
    const stg_components_grads grads = stg_components_grads_of(&run->all);
    status = stg_components_back(run->components, &call, &grads, stream, reterr);
  }
  return status;
}

static stg_status apply_once(struct run *run, stg_error *reterr) {
  stg_engine *engine = run->job->engine;
  stg_status status = apply(run, stg_mem_stream(engine), reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(engine, reterr);
  }
  return status == STG_OK ? stg_components_tensors_fetch(run->job, &run->all, reterr) : status;
}

static stg_status measure(struct run *run, struct stg_times *ret_times, stg_error *reterr) {
  const struct stg_components_workload *w = &run->job->workload;
  const size_t count = w->repeats;
  run->times_us = stg_calloc(count, sizeof *run->times_us);
  if (run->times_us == NULL) {
    return stg_error_memory(reterr, "the measured times", count * sizeof *run->times_us);
  }
  stg_status status =
      stg_mem_time_work(run->job->engine, apply, run, w->warmup, w->repeats, run->times_us, reterr);
  if (status == STG_OK) {
    *ret_times = stg_times_of(run->times_us, count);
  }
  return status;
}

/* Which kernels did it, and where they came from: those of y, or of the way back. */
static stg_status find_way(struct run *run, const char *arch, bool back,
                           struct stg_components_way *way, stg_error *reterr) {
  const struct stg_components_job *job = run->job;
  const struct stg_batch_sizes sizes = stg_components_job_sizes(job);
  const struct stg_declared *declared = NULL;
  stg_components_desc desc = job->desc;
  desc.backward = back;
  stg_status status = stg_declare_components(&desc, &run->arena, &declared, reterr);
  if (status == STG_OK) {
    status =
        stg_explain_graph(job->engine, declared, arch, &sizes, &run->arena, &way->graph, reterr);
  }
  for (size_t i = 0; i < way->graph.n_kernels && status == STG_OK; i++) {
    const size_t index = way->graph.kernels[i];
    status = stg_explain_kernel(job->engine, declared, index, arch, &run->arena,
                                &way->kernels[i].text, reterr);
    if (status == STG_OK) {
      status = stg_declared_made(job->engine, declared, index, &way->kernels[i].made, reterr);
    }
  }
  return status;
}

static stg_status write_files(const struct run *run, const struct stg_run_options *options,
                              const char *signature, stg_error *reterr) {
  stg_status status = STG_OK;
  if (options->output != NULL) {
    status = stg_components_tensors_write(run->job, &run->all, options->output, signature, reterr);
  }
  if (status == STG_OK && options->traffic != NULL) {
    status = stg_run_save_traffic(run->job->engine, options->traffic, reterr);
  }
  return status;
}

/* Judge what was left, and say what did it. */
static stg_status judge(struct run *run, struct stg_components_result *result, stg_error *reterr) {
  struct stg_key key;
  stg_status status = stg_components_check_all(run->job, &run->all, &result->check, reterr);
  if (status == STG_OK) {
    status = stg_components_tensors_key(&run->all, &key, reterr);
  }
  if (status == STG_OK) {
    stg_key_hex(key, result->checksum);
    result->cost = stg_components_cost_of(run->job, &run->all);
    stg_engine_get_info(run->job->engine, &result->engine);
    status = find_way(run, result->engine.arch, false, &result->forward, reterr);
  }
  return status == STG_OK && run->job->workload.both
             ? find_way(run, result->engine.arch, true, &result->back, reterr)
             : status;
}

static stg_status work(struct run *run, const struct stg_run_options *options, bool *ret_ok,
                       struct stg_strbuf *ret_text, stg_error *reterr) {
  struct stg_components_result result = {
      .spec = options->spec,
      .job = run->job,
      .engine = {.struct_size = sizeof result.engine},
      .timed = !options->no_timing,
  };
  stg_status status = apply_once(run, reterr);
  if (status == STG_OK) {
    status = judge(run, &result, reterr);
  }
  if (status == STG_OK && result.timed) {
    status = measure(run, &result.times, reterr);
  }
  if (status == STG_OK && result.check.ok) {
    status = write_files(run, options, result.forward.graph.signature, reterr);
    result.output = options->output;
  }
  if (status != STG_OK) {
    return status;
  }
  if (options->json) {
    stg_components_report_json(&result, ret_text);
  } else {
    stg_components_report_text(&result, ret_text);
  }
  *ret_ok = result.check.ok;
  return STG_OK;
}

stg_status stg_components_run(struct stg_components_job *job, const struct stg_run_options *options,
                              bool *ret_ok, struct stg_strbuf *ret_text, stg_error *reterr) {
  struct run run = {.job = job};
  stg_status status = prepare(&run, reterr);
  if (status == STG_OK) {
    status = work(&run, options, ret_ok, ret_text, reterr);
  }
  run_finish(&run);
  return status;
}
