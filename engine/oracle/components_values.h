/*
 * oracle/components_values.h: values with bounds on their errors, and the rules by which an error
 * goes on: see components.h.
 */
#ifndef STG_ENGINE_ORACLE_COMPONENTS_VALUES_H
#define STG_ENGINE_ORACLE_COMPONENTS_VALUES_H

#include <steergraph/status.h>

#include "codegen/components.h"

/* `n` values: what they are, how far a computed one may be from it, and for sums that are under way
 * the sum of magnitudes. */
struct stg_oracle_values {
  int64_t n;
  double *ref, *error, *magnitude;
};

/* Room for doubles, cut in two passes: with `next` NULL sizes are added up alone. */
struct stg_oracle_room {
  double *next;
  size_t doubles;
  bool too_large;
};

double *stg_oracle_room_take(struct stg_oracle_room *room, size_t rows, size_t columns);
struct stg_oracle_values stg_oracle_room_values(struct stg_oracle_room *room, size_t rows,
                                                size_t columns);
/** Memory for what was added up, which begins the second pass. */
STG_NODISCARD stg_status stg_oracle_room_allocate(struct stg_oracle_room *room, void **ret_block,
                                                  stg_error *reterr);

/* How a geometry rounds operands and adds. */
struct stg_oracle_rounding {
  double unit;    /* of an operand that was a float32, relatively */
  double loaded;  /* of an operand that is an element of a tensor */
  double tiny;    /* half the smallest operand */
  double largest; /* operand */
  bool exact;     /* float32 in three products */
  double each;    /* adds(n)/n otherwise */
};

struct stg_oracle_rounding stg_oracle_rounding_of(const struct stg_components_geometry *geometry);
/** adds(n) of components.h. */
double stg_oracle_adds(const struct stg_oracle_rounding *rounding, int64_t n);

/** All of it 0. */
void stg_oracle_values_clear(struct stg_oracle_values *values);
/** Elements of a tensor as operands. */
void stg_oracle_values_load(const struct stg_oracle_rounding *rounding, stg_dtype dtype,
                            const void *tensor, int64_t first, struct stg_oracle_values *ret);
/** The same as they are, without error. */
void stg_oracle_values_load_plain(stg_dtype dtype, const void *tensor, int64_t first,
                                  struct stg_oracle_values *ret);
/** What was a float32 is an operand from now on. */
void stg_oracle_values_round(const struct stg_oracle_rounding *rounding,
                             struct stg_oracle_values *values);
/** ret[i] = a[i] * b[i]; b without error where `errors` is NULL. */
void stg_oracle_values_product(const struct stg_oracle_values *a, const double *b,
                               const double *errors, struct stg_oracle_values *ret);
/** Element i of a sum: += a*b, the errors of the factors with it. */
void stg_oracle_values_add(struct stg_oracle_values *sum, int64_t i, double a, double a_error,
                           double b, double b_error);
/** The sum's own errors: `adds` * 2^-23 of its magnitude. */
void stg_oracle_values_settle(struct stg_oracle_values *sum, double adds);

#endif
