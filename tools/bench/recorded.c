/*
 * bench/recorded.c: see recorded.h.
 */
#include "tools/bench/recorded.h"

#include "specs/json.h"
#include "tools/bench/row_json.h"

static stg_status check_fact(const struct stg_json *run, const char *key, stg_error *reterr) {
  struct stg_json value;
  const char *text = NULL;
  if (!stg_json_find(run, key, &value) || stg_json_is_null(&value)) {
    return STG_OK;
  }
  return stg_json_string(&value, &text, reterr);
}

/* `root` outlives `ret_rows`. */
static stg_status find_rows(const struct stg_json *root, struct stg_json *ret_rows,
                            stg_error *reterr) {
  static const char *const keys[] = {"commit", "date", "rows", NULL};
  if (stg_json_is_array(root)) {
    *ret_rows = *root;
    return STG_OK;
  }
  if (!stg_json_is_object(root)) {
    return stg_json_unexpected(root, "rows of the bench, bare or in \"rows\"", reterr);
  }
  stg_status status = stg_json_check_keys(root, keys, reterr);
  if (status == STG_OK) {
    status = check_fact(root, "commit", reterr);
  }
  if (status == STG_OK) {
    status = check_fact(root, "date", reterr);
  }
  if (status == STG_OK) {
    status = stg_json_get(root, "rows", ret_rows, reterr);
  }
  return status == STG_OK ? stg_json_expect_array(ret_rows, reterr) : status;
}

static stg_status read_rows(const struct stg_json *rows, struct stg_bench_report *report,
                            int *ret_driver, stg_error *reterr) {
  struct stg_json object;
  int first_driver = 0;
  if (!stg_json_first(rows, &object)) {
    return stg_json_unexpected(rows, "at least one row", reterr);
  }
  do {
    struct stg_bench_row row;
    int driver = 0;
    stg_status status = stg_bench_row_read(&object, &row, &driver, reterr);
    if (status != STG_OK) {
      return status;
    }
    first_driver = report->n_rows == 0 ? driver : first_driver;
    if (driver != first_driver) {
      return stg_json_error(reterr, STG_E_FORMAT, &object,
                            "driver %d after rows of driver %d; a file is one run", driver,
                            first_driver);
    }
    status = stg_bench_report_add(report, &row, reterr);
    if (status != STG_OK) {
      return status;
    }
  } while (stg_json_next(&object));
  *ret_driver = first_driver;
  return STG_OK;
}

/* Peers come last and may have a CUDA of their own. Without a driver there was no card: rows then
 * name the processor. */
static struct stg_bench_machine machine_of(const struct stg_bench_report *report, int driver) {
  return (struct stg_bench_machine){.card = driver > 0 ? report->rows[0].card : NULL,
                                    .driver = driver,
                                    .cuda = report->rows[0].cuda,
                                    .driver_release = report->rows[0].driver_release};
}

stg_status stg_bench_recorded_load(const char *path, struct stg_bench_report *report,
                                   struct stg_bench_machine *ret_machine, stg_error *reterr) {
  struct stg_json_doc doc;
  struct stg_json rows;
  int driver = 0;
  stg_status status = stg_json_load(path, &doc, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_json root = stg_json_root(&doc);
  status = find_rows(&root, &rows, reterr);
  if (status == STG_OK) {
    status = read_rows(&rows, report, &driver, reterr);
  }
  if (status == STG_OK) {
    *ret_machine = machine_of(report, driver);
  }
  stg_json_finish(&doc);
  return status;
}
