/*
 * cmd_run.c: `steergraph run`: apply a workload once, judge the result, time it, report.
 *
 * The checked output comes from one apply on the input as the workload gives it; the time from
 * further applies on a copy. Must not know what any op does.
 */
#include <string.h>

#include <steergraph/warm.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"
#include "specs/vector_file.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/job_table.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"
#include "tools/run_report.h"
#include "tools/run_tensors.h"

struct run_options {
  const char *spec;
  const char *output;
  const char *traffic;
  bool json;
  bool no_timing;
  struct stg_job_options job;
};

/* A run in progress. Destroyed from the last member to the first. */
struct run {
  struct stg_job job;
  bool job_open;
  struct stg_job_table table;
  struct stg_run_tensors tensors;
  double *times_us;
};

static void run_finish(struct run *run) {
  if (!run->job_open) {
    return;
  }
  stg_run_tensors_finish(&run->job, &run->tensors);
  stg_job_table_finish(&run->job, &run->table);
  stg_job_close(&run->job);
  stg_free(run->times_us);
}

static stg_status apply_once(struct run *run, stg_device_report *ret_device, stg_error *reterr) {
  stg_engine *engine = run->job.engine;
  const stg_apply apply = stg_run_tensors_apply(&run->job, &run->tensors);
  stg_status status = stg_steer_apply(run->table.frame, &apply, stg_mem_stream(engine), reterr);
  if (status == STG_OK) {
    status = stg_mem_synchronize(engine, reterr);
  }
  if (status == STG_OK) {
    status = stg_run_tensors_fetch(&run->job, &run->tensors, reterr);
  }
  if (status == STG_OK) {
    *ret_device = (stg_device_report){.struct_size = sizeof *ret_device};
    status = stg_device_status(run->table.steer, stg_mem_stream(engine), ret_device, reterr);
  }
  return status;
}

static stg_status check_rows(const struct run *run, struct stg_oracle_report *ret_check,
                             stg_error *reterr) {
  struct stg_oracle_batch batch = stg_run_tensors_batch(&run->job, &run->tensors);
  batch.row_chain = run->table.slots.oracle_map;
  batch.chains = run->table.slots.oracle;
  return stg_oracle_check(&batch, ret_check, reterr);
}

