/*
 * chain.h: compose the programs of a chain's ops into one program for the whole chain.
 *
 * Dots of the running state follow the Gram recurrence. After an op h <- s*h + sum_k t_k*v_k the
 * dots of all later vectors become D_j <- s*D_j, then D_j <- fma(t_k, G_kj, D_j) for k in the op's
 * own order; a and c likewise. This order is the numeric contract: the CUDA kernel does the same
 * operations.
 */
#ifndef STG_CODEGEN_CHAIN_H
#define STG_CODEGEN_CHAIN_H

#include "codegen/op.h"

/**
 * Build the program of `n_ops` ops (1..STG_CHAIN_MAX_OPS). Vectors are numbered in op order, each
 * op's own in its declared order, without sharing: op k's vector m is first_vector(k) + m.
 * Parameters are read as PARAM k,index, so one program serves any parameter values. STG_E_CAPACITY
 * when the chain is longer than the limits, with both numbers.
 */
STG_NODISCARD stg_status stg_chain_program(struct stg_arena *arena, const struct stg_op *const *ops,
                                           size_t n_ops, struct stg_program *ret_program,
                                           stg_error *reterr);

#endif
