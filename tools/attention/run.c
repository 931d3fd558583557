/*
 * attention/run.c: see run.h. One launch of the work, judged; then further ones, timed.
 *
 * A launch writes what it read nothing of, so that it can be done again on what it left, but for
 * lengths that grew, which are put back. Must not know what a part computes.
 */
#include "tools/attention/run.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/attention/bytes.h"
#include "tools/attention/output.h"
#include "tools/attention/run_report.h"
#include "tools/run_files.h"

/* A run in progress. Destroyed from the last member to the first. */
struct run {
  struct stg_attention_job *job;
  struct stg_attention_objects objects;
  struct stg_attention_tensors tensors;
  stg_kv_report refused;
  struct stg_arena arena; /* signatures */
  double *times_us;
};

static void run_finish(struct run *run) {
  stg_attention_objects_finish(run->job, &run->objects);
  stg_attention_tensors_finish(run->job, &run->tensors);
  stg_arena_finish(&run->arena);
  stg_free(run->times_us);
}

static struct stg_attention_done done_of(const struct run *run) {
  return (struct stg_attention_done){run->job, &run->objects, &run->tensors, &run->refused};
}

static stg_status prepare(struct run *run, stg_error *reterr) {
  struct stg_attention_job *job = run->job;
  stg_status status = stg_attention_tensors_check(job, reterr);
  if (status == STG_OK) {
    status = stg_attention_objects_init(job, &run->objects, reterr);
  }
  if (status == STG_OK) {
    status = stg_attention_tensors_init(job, &run->tensors, reterr);
  }
  if (status == STG_OK) {
    stg_attention_tensors_borrow(&run->tensors, &run->objects.cache);
    status = stg_attention_tensors_fill(job, &run->objects.cache, &run->tensors, reterr);
  }
  if (status == STG_OK) {
    status = stg_attention_tensors_upload(job, &run->tensors, reterr);
  }
  return status == STG_OK ? stg_attention_objects_step(job, &run->objects, &run->tensors, reterr)
                          : status;
}

/* Lengths as they were before the launch. */
static stg_status put_lengths_back(const struct run *run, stg_error *reterr) {
  return run->job->workload.advance ? stg_attention_tensor_upload(
                                          run->job, &run->tensors.of[STG_ATTENTION_LENGTHS], reterr)
                                    : STG_OK;
}

/* What a cache refused. That a row has no room is a result, and no failure of the run. */
static stg_status ask_refused(struct run *run, stg_error *reterr) {
  run->refused = (stg_kv_report){.struct_size = sizeof run->refused};
  if (run->objects.kv == NULL) {
    return STG_OK;
  }
  stg_stream stream = stg_mem_stream(run->job->engine);
  stg_status status = stg_kv_status(run->objects.kv, stream, &run->refused, reterr);
  return status == STG_E_KV_FULL || status == STG_E_BAD_SLOT ? STG_OK : status;
}

/* What attention gives before it is steered, which the launch does not leave: the same bits, as a
 * row's depend on its sequence, its position and the declared work alone. */
static stg_status attend_alone(struct run *run, stg_error *reterr) {
  struct stg_attention_job *job = run->job;
  if (!job->workload.steered) {
    return STG_OK;
  }
  stg_status status = put_lengths_back(run, reterr);
  if (status == STG_OK) {
    status = stg_attention_objects_attend(job, &run->objects, &run->tensors,
                                          stg_mem_stream(job->engine), reterr);
  }
  if (status == STG_OK) {
    status = stg_mem_synchronize(job->engine, reterr);
  }
  return status == STG_OK
             ? stg_attention_tensor_fetch(job, &run->tensors.of[STG_ATTENTION_UNSTEERED], reterr)
             : status;
}

static stg_status apply_once(struct run *run, stg_error *reterr) {
  struct stg_attention_job *job = run->job;
  stg_status status = stg_attention_objects_apply(job, &run->objects, &run->tensors,
                                                  stg_mem_stream(job->engine), reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(job->engine, reterr);
  }
  if (status == STG_OK) {
    status = stg_attention_tensors_fetch(job, &run->tensors, reterr);
  }
  if (status == STG_OK) {
    status = ask_refused(run, reterr);
  }
  return status == STG_OK ? attend_alone(run, reterr) : status;
}

static stg_status apply_again(void *user, stg_stream stream, stg_error *reterr) {
  const struct run *run = user;
  return stg_attention_objects_apply(run->job, &run->objects, &run->tensors, stream, reterr);
}

