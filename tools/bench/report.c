/*
 * bench/report.c: see report.h.
 *
 * Must not know any suite.
 */
#include "tools/bench/report.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/json_out.h"
#include "tools/table.h"

void stg_bench_row_extra(struct stg_bench_row *row, const char *key, double value) {
  assert(row->n_extras < STG_BENCH_MAX_EXTRAS);
  row->extras[row->n_extras++] = (struct stg_bench_extra){.key = key, .value = value};
}

const double *stg_bench_row_find_extra(const struct stg_bench_row *row, const char *key) {
  for (size_t i = 0; i < row->n_extras; i++) {
    if (strcmp(row->extras[i].key, key) == 0) {
      return &row->extras[i].value;
    }
  }
  return NULL;
}

static const char *keep(struct stg_bench_report *report, const char *text) {
  return text != NULL ? stg_arena_strdup(&report->texts, text) : NULL;
}

static stg_status make_room(struct stg_bench_report *report, stg_error *reterr) {
  if (report->n_rows < report->capacity) {
    return STG_OK;
  }
  const size_t capacity = report->capacity == 0 ? 64 : 2 * report->capacity;
  struct stg_bench_row *rows = stg_realloc(report->rows, capacity * sizeof *rows);
  if (rows == NULL) {
    return stg_error_memory(reterr, "the rows of a report", capacity * sizeof *rows);
  }
  report->rows = rows;
  report->capacity = capacity;
  return STG_OK;
}

stg_status stg_bench_report_add(struct stg_bench_report *report, const struct stg_bench_row *row,
                                stg_error *reterr) {
  stg_status status = make_room(report, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_bench_row copy = *row;
  copy.suite = keep(report, row->suite);
  copy.name = keep(report, row->name);
  copy.series = keep(report, row->series);
  copy.card = keep(report, row->card);
  copy.cuda = keep(report, row->cuda);
  copy.driver_release = keep(report, row->driver_release);
  for (size_t i = 0; i < copy.n_extras; i++) {
    copy.extras[i].key = keep(report, row->extras[i].key);
  }
  status = stg_arena_status(&report->texts, reterr);
  if (status == STG_OK) {
    report->rows[report->n_rows++] = copy;
  }
  return status;
}

const struct stg_bench_row *stg_bench_report_find(const struct stg_bench_report *report,
                                                  const char *suite, const char *name,
                                                  const char *series) {
  for (size_t i = 0; i < report->n_rows; i++) {
    const struct stg_bench_row *row = &report->rows[i];
    if (strcmp(row->suite, suite) == 0 && strcmp(row->name, name) == 0 &&
        strcmp(row->series, series) == 0) {
      return row;
    }
  }
  return NULL;
}

void stg_bench_report_finish(struct stg_bench_report *report) {
  stg_free(report->rows);
  stg_arena_finish(&report->texts);
  *report = (struct stg_bench_report){0};
}

static bool has_ratio(const struct stg_bench_row *row) {
  return row->has_device && row->floor_us > 0;
}

static void print_us(struct stg_table *table, const char *label, bool known, double us) {
  if (known) {
    stg_table_printf(table, "%s%.2f us", label, us);
  } else {
    stg_table_cell(table, "");
  }
}

static void print_row(const struct stg_bench_row *row, struct stg_table *table) {
  stg_table_cell(table, row->suite);
  stg_table_cell(table, row->name);
  stg_table_cell(table, row->series);
  print_us(table, "", row->has_device, row->device.median_us);
  print_us(table, "wall ", row->has_wall, row->wall.median_us);
  print_us(table, "floor ", row->floor_us > 0, row->floor_us);
  if (has_ratio(row)) {
    stg_table_printf(table, "x %.2f", row->device.median_us / row->floor_us);
  } else {
    stg_table_cell(table, "");
  }
  struct stg_strbuf extras = {0};
  for (size_t i = 0; i < row->n_extras; i++) {
    stg_strbuf_printf(&extras, "%s%s %.5g", i > 0 ? ", " : "", row->extras[i].key,
                      row->extras[i].value);
  }
  stg_table_cell(table, stg_strbuf_text(&extras));
  table->cells.failed = table->cells.failed || extras.failed;
  stg_strbuf_finish(&extras);
}

void stg_bench_report_print(const struct stg_bench_report *report,
                            const struct stg_bench_machine *machine, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "lllrrrrl"};
  stg_strbuf_printf(out, "%s, driver %d.%d", machine->card != NULL ? machine->card : "no GPU",
                    machine->driver / 1000, machine->driver % 1000 / 10);
  if (machine->driver_release != NULL) {
    stg_strbuf_printf(out, " (%s)", machine->driver_release);
  }
  stg_strbuf_printf(out, ", NVRTC %s\n", machine->cuda != NULL ? machine->cuda : "none");
  for (size_t i = 0; i < report->n_rows; i++) {
    print_row(&report->rows[i], &table);
  }
  stg_table_print(&table, out);
}

static void write_us(struct stg_json_out *json, const char *key, bool known, double us) {
  if (known) {
    stg_json_out_number(json, key, us);
  } else {
    stg_json_out_null(json, key);
  }
}

static void write_row(const struct stg_bench_row *row, const struct stg_bench_machine *machine,
                      struct stg_json_out *json) {
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "suite", row->suite);
  stg_json_out_text(json, "name", row->name);
  stg_json_out_text(json, "series", row->series);
  stg_json_out_text(json, "card", row->card != NULL ? row->card : machine->card);
  stg_json_out_int(json, "driver", machine->driver);
  stg_json_out_text(json, "cuda", row->cuda != NULL ? row->cuda : machine->cuda);
  write_us(json, "median_us", row->has_device, row->device.median_us);
  write_us(json, "min_us", row->has_device, row->device.min_us);
  write_us(json, "max_us", row->has_device, row->device.max_us);
  write_us(json, "wall_us", row->has_wall, row->wall.median_us);
  write_us(json, "floor_us", row->floor_us > 0, row->floor_us);
  write_us(json, "ratio", has_ratio(row),
           has_ratio(row) ? row->device.median_us / row->floor_us : 0);
  if (row->driver_release != NULL) {
    stg_json_out_text(json, "driver_release", row->driver_release);
  }
  for (size_t i = 0; i < row->n_extras; i++) {
    stg_json_out_number(json, row->extras[i].key, row->extras[i].value);
  }
  stg_json_out_close(json, '}');
}

void stg_bench_report_json(const struct stg_bench_report *report,
                           const struct stg_bench_machine *machine, struct stg_strbuf *out) {
  struct stg_json_out json = {.text = *out};
  stg_json_out_open(&json, NULL, '[');
  for (size_t i = 0; i < report->n_rows; i++) {
    write_row(&report->rows[i], machine, &json);
  }
  stg_json_out_close(&json, ']');
  *out = json.text;
}
