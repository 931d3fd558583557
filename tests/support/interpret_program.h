/*
 * interpret_program.h: a scalar program run in double over one row, as program.h defines it.
 *
 * Plain and slow; shares nothing with engine/cpu, which it may be compared with.
 */
#ifndef STG_TESTS_SUPPORT_INTERPRET_PROGRAM_H
#define STG_TESTS_SUPPORT_INTERPRET_PROGRAM_H

#include "codegen/op.h"

#define INTERPRET_HIDDEN 64

/* What a chain's program is run on. */
struct interpret_row {
  double h[INTERPRET_HIDDEN];
  double vectors[STG_CHAIN_MAX_VECTORS][INTERPRET_HIDDEN];
  float params[STG_CHAIN_MAX_OPS][STG_OP_MAX_PARAMS];
};

double interpret_dot(const double *x, const double *y);

/** scale*h + sum coef_i*v_i. */
void interpret_program(const struct stg_program *program, const struct interpret_row *row,
                       double ret_row[INTERPRET_HIDDEN]);

#endif
