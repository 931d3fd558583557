/*
 * oracle/bound.c: the bound of the numeric contract.
 *
 * Element j may differ from ref_j by
 *
 *   u*|ref_j| + tiny/2 + kappa * 2^-23 * [
 *       (m+2) * ( max(A,1) * (|state_j| + |hidden_j| in pair mode) + sum_i C_i*|v_ij| )
 *     + sqrt(hidden_size) * lambda * max(1, max|v|) * ( A*|state| + sum_i C_i*|v_i| ) * max|v_ij| ]
 *
 * u       half a unit of the storage dtype, 2^-8 bf16, 2^-11 f16, 2^-24 f32; tiny its smallest
 *         subnormal: the rounding at the store
 * m       ops of the chain; state the row that the chain saw first
 * A, C_i  the largest |a| and |c_i| that the state a*h0 + sum c_i*v_i had after any statement, or
 *         when a dot of it was taken
 * lambda  product over the ops of max(1, L), L the op's growth (facts.c, worker.c): the second line
 *         is the error of the dots, as later ops carry it on
 * kappa   1, or the largest S/|g|^2 of the norms taken, S the sum of absolute terms of the Gram
 *         expansion; at most 2^10, from where on the engine takes the norm from the row itself
 *
 * Elements of the state that are not finite count as 0: where one enters a dot, no element of the
 * reference stays finite; where none does, the others are as they would be without it, and so is
 * the hidden of a pair at its place.
 */
#include "engine/oracle/bound.h"

#include <math.h>

#include "runtime/base/dtype.h"

void stg_oracle_bound(const struct stg_oracle_run *run, stg_dtype dtype, const double *hidden,
                      const double *ref, double *ret_bound) {
  const struct stg_oracle_facts *facts = run->facts;
  double steps = (double)facts->chain->n_ops + 2;
  double unit = stg_dtype_unit(dtype);
  double magnitude = run->a_max * run->start_norm;
  for (size_t i = 0; i < facts->n_vectors; i++) {
    magnitude += run->c_max[i] * facts->norms[i];
  }
  double dots = sqrt((double)facts->hidden_size) * run->lambda * fmax(1, facts->largest_norm) *
                magnitude * facts->largest_element;
  for (int64_t j = 0; j < facts->hidden_size; j++) {
    double state = isfinite(run->start[j]) ? fabs(run->start[j]) : 0;
    double own = state + (hidden == NULL ? 0 : fabs(hidden[j]));
    double terms = fmax(run->a_max, 1) * own;
    for (size_t i = 0; i < facts->n_vectors; i++) {
      terms += run->c_max[i] * fabs(facts->vectors[i][j]);
    }
    ret_bound[j] = unit * fabs(ref[j]) + stg_dtype_tiny(dtype) / 2 +
                   run->kappa * 0x1p-23 * (steps * terms + dots);
  }
}
