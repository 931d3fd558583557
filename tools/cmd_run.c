/*
 * cmd_run.c: `steergraph run`: the words, and which files may be written. What is done with the
 * workload its family knows.
 */
#include <string.h>

#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/job_kind.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"

/* What a report with "ok": false means, for who reads stderr alone. */
static int refuse_result(const char *spec) {
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_CORRUPT, "%s: the result is not what the oracle allows; see the report",
                spec);
  return stg_report_fail(&err);
}

/* Not over a pack or an entry of the cache either, where there is one. */
static stg_status check_output(const struct stg_any_job *job, const struct stg_run_options *options,
                               const char *option, const char *path, stg_error *reterr) {
  const char *list = NULL;
  stg_status status = job->kind->check_output(job->of, option, path, reterr);
  if (status == STG_OK && stg_cache_folder_find(options->job.cache_path, &list, NULL) == STG_OK) {
    status = stg_run_output_check_cache(list, option, path, reterr);
  }
  return status;
}

/* What is written must not replace what is read, nor each other. */
static stg_status check_files(const struct stg_any_job *job, const struct stg_run_options *options,
                              stg_error *reterr) {
  stg_status status = STG_OK;
  if (options->output != NULL) {
    status = check_output(job, options, "--output", options->output, reterr);
  }
  if (status == STG_OK && options->traffic != NULL) {
    status = check_output(job, options, "--save-traffic", options->traffic, reterr);
  }
  const struct stg_run_output pair[] = {{"--output", options->output},
                                        {"--save-traffic", options->traffic}};
  if (status == STG_OK) {
    status = stg_run_output_check_pair(job->kind->file(job->of), pair, reterr);
  }
  return status;
}

static int run_workload(const struct stg_run_options *options) {
  struct stg_any_job job = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  bool ok = false;
  stg_status status = stg_any_job_open(options->spec, &options->job, &job, &err);
  if (status == STG_OK) {
    status = check_files(&job, options, &err);
  }
  if (status == STG_OK) {
    status = job.kind->run(job.of, options, &ok, &text, &err);
  }
  stg_any_job_close(&job);
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
  struct stg_run_options options = {0};
  const char *backend = NULL;
  const char *launch = NULL;
  const char *declare = NULL;
  const struct stg_option table[] = {
      {"--backend", "auto|cpu|cuda", "where to run (default auto)", &backend, NULL},
      {"--output", "FILE", "write the results as safetensors", &options.output, NULL},
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
