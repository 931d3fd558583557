/*
 * oracle/policy.h: the reference of the policy, in float64 from the float32 weights.
 */
#ifndef STG_ENGINE_ORACLE_POLICY_H
#define STG_ENGINE_ORACLE_POLICY_H

#include "engine/oracle/derive.h"

#define STG_ORACLE_MAX_WIDTH 1024 /* of embed and of hidden */

/**
 * What the policy makes of a state. `atoms`: by how many the mean divides. False where a value on
 * the way is beyond float32, in which a search is made: there is no telling what that one has.
 */
bool stg_oracle_policy(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
                       uint32_t atoms, const struct stg_oracle_state *state, double *ret_f);

/** Whether all numbers are in the range of float32. */
bool stg_oracle_fits(const double *x, size_t n);

/** The logit of a child. */
double stg_oracle_logit(const struct stg_prove_net *net, const double *current,
                        const double *child);

#endif
