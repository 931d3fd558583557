/*
 * oracle/worker.h: rows one after another through the oracle, with the memory for it.
 */
#ifndef STG_ENGINE_ORACLE_WORKER_H
#define STG_ENGINE_ORACLE_WORKER_H

#include "engine/oracle/steer.h"

struct stg_oracle_worker;

/** Scratch rows that a worker needs for this chain. */
size_t stg_oracle_chain_rows(const struct stg_oracle_chain *chain);

/** A worker for rows of `hidden_size` and chains that need at most `scratch_rows`. */
STG_NODISCARD stg_status stg_oracle_worker_create(int64_t hidden_size, size_t scratch_rows,
                                                  struct stg_oracle_worker **ret_worker,
                                                  stg_error *reterr);
/** NULL is fine. */
void stg_oracle_worker_destroy(struct stg_oracle_worker *worker);

/** The chain of the rows to come; it is borrowed until the next. */
STG_NODISCARD stg_status stg_oracle_worker_take(struct stg_oracle_worker *worker,
                                                const struct stg_oracle_chain *chain,
                                                stg_error *reterr);

/** As stg_oracle_row. */
void stg_oracle_worker_row(struct stg_oracle_worker *worker, stg_dtype dtype, const double *hidden,
                           const double *residual, struct stg_oracle_row *ret);

/** The elements alone: every comparison by its values, no bound. */
void stg_oracle_worker_apply(struct stg_oracle_worker *worker, const double *hidden,
                             const double *residual, double *ret_ref);

#endif
