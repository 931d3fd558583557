/*
 * oracle/components.h: the float64 reference of the components family, forward and backward.
 *
 * Each value that the definition of codegen/components.h names has a bound on how far a computed
 * one may be from it, and what is computed from it takes the bound on:
 *
 *   an operand that is rounded   e(a)*(1 + u) + u*|a| + tiny/2;  u 2^-8 bf16, 2^-11 f16 and TF32, 0
 *                                in exact float32. Beyond the type's range there is no bound.
 *   a sum of n products a*b      sum e(a)*(|b| + e(b)) + |a|*e(b), and 2^-23 * adds(n) * M, where M
 *                                is the sum of |a*b| and of what the sum began with
 *   a product of two             e(a)*|b| + |a|*e(b) + e(a)*e(b) + 2^-24*|a*b|
 *   a result                     1.01 of its bound, + u*|ref| + tiny/2 for the store
 *
 * adds(n): matrix units align what is added at once, 8 products or 4 of TF32 and the sum before, to
 * the largest, cut at 2^-24 of it and cut the result to 24 bits: 6 * 2^-23 of M for 8, 3.5 for 4,
 * so 3/4*n and 7/8*n. Exact float32 is three such sums, of parts of 32 products, which are then
 * added: 21/8*min(n, 32) + n/64, and 6 for what is lost of a product of upper and lower parts,
 * thrice 2^-22. Sums over rows have spans: adds of a span, and the spans. Those that no matrix unit
 * takes have parts of 32 elements at most: 40 + n/32.
 */
#ifndef STG_ENGINE_ORACLE_COMPONENTS_H
#define STG_ENGINE_ORACLE_COMPONENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/status.h>

#include "codegen/components.h"

/* What takes rows of a result, each once, in no order that matters. `tensor`: "y", "dx", "dv",
 * "du", "dm", "dbias", "dd", "ddelta". */
struct stg_oracle_components_sink {
  void (*take)(void *user, const char *tensor, int64_t row, int64_t n, const double *ref,
               const double *bound);
  void *user;
};

/** Give y of every row; padding is zeros. STG_E_NO_MEMORY for the matrices. */
STG_NODISCARD stg_status stg_oracle_components(const struct stg_components_geometry *geometry,
                                               const struct stg_components_inputs *inputs,
                                               const struct stg_oracle_components_sink *sink,
                                               stg_error *reterr);

/* The gradient that comes in. */
struct stg_oracle_components_dy {
  const void *data; /* [rows, d_out] */
  int64_t stride;
};

/** Give the gradients that are not NULL in `wanted`. Status as above. */
STG_NODISCARD stg_status stg_oracle_components_back(const struct stg_components_geometry *geometry,
                                                    const struct stg_components_inputs *inputs,
                                                    struct stg_oracle_components_dy dy,
                                                    const struct stg_components_gradients *wanted,
                                                    const struct stg_oracle_components_sink *sink,
                                                    stg_error *reterr);

struct stg_oracle_components_report {
  uint64_t elements; /* that were held against a reference */
  double max_abs_err;
  double mae;           /* mean of |error| over these elements, where it is finite */
  double worst_ratio;   /* largest error over that element's own bound */
  uint64_t violations;  /* elements beyond their own bound */
  uint64_t overflows;   /* elements where the reference leaves the type's range and Inf was right */
  uint64_t unbounded;   /* elements of which nothing can be said: an operand may be out of range */
  const char *first_in; /* tensor of the first violation; NULL: none */
  int64_t first_row, first_element;
  bool ok; /* violations == 0 */
};

/** Check y. */
STG_NODISCARD stg_status stg_oracle_components_check(
    const struct stg_components_geometry *geometry, const struct stg_components_inputs *inputs,
    const void *y, int64_t y_stride, struct stg_oracle_components_report *ret_report,
    stg_error *reterr);

/* The gradients of a call, in the order of struct stg_components_gradients: "dx" to "ddelta". */
#define STG_ORACLE_COMPONENTS_GRADIENTS 7
const char *stg_oracle_components_gradient(size_t index);

/** Check the gradients that are not NULL. */
STG_NODISCARD stg_status stg_oracle_components_check_back(
    const struct stg_components_geometry *geometry, const struct stg_components_inputs *inputs,
    struct stg_oracle_components_dy dy, const struct stg_components_gradients *gradients,
    struct stg_oracle_components_report *ret_report, stg_error *reterr);
/** The same with a report of each; that of one that is NULL has no elements. */
STG_NODISCARD stg_status stg_oracle_components_check_each(
    const struct stg_components_geometry *geometry, const struct stg_components_inputs *inputs,
    struct stg_oracle_components_dy dy, const struct stg_components_gradients *gradients,
    struct stg_oracle_components_report ret_reports[STG_ORACLE_COMPONENTS_GRADIENTS],
    stg_error *reterr);

#endif
