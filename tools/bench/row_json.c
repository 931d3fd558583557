/*
 * bench/row_json.c: see row_json.h. Must not know who wrote the row.
 */
#include "tools/bench/row_json.h"

#include <math.h>
#include <string.h>

/* Recorded by others, a ratio may have fewer digits than its two times. */
#define RATIO_TOLERANCE 1e-5
#define MOST_DRIVER 1000000

/* Members that every row has, and one that rows have of a driver whose release is known; what
 * follows them are its extras. */
static const char *const fixed_keys[] = {
    "suite",  "name",   "series",  "card",     "driver", "cuda",          "median_us",
    "min_us", "max_us", "wall_us", "floor_us", "ratio",  "driver_release"};

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

static stg_status read_text_or_null(const struct stg_json *row, const char *key, const char **ret,
                                    stg_error *reterr) {
  struct stg_json value;
  stg_status status = stg_json_get(row, key, &value, reterr);
  if (status != STG_OK || stg_json_is_null(&value)) {
    return status;
  }
  return stg_json_string(&value, ret, reterr);
}

static stg_status read_texts(const struct stg_json *object, struct stg_bench_row *row,
                             stg_error *reterr) {
  stg_status status = read_text(object, "suite", &row->suite, reterr);
  if (status == STG_OK) {
    status = read_text(object, "name", &row->name, reterr);
  }
  if (status == STG_OK) {
    status = read_text(object, "series", &row->series, reterr);
  }
  if (status == STG_OK) {
    status = read_text_or_null(object, "card", &row->card, reterr);
  }
  if (status == STG_OK) {
    status = read_text_or_null(object, "cuda", &row->cuda, reterr);
  }
  struct stg_json release;
  if (status == STG_OK && stg_json_find(object, "driver_release", &release)) {
    status = stg_json_string(&release, &row->driver_release, reterr);
  }
  return status;
}

static stg_status read_driver(const struct stg_json *object, int *ret, stg_error *reterr) {
  struct stg_json value;
  int64_t driver = 0;
  stg_status status = stg_json_get(object, "driver", &value, reterr);
  if (status == STG_OK) {
    status = stg_json_int(&value, 0, MOST_DRIVER, &driver, reterr);
  }
  *ret = (int)driver;
  return status;
}

/* A number above 0, or null, which is 0. */
static stg_status read_above_0(const struct stg_json *object, const char *key, double *ret,
                               stg_error *reterr) {
  struct stg_json value;
  stg_status status = stg_json_get(object, key, &value, reterr);
  *ret = 0;
  if (status != STG_OK || stg_json_is_null(&value)) {
    return status;
  }
  status = stg_json_double(&value, ret, reterr);
  if (status == STG_OK && *ret <= 0) {
    status = stg_json_unexpected(&value, "a number above 0", reterr);
  }
  return status;
}

/* All three or none. */
static stg_status read_device(const struct stg_json *object, struct stg_bench_row *row,
                              stg_error *reterr) {
  stg_status status = read_above_0(object, "median_us", &row->device.median_us, reterr);
  if (status == STG_OK) {
    status = read_above_0(object, "min_us", &row->device.min_us, reterr);
  }
  if (status == STG_OK) {
    status = read_above_0(object, "max_us", &row->device.max_us, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  row->has_device = row->device.median_us > 0;
  if (row->has_device != (row->device.min_us > 0) || row->has_device != (row->device.max_us > 0)) {
    return stg_json_error(
        reterr, STG_E_FORMAT, object,
        "'median_us', 'min_us' and 'max_us' are measured together; some are null");
  }
  return STG_OK;
}

static stg_status check_ratio(const struct stg_json *object, const struct stg_bench_row *row,
                              double ratio, stg_error *reterr) {
  const bool known = row->has_device && row->floor_us > 0;
  const double expected = known ? row->device.median_us / row->floor_us : 0;
  if (fabs(ratio - expected) <= RATIO_TOLERANCE * expected) {
    return STG_OK;
  }
  struct stg_json value;
  stg_status status = stg_json_get(object, "ratio", &value, reterr);
  return status == STG_OK ? stg_json_unexpected(&value, "median_us over floor_us", reterr) : status;
}

static stg_status read_times(const struct stg_json *object, struct stg_bench_row *row,
                             stg_error *reterr) {
  double wall = 0;
  double ratio = 0;
  stg_status status = read_device(object, row, reterr);
  if (status == STG_OK) {
    status = read_above_0(object, "wall_us", &wall, reterr);
  }
  if (status == STG_OK) {
    status = read_above_0(object, "floor_us", &row->floor_us, reterr);
  }
  if (status == STG_OK) {
    status = read_above_0(object, "ratio", &ratio, reterr);
  }
  row->wall = (struct stg_times){wall, wall, wall};
  row->has_wall = wall > 0;
  return status == STG_OK ? check_ratio(object, row, ratio, reterr) : status;
}

/* As json_out.h writes it: what is not finite is a text. */
static stg_status read_extra(const struct stg_json *member, double *ret, stg_error *reterr) {
  static const struct {
    const char *text;
    double value;
  } names[] = {{"inf", (double)INFINITY}, {"-inf", -(double)INFINITY}, {"nan", (double)NAN}};
  const char *text = "";
  if (!stg_json_is_string(member)) {
    return stg_json_double(member, ret, reterr);
  }
  stg_status status = stg_json_string(member, &text, reterr);
  for (size_t i = 0; status == STG_OK && i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(text, names[i].text) == 0) {
      *ret = names[i].value;
      return STG_OK;
    }
  }
  return status == STG_OK ? stg_json_unexpected(member, "a number", reterr) : status;
}

static stg_status read_extras(const struct stg_json *object, struct stg_bench_row *row,
                              stg_error *reterr) {
  struct stg_json member;
  stg_status status = STG_OK;
  for (bool more = stg_json_first(object, &member); status == STG_OK && more;
       more = stg_json_next(&member)) {
    double value = 0;
    if (is_fixed(member.key)) {
      continue;
    }
    if (row->n_extras == STG_BENCH_MAX_EXTRAS) {
      return stg_json_error(reterr, STG_E_FORMAT, &member,
                            "too many members; a row has at most %d of its own",
                            STG_BENCH_MAX_EXTRAS);
    }
    status = read_extra(&member, &value, reterr);
    if (status == STG_OK) {
      stg_bench_row_extra(row, member.key, value);
    }
  }
  return status;
}

stg_status stg_bench_row_read(const struct stg_json *object, struct stg_bench_row *ret_row,
                              int *ret_driver, stg_error *reterr) {
  struct stg_bench_row row = {0};
  int driver = 0;
  stg_status status = stg_json_expect_object(object, reterr);
  if (status == STG_OK) {
    status = read_texts(object, &row, reterr);
  }
  if (status == STG_OK) {
    status = read_driver(object, &driver, reterr);
  }
  if (status == STG_OK) {
    status = read_times(object, &row, reterr);
  }
  if (status == STG_OK) {
    status = read_extras(object, &row, reterr);
  }
  if (status == STG_OK) {
    *ret_row = row;
    *ret_driver = driver;
  }
  return status;
}
