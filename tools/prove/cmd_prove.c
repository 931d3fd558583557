/*
 * prove/cmd_prove.c: `steergraph prove`: the words, and which file may be written.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/prove/trace.h"
#include "tools/report.h"
#include "tools/run_output.h"

#define MAX_DIGITS 9
#define MOST 999999999
#define MAX_THREADS 1024
#define SAMPLE 100 /* candidates that the reference judges unless told */

/* What a report with "ok": false means, for who reads stderr alone. */
static int refuse_result(const char *spec, enum stg_prove_fault fault) {
  stg_error err = STG_ERROR_INIT;
  if (fault == STG_PROVE_FAULT_OVERFLOW) {
    stg_error_set(&err, STG_E_NON_FINITE,
                  "%s: the policy leaves the range of float32, so that proofs mean nothing; scale "
                  "its weights down",
                  spec);
  } else {
    stg_error_set(&err, STG_E_CORRUPT,
                  "%s: the proofs are not what the oracle allows; see the report", spec);
  }
  return stg_report_fail(&err);
}

/* Not over a pack or an entry of the cache either, where there is one. */
static stg_status check_output(const struct stg_prove_job *job,
                               const struct stg_prove_options *options, const char *option,
                               const char *path, stg_error *reterr) {
  const char *list = NULL;
  stg_status status = stg_prove_job_check_output(job, option, path, reterr);
  if (status == STG_OK && stg_cache_folder_find(options->job.cache_path, &list, NULL) == STG_OK) {
    status = stg_run_output_check_cache(list, option, path, reterr);
  }
  return status;
}

/* What is written must not replace what is read, nor each other. */
static stg_status check_files(const struct stg_prove_job *job,
                              const struct stg_prove_options *options, stg_error *reterr) {
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
    status = stg_run_output_check_pair(job->workload.file, pair, reterr);
  }
  return status;
}

/* A word that the grammar has checked; NULL leaves it as it is. */
static void set_arithmetic(const char *word, struct stg_prover_workload *workload) {
  if (word != NULL) {
    workload->arithmetic = strcmp(word, "f32") == 0      ? STG_PROVER_F32
                           : strcmp(word, "tf32x3") == 0 ? STG_PROVER_TF32X3
                                                         : STG_PROVER_TF32;
  }
}

static stg_status open_job(const struct stg_prove_options *options, struct stg_prove_job *ret_job,
                           stg_error *reterr) {
  const struct stg_workload_options reader = {.allow_outside = options->job.allow_outside};
  struct stg_spec spec;
  stg_status status = stg_spec_load(options->spec, &reader, &spec, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (spec.kind == STG_SPEC_PROVER) {
    set_arithmetic(options->arithmetic, &spec.of.prover);
    return stg_prove_job_open(&spec.of.prover, &options->job, ret_job, reterr);
  }
  status = stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "%s: family: 'prove' serves workloads of 'prover', found '%s'; use "
                         "'steergraph run'",
                         options->spec, stg_spec_kind_name(spec.kind));
  stg_spec_finish(&spec);
  return status;
}

static int prove_workload(const struct stg_prove_options *options) {
  struct stg_prove_job job;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  enum stg_prove_fault fault = STG_PROVE_NO_FAULT;
  if (open_job(options, &job, &err) != STG_OK) {
    return stg_report_fail(&err);
  }
  stg_status status = check_files(&job, options, &err);
  if (status == STG_OK && options->trace != NULL) {
    status = stg_prove_trace(&job, options, &fault, &text, &err);
  } else if (status == STG_OK) {
    status = stg_prove_all(&job, options, &fault, &text, &err);
  }
  stg_prove_job_close(&job);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code == STG_EXIT_DONE && fault != STG_PROVE_NO_FAULT ? refuse_result(options->spec, fault)
                                                              : code;
}

struct counted {
  const char *option, *word; /* NULL leaves the number as it is */
  size_t least, most;
  const char *or_else; /* what the word may be beside a number, for its message */
};

