/*
 * workspace.c: partial sums and counters of attention, which belong to the rows: what goes with
 * them runs one after the other, so that one workspace does for all.
 *
 * A larger attend brings a larger one. The smaller stays: a graph of the host may use it.
 */
#include "engine/attn.h"
#include "runtime/base/alloc.h"

struct stg_decode_space stg_rows_space(const stg_rows *rows, const stg_attend *attend) {
  return stg_decode_space_of(&attend->geometry, (uint32_t)rows->capacity, attend->capacity,
                             attend->window);
}

static bool has_room(const struct stg_workspace *workspace, const struct stg_decode_space *space) {
  return workspace != NULL && workspace->partial_bytes >= space->partial_bytes &&
         workspace->counter_bytes >= space->counter_bytes;
}

const struct stg_workspace *stg_rows_workspace(const stg_rows *rows, const stg_attend *attend) {
  const struct stg_decode_space space = stg_rows_space(rows, attend);
  return has_room(rows->workspace, &space) ? rows->workspace : NULL;
}

static void free_memory(struct stg_engine *engine, struct stg_workspace *workspace) {
  if (workspace->partials != 0) {
    stg_device_free(engine->device, workspace->partials);
  }
  if (workspace->counters != 0) {
    stg_device_free(engine->device, workspace->counters);
  }
  stg_free(workspace);
}

void stg_workspaces_free(struct stg_engine *engine, struct stg_workspace *workspace) {
  while (workspace != NULL) {
    struct stg_workspace *next = workspace->next;
    free_memory(engine, workspace);
    workspace = next;
  }
}

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static stg_status fill(struct stg_engine *engine, struct stg_workspace *workspace,
                       stg_error *reterr) {
  stg_status status = STG_OK;
  if (workspace->partial_bytes > 0) {
    status =
        stg_device_alloc(engine->device, workspace->partial_bytes, &workspace->partials, reterr);
  }
  if (status == STG_OK) {
    status =
        stg_device_alloc(engine->device, workspace->counter_bytes, &workspace->counters, reterr);
  }
  if (status == STG_OK) {
    status = stg_fill_u32(engine->device, workspace->counters, 0,
                          workspace->counter_bytes / sizeof(uint32_t), engine->stream, reterr);
  }
  return status == STG_OK ? stg_stream_synchronize(engine->device, engine->stream, reterr) : status;
}

stg_status stg_rows_reserve(stg_rows *rows, const stg_attend *attend, stg_error *reterr) {
  struct stg_engine *engine = rows->object.engine;
  const struct stg_decode_space space = stg_rows_space(rows, attend);
  if (!stg_engine_is_cuda(engine) || has_room(rows->workspace, &space)) {
    return STG_OK;
  }
  struct stg_workspace *made = stg_calloc(1, sizeof *made);
  if (made == NULL) {
    return stg_error_memory(reterr, "a workspace of attention", sizeof *made);
  }
  const struct stg_workspace *before = rows->workspace;
  made->partial_bytes = larger(space.partial_bytes, before != NULL ? before->partial_bytes : 0);
  made->counter_bytes =
      larger(space.counter_bytes, before != NULL ? before->counter_bytes : sizeof(uint32_t));
  stg_status status = fill(engine, made, reterr);
  if (status != STG_OK) {
    free_memory(engine, made);
    return status;
  }
  const struct stg_held_bytes more = {.kv = made->partial_bytes + made->counter_bytes};
  stg_usage_hold(&engine->usage, &more);
  rows->held.kv += more.kv;
  made->next = rows->workspace;
  rows->workspace = made;
  return STG_OK;
}
