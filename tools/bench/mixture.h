/*
 * bench/mixture.h: the standard mixture in the slots of a steer table: add, projection_cap and
 * ablation in turn, a unit vector of its own for each slot, cap bounds of +-0.5, adds of 4 times
 * the vector, whole ablations. Rows are normal with standard deviation 8, so that nearly every row
 * is out of a cap's bounds.
 */
#ifndef STG_TOOLS_BENCH_MIXTURE_H
#define STG_TOOLS_BENCH_MIXTURE_H

#include <steergraph/steer.h>

/* Vectors as a request brings them: bf16, host memory. Made before anything is timed. */
struct stg_bench_vectors {
  size_t count;
  size_t length; /* elements of each */
  uint16_t *data;
};

/** `count` random unit vectors. */
STG_NODISCARD stg_status stg_bench_vectors_init(size_t count, size_t length,
                                                struct stg_bench_vectors *ret, stg_error *reterr);
void stg_bench_vectors_finish(struct stg_bench_vectors *vectors);

/** Slot i of the table gets one op on vector i; interns the vectors and leaves them to the slots.
 */
STG_NODISCARD stg_status stg_bench_mixture_set(stg_engine *engine, stg_steer *steer,
                                               const struct stg_bench_vectors *vectors,
                                               stg_error *reterr);

/** Fill `count` random elements, bf16. */
STG_NODISCARD stg_status stg_bench_rows_fill(size_t count, uint16_t *ret_rows, stg_error *reterr);
/** Random rows in the engine's memory, bf16 [rows, hidden]; freed with stg_mem_free. */
STG_NODISCARD stg_status stg_bench_rows_alloc(stg_engine *engine, size_t rows, size_t hidden,
                                              void **ret_rows, stg_error *reterr);

#endif
