/*
 * rope_stage.h: calls of the rope family that are made on a device and on the CPU.
 */
#ifndef STG_TESTS_GPU_ROPE_STAGE_H
#define STG_TESTS_GPU_ROPE_STAGE_H

#include "tests/gpu/rope_device.h"
#include "tests/support/attn_bed.h"

/* A call, from which the device's and the CPU's are made. */
struct scene {
  struct stg_rope_geometry geometry;
  struct stg_rope_freq freq;
  struct stg_step_rows rows;
  struct attn_kv_shape cache; /* batch 0: none */
  const int32_t *lens;        /* [batch] */
  const float *table;
  int64_t table_positions;
  int32_t missing; /* block that a paged cache lacks, + 1 */
  bool v_stays;    /* in the packed rows */
};

struct stage {
  struct attn_bed bed;
  struct attn_kv kv;
  struct attn_rope rope;
};

/** Memory of a scene, the same each time. */
void stage_open(const struct scene *scene, struct stage *ret);
/** `elems` elements have the same bytes. */
void same_bytes(stg_dtype dtype, const void *a, const void *b, int64_t elems);
/** All that a call writes has the same bytes. */
void same_results(const struct stage *a, const struct stage *b);
/** On the device as `how` says, within the oracle's bounds, and on the CPU, to the same bits. */
struct stg_oracle_heads_report run_scene(struct rope_device *device, const struct scene *scene,
                                         struct rope_how how);
/** The same aligned and not, in spans and whole, in a bucket. */
void run_all_ways(struct rope_device *device, const struct scene *scene);

/** That of attn_rope_geometry with these. */
struct stg_rope_geometry geometry_of(uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t rot);

#endif
