/*
 * decode_probe.h: when each block of a launch of the decode family began, had waited for the launch
 * ahead, had counted, had its first K, was through its share, and ended; with STG_DECODE_PROBE=1.
 */
#ifndef STG_TESTS_GPU_DECODE_PROBE_H
#define STG_TESTS_GPU_DECODE_PROBE_H

#include "tests/gpu/decode_bed.h"

/** Launch it a few times, and print what the last launch's blocks noted. */
void decode_probe_print(const struct gpu *gpu, const struct stg_decode_geometry *geometry,
                        const struct stg_decode_extents *extents,
                        const struct stg_decode_args *args, const struct stg_launch_dims *dims);
/** Without a device: compile its kernel for that, to be kept. */
void decode_probe_prepare(const char *arch, const struct stg_decode_geometry *geometry,
                          const struct stg_decode_extents *extents);

#endif
