/*
 * hostmem.h: tensors and timing for programs that own no CUDA themselves (the command line, tests).
 * Internal: not installed, not ABI. On the CPU backend "device" memory is host memory.
 */
#ifndef STG_ENGINE_HOSTMEM_H
#define STG_ENGINE_HOSTMEM_H

#include <steergraph/steer.h>

struct stg_device;

/** Memory that apply can work on. Aligned to 256 bytes; freed with stg_mem_free. */
STG_NODISCARD stg_status stg_mem_alloc(stg_engine *engine, size_t bytes, void **ret_memory,
                                       stg_error *reterr);
void stg_mem_free(stg_engine *engine, void *memory);
/** Blocking copies; `to`/`from` on the engine's side are what stg_mem_alloc gave (or inside it). */
STG_NODISCARD stg_status stg_mem_upload(stg_engine *engine, void *to, const void *from,
                                        size_t bytes, stg_error *reterr);
STG_NODISCARD stg_status stg_mem_download(stg_engine *engine, void *to, const void *from,
                                          size_t bytes, stg_error *reterr);
/** The engine's device, for benchmarks; NULL on the CPU. */
struct stg_device *stg_mem_device(stg_engine *engine);
/** A stream to work on (NULL on the CPU); the engine keeps it. */
stg_stream stg_mem_stream(stg_engine *engine);
/** Wait until the stream is empty; reports errors of the work before. */
STG_NODISCARD stg_status stg_mem_synchronize(stg_engine *engine, stg_error *reterr);

/** Work that is timed: puts something on `stream`, the engine's own. */
typedef stg_status (*stg_mem_work)(void *user, stg_stream stream, stg_error *reterr);
/**
 * Do it `warmup` + `repeats` times and give the time of each of the last `repeats`: between events
 * on cuda, wall clock on the CPU; microseconds. The first failure ends it.
 */
STG_NODISCARD stg_status stg_mem_time_work(stg_engine *engine, stg_mem_work work, void *user,
                                           uint32_t warmup, uint32_t repeats, double *ret_us,
                                           stg_error *reterr);
/**
 * Apply `warmup` + `repeats` times on the engine's stream and time it so. In place, so the data
 * change.
 */
STG_NODISCARD stg_status stg_mem_time_applies(stg_frame *frame, const stg_apply *apply,
                                              uint32_t warmup, uint32_t repeats, double *ret_us,
                                              stg_error *reterr);

#endif