/* One by one, as lengths may have to be put back between them. */
static stg_status measure(struct run *run, struct stg_times *ret_times, stg_error *reterr) {
  const struct stg_attention_workload *w = &run->job->workload;
  const size_t count = w->repeats;
  run->times_us = stg_calloc(count, sizeof *run->times_us);
  if (run->times_us == NULL) {
    return stg_error_memory(reterr, "the measured times", count * sizeof *run->times_us);
  }
  stg_status status = STG_OK;
  double unused_us = 0;
  for (size_t i = 0; i < w->warmup + count && status == STG_OK; i++) {
    status = put_lengths_back(run, reterr);
    if (status == STG_OK) {
      double *time = i < w->warmup ? &unused_us : &run->times_us[i - w->warmup];
      status = stg_mem_time_work(run->job->engine, apply_again, run, 0, 1, time, reterr);
    }
  }
  if (status == STG_OK) {
    *ret_times = stg_times_of(run->times_us, count);
  }
  return status;
}

/* Which kernels did it, and where they came from. */
static stg_status find_kernels(struct run *run, const stg_engine_info *info,
                               struct stg_attention_result *result, stg_error *reterr) {
  const struct stg_attention_job *job = run->job;
  const struct stg_declared *declared = NULL;
  const struct stg_batch_sizes sizes = stg_attention_job_sizes(job);
  stg_status status = stg_attention_job_declare(job, &run->arena, &declared, reterr);
  if (status == STG_OK) {
    status = stg_explain_graph(job->engine, declared, info->arch, &sizes, &run->arena,
                               &result->graph, reterr);
  }
  for (size_t i = 0; i < result->graph.n_kernels && status == STG_OK; i++) {
    struct stg_attention_kernel *kernel = &result->kernels[i];
    const size_t index = result->graph.kernels[i];
    kernel->family = stg_declared_family(declared, index);
    status = stg_explain_kernel(job->engine, declared, index, info->arch, &run->arena,
                                &kernel->text, reterr);
    if (status == STG_OK) {
      status = stg_declared_made(job->engine, declared, index, &kernel->made, reterr);
    }
  }
  return status;
}

static stg_status write_files(const struct run *run, const struct stg_run_options *options,
                              const char *signature, stg_error *reterr) {
  const struct stg_attention_done done = done_of(run);
  stg_status status = STG_OK;
  if (options->output != NULL) {
    status = stg_attention_output_write(&done, options->output, signature, reterr);
  }
  if (status == STG_OK && options->traffic != NULL) {
    status = stg_run_save_traffic(run->job->engine, options->traffic, reterr);
  }
  return status;
}

/* Judge what one launch left. */
static stg_status judge(struct run *run, struct stg_attention_result *result, stg_error *reterr) {
  const struct stg_attention_done done = done_of(run);
  struct stg_key key;
  stg_status status = stg_attention_check(&done, &result->check, reterr);
  if (status == STG_OK) {
    status = stg_attention_bytes(&done, &result->bytes, reterr);
  }
  if (status == STG_OK) {
    status = stg_attention_output_key(&done, &key, reterr);
  }
  if (status == STG_OK) {
    stg_key_hex(key, result->checksum);
  }
  return status;
}

static stg_status work(struct run *run, const struct stg_run_options *options, bool *ret_ok,
                       struct stg_strbuf *ret_text, stg_error *reterr) {
  struct stg_attention_result result = {
      .spec = options->spec,
      .job = run->job,
      .done = done_of(run),
      .engine = {.struct_size = sizeof result.engine},
      .timed = !options->no_timing && run->job->workload.repeats > 0,
  };
  stg_status status = apply_once(run, reterr);
  if (status == STG_OK) {
    status = judge(run, &result, reterr);
  }
  stg_engine_get_info(run->job->engine, &result.engine);
  if (status == STG_OK) {
    status = find_kernels(run, &result.engine, &result, reterr);
  }
  if (status == STG_OK && result.timed) {
    status = measure(run, &result.times, reterr);
  }
  if (status == STG_OK && result.check.ok) {
    status = write_files(run, options, result.graph.signature, reterr);
    result.output = options->output;
  }
  if (status != STG_OK) {
    return status;
  }
  if (options->json) {
    stg_attention_report_json(&result, ret_text);
  } else {
    stg_attention_report_text(&result, ret_text);
  }
  *ret_ok = result.check.ok;
  return STG_OK;
}

stg_status stg_attention_run(struct stg_attention_job *job, const struct stg_run_options *options,
                             bool *ret_ok, struct stg_strbuf *ret_text, stg_error *reterr) {
  struct run run = {.job = job};
  stg_status status = prepare(&run, reterr);
  if (status == STG_OK) {
    status = work(&run, options, ret_ok, ret_text, reterr);
  }
  run_finish(&run);
  return status;
}
