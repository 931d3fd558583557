/*
 * oracle/bound.h: how far each element of a result may be from the reference.
 */
#ifndef STG_ENGINE_ORACLE_BOUND_H
#define STG_ENGINE_ORACLE_BOUND_H

#include "engine/oracle/run.h"

/**
 * Fill ret_bound[hidden_size] for the finished `run` whose reference row is `ref`. `hidden` is NULL
 * unless the update went to hidden alone (pair mode).
 */
void stg_oracle_bound(const struct stg_oracle_run *run, stg_dtype dtype, const double *hidden,
                      const double *ref, double *ret_bound);

#endif
