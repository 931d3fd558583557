/*
 * bench/cmd_bench_show.c: `steergraph bench show`: rows of an earlier run, given out as that run
 * gave them. Runs no suite and asks no driver.
 */
#include "tools/bench/cmd_bench_show.h"

#include "tools/bench/recorded.h"
#include "tools/bench/show.h"
#include "tools/bench/suite.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"

static int show_file(const char *path, bool as_json, const char *plot) {
  struct stg_bench_report report = {0};
  struct stg_bench_machine machine = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = plot != NULL ? stg_bench_plot_check(plot, &err) : STG_OK;
  if (status == STG_OK && plot != NULL) {
    status = stg_run_output_check_file(path, "--plot", plot, &err);
  }
  if (status == STG_OK) {
    status = stg_bench_recorded_load(path, &report, &machine, &err);
  }
  int code =
      status == STG_OK ? stg_bench_show(&report, &machine, as_json, plot) : stg_report_fail(&err);
  stg_bench_report_finish(&report);
  return code;
}

int stg_cmd_bench_show(int argc, char **argv) {
  bool json = false;
  const char *plot = NULL;
  const struct stg_option table[] = {
      {"--json", NULL, "print one JSON array of rows", NULL, &json},
      {"--plot", "FILE.svg",
       "draw the rows of steer, decode, rope, attend, prove, components and warmup", &plot, NULL},
  };
  const struct stg_grammar grammar = {
      .name = "bench show",
      .words = "FILE.json",
      .summary = "print or draw the rows of an earlier run; needs no GPU",
      .details = "FILE.json is what `bench SUITE --json` printed, or a file of "
                 "tools/bench/results.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &words, &code) == STG_PARSED_OK) {
    code = show_file(argv[1], json, plot);
  }
  return code;
}
