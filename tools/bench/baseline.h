/*
 * baseline.h: what a batch costs without this library, in C and CUDA: the ways in which hosts steer
 * today. Each works on the batch's rows in place, in bf16 with float32 arithmetic, one op per
 * request.
 *
 *   eager launches   per request, a kernel per operator of its op (multiply, sum, clamp, ...)
 *   slice loop       per request, one fused kernel on its slice; also captured into a graph
 *   gather/scatter   requests grouped by equal chains: index_select, op, index_copy per group
 *   adaptive         a uniform batch by one whole-batch op; else gather/scatter where chains are
 *                    shared, else the slice loop
 *   fused            one kernel for all rows, each with its own vector; one kind of op only
 */
#ifndef STG_TOOLS_BENCH_BASELINE_H
#define STG_TOOLS_BENCH_BASELINE_H

#include "tools/bench/batch.h"
#include "tools/bench/timing.h"

/* kernels/baselines.cu, in this order. */
#define STG_BENCH_RIVAL_KERNELS(X)                                                                 \
  X(EAGER_MUL, "stg_eager_mul")                                                                    \
  X(EAGER_SUM, "stg_eager_sum")                                                                    \
  X(EAGER_CLAMP, "stg_eager_clamp")                                                                \
  X(EAGER_SUB, "stg_eager_sub")                                                                    \
  X(EAGER_SCALE, "stg_eager_scale")                                                                \
  X(EAGER_MULADD, "stg_eager_muladd")                                                              \
  X(EAGER_SCALE_VECTOR, "stg_eager_scale_vector")                                                  \
  X(EAGER_ADD_VECTOR, "stg_eager_add_vector")                                                      \
  X(GATHER, "stg_gather")                                                                          \
  X(SCATTER, "stg_scatter")                                                                        \
  X(SLICE_CAP, "stg_slice_cap")                                                                    \
  X(SLICE_ADD, "stg_slice_add")                                                                    \
  X(SLICE_ABLATION, "stg_slice_ablation")                                                          \
  X(FUSED_CAP, "stg_fused_cap")                                                                    \
  X(FUSED_ADD, "stg_fused_add")                                                                    \
  X(FUSED_ABLATION, "stg_fused_ablation")

enum stg_bench_rival_kernel {
#define STG_BENCH_RIVAL_ENUM(name, symbol) STG_RIVAL_##name,
  STG_BENCH_RIVAL_KERNELS(STG_BENCH_RIVAL_ENUM)
#undef STG_BENCH_RIVAL_ENUM
      STG_RIVAL_KERNEL_COUNT
};

/* The kernels, loaded once for all batches of an engine. {0} is none. */
struct stg_bench_rival_kernels {
  stg_engine *engine;
  struct stg_module *modules[STG_RIVAL_KERNEL_COUNT];
};

/** Needs NVRTC. Finish before the engine is closed. */
STG_NODISCARD stg_status stg_bench_rival_kernels_init(stg_engine *engine,
                                                      struct stg_bench_rival_kernels *ret,
                                                      stg_error *reterr);
void stg_bench_rival_kernels_finish(struct stg_bench_rival_kernels *kernels);

/* A batch's inputs and temporaries on the device. {0} is none. */
struct stg_bench_rival {
  const struct stg_bench_rival_kernels *kernels;
  const struct stg_bench_batch *batch;
  void *vectors;        /* bf16 [n_vectors, hidden_size] */
  void *index;          /* int32 [rows]: rows in order of their chains */
  void *vector_of;      /* int32 [rows] */
  void *params;         /* float [rows, 2] */
  void *wide;           /* float [rows, hidden_size], or as many bf16 rows gathered */
  void *narrow[3];      /* float [rows] each: p, its clamp, the difference */
  uint32_t *group_rows; /* [n_distinct] */
  struct stg_arena arena;
};

/** The batch has one op per request that acts, no residual, rows of at most 8192 elements by
 * eights.
 */
bool stg_bench_rival_can(const struct stg_bench_mix *mix);
STG_NODISCARD stg_status stg_bench_rival_init(const struct stg_bench_rival_kernels *kernels,
                                              const struct stg_bench_batch *batch,
                                              struct stg_bench_rival *ret, stg_error *reterr);
void stg_bench_rival_finish(struct stg_bench_rival *rival);

/* One way; `launch` takes a struct stg_bench_rival. */
struct stg_bench_baseline {
  const char *series;
  stg_bench_launch launch;
  bool captured; /* timed as a captured line, otherwise as the host enqueues it */
  bool one_kind; /* serves batches of one kind of op alone */
};

#define STG_BENCH_N_BASELINES 6
extern const struct stg_bench_baseline stg_bench_baselines[STG_BENCH_N_BASELINES];

#endif
