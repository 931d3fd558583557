/*
 * bench/warmup_pace.h: a table in use at a steady pace, as decode steps come, so that the number of
 * calls spans what is compiled meanwhile; each call timed.
 */
#ifndef STG_TOOLS_BENCH_WARMUP_PACE_H
#define STG_TOOLS_BENCH_WARMUP_PACE_H

#include "tools/bench/calls.h"
#include "tools/bench/suite.h"

#define STG_PACE_CALLS 10000
#define STG_PACE_QUICK_CALLS 100
#define STG_PACE_MOST_CALLS 200000

struct stg_pace {
  struct stg_bench_calls calls;
  struct stg_bench_vectors vectors;
  int32_t row_map[STG_BENCH_REQUESTS];
  double *us; /* [STG_PACE_MOST_CALLS] */
};

/* What a caller does before a call, outside of what is timed; and whether calls are to go on. */
struct stg_pace_beside {
  stg_status (*before)(void *user, size_t call, stg_error *reterr); /* NULL: nothing */
  bool (*goes_on)(void *user);                                      /* NULL: no more than asked */
  void *user;
};

/** An engine on CUDA, a decode batch, one row of each request, and some calls to get warm. */
STG_NODISCARD stg_status stg_pace_open(struct stg_pace *pace, stg_compile_mode compile,
                                       stg_error *reterr);
void stg_pace_close(struct stg_pace *pace);

/** At least `least` calls, and as many more as `beside` wants; their times are in pace->us. */
STG_NODISCARD stg_status stg_pace_run(struct stg_pace *pace, size_t least,
                                      const struct stg_pace_beside *beside, size_t *ret_count,
                                      stg_error *reterr);
/** The row of `count` calls, whose times it sorts. */
struct stg_bench_row stg_pace_row(struct stg_pace *pace, size_t count, const char *name);

#endif
