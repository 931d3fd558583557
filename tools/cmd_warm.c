/*
 * cmd_warm.c: `steergraph warm`: make the kernels and graphs of manifests here, and say how long it
 * took: what a service does at its start, and what fills the cache folder that it starts from.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/warm.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/json.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/workload_job.h"

#define MAX_DEADLINE_S 4000000.0 /* of milliseconds in 32 bits */
#define MAX_THREADS 64
#define MAX_LINES 100 /* of progress, where no terminal is */

/* A call of the command. */
struct warming {
  char **files;
  size_t n_files;
  stg_engine *engine;
  stg_warm_report *reports; /* of files */
  uint32_t deadline_ms;     /* 0: none */
  uint32_t threads;
  double ms; /* of the files so far */
};

/* A manifest may have tens of thousands of signatures, and a log need not have them all. */
static bool is_skipped(const stg_warm_progress *progress) {
  const size_t done = progress->done;
  return done > 0 && progress->total > MAX_LINES && !stg_report_is_live() &&
         done * MAX_LINES / progress->total == (done - 1) * MAX_LINES / progress->total;
}

static bool show_progress(void *user, const stg_warm_progress *progress) {
  const char *file = user;
  const char *current = progress->current;
  if (current == NULL) {
    stg_report_live_end();
  } else if (is_skipped(progress)) {
    return true;
  } else if (progress->eta_s < 0) {
    stg_report_live("[%zu/%zu] %s: %s", progress->done + 1, progress->total, file, current);
  } else {
    stg_report_live("[%zu/%zu] %.1f s left, %s: %s", progress->done + 1, progress->total,
                    progress->eta_s, file, current);
  }
  return true;
}

/* What can be wrong with any file is found before the first is warmed. */
static stg_status check_files(const struct warming *warming, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < warming->n_files && status == STG_OK; i++) {
    struct stg_arena arena = {0};
    const struct stg_declared *const *declared = NULL;
    size_t n_declared = 0;
    status = stg_offline_read_manifest(warming->engine, warming->files[i], &arena, &declared,
                                       &n_declared, reterr);
    stg_arena_finish(&arena);
    /* more declarations than one manifest may have, but each of them right: some will be left */
    status = status == STG_E_CAPACITY ? STG_OK : status;
  }
  return status;
}

/* What is left of the deadline: at least 1 ms, in which nothing is begun that takes longer. */
static uint32_t rest_of_deadline(const struct warming *warming) {
  const double rest = warming->deadline_ms - warming->ms;
  return warming->deadline_ms == 0 ? 0 : rest < 1 ? 1 : (uint32_t)rest;
}

static stg_status warm_file(struct warming *warming, size_t index, stg_error *reterr) {
  char *text = NULL;
  size_t size = 0;
  char *file = warming->files[index];
  stg_warm_report *report = &warming->reports[index];
  const stg_warm_desc desc = {
      .struct_size = sizeof desc,
      .deadline_ms = rest_of_deadline(warming),
      .threads = warming->threads,
      .progress = show_progress,
      .user = file,
  };
  *report = (stg_warm_report){.struct_size = sizeof *report};
  stg_status status = stg_file_read(file, STG_JSON_MAX_BYTES, &text, &size, reterr);
  if (status == STG_OK) {
    status = stg_warm(warming->engine, file, text, size, &desc, report, reterr);
    stg_report_live_end();
  }
  stg_free(text);
  warming->ms += report->ms;
  return status;
}

static void report_json(const struct warming *warming, bool ok, struct stg_strbuf *out) {
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(warming->engine, &info);
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "backend", info.backend == STG_BACKEND_CUDA ? "cuda" : "cpu");
  stg_json_out_text(&json, "reason", info.reason);
  stg_json_out_text(&json, "device", info.device);
  stg_json_out_text(&json, "arch", info.arch);
  stg_json_out_open(&json, "manifests", '[');
  for (size_t i = 0; i < warming->n_files; i++) {
    const stg_warm_report *report = &warming->reports[i];
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "file", warming->files[i]);
    stg_json_out_count(&json, "total", report->total);
    stg_json_out_count(&json, "done", report->done);
    stg_json_out_count(&json, "failed", report->failed);
    stg_json_out_count(&json, "left", report->left);
    stg_json_out_count(&json, "kernels_memory", report->kernels_memory);
    stg_json_out_count(&json, "kernels_disk", report->kernels_disk);
    stg_json_out_count(&json, "kernels_compiled", report->kernels_compiled);
    stg_json_out_count(&json, "kernels_failed", report->kernels_failed);
    stg_json_out_count(&json, "graphs", report->graphs);
    stg_json_out_count(&json, "regions", report->regions);
    stg_json_out_number(&json, "ms", report->ms);
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_bool(&json, "ok", ok);
  stg_json_out_number(&json, "ms", warming->ms);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void report_text(const struct warming *warming, struct stg_strbuf *out) {
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(warming->engine, &info);
  stg_report_clean(out, info.reason);
  stg_strbuf_char(out, '\n');
  for (size_t i = 0; i < warming->n_files; i++) {
    const stg_warm_report *report = &warming->reports[i];
    stg_report_clean(out, warming->files[i]);
    stg_strbuf_printf(out, ": %zu signatures: %zu ready, %zu failed, %zu left\n", report->total,
                      report->done, report->failed, report->left);
    if (info.backend == STG_BACKEND_CUDA) {
      stg_strbuf_printf(out,
                        "  kernels    %zu compiled, %zu from disk, %zu in memory, %zu failed\n"
                        "  graphs     %zu made\n",
                        report->kernels_compiled, report->kernels_disk, report->kernels_memory,
                        report->kernels_failed, report->graphs);
    } else {
      stg_strbuf_str(out, "  kernels    none: the CPU has nothing to compile; for GPUs that are "
                          "elsewhere use 'steergraph build --arch'\n");
    }
    if (report->regions > 0) {
      stg_strbuf_printf(out, "  regions    %zu passed over: their host records them\n",
                        report->regions);
    }
    stg_strbuf_printf(out, "  time       %.1f ms\n", report->ms);
  }
}

