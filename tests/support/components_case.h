/*
 * components_case.h: calls of the components family on random tensors, run on the CPU and held
 * against the oracle.
 */
#ifndef STG_TESTS_SUPPORT_COMPONENTS_CASE_H
#define STG_TESTS_SUPPORT_COMPONENTS_CASE_H

#include "engine/cpu/components.h"
#include "engine/oracle/components.h"
#include "tests/support/attn_bed.h"

/* Elements between rows of x, y, dy, the mask and their gradients. */
#define COMPONENTS_GAP 3

struct components_shape {
  struct stg_components_geometry geometry;
  int64_t rows;
  int64_t share; /* rows that share a row of the mask; 0: one row for all */
};

struct components_case {
  struct attn_bed *bed;
  struct stg_components_geometry geometry;
  struct stg_components_inputs inputs;
  void *y;
  int64_t y_stride;
  const void *dy;
  int64_t dy_stride;
  struct stg_components_gradients out;
};

/** float32, all 0, a mask of each row, no bias, no delta: what a test does not change. */
struct components_shape components_shape(uint32_t d_in, uint32_t components, uint32_t d_out,
                                         int64_t rows);
/** Random inputs and dy; NaN where y and all gradients go. */
void components_open(struct attn_bed *bed, const struct components_shape *shape,
                     struct components_case *ret);
/** Another place for y and the gradients, NaN again; inputs are the same. */
void components_renew(struct components_case *c);

/** Run both directions on the CPU. */
void components_run(const struct components_case *c);
/** Hold what is there against the oracle, y and then the gradients. */
struct stg_oracle_components_report components_check(const struct components_case *c);
struct stg_oracle_components_report components_check_back(const struct components_case *c);
/** Run both, and fail the test where the oracle finds a violation. */
void components_run_well(const struct components_case *c);

/* A result in rows. */
struct components_result {
  const char *name;
  void *data;
  int64_t rows, columns, stride;
};
#define COMPONENTS_RESULTS 8
/** Result `k` of y, dx, dv, du, dm, dbias, dd, ddelta; data NULL: there is none. */
struct components_result components_result(const struct components_case *c, size_t k);
/** Fail the test unless `rows` rows of both have the same bytes. */
void components_expect_same(const struct components_case *a, const struct components_case *b,
                            size_t k, int64_t rows);
/** Fail the test where an element between rows is no longer NaN. */
void components_expect_gaps(const struct components_case *c);

#endif
