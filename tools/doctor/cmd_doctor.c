/*
 * cmd_doctor.c: `steergraph doctor`: what was found on this machine, what is missing, the remedy.
 *
 * A missing GPU or compiler is a finding, not a failure; a setting that keeps every command from
 * working is.
 */
#include "tools/command.h"
#include "tools/doctor/doctor.h"
#include "tools/options.h"
#include "tools/report.h"

int stg_cmd_doctor(int argc, char **argv) {
  bool json = false;
  const struct stg_option table[] = {
      {"--json", NULL, "print one JSON object", NULL, &json},
  };
  const struct stg_grammar grammar = {
      .name = "doctor",
      .words = "",
      .summary = "Say what was found on this machine, what is missing, and the remedy.",
      .details = "Exits 1 when a setting keeps workloads from running; a missing GPU does not.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  struct stg_diagnosis diagnosis = {0};
  struct stg_strbuf text = {0};
  stg_doctor_examine(&diagnosis);
  if (json) {
    stg_doctor_report_json(&diagnosis, &text);
  } else {
    stg_doctor_report_text(&diagnosis, &text);
  }
  code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  bool works = diagnosis.environment_serves && diagnosis.cpu.found.ok && diagnosis.cache.found.ok;
  stg_doctor_finish(&diagnosis);
  return code == STG_EXIT_DONE && !works ? STG_EXIT_FAILED : code;
}
