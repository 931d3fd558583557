/*
 * bench/kernels.h: the bench's own CUDA: the files of kernels/, compiled at start.
 */
#ifndef STG_TOOLS_BENCH_KERNELS_H
#define STG_TOOLS_BENCH_KERNELS_H

#include <steergraph/engine.h>

#include "runtime/launch.h"

/** The text of kernels/STEM.cu; asserts that there is one. */
const char *stg_bench_kernel_text(const char *stem);

/**
 * Compile kernels/STEM.cu for the engine's card and load the `count` kernels of it that are named.
 * On failure nothing is loaded.
 */
STG_NODISCARD stg_status stg_bench_kernels_load(stg_engine *engine, const char *stem,
                                                const char *const *names, size_t count,
                                                struct stg_module **ret_modules, stg_error *reterr);
void stg_bench_kernels_unload(stg_engine *engine, struct stg_module **modules, size_t count);

#endif
