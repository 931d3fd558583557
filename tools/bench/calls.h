/*
 * bench/calls.h: a steer table in use: one batch, stepped and applied call after call, each timed
 * by the host's clock up to a synchronisation.
 */
#ifndef STG_TOOLS_BENCH_CALLS_H
#define STG_TOOLS_BENCH_CALLS_H

#include "tools/bench/mixture.h"

/* All but `steer` and `frame` is borrowed. */
struct stg_bench_calls {
  stg_engine *engine;
  stg_stream stream;
  stg_steer *steer;
  stg_frame *frame;
  stg_step step;
  void *rows; /* the batch's hidden states */
  bool held;  /* the context is this thread's */
};

/**
 * Make the engine's context this thread's, as a host has it that uses CUDA itself, until let_go on
 * the same thread; nothing on the CPU.
 */
STG_NODISCARD stg_status stg_bench_calls_hold(struct stg_bench_calls *calls, stg_error *reterr);
void stg_bench_calls_let_go(struct stg_bench_calls *calls);

/** Create a table of `desc`, put the mixture into it, and make a frame. What a host does first. */
STG_NODISCARD stg_status stg_bench_calls_open(struct stg_bench_calls *calls,
                                              const stg_steer_desc *desc,
                                              const struct stg_bench_vectors *vectors,
                                              stg_error *reterr);
/** The table alone, the mixture and frame alone: what `open` does, in parts that can be timed. */
STG_NODISCARD stg_status stg_bench_calls_fill(struct stg_bench_calls *calls,
                                              const struct stg_bench_vectors *vectors,
                                              stg_error *reterr);
void stg_bench_calls_close(struct stg_bench_calls *calls);

/** Step (unless `apply_only`), apply, wait for the stream; the time of it all. */
STG_NODISCARD stg_status stg_bench_call(const struct stg_bench_calls *calls, bool apply_only,
                                        double *ret_us, stg_error *reterr);

/** The standard mixture's table: 32 slots, hidden size 4096, 2048 rows. */
stg_steer_desc stg_bench_calls_desc(void);

/**
 * An engine that finds no kernel in any folder and keeps none, with options from the environment:
 * what it lacks it compiles, as `compile` says unless the environment forbids it.
 */
STG_NODISCARD stg_status stg_bench_engine_open(stg_backend backend, stg_compile_mode compile,
                                               stg_engine **ret_engine, stg_error *reterr);
/** Whether a compile of the engine is queued or runs. */
bool stg_bench_engine_compiles(const stg_engine *engine);

#endif
