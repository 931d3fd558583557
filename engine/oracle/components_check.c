/*
 * oracle/components_check.c: results of the components family against the reference. It must not
 * know where the reference comes from.
 */
#include <math.h>
#include <string.h>

#include "engine/oracle/components.h"
#include "engine/oracle/judge.h"
#include "runtime/base/dtype.h"

/* "y", and behind it the gradients. */
#define TENSORS (1 + STG_ORACLE_COMPONENTS_GRADIENTS)

static const char *const names[TENSORS] = {"y", "dx", "dv", "du", "dm", "dbias", "dd", "ddelta"};

struct checker {
  const struct stg_components_geometry *g;
  const void *y;
  int64_t y_stride;
  const struct stg_components_gradients *gradients;
  struct stg_oracle_components_report report;
  struct stg_oracle_components_report *each; /* [gradients]; NULL: they are not told apart */
};

const char *stg_oracle_components_gradient(size_t index) {
  return names[1 + index];
}

static size_t find_tensor(const char *tensor) {
  size_t k = 0;
  while (strcmp(names[k], tensor) != 0) {
    k++;
  }
  return k;
}

/* Where row `row` of a result begins. */
static const unsigned char *find_row(const struct checker *checker, const char *tensor,
                                     int64_t row) {
  static const struct stg_components_gradients none = {0};
  const struct stg_components_gradients *out =
      checker->gradients == NULL ? &none : checker->gradients;
  const struct {
    const void *data;
    int64_t stride;
  } tensors[TENSORS] = {
      {checker->y, checker->y_stride},
      {out->dx, out->dx_stride},
      {out->dv, (int64_t)checker->g->components},
      {out->du, (int64_t)checker->g->d_out},
      {out->dm, out->dm_stride},
      {out->dbias, 0},
      {out->dd, 1},
      {out->ddelta, (int64_t)checker->g->d_in},
  };
  const size_t k = find_tensor(tensor);
  const int64_t unit = (int64_t)stg_dtype_bytes(checker->g->dtype);
  return (const unsigned char *)tensors[k].data + row * tensors[k].stride * unit;
}

static void judge_element(struct checker *checker, const char *tensor, int64_t row, int64_t element,
                          double after, double ref, double bound) {
  const struct stg_oracle_width one = {checker->g->dtype, 1};
  struct stg_oracle_components_report *report =
      checker->each != NULL ? &checker->each[find_tensor(tensor) - 1] : &checker->report;
  if (isfinite(ref) && !isfinite(bound)) {
    report->unbounded++;
    return;
  }
  const struct stg_oracle_verdict verdict = stg_oracle_judge(one, &after, &ref, &bound);
  const double error = fabs(after - ref);
  report->elements++;
  report->mae += isfinite(error) ? error : 0; /* a sum until the report is finished */
  if (verdict.violations != 0 && report->violations == 0) {
    report->first_in = tensor;
    report->first_row = row;
    report->first_element = element;
  }
  report->violations += verdict.violations;
  report->overflows += verdict.overflows;
  report->max_abs_err = fmax(report->max_abs_err, verdict.max_abs_err);
  report->worst_ratio = fmax(report->worst_ratio, verdict.worst_ratio);
}

static void judge_row(void *user, const char *tensor, int64_t row, int64_t n, const double *ref,
                      const double *bound) {
  struct checker *checker = user;
  const struct stg_oracle_width one = {checker->g->dtype, 1};
  const unsigned char *at = find_row(checker, tensor, row);
  const int64_t unit = (int64_t)stg_dtype_bytes(one.dtype);
  for (int64_t j = 0; j < n; j++) {
    double after;
    stg_oracle_widen(one, at + j * unit, &after);
    judge_element(checker, tensor, row, j, after, ref[j], bound[j]);
  }
}

static void finish(struct stg_oracle_components_report *report) {
  report->mae = report->elements == 0 ? 0 : report->mae / (double)report->elements;
  report->ok = report->violations == 0;
}

stg_status stg_oracle_components_check(const struct stg_components_geometry *geometry,
                                       const struct stg_components_inputs *inputs, const void *y,
                                       int64_t y_stride,
                                       struct stg_oracle_components_report *ret_report,
                                       stg_error *reterr) {
  struct checker checker = {.g = geometry,
                            .y = y,
                            .y_stride = y_stride,
                            .report = {.first_row = -1, .first_element = -1}};
  const struct stg_oracle_components_sink sink = {judge_row, &checker};
  const stg_status status = stg_oracle_components(geometry, inputs, &sink, reterr);
  if (status == STG_OK) {
    finish(&checker.report);
    *ret_report = checker.report;
  }
  return status;
}

stg_status stg_oracle_components_check_back(const struct stg_components_geometry *geometry,
                                            const struct stg_components_inputs *inputs,
                                            struct stg_oracle_components_dy dy,
                                            const struct stg_components_gradients *gradients,
                                            struct stg_oracle_components_report *ret_report,
                                            stg_error *reterr) {
  struct checker checker = {
      .g = geometry, .gradients = gradients, .report = {.first_row = -1, .first_element = -1}};
  const struct stg_oracle_components_sink sink = {judge_row, &checker};
  const stg_status status =
      stg_oracle_components_back(geometry, inputs, dy, gradients, &sink, reterr);
  if (status == STG_OK) {
    finish(&checker.report);
    *ret_report = checker.report;
  }
  return status;
}

stg_status stg_oracle_components_check_each(
    const struct stg_components_geometry *geometry, const struct stg_components_inputs *inputs,
    struct stg_oracle_components_dy dy, const struct stg_components_gradients *gradients,
    struct stg_oracle_components_report ret_reports[STG_ORACLE_COMPONENTS_GRADIENTS],
    stg_error *reterr) {
  struct stg_oracle_components_report each[STG_ORACLE_COMPONENTS_GRADIENTS];
  struct checker checker = {.g = geometry, .gradients = gradients, .each = each};
  const struct stg_oracle_components_sink sink = {judge_row, &checker};
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS; i++) {
    each[i] = (struct stg_oracle_components_report){.first_row = -1, .first_element = -1};
  }
  const stg_status status =
      stg_oracle_components_back(geometry, inputs, dy, gradients, &sink, reterr);
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS && status == STG_OK; i++) {
    finish(&each[i]);
    ret_reports[i] = each[i];
  }
  return status;
}
