/*
 * bench/show.c: see show.h. Must not know whether the rows were measured now or earlier.
 */
#include "tools/bench/show.h"

#include "runtime/base/interrupt.h"
#include "tools/bench/suite.h"
#include "tools/command.h"
#include "tools/report.h"

static int print_rows(const struct stg_bench_report *report,
                      const struct stg_bench_machine *machine, bool as_json) {
  struct stg_strbuf text = {0};
  if (as_json) {
    stg_bench_report_json(report, machine, &text);
  } else {
    stg_bench_report_print(report, machine, &text);
  }
  int code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  return code;
}

static int write_plot(const struct stg_bench_report *report,
                      const struct stg_bench_machine *machine, const char *path) {
  struct stg_interrupt_hold hold;
  stg_error err = STG_ERROR_INIT;
  stg_interrupt_hold(&hold);
  stg_status status = stg_bench_plot_write(report, machine, path, &err);
  stg_interrupt_release(&hold);
  return status == STG_OK ? STG_EXIT_DONE : stg_report_fail(&err);
}

int stg_bench_show(const struct stg_bench_report *report, const struct stg_bench_machine *machine,
                   bool as_json, const char *plot) {
  int code = print_rows(report, machine, as_json);
  if (code == STG_EXIT_DONE && plot != NULL) {
    code = write_plot(report, machine, plot);
  }
  return code;
}
