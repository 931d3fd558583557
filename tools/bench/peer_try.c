/*
 * bench/peer_try.c: see peer_try.h.
 */
#include "tools/bench/peer_try.h"

#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "runtime/base/strbuf.h"
#include "tools/report.h"

static stg_status add_row(const struct stg_peer_call *call, struct stg_bench_report *report,
                          stg_error *reterr) {
  struct stg_strbuf name = {0};
  stg_strbuf_printf(&name, "peer %s failed", stg_path_name(call->script));
  stg_status status = stg_strbuf_status(&name, reterr);
  if (status == STG_OK) {
    const struct stg_bench_row row = {
        .suite = STG_BENCH_RUN, .name = name.data, .series = STG_BENCH_OURS};
    status = stg_bench_report_add(report, &row, reterr);
  }
  stg_strbuf_finish(&name);
  return status;
}

stg_status stg_peer_try(const struct stg_peer_call *call, struct stg_bench_report *report,
                        struct stg_peer_failures *failures, stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_peer_run(call, report, &error);
  if (status == STG_OK) {
    return STG_OK;
  }
  if (status == STG_E_NO_MEMORY || stg_interrupt_waits()) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  stg_report_progress("bench: %s", error.message);
  if (failures->count++ == 0) {
    failures->first = error;
  }
  return add_row(call, report, reterr);
}
