/*
 * bench/peer_rows.c: see peer_rows.h.
 */
#include "tools/bench/peer_rows.h"

#include <string.h>

#include "specs/json.h"

/* Keys that every row has; what follows them are its extras. */
static const char *const fixed_keys[] = {"suite",  "name",    "series",    "card",
                                         "driver", "cuda",    "median_us", "min_us",
                                         "max_us", "wall_us", "floor_us",  "ratio"};

static bool is_fixed(const char *key) {
  for (size_t i = 0; i < sizeof fixed_keys / sizeof fixed_keys[0]; i++) {
    if (strcmp(key, fixed_keys[i]) == 0) {
      return true;
    }
  }
  return false;
}

static stg_status read_text(const struct stg_json *row, const char *key, const char **ret,
                            stg_error *reterr) {
  struct stg_json value;
  stg_status status = stg_json_get(row, key, &value, reterr);
  return status == STG_OK ? stg_json_string(&value, ret, reterr) : status;
}

static stg_status read_time(const struct stg_json *row, const char *key, double *ret,
                            stg_error *reterr) {
  struct stg_json value;
  float number = 0;
  stg_status status = stg_json_get(row, key, &value, reterr);
  if (status == STG_OK) {
    status = stg_json_float(&value, &number, reterr);
  }
  if (status == STG_OK && number <= 0) {
    status = stg_json_unexpected(&value, "a time above 0", reterr);
  }
  *ret = (double)number;
  return status;
}

static stg_status read_times(const struct stg_json *object, struct stg_bench_row *row,
                             stg_error *reterr) {
  stg_status status = read_time(object, "median_us", &row->device.median_us, reterr);
  if (status == STG_OK) {
    status = read_time(object, "min_us", &row->device.min_us, reterr);
  }
  if (status == STG_OK) {
    status = read_time(object, "max_us", &row->device.max_us, reterr);
  }
  double wall = 0;
  if (status == STG_OK) {
    status = read_time(object, "wall_us", &wall, reterr);
  }
  row->wall = (struct stg_times){wall, wall, wall};
  row->has_device = row->has_wall = true;
  return status;
}

/* One is kept for steergraph_x. */
static stg_status read_extras(const struct stg_json *object, struct stg_bench_row *row,
                              stg_error *reterr) {
  struct stg_json member;
  stg_status status = STG_OK;
  for (bool more = stg_json_first(object, &member); status == STG_OK && more;
       more = stg_json_next(&member)) {
    if (is_fixed(member.key)) {
      continue;
    }
    float value = 0;
    if (row->n_extras + 1 >= STG_BENCH_MAX_EXTRAS) {
      return stg_json_error(reterr, STG_E_FORMAT, &member, "too many members");
    }
    status = stg_json_float(&member, &value, reterr);
    if (status == STG_OK) {
      stg_bench_row_extra(row, member.key, (double)value);
    }
  }
  return status;
}

static bool belongs(const struct stg_bench_row *row, const struct stg_peer_arg *cases,
                    size_t n_cases) {
  for (size_t i = 0; i < n_cases; i++) {
    if (strcmp(row->suite, cases[i].suite) == 0 && strcmp(row->name, cases[i].name) == 0) {
      return true;
    }
  }
  return false;
}

/* Texts are borrowed from the document. */
static stg_status read_row(const struct stg_json *object, const struct stg_peer_arg *cases,
                           size_t n_cases, struct stg_bench_row *ret_row, stg_error *reterr) {
  struct stg_bench_row row = {0};
  stg_status status = read_text(object, "suite", &row.suite, reterr);
  if (status == STG_OK) {
    status = read_text(object, "name", &row.name, reterr);
  }
  if (status == STG_OK) {
    status = read_text(object, "series", &row.series, reterr);
  }
  if (status == STG_OK) {
    status = read_text(object, "card", &row.card, reterr);
  }
  if (status == STG_OK) {
    status = read_text(object, "cuda", &row.cuda, reterr);
  }
  if (status == STG_OK) {
    status = read_times(object, &row, reterr);
  }
  if (status == STG_OK) {
    status = read_extras(object, &row, reterr);
  }
  if (status == STG_OK && !belongs(&row, cases, n_cases)) {
    status = stg_json_error(reterr, STG_E_FORMAT, object, "'%s' of suite '%s' is none of its cases",
                            row.name, row.suite);
  }
  if (status == STG_OK) {
    *ret_row = row;
  }
  return status;
}

static void join(const struct stg_bench_report *report, struct stg_bench_row *row) {
  const struct stg_bench_row *ours =
      stg_bench_report_find(report, row->suite, row->name, STG_BENCH_OURS);
  if (ours == NULL) {
    return;
  }
  row->floor_us = ours->floor_us;
  if (ours->has_device && ours->device.median_us > 0) {
    stg_bench_row_extra(row, "steergraph_x", row->device.median_us / ours->device.median_us);
  }
}

static stg_status read_all(const struct stg_json_doc *doc, const struct stg_peer_arg *cases,
                           size_t n_cases, struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_json root = stg_json_root(doc);
  struct stg_json object;
  stg_status status = stg_json_expect_array(&root, reterr);
  if (status == STG_OK && stg_json_count(&root) == 0) {
    status = stg_json_unexpected(&root, "at least one row", reterr);
  }
  for (bool more = status == STG_OK && stg_json_first(&root, &object); status == STG_OK && more;
       more = stg_json_next(&object)) {
    struct stg_bench_row row;
    status = stg_json_expect_object(&object, reterr);
    if (status == STG_OK) {
      status = read_row(&object, cases, n_cases, &row, reterr);
    }
    if (status == STG_OK) {
      join(report, &row);
      status = stg_bench_report_add(report, &row, reterr);
    }
  }
  return status;
}

stg_status stg_peer_rows_read(const char *path, const struct stg_peer_arg *cases, size_t n_cases,
                              struct stg_bench_report *report, stg_error *reterr) {
  struct stg_json_doc doc;
  const size_t before = report->n_rows;
  stg_status status = stg_json_load(path, &doc, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = read_all(&doc, cases, n_cases, report, reterr);
  if (status != STG_OK) {
    report->n_rows = before;
  }
  stg_json_finish(&doc);
  return status;
}
