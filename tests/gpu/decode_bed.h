/*
 * decode_bed.h: a call of the decode family, as the CPU takes it, on the device instead: generated,
 * compiled and launched through the runtime alone, without the engine.
 */
#ifndef STG_TESTS_GPU_DECODE_BED_H
#define STG_TESTS_GPU_DECODE_BED_H

#include "codegen/decode_extents.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/attn_bed.h"

/* A kernel. Its geometry is of the text; the CPU's and the oracle's may differ in what is for a
 * kernel alone. */
struct decode_kernel {
  const struct gpu *gpu;
  struct stg_decode_geometry geometry;
  struct stg_launch_rule rule;
  struct stg_module *module;
};
void decode_kernel_open(const struct gpu *gpu, const struct stg_decode_geometry *geometry,
                        struct decode_kernel *ret_kernel);
/** The same with extents of another choice; `with_times`: blocks write when they do what
 * (decode_probe.h). */
void decode_kernel_open_with(const struct gpu *gpu, const struct stg_decode_geometry *geometry,
                             const struct stg_decode_extents *extents, bool with_times,
                             struct decode_kernel *ret_kernel);
/** A cubin, to be freed, without a device. */
void *decode_kernel_make(const char *arch, const struct stg_decode_geometry *geometry,
                         const struct stg_decode_extents *extents, bool with_times,
                         struct stg_launch_rule *ret_rule);
void decode_kernel_close(struct decode_kernel *kernel);

/* How a call is launched; zeros: as the family launches it. */
struct decode_way {
  bool owner;      /* blocks own rows */
  uint32_t blocks; /* 0: as many as are right */
  bool flat;       /* say that out is not aligned */
  bool wide_pos;   /* positions as int64; they are int32 in the call */
  int32_t spare;   /* rows of padding behind those of the map, that the launch has and it has not */
};

/* A call on the device: copies of what the batch has. */
struct decode_call {
  const struct decode_kernel *kernel;
  const struct stg_cpu_attend_batch *batch;
  struct stg_decode_space space;
  struct stg_decode_args args;
  struct decode_way way;
  uint64_t memory[12]; /* all that was allocated */
  size_t n_memory;
  size_t out_bytes, kv_bytes;
};

/** Copy all that the batch has; `kv_elems` of K, and of V. `out` has what it has in the batch. */
void decode_call_open(const struct decode_kernel *kernel, const struct stg_cpu_attend_batch *batch,
                      int64_t kv_elems, struct decode_way way, struct decode_call *ret_call);
void decode_call_close(struct decode_call *call);
/** Copy the lengths and the cache again. */
void decode_call_refresh(struct decode_call *call);
/** The launch: grid, block, shared memory. */
struct stg_launch_dims decode_call_dims(const struct decode_call *call);
/** Launch it; the result is in the batch's out. Fails the test where a counter is left over. */
void decode_call_run(struct decode_call *call);

/** Open, run, close. */
void decode_run(const struct decode_kernel *kernel, const struct stg_cpu_attend_batch *batch,
                int64_t kv_elems, struct decode_way way);
/** Hold what is in the batch's out against the oracle; `before`: what it was. Fails the test. */
struct stg_oracle_heads_report decode_check(const struct stg_cpu_attend_batch *batch,
                                            const void *before);

#endif
