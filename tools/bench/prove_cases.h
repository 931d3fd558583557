/*
 * prove_cases.h: what the suite `prove` measures: knowledge bases, pools of their candidates,
 * arithmetics, and what of them a run can afford.
 */
#ifndef STG_TOOLS_BENCH_PROVE_CASES_H
#define STG_TOOLS_BENCH_PROVE_CASES_H

#include <steergraph/prover.h>

#include "runtime/base/strbuf.h"
#include "specs/prover_workload.h"
#include "tools/bench/report.h"

#define STG_PROVE_SUITE "prove"

/* Bases that are made up, as specs/prove_NAME.json has them. */
enum stg_prove_base { STG_PROVE_COUNTRIES, STG_PROVE_FAMILY };
#define STG_PROVE_BASES 2
#define STG_PROVE_SEED 1             /* of bases, policies and corruptions */
#define STG_PROVE_COUNTRIES_SIZE 330 /* of the family: as many as the public one has */
/** "countries", "family". */
const char *stg_prove_base_name(enum stg_prove_base base);

#define STG_PROVE_ARITHMETICS 3
/** The series of ours with that arithmetic: STG_BENCH_OURS for float32. */
const char *stg_prove_series(enum stg_prover_arithmetic arithmetic);

#define STG_PROVE_POOLS 9
extern const size_t stg_prove_pools[STG_PROVE_POOLS]; /* ascending */
/** A pool's row: "family, pool 512". In `name`, of STG_PROVE_NAME_BYTES. */
#define STG_PROVE_NAME_BYTES 48
void stg_prove_pool_name(enum stg_prove_base base, size_t pool, char *name);

/* The published rows of one compiled step: a batch of one query again and again, the batch that
 * such a process meets next, all of an evaluation, and a batch of another size, not padded. */
enum stg_prove_published {
  STG_PROVE_REPEATED,
  STG_PROVE_VARIED,
  STG_PROVE_EVALUATED,
  STG_PROVE_UNPADDED
};
#define STG_PROVE_PUBLISHED 4
#define STG_PROVE_BATCH 512
#define STG_PROVE_EVALUATION 10100 /* 100 queries, each with 100 corruptions */
/** "family, 512 repeated", "family, 512 varied", "family, 10100 evaluated", "family, 110 unpadded".
 */
void stg_prove_published_name(enum stg_prove_base base, enum stg_prove_published which, char *name);
/** How many candidates it has. */
size_t stg_prove_published_count(enum stg_prove_published which);

/* What a run measures: a CPU takes a millisecond where a GPU takes microseconds. */
struct stg_prove_extent {
  size_t bases;       /* the first of enum stg_prove_base */
  size_t arithmetics; /* the first of enum stg_prover_arithmetic */
  size_t largest;     /* pool */
  unsigned warmup, repeats;
  size_t checked; /* candidates that the oracle judges */
};
struct stg_prove_extent stg_prove_extent_of(bool cuda, bool quick);

/** Append the text of the workload: 100 queries with 100 corruptions a side. */
void stg_prove_case_print(enum stg_prove_base base, enum stg_prover_arithmetic arithmetic,
                          struct stg_strbuf *out);
/** Candidates are taken from the pool of the workload at this distance, round and round: even a
 * small pool is of many queries then. */
#define STG_PROVE_STRIDE 7919

/** Products and sums of one evaluation of a policy: of its linear maps alone, a product and a sum
 * each. */
double stg_prove_flop_of_state(const struct stg_prove_sizes *sizes);
/* Operations a microsecond, 2 a multiply-add; {0}: not measured. */
struct stg_prove_peaks {
  double fma, tf32;
};

/** The least that `flop` operations of a policy can take, at the rate that a kernel of nothing else
 * reaches on the same card in the same run; three products of TF32 may make one. What a search does
 * besides, and memory, are not in it. 0 where no peak was measured. */
double stg_prove_floor_us(const struct stg_prove_peaks *peaks,
                          enum stg_prover_arithmetic arithmetic, double flop);

/** What the counts of a run say, as extras of its row; `us` is what the pool took. */
void stg_prove_add_counts(const stg_prover_counts *counts, size_t pool, double us,
                          struct stg_bench_row *row);

/* What a pool gave, which another one is held against. Borrowed. */
struct stg_prove_proofs {
  const stg_proof *list;
  size_t pool;
};
/**
 * What becomes of a candidate does not depend on its pool: the first n, at most as many as there
 * are in the other one, have the same bits.
 * @return STG_E_CORRUPT names the first that has not, and both pools.
 */
STG_NODISCARD stg_status stg_prove_check_same(const stg_proof *proofs, size_t n,
                                              const struct stg_prove_proofs *wanted,
                                              stg_error *reterr);

#endif