static int read_count(const struct counted *of, size_t *ret_count) {
  const char *word = of->word;
  if (word == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t digits = strspn(word, "0123456789");
  const bool is_number = digits > 0 && digits <= MAX_DIGITS && word[digits] == '\0';
  const size_t count = is_number ? (size_t)strtoul(word, NULL, 10) : 0;
  if (!is_number || count < of->least || count > of->most) {
    return stg_report_wrong("prove", "%s '%s': expected a number from %zu to %zu%s", of->option,
                            word, of->least, of->most, of->or_else);
  }
  *ret_count = count;
  return STG_EXIT_DONE;
}

static size_t processors(void) {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (size_t)count;
}

/* The words that are numbers. */
static int read_counts(const char *limit, const char *check, const char *threads_word,
                       struct stg_prove_options *options) {
  size_t threads = processors();
  options->limit = SIZE_MAX;
  options->check = SAMPLE;
  const struct counted limited = {"--limit", limit, 1, MOST, ""};
  const struct counted checked = {"--check", check, 0, MOST, ", or 'all'"};
  const struct counted threaded = {"--threads", threads_word, 1, MAX_THREADS, ""};
  int code = read_count(&limited, &options->limit);
  if (code == STG_EXIT_DONE && check != NULL && strcmp(check, "all") == 0) {
    options->check = SIZE_MAX;
  } else if (code == STG_EXIT_DONE) {
    code = read_count(&checked, &options->check);
  }
  if (code == STG_EXIT_DONE) {
    code = read_count(&threaded, &threads);
  }
  options->threads = (uint32_t)threads;
  return code;
}

int stg_cmd_prove(int argc, char **argv) {
  struct stg_prove_options options = {0};
  const char *backend = NULL;
  const char *arithmetic = NULL;
  const char *limit = NULL;
  const char *check = NULL;
  const char *threads = NULL;
  const struct stg_option table[] = {
      {"--backend", "auto|cpu|cuda", "where to search (default auto)", &backend, NULL},
      {"--arithmetic", "f32|tf32x3|tf32", "how CUDA makes products (default: as the spec has it)",
       &arithmetic, NULL},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &options.job.cache_path, NULL},
      {"--limit", "N", "the first N queries alone, and their corruptions", &limit, NULL},
      {"--check", "N", "candidates that the oracle judges, or 'all' (default 100)", &check, NULL},
      {"--threads", "N", "threads of the CPU (default: one for each processor)", &threads, NULL},
      {"--trace", "QUERY", "show the way of one query, as 'aunt(ann, bob)', instead of all",
       &options.trace, NULL},
      {"--output", "FILE", "write logp, depths, outcomes and ranks as safetensors", &options.output,
       NULL},
      {"--save-traffic", "FILE", "write the manifest of this run, for warm and build",
       &options.traffic, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
      {"--allow-outside", NULL, "let paths of the spec leave its folder", NULL,
       &options.job.allow_outside},
      {"--no-timing", NULL, "search once, and report no times", NULL, &options.no_timing},
  };
  const struct stg_grammar grammar = {
      .name = "prove",
      .words = "SPEC",
      .summary = "Search for proofs of queries and of corruptions of them, and rank the queries.",
      .details = "The float64 oracle goes the ways of some of them; exits 1, and writes no output "
                 "file, when it\nwould have gone another way.",
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
  if (options.trace != NULL && (options.output != NULL || options.traffic != NULL)) {
    return stg_report_wrong("prove",
                            "--trace shows one query, and %s writes what all did; give one",
                            options.output != NULL ? "--output" : "--save-traffic");
  }
  code = read_counts(limit, check, threads, &options);
  if (code != STG_EXIT_DONE) {
    return code;
  }
  options.spec = argv[1];
  options.job.backend = stg_job_backend(backend);
  options.arithmetic = arithmetic;
  return prove_workload(&options);
}
