/*
 * attn_launch.c: how one kernel of the attention side goes out: on a stream, or into a capture; and
 * what the engine's traffic knows of it.
 */
#include "engine/attn.h"

stg_status stg_attn_launch_init(struct stg_engine *engine, const stg_rows *rows, int64_t count,
                                stg_stream stream, struct stg_attn_launch *ret, stg_error *reterr) {
  struct stg_attn_launch launch = {.stream = stream, .rows = count};
  stg_status status = stg_stream_is_capturing(engine->device, stream, &launch.capturing, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (rows != NULL) {
    /* a replay has as many rows as the map then says, up to the bucket */
    launch.rows = launch.capturing ? rows->shape.rows : rows->rows;
    /* kernels read the map before they wait for the launch ahead of them; behind a copy there may
     * be nothing that they could wait for */
    launch.changes = rows->kv != NULL ? atomic_load(&rows->kv->changes) : 0;
    launch.early = !rows->fresh && rows->seen_changes == launch.changes;
  }
  *ret = launch;
  return STG_OK;
}

void stg_attn_launched(const struct stg_attn_launch *launch, stg_rows *rows) {
  if (rows != NULL && !launch->capturing) {
    rows->fresh = false;
    rows->seen_changes = launch->changes;
  }
}

stg_status stg_attn_launch_line(struct stg_engine *engine, const struct stg_attn_launch *launch,
                                const struct stg_node_launch *nodes, size_t count,
                                stg_error *reterr) {
  const struct stg_plan_launch how = {.early = launch->early, .stream = launch->stream};
  stg_status status = launch->capturing ? stg_plan_capture(engine, &how, nodes, count, reterr)
                                        : stg_plan_launch(engine, &how, nodes, count, reterr);
  for (size_t i = 0; i < count && status == STG_OK && !launch->capturing; i++) {
    stg_usage_launch(&engine->usage, stg_kernel_tier(nodes[i].kernel));
  }
  return status;
}

stg_status stg_attn_launch_one(struct stg_engine *engine, const struct stg_attn_launch *launch,
                               const struct stg_node_launch *node, stg_error *reterr) {
  return stg_attn_launch_line(engine, launch, node, 1, reterr);
}

/* Whether this is the first launch of the set in its step; it is not any more then. Sets beyond
 * those that are told apart are not counted. */
static bool is_first(stg_rows *rows, const struct stg_kernel_set *set) {
  for (unsigned i = 0; i < rows->n_counted; i++) {
    if (rows->counted[i] == set) {
      return false;
    }
  }
  if (rows->n_counted == STG_ROWS_MAX_COUNTED) {
    return false;
  }
  rows->counted[rows->n_counted++] = set;
  return true;
}

void stg_attn_count(struct stg_engine *engine, stg_rows *rows, int64_t count,
                    const struct stg_kernel_set *set) {
  struct stg_graph_shape shape;
  if (rows != NULL ? !is_first(rows, set)
                   : stg_attn_shape(count, 1, (uint32_t)count, &shape, NULL) != STG_OK) {
    return;
  }
  const char *text = stg_attn_kernel(set)->signature;
  stg_traffic_add(stg_traffic_find(engine->traffic, text, stg_signature_chars(text, engine->arch),
                                   rows != NULL ? &rows->shape : &shape));
}
