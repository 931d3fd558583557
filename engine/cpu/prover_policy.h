/*
 * cpu/prover_policy.h: the policy of the proof search on the CPU, in float32.
 *
 * What it makes of a state has the same bits whatever states are evaluated with it. They are not
 * the GPU's, whose sums are fused.
 */
#ifndef STG_ENGINE_CPU_PROVER_POLICY_H
#define STG_ENGINE_CPU_PROVER_POLICY_H

#include <stddef.h>

#include <steergraph/status.h>

#include "codegen/prelude/unify.h"

struct stg_cpu_policy;

/**
 * Copy the weights, for a base of so many predicates and constants and states of `atoms` atoms.
 * Sizes have been checked. STG_E_NO_MEMORY. Read-only once it is made: any thread.
 */
STG_NODISCARD stg_status stg_cpu_policy_create(const struct stg_prove_net *net,
                                               const struct stg_prove_weights *weights,
                                               const struct stg_prove_base *base, uint32_t atoms,
                                               struct stg_cpu_policy **ret_policy,
                                               stg_error *reterr);
/** NULL is fine. */
void stg_cpu_policy_destroy(struct stg_cpu_policy *policy);

/** Floats from what the policy makes of one state to that of the next. */
size_t stg_cpu_policy_stride(const struct stg_cpu_policy *policy);
/** Floats that `n` states need on the way. */
size_t stg_cpu_policy_scratch(const struct stg_cpu_policy *policy, size_t n);

/** What it makes of each of `n` states, numbered ones: ret_f[n * stride], zeros past the row. */
void stg_cpu_policy_run(const struct stg_cpu_policy *policy, const struct stg_prove_state *states,
                        size_t n, float *scratch, float *ret_f);

/** The logit of a child. */
float stg_cpu_policy_logit(const struct stg_cpu_policy *policy, const float *current,
                           const float *child);

#endif
