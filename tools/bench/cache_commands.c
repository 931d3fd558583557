/*
 * bench/cache_commands.c: the command's work on a folder of many entries, each time in a process of
 * its own, from its start to its end.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/clock.h"
#include "tools/bench/cache.h"
#include "tools/bench/child.h"

#define REPEATS 5
#define LS_TARGET_US 5e5

#define MAX_WORDS 8

struct command {
  const char *name;             /* of its row */
  const char *words[MAX_WORDS]; /* after "cache", before the folder */
  const char *before;           /* it must say this, `number` and " entries" */
  size_t number;
  double target_us; /* 0: none */
};

/* What processors did for the children that have ended: on a busy machine less than the time. */
static double children_cpu_us(void) {
  struct rusage usage = {0};
  getrusage(RUSAGE_CHILDREN, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* So that nothing else was timed. */
static stg_status check_output(const struct command *command, const struct stg_strbuf *output,
                               stg_error *reterr) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%s%zu entries", command->before, command->number);
  if (strstr(stg_strbuf_text(output), wanted) != NULL) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_CORRUPT, "bench cache: '%s' does not say '%s'", command->name,
                       wanted);
}

static stg_status time_command(const struct command *command, const char *folder, double *ret_us,
                               stg_error *reterr) {
  const char *words[MAX_WORDS + 4] = {"cache"};
  struct stg_child_running running;
  struct stg_strbuf output = {0};
  size_t n_words = 1;
  for (size_t i = 0; command->words[i] != NULL; i++) {
    words[n_words++] = command->words[i];
  }
  words[n_words++] = "--cache";
  words[n_words] = folder;
  const uint64_t from_ns = stg_clock_ns();
  stg_status status = stg_bench_child_start(words, &running, reterr);
  if (status == STG_OK) {
    status = stg_child_finish(&running, &output, reterr);
  }
  *ret_us = (double)(stg_clock_ns() - from_ns) * 1e-3;
  if (status == STG_OK) {
    status = check_output(command, &output, reterr);
  }
  stg_strbuf_finish(&output);
  return status;
}

static stg_status add_row(const struct stg_cache_suite *suite, const struct stg_cache_bed *bed,
                          const struct command *command, stg_error *reterr) {
  const size_t count = suite->quick ? 1 : REPEATS;
  double us[REPEATS];
  const double cpu_us = children_cpu_us();
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < count; i++) {
    status = time_command(command, bed->folder, &us[i], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row row = stg_cache_row(suite, command->name, us, count, command->target_us);
  stg_bench_row_extra(&row, "cpu_us", (children_cpu_us() - cpu_us) / (double)count);
  stg_bench_row_extra(&row, "entries", (double)bed->count);
  return stg_bench_report_add(suite->report, &row, reterr);
}

stg_status stg_cache_command_rows(const struct stg_cache_suite *suite,
                                  const struct stg_cache_bed *bed, stg_error *reterr) {
  char half[24];
  snprintf(half, sizeof half, "%zu", (bed->count + 1) / 2);
  const struct command commands[] = {
      {"cache ls", {"ls"}, "\n", bed->count, LS_TARGET_US},
      {"cache gc --dry-run, half of it",
       {"gc", "--dry-run", "--max-size", "none", "--max-entries", half},
       "would remove ",
       bed->count / 2,
       0},
      {"cache verify", {"verify"}, "", bed->count, 0},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < sizeof commands / sizeof commands[0]; i++) {
    status = add_row(suite, bed, &commands[i], reterr);
  }
  return status;
}