/* A report with failures, for who reads stderr alone. */
static int refuse_result(size_t failed) {
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_COMPILE,
                "%zu signatures have kernels that cannot be made; the warnings say why", failed);
  return stg_report_fail(&err);
}

static int warm_files(struct warming *warming, const struct stg_job_options *options, bool json) {
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  size_t failed = 0;
  warming->reports = stg_calloc(warming->n_files, sizeof *warming->reports);
  stg_status status = warming->reports != NULL
                          ? stg_job_open_engine(options, &warming->engine, &err)
                          : stg_error_memory(&err, "reports", warming->n_files);
  if (status == STG_OK) {
    status = check_files(warming, &err);
  }
  for (size_t i = 0; i < warming->n_files && status == STG_OK; i++) {
    status = warm_file(warming, i, &err);
    failed += warming->reports[i].failed;
  }
  if (status == STG_OK && json) {
    report_json(warming, failed == 0, &text);
  } else if (status == STG_OK) {
    report_text(warming, &text);
  }
  stg_job_close_engine(warming->engine);
  stg_free(warming->reports);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code == STG_EXIT_DONE && failed > 0 ? refuse_result(failed) : code;
}

/* Seconds as "1.5"; 0 where none were given. */
static int parse_deadline(const char *text, uint32_t *ret_ms) {
  if (text == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t len = strspn(text, "0123456789.");
  char *end = NULL;
  const double seconds = strtod(text, &end);
  if (text[len] != '\0' || *end != '\0' || !(seconds > 0) || seconds > MAX_DEADLINE_S) {
    return stg_report_wrong(
        "warm",
        "--deadline '%s': must be seconds above 0 and up to %.0f, such as 30 or "
        "0.5",
        text, MAX_DEADLINE_S);
  }
  *ret_ms = (uint32_t)ceil(seconds * 1000);
  return STG_EXIT_DONE;
}

static int parse_threads(const char *text, uint32_t *ret_threads) {
  if (text == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t len = strspn(text, "0123456789");
  const unsigned long threads = len > 0 && len < 4 ? strtoul(text, NULL, 10) : 0;
  if (text[len] != '\0' || threads < 1 || threads > MAX_THREADS) {
    return stg_report_wrong("warm", "--threads '%s': must be a number from 1 to %d", text,
                            MAX_THREADS);
  }
  *ret_threads = (uint32_t)threads;
  return STG_EXIT_DONE;
}

int stg_cmd_warm(int argc, char **argv) {
  struct stg_job_options job = {0};
  struct warming warming = {0};
  const char *backend = NULL;
  const char *deadline = NULL;
  const char *threads = NULL;
  bool json = false;
  const struct stg_option table[] = {
      {"--backend", "auto|cpu|cuda", "where to warm (default auto)", &backend, NULL},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &job.cache_path, NULL},
      {"--deadline", "SECONDS", "end there, with what is ready then", &deadline, NULL},
      {"--threads", "N", "kernels that are compiled at once", &threads, NULL},
      {"--json", NULL, "print one JSON object", NULL, &json},
  };
  const struct stg_grammar grammar = {
      .name = "warm",
      .words = "MANIFEST...",
      .summary = "Make the kernels and graphs of manifests, most used first.",
      .details = "Kernels that no cache has are compiled and stored, so that a service that starts "
                 "with this\ncache compiles nothing. Exits 1 when a kernel cannot be made; past "
                 "the deadline with 0.",
      .min_words = 1,
      .max_words = 4096,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &warming.n_files, &code) != STG_PARSED_OK) {
    return code;
  }
  code = parse_deadline(deadline, &warming.deadline_ms);
  if (code == STG_EXIT_DONE) {
    code = parse_threads(threads, &warming.threads);
  }
  if (code != STG_EXIT_DONE) {
    return code;
  }
  job.backend = stg_job_backend(backend);
  job.compile_threads = warming.threads;
  warming.files = argv + 1;
  return warm_files(&warming, &job, json);
}
