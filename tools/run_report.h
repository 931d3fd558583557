/*
 * run_report.h: what `steergraph run` says of a run, for people and for programs.
 */
#ifndef STG_TOOLS_RUN_REPORT_H
#define STG_TOOLS_RUN_REPORT_H

#include "engine/oracle/steer.h"
#include "tools/times.h"
#include "tools/workload_job.h"

/* Everything of a run that was done. Borrowed. */
struct stg_run_result {
  const char *spec;
  const struct stg_job *job;
  stg_engine_info engine;
  stg_plan_info plan;
  stg_device_report device;
  struct stg_oracle_report check;
  bool timed;
  struct stg_times times;
  const char *checksum;
  const char *output; /* file written, or NULL */
  bool ok;
};

/** One JSON object; the order of its members is fixed. */
void stg_run_report_json(const struct stg_run_result *result, struct stg_strbuf *out);
/** A short block for a terminal, ending in "ok" or "FAILED". */
void stg_run_report_text(const struct stg_run_result *result, struct stg_strbuf *out);

#endif
