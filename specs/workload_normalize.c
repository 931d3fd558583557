/*
 * workload_normalize.c: unit vectors: when a workload wants them, and how they are made.
 *
 * The rule goes by the names of the ops alone, so that it needs no compiled op.
 */
#include <math.h>

#include "specs/workload.h"

stg_status stg_workload_resolve_normalize(const struct stg_workload *workload, size_t index,
                                          bool *ret_normalize, stg_error *reterr) {
  const struct stg_spec_vector *vector = &workload->vectors[index];
  if (vector->normalize < 0 && vector->used_unit != NULL && vector->used_stored != NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s: %s: used where a unit vector is expected (%s) and where it is not "
                         "(%s); say \"normalize\": true or false",
                         workload->file, vector->where, vector->used_unit, vector->used_stored);
  }
  *ret_normalize = vector->normalize >= 0 ? vector->normalize == 1 : vector->used_unit != NULL;
  return STG_OK;
}

stg_status stg_normalize(float *values, size_t count, stg_error *reterr) {
  double sum = 0.0;
  for (size_t i = 0; i < count; i++) {
    sum += (double)values[i] * (double)values[i];
  }
  double norm = sqrt(sum);
  if (!(norm > 0.0) || !isfinite(norm)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "cannot normalise a vector of %zu elements with norm %g; give a direction",
                         count, norm);
  }
  for (size_t i = 0; i < count; i++) {
    values[i] = (float)((double)values[i] / norm);
  }
  return STG_OK;
}
