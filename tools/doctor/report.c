/*
 * doctor/report.c: a diagnosis as JSON and as text: what was found, and for what is missing the
 * remedy.
 */
#include "tools/doctor/doctor.h"

#include <string.h>

#include <steergraph/version.h>

#include "tools/json_out.h"
#include "tools/table.h"

void stg_doctor_json_problem(struct stg_json_out *json, const struct stg_doctor_finding *finding) {
  stg_json_out_text(json, "problem", finding->ok ? NULL : finding->problem.message);
}

static void json_backend(struct stg_json_out *json, const char *key,
                         const struct stg_doctor_backend *backend) {
  stg_json_out_open(json, key, '{');
  stg_json_out_bool(json, "ok", backend->found.ok);
  stg_json_out_text(json, "device", backend->found.ok ? backend->device : NULL);
  stg_json_out_text(json, "arch", backend->found.ok ? backend->arch : NULL);
  stg_json_out_int(json, "driver_version", backend->driver_version);
  stg_doctor_json_problem(json, &backend->found);
  stg_json_out_close(json, '}');
}

/* Of the environment: the first variable that is wrong, or one that is not. */
static const struct stg_doctor_finding *first_problem(const struct stg_diagnosis *d) {
  size_t i = 0;
  while (i + 1 < STG_DOCTOR_VARIABLES && d->variables[i].found.ok) {
    i++;
  }
  return &d->variables[i].found;
}

void stg_doctor_report_json(const struct stg_diagnosis *d, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "version", stg_version());
  json_backend(&json, "cpu", &d->cpu);
  json_backend(&json, "gpu", &d->gpu);
  stg_json_out_open(&json, "compiler", '{');
  stg_json_out_bool(&json, "ok", d->compiler.ok);
  stg_json_out_text(&json, "name", d->compiler.ok ? d->trial.compiler : NULL);
  stg_json_out_number(&json, "trial_compile_ms", d->trial.compile_ms);
  stg_doctor_json_problem(&json, &d->compiler);
  stg_json_out_close(&json, '}');
  stg_doctor_cache_json(&json, &d->cache);
  stg_json_out_open(&json, "pack", '{');
  stg_json_out_bool(&json, "ok", d->pack.found.ok);
  stg_json_out_text(&json, "path", d->pack.path);
  stg_json_out_text(&json, "looked_for", STG_INSTALLED_PACK);
  stg_json_out_count(&json, "entries", d->pack.entries);
  stg_doctor_json_problem(&json, &d->pack.found);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "environment", '{');
  stg_json_out_bool(&json, "ok", d->environment_ok);
  stg_doctor_json_problem(&json, first_problem(d));
  for (size_t i = 0; i < STG_DOCTOR_VARIABLES; i++) {
    const struct stg_doctor_variable *variable = &d->variables[i];
    stg_json_out_text(&json, stg_doctor_variables[i],
                      variable->set ? stg_strbuf_text(&variable->value) : NULL);
  }
  stg_json_out_close(&json, '}');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

void stg_doctor_problem_rows(struct stg_table *table, const char *what, const char *state,
                             const struct stg_doctor_finding *finding, const char *remedy) {
  const char *message = finding->problem.message;
  const char *end = strstr(message, "; ");
  stg_table_cell(table, what);
  stg_table_cell(table, state);
  stg_table_printf(table, "%.*s", (int)(end != NULL ? (size_t)(end - message) : strlen(message)),
                   message);
  stg_table_cell(table, "");
  stg_table_cell(table, "remedy");
  stg_table_cell(table, end != NULL ? end + 2 : remedy);
}

static void add_backend(struct stg_table *table, const char *what,
                        const struct stg_doctor_backend *backend, const char *remedy) {
  if (!backend->found.ok) {
    stg_doctor_problem_rows(table, what, "missing", &backend->found, remedy);
    return;
  }
  stg_table_cell(table, what);
  stg_table_cell(table, "ok");
  if (backend->driver_version > 0) {
    stg_table_printf(table, "%s, %s, driver for CUDA %d.%d", backend->device, backend->arch,
                     backend->driver_version / 1000, backend->driver_version % 1000 / 10);
  } else {
    stg_table_cell(table, backend->device);
  }
}

static void add_pack(struct stg_table *table, const struct stg_doctor_pack *pack) {
  if (!pack->found.ok) {
    stg_doctor_problem_rows(table, "pack", "missing", &pack->found,
                            "install it again: nothing else is missing");
    return;
  }
  stg_table_cell(table, "pack");
  stg_table_cell(table, pack->path == NULL ? "none" : "ok");
  if (pack->path == NULL) {
    stg_table_printf(table,
                     "there is no '%s', which -Dtier0_pack=true installs: a pack that was moved is "
                     "used where a cache path names it",
                     STG_INSTALLED_PACK);
  } else {
    stg_table_printf(table, "%s, %zu entries", pack->path, pack->entries);
  }
}

static void add_variable(struct stg_table *table, const char *name,
                         const struct stg_doctor_variable *variable) {
  stg_table_cell(table, name);
  if (variable->found.ok) {
    stg_table_cell(table, variable->set ? "set" : "unset");
    stg_table_cell(table, stg_strbuf_text(&variable->value));
    return;
  }
  stg_table_cell(table, "wrong");
  stg_table_cell(table, variable->found.problem.message + strlen(name) + strlen(": "));
  stg_table_cell(table, "");
  stg_table_cell(table, "remedy");
  stg_table_cell(table, "unset it, or correct its value");
}

void stg_doctor_report_text(const struct stg_diagnosis *d, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "lll", .indent = "  "};
  add_backend(&table, "CPU backend", &d->cpu, "report this: the CPU backend needs nothing");
  add_backend(&table, "GPU backend", &d->gpu,
              "see the NVIDIA driver's own log; without a GPU the CPU backend serves");
  if (d->compiler.ok) {
    stg_table_cell(&table, "compiler");
    stg_table_cell(&table, "ok");
    stg_table_printf(&table, "%s, a small kernel in %.0f ms", d->trial.compiler,
                     d->trial.compile_ms);
  } else {
    stg_doctor_problem_rows(&table, "compiler", "missing", &d->compiler,
                            "install NVRTC 12 or 13, or use kernels that were built elsewhere");
  }
  stg_doctor_cache_rows(&table, &d->cache);
  add_pack(&table, &d->pack);
  for (size_t i = 0; i < STG_DOCTOR_VARIABLES; i++) {
    add_variable(&table, stg_doctor_variables[i], &d->variables[i]);
  }
  stg_strbuf_printf(out, "steergraph %s\n", stg_version());
  stg_table_print(&table, out);
  stg_strbuf_printf(out, "workloads run on the %s\n",
                    d->gpu.found.ok   ? "GPU"
                    : d->cpu.found.ok ? "CPU"
                                      : "- nothing: see above");
}
