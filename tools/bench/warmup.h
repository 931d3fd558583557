/*
 * bench/warmup.h: the parts of the suite `warmup`: what a fresh process pays until its first
 * result, and what calls feel while kernels are compiled beside them.
 */
#ifndef STG_TOOLS_BENCH_WARMUP_H
#define STG_TOOLS_BENCH_WARMUP_H

#include "tools/bench/suite.h"

/* What the measured process finds, and how it compiles: an empty cache folder, or one that such a
 * process has filled; a pack alone; an empty cache folder, three ops declared, and compiles in the
 * background. */
#define STG_WARMUP_COLD "cold"
#define STG_WARMUP_DISK "disk"
#define STG_WARMUP_PACK "pack"
#define STG_WARMUP_TIERS "tiers"

/* Members of the row that the child prints; ms but for the last seven. */
#define STG_WARMUP_FACTS(X)                                                                        \
  X(context_ms)       /* the engine: driver, context, streams */                                   \
  X(nvrtc_load_ms)    /* cold: finding and opening NVRTC */                                        \
  X(create_ms)        /* the table: compile or read, load, allocate */                             \
  X(compile_ms)       /* of which in the compiler */                                               \
  X(module_load_ms)   /* of which in the driver's loader */                                        \
  X(first_call_ms)    /* 32 slots, a frame, step, apply, synchronise */                            \
  X(after_context_ms) /* all but the context */                                                    \
  X(total_ms)         /* the sum */                                                                \
  X(since_exec_ms)    /* from the parent's spawn to the result, host data made between included */ \
  X(memory_ms)        /* a second table of the same kernels until its first result */              \
  X(swap_ms)          /* tiers: from the table's beginning until the declared kernels serve */     \
  X(later_us)         /* step, apply, synchronise: median */                                       \
  X(apply_us)         /* apply, synchronise: median */                                             \
  X(kernels)          /* compiled */                                                               \
  X(first_tier)       /* of the kernel that gave the first result: 0 general, 1 declared */        \
  X(first_prefill)    /* 1: it has the prefill tile */                                             \
  X(sm)               /* of the device: 90 for sm_90 */

struct stg_warmup_facts {
#define MEMBER(name) double name;
  STG_WARMUP_FACTS(MEMBER)
#undef MEMBER
};

/**
 * In the measured process, before anything else has touched the driver: bring the standard mixture
 * to its first result, with the cache folder (or the pack) options->cache, and add one row of
 * facts. `kind` is one of the words above; `spawn_ns` is the parent's clock. STG_E_NOT_WARM when a
 * process with a full cache had to compile; STG_E_INVALID for another kind.
 */
STG_NODISCARD stg_status stg_warmup_child(const struct stg_bench_options *options, const char *kind,
                                          uint64_t spawn_ns, struct stg_bench_report *report,
                                          stg_error *reterr);

/**
 * Make a pack of the kernels that the measured processes want, for sm_`sm`, from those in the cache
 * folder, by `steergraph build --pack` on a workload in `folder`. `*ret_path` is stg_free'd.
 */
STG_NODISCARD stg_status stg_warmup_pack(const char *folder, const char *cache, int sm,
                                         char **ret_path, stg_error *reterr);

/** Host-inclusive time of the standard batch by the bench's own eager launches. */
STG_NODISCARD stg_status stg_warmup_eager(const struct stg_bench_options *options,
                                          struct stg_times *ret_time, stg_error *reterr);

/**
 * Calls of a running table, alone and then beside a second thread that creates tables with
 * signatures that no cache has. Adds a row for each.
 */
STG_NODISCARD stg_status stg_warmup_stalls(const struct stg_bench_options *options,
                                           struct stg_bench_report *report, stg_error *reterr);

/**
 * Calls of a running table whose own thread creates tables with declarations that no cache has,
 * every so many calls, with compiles in the background. Adds a row.
 */
STG_NODISCARD stg_status stg_warmup_appear(const struct stg_bench_options *options,
                                           struct stg_bench_report *report, stg_error *reterr);

#endif
