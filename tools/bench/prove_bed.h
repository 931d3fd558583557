/*
 * prove_bed.h: a made-up base and policy on an engine, and its candidates as pools take them.
 */
#ifndef STG_TOOLS_BENCH_PROVE_BED_H
#define STG_TOOLS_BENCH_PROVE_BED_H

#include "tools/bench/buffers.h"
#include "tools/bench/prove_cases.h"
#include "tools/bench/suite.h"
#include "tools/prove/objects.h"

/* A pool in the engine's memory. */
struct stg_prove_on_device {
  void *queries, *n, *proofs;
};

/* {0} is none. */
struct stg_prove_bed {
  struct stg_prove_job job; /* its engine is NULL where there is none */
  struct stg_prove_objects objects;
  bool cuda;
  size_t n;          /* candidates */
  stg_atom *queries; /* [n] far apart in the workload's pool */
  stg_proof *proofs; /* [n] of the last run, at the places of its queries */
  struct stg_prove_on_device device;
};

/**
 * Open an engine, on the GPU where there is one, and put base and policy on it. Nothing is run.
 * What is in `ret` refers to itself: it may not be moved. Finish also after a failure.
 * @return STG_E_INVALID where the workload has no more than `least` candidates.
 */
STG_NODISCARD stg_status stg_prove_bed_init(const struct stg_bench_options *options,
                                            enum stg_prove_base base,
                                            enum stg_prover_arithmetic arithmetic, size_t least,
                                            struct stg_prove_bed *ret, stg_error *reterr);
void stg_prove_bed_finish(struct stg_prove_bed *bed);

/* A pool. */
struct stg_prove_pool_run {
  struct stg_prove_bed *bed;
  const stg_atom *queries;
  size_t n;
};
/** Candidates [first, first + n) of a bed. */
struct stg_prove_pool_run stg_prove_pool_of(struct stg_prove_bed *bed, size_t first, size_t n);

/** Whether a bed would be on a GPU. */
bool stg_prove_bed_has_gpu(void);

/** Run it to its end, from host to host (timing.h); `user` is a struct stg_prove_pool_run. */
STG_NODISCARD stg_status stg_prove_bed_run(void *user, const struct stg_bench_buffers *buffers,
                                           size_t index, stg_stream stream, stg_error *reterr);
/** The same once, by the host's clock. */
STG_NODISCARD stg_status stg_prove_bed_time(struct stg_prove_pool_run *run, double *ret_us,
                                            stg_error *reterr);

/** On CUDA: put the pool on the device. */
STG_NODISCARD stg_status stg_prove_bed_upload(struct stg_prove_pool_run *run, stg_error *reterr);
/** Launch the pool that is there (timing.h); counts are not among what it leaves. */
STG_NODISCARD stg_status stg_prove_bed_launch(void *user, const struct stg_bench_buffers *buffers,
                                              size_t index, stg_stream stream, stg_error *reterr);
/** Its proofs, in the place of a run's. */
STG_NODISCARD stg_status stg_prove_bed_download(struct stg_prove_pool_run *run, stg_error *reterr);

/** What the last run counted. */
stg_prover_counts stg_prove_bed_counts(const struct stg_prove_bed *bed);
/** What the prover holds, and of that what is of derived states, in bytes. */
double stg_prove_bed_bytes(const struct stg_prove_bed *bed, double *ret_states);
/** Kernels that the engine got so far, from wherever. */
double stg_prove_bed_kernels(const struct stg_prove_bed *bed);

/**
 * Let the oracle judge `sample` of the first `n` candidates' proofs.
 * @return STG_E_CORRUPT names the first that is wrong.
 */
STG_NODISCARD stg_status stg_prove_bed_check(const struct stg_prove_bed *bed, size_t n,
                                             size_t sample, stg_error *reterr);

#endif
