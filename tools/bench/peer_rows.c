/*
 * bench/peer_rows.c: see peer_rows.h.
 */
#include "tools/bench/peer_rows.h"

#include <string.h>

#include "specs/json.h"
#include "tools/bench/row_json.h"

/* What join adds. */
#define N_JOINED 2

/* What a row may leave out and a peer may not. */
static stg_status check_peer(const struct stg_json *object, const struct stg_bench_row *row,
                             stg_error *reterr) {
  const struct {
    const char *key;
    bool known;
  } members[] = {{"card", row->card != NULL},
                 {"cuda", row->cuda != NULL},
                 {"median_us", row->has_device},
                 {"wall_us", row->has_wall}};
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    if (!members[i].known) {
      return stg_json_error(reterr, STG_E_FORMAT, object, "'%s' of a peer is null", members[i].key);
    }
  }
  if (row->n_extras > STG_BENCH_MAX_EXTRAS - N_JOINED) {
    return stg_json_error(reterr, STG_E_FORMAT, object, "too many members");
  }
  return STG_OK;
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
  struct stg_bench_row row;
  int driver = 0;
  stg_status status = stg_bench_row_read(object, &row, &driver, reterr);
  if (status == STG_OK) {
    status = check_peer(object, &row, reterr);
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
  const double *early_us = stg_bench_row_find_extra(ours, "floor_early_us");
  if (early_us != NULL) {
    stg_bench_row_extra(row, "floor_early_us", *early_us);
  }
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
    status = read_row(&object, cases, n_cases, &row, reterr);
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
