/*
 * prover_on_host.h: kernels of the proof search, the golden texts themselves, run on the host by
 * cuda_on_host.h. Addresses in the arguments are the host's.
 */
#ifndef STG_TESTS_SUPPORT_PROVER_ON_HOST_H
#define STG_TESTS_SUPPORT_PROVER_ON_HOST_H

#ifdef __cplusplus
extern "C" {
#endif

struct stg_prover_args;

/** Up to 3 atoms and 5 children, 6 to 8, 2 blocks. */
void prover_on_host_tiny(const struct stg_prover_args *args, unsigned blocks);
/** Up to 6 atoms and 120 children, 34 to 40, 2 blocks. */
void prover_on_host_small(const struct stg_prover_args *args, unsigned blocks);
/** The same with three products of TF32 for one. */
void prover_on_host_small_tf32x3(const struct stg_prover_args *args, unsigned blocks);
/** Up to 6 atoms and 120 children, 250 to 256, 8 blocks. */
void prover_on_host_usual(const struct stg_prover_args *args, unsigned blocks);

#ifdef __cplusplus
}
#endif

#endif
