/*
 * components_check.h: what float64 says of a case: y and dx of some rows, gradients of some
 * components over all rows; and whether a launch left that. Asked before anything is timed.
 */
#ifndef STG_TOOLS_BENCH_COMPONENTS_CHECK_H
#define STG_TOOLS_BENCH_COMPONENTS_CHECK_H

#include "runtime/base/arena.h"
#include "tools/bench/components_bed.h"

enum stg_bench_components_result {
  STG_BENCH_RESULT_Y,  /* [samples, d_out] */
  STG_BENCH_RESULT_DX, /* [samples, d_in] */
  STG_BENCH_RESULT_DV, /* [d_in, columns] */
  STG_BENCH_RESULT_DU, /* [columns, d_out] */
  STG_BENCH_RESULT_DM, /* [rows of the mask, columns] */
  STG_BENCH_RESULTS
};

struct stg_bench_components_reference {
  int64_t rows, columns; /* 0: the case has none */
  double *values, *bounds;
};
/* {0} is none. */
struct stg_bench_components_references {
  struct stg_bench_components_reference of[STG_BENCH_RESULTS];
  struct stg_arena arena;
};

/** "y", "dx", "dv", "du", "dm". */
const char *stg_bench_components_result_name(enum stg_bench_components_result result);

/** Work them out. STG_E_NO_MEMORY. Finish also after a failure. */
STG_NODISCARD stg_status stg_bench_components_refer(const struct stg_bench_components *work,
                                                    struct stg_bench_components_references *ret,
                                                    stg_error *reterr);
void stg_bench_components_references_finish(struct stg_bench_components_references *references);

struct stg_bench_components_verdict {
  double mae;         /* of what was looked at */
  double worst_ratio; /* of an error to its own bound */
};
/**
 * Launch set 0 and hold what it leaves against the references.
 * @return STG_E_CORRUPT names the tensor and the place.
 */
STG_NODISCARD stg_status stg_bench_components_check(
    struct stg_bench_components_bed *bed, const struct stg_bench_components_references *references,
    struct stg_bench_components_verdict *ret_verdict, stg_error *reterr);

#endif