static stg_status measure(struct run *run, struct stg_times *ret_times, stg_error *reterr) {
  const struct stg_workload *w = &run->job.workload;
  size_t count = w->repeats;
  run->times_us = stg_calloc(count, sizeof *run->times_us);
  if (run->times_us == NULL) {
    return stg_error_memory(reterr, "the measured times", count * sizeof *run->times_us);
  }
  stg_status status = stg_run_tensors_reset(&run->job, &run->tensors, reterr);
  if (status == STG_OK) {
    const stg_apply apply = stg_run_tensors_apply(&run->job, &run->tensors);
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
  const struct stg_workload *w = &run->job.workload;
  struct stg_tensor_out tensors[3] = {
      {"hidden", w->dtype, 2, {w->rows, w->hidden_size}, run->tensors.after},
  };
  size_t count = 1;
  if (w->pair) {
    tensors[count++] = (struct stg_tensor_out){
        "residual", w->dtype, 2, {w->rows, w->hidden_size}, run->tensors.residual_after};
  }
  if (run->job.desc.probes > 0) {
    tensors[count++] = (struct stg_tensor_out){
        "probes", STG_F32, 2, {w->rows, run->job.desc.probes}, run->tensors.probes_after};
  }
  const char *const metadata[] = {"signature", signature};
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_safetensors_write(path, tensors, count, metadata, 1, reterr);
  stg_interrupt_release(&hold);
  return status;
}

static stg_status save_traffic(const struct run *run, const char *path, stg_error *reterr) {
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_traffic_save(run->job.engine, path, reterr);
  stg_interrupt_release(&hold);
  return status;
}

static stg_status write_files(const struct run *run, const struct run_options *options,
                              const char *signature, stg_error *reterr) {
  stg_status status = STG_OK;
  if (options->output != NULL) {
    status = write_output(run, options->output, signature, reterr);
  }
  if (status == STG_OK && options->traffic != NULL) {
    status = save_traffic(run, options->traffic, reterr);
  }
  return status;
}

/* Apply, judge, time, and turn the outcome into text while everything it borrows is alive. */
static stg_status work(struct run *run, const struct run_options *options, bool *ret_ok,
                       struct stg_strbuf *ret_text, stg_error *reterr) {
  struct stg_run_result result = {.spec = options->spec,
                                  .job = &run->job,
                                  .engine = {.struct_size = sizeof result.engine},
                                  .plan = {.struct_size = sizeof result.plan},
                                  .timed = !options->no_timing && run->job.workload.repeats > 0};
  char checksum[STG_KEY_HEX_CHARS + 1];
  stg_status status = apply_once(run, &result.device, reterr);
  if (status == STG_OK) {
    status = stg_run_tensors_bystanders(&run->job, &run->tensors, reterr);
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
    stg_run_tensors_pack(&run->job, &run->tensors);
    status = stg_run_tensors_key(&run->job, &run->tensors, &key, reterr);
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
  stg_engine_get_info(run->job.engine, &result.engine);
  if (options->json) {
    stg_run_report_json(&result, ret_text);
  } else {
    stg_run_report_text(&result, ret_text);
  }
  *ret_ok = result.ok;
  return STG_OK;
}

/* What a report with "ok": false means, for who reads stderr alone. */
static int refuse_result(const char *spec) {
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_CORRUPT, "%s: the result is not what the oracle allows; see the report",
                spec);
  return stg_report_fail(&err);
}

/* Not over a pack or an entry of the cache either, where there is one. */
static stg_status check_output(const struct run *run, const struct run_options *options,
                               const char *option, const char *path, stg_error *reterr) {
  const char *list = NULL;
  stg_status status = stg_run_output_check(&run->job.workload, option, path, reterr);
  if (status == STG_OK && stg_cache_folder_find(options->job.cache_path, &list, NULL) == STG_OK) {
    status = stg_run_output_check_cache(list, option, path, reterr);
  }
  return status;
}

/* What is written must not replace what is read, nor each other. */
static stg_status check_files(const struct run *run, const struct run_options *options,
                              stg_error *reterr) {
  const struct stg_workload *w = &run->job.workload;
  stg_status status = STG_OK;
  if (options->output != NULL) {
    status = check_output(run, options, "--output", options->output, reterr);
  }
  if (status == STG_OK && options->traffic != NULL) {
    status = check_output(run, options, "--save-traffic", options->traffic, reterr);
  }
  if (status == STG_OK && options->output != NULL && options->traffic != NULL &&
      strcmp(options->output, options->traffic) == 0) {
    status = stg_error_set(reterr, STG_E_INVALID,
                           "%s: --output and --save-traffic are both '%s'; name two files", w->file,
                           options->output);
  }
  return status;
}

static int run_workload(const struct run_options *options) {
  struct run run = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  bool ok = false;
  stg_status status = stg_job_open(options->spec, &options->job, &run.job, &err);
  if (status == STG_OK) {
    run.job_open = true;
    status = check_files(&run, options, &err);
  }
  if (status == STG_OK) {
    status = stg_run_tensors_check(&run.job, &err);
  }
  if (status == STG_OK) {
    status = stg_job_table_init(&run.job, &run.table, &err);
  }
  if (status == STG_OK) {
    status = stg_run_tensors_init(&run.job, &run.tensors, &err);
  }
  if (status == STG_OK) {
    status = work(&run, options, &ok, &text, &err);
  }
  run_finish(&run);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code == STG_EXIT_DONE && !ok ? refuse_result(options->spec) : code;
}

static stg_launch_mode parse_launch(const char *text) {
  if (text == NULL) {
    return STG_LAUNCH_DEFAULT;
  }
  return strcmp(text, "graph") == 0 ? STG_LAUNCH_GRAPH : STG_LAUNCH_PLAIN;
}

int stg_cmd_run(int argc, char **argv) {
  struct run_options options = {0};
  const char *backend = NULL;
  const char *launch = NULL;
  const char *declare = NULL;
  const struct stg_option table[] = {
      {"--backend", "auto|cpu|cuda", "where to run (default auto)", &backend, NULL},
      {"--output", "FILE", "write the steered rows as safetensors", &options.output, NULL},
      {"--save-traffic", "FILE", "write the manifest of this run, for warm and build",
       &options.traffic, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.job.cache_path, NULL},
      {"--launch", "graph|plain", "how kernels are launched (default graph)", &launch, NULL},
      {"--declare", "all|used", "ops that the kernel is built for (default all)", &declare, NULL},
      {"--allow-outside", NULL, "let paths of the spec leave its folder", NULL,
       &options.job.allow_outside},
      {"--no-timing", NULL, "check only", NULL, &options.no_timing},
  };
  const struct stg_grammar grammar = {
      .name = "run",
      .words = "SPEC",
      .summary = "Apply a workload once, check every row against the float64 oracle, time it.",
      .details = "Exits 1, and writes no output file, when any element is beyond its bound.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.spec = argv[1];
  options.job.backend = stg_job_backend(backend);
  options.job.launch = parse_launch(launch);
  options.job.declare_used = declare != NULL && strcmp(declare, "used") == 0;
  return run_workload(&options);
}
