/*
 * prover_device.c: what of a prover is on the device: its base, its weights, and room for a pool
 * and for slots, all of it made when the prover is, so that addresses never change: graphs that a
 * host captured keep them.
 */
#include <string.h>

#include "codegen/prover_extents.h"
#include "codegen/prover_pack.h"
#include "engine/prover.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"

#define ALIGNMENT ((size_t)256)

/* Where parts begin in memory that they share, and how much it is. */
struct layout {
  size_t n, queries, results, words, scratch, bytes;
};

static size_t place(size_t *end, size_t bytes) {
  const size_t at = *end;
  *end += stg_round_up(bytes, ALIGNMENT);
  return at;
}

static struct layout room_layout(uint32_t capacity, size_t scratch_bytes) {
  struct layout layout = {0};
  layout.n = place(&layout.bytes, sizeof(uint32_t));
  layout.queries = place(&layout.bytes, capacity * sizeof(struct stg_prove_atom));
  layout.results = place(&layout.bytes, capacity * sizeof(struct stg_prove_result));
  layout.words = place(&layout.bytes, sizeof(struct stg_prover_words));
  layout.scratch = place(&layout.bytes, scratch_bytes);
  return layout;
}

/* Weights likewise: predicates, arguments, layers. */
struct weights_layout {
  size_t predicate_bytes, argument_bytes;
  size_t predicates, arguments, layers, bytes;
};

static struct weights_layout weights_layout_of(const stg_prover *prover) {
  const struct stg_prove_base *base = &prover->tables.base;
  const size_t row = prover->net.embed * sizeof(float);
  struct weights_layout layout = {
      .predicate_bytes = ((size_t)base->predicates + STG_PROVE_ENDF) * row,
      .argument_bytes = ((size_t)base->constants + (size_t)2 * prover->limits.atoms) * row};
  layout.predicates = place(&layout.bytes, layout.predicate_bytes);
  layout.arguments = place(&layout.bytes, layout.argument_bytes);
  layout.layers = place(&layout.bytes, stg_prover_pack_floats(&prover->net) * sizeof(float));
  return layout;
}

/* The host's memory goes when this returns. */
static stg_status upload(stg_prover *prover, uint64_t to, const void *from, size_t bytes,
                         stg_error *reterr) {
  struct stg_device *device = prover->object.engine->device;
  stg_stream_handle stream = prover->device.stream;
  stg_status status = stg_copy_to_device(device, to, from, bytes, stream, reterr);
  return status == STG_OK ? stg_stream_synchronize(device, stream, reterr) : status;
}

static stg_status make_staged(stg_prover *prover, stg_error *reterr) {
  struct stg_prover_device *on = &prover->device;
  const struct layout at = room_layout(prover->capacity, ALIGNMENT); /* the last is for `done` */
  stg_status status =
      stg_pinned_alloc(prover->object.engine->device, at.bytes, &on->pinned, reterr);
  if (status == STG_OK) {
    unsigned char *host = on->pinned;
    on->staged = (struct stg_prover_staged){
        .n = (uint32_t *)(void *)(host + at.n),
        .queries = (struct stg_prove_atom *)(void *)(host + at.queries),
        .results = (struct stg_prove_result *)(void *)(host + at.results),
        .words = (struct stg_prover_words *)(void *)(host + at.words),
        .done = (volatile uint32_t *)(void *)(host + at.scratch)};
    prover->held.pinned = at.bytes;
  }
  return status;
}

static void set_args(stg_prover *prover, const struct layout *at) {
  struct stg_prover_device *on = &prover->device;
  const struct weights_layout weights = weights_layout_of(prover);
  on->room_n = on->room + at->n;
  on->args = (struct stg_prover_args){
      .base = stg_prove_tables_at(&prover->tables, (const void *)(uintptr_t)on->base),
      .predicates = on->weights + weights.predicates,
      .arguments = on->weights + weights.arguments,
      .layers = on->weights + weights.layers,
      .queries = on->room + at->queries,
      .results = on->room + at->results,
      .n = on->room_n,
      .words = on->room + at->words,
      .scratch = on->room + at->scratch,
      .traced = UINT64_MAX,
      .capacity = prover->capacity,
      .depth = prover->limits.depth,
      .epsilon = prover->net.epsilon};
}

static stg_status make_memory(stg_prover *prover, size_t scratch_bytes, stg_error *reterr) {
  struct stg_device *device = prover->object.engine->device;
  struct stg_prover_device *on = &prover->device;
  const struct layout at = room_layout(prover->capacity, scratch_bytes);
  const size_t weights_bytes = weights_layout_of(prover).bytes;
  stg_status status = stg_device_alloc(device, prover->tables.bytes, &on->base, reterr);
  if (status == STG_OK) {
    status = stg_device_alloc(device, weights_bytes, &on->weights, reterr);
  }
  if (status == STG_OK) {
    status = stg_device_alloc(device, at.bytes, &on->room, reterr);
  }
  if (status == STG_OK) {
    set_args(prover, &at);
    prover->memory.policy_bytes = weights_bytes;
    prover->memory.states_bytes = scratch_bytes;
    prover->memory.pool_bytes = at.bytes - scratch_bytes;
    prover->held.prover = prover->tables.bytes + weights_bytes + at.bytes;
    status = make_staged(prover, reterr);
  }
  return status;
}

stg_status stg_prover_device_init(stg_prover *prover, stg_error *reterr) {
  struct stg_device *device = prover->object.engine->device;
  struct stg_prover_device *on = &prover->device;
  const struct stg_prover_extents extents = stg_prover_extents_of(&prover->limits, &prover->net);
  on->blocks = extents.resident_blocks * (uint32_t)stg_device_get_info(device)->multiprocessors;
  stg_status status = stg_stream_create(device, &on->stream, reterr);
  if (status == STG_OK) {
    status = stg_event_create(device, false, &on->event, reterr);
  }
  if (status == STG_OK) {
    prover->memory.slots = (uint64_t)on->blocks * extents.slots;
    status = make_memory(prover, stg_prover_scratch_bytes(&extents, on->blocks), reterr);
  }
  if (status == STG_OK) { /* results, and words behind them */
    const size_t bytes = on->args.words - on->args.results + sizeof(struct stg_prover_words);
    status = stg_fill_u32(device, on->args.results, 0, bytes / 4, on->stream, reterr);
  }
  return status == STG_OK
             ? upload(prover, on->base, prover->tables.block, prover->tables.bytes, reterr)
             : status;
}

void stg_prover_device_finish(stg_prover *prover) {
  struct stg_device *device = prover->object.engine->device;
  struct stg_prover_device *on = &prover->device;
  if (device == NULL) {
    return;
  }
  if (on->stream != NULL) {
    stg_status status = stg_stream_synchronize(device, on->stream, NULL);
    (void)status; /* nothing to be done about it: the memory goes either way */
  }
  stg_event_destroy(device, on->event);
  if (on->stream != NULL) {
    stg_stream_destroy(device, on->stream);
  }
  stg_pinned_free(device, on->pinned);
  stg_device_free(device, on->trace);
  stg_device_free(device, on->room);
  stg_device_free(device, on->weights);
  stg_device_free(device, on->base);
  *on = (struct stg_prover_device){0};
}

stg_status stg_prover_device_set_weights(stg_prover *prover,
                                         const struct stg_prove_weights *weights,
                                         stg_error *reterr) {
  struct stg_prover_device *on = &prover->device;
  const struct weights_layout at = weights_layout_of(prover);
  unsigned char *host = stg_malloc_aligned(at.bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "weights of a policy", at.bytes);
  }
  memset(host, 0, at.bytes);
  memcpy(host + at.predicates, weights->predicates, at.predicate_bytes);
  memcpy(host + at.arguments, weights->arguments, at.argument_bytes);
  stg_prover_pack(&prover->net, weights, (float *)(void *)(host + at.layers));
  stg_status status = upload(prover, on->weights, host, at.bytes, reterr);
  on->has_weights = status == STG_OK; /* else there is half of them */
  stg_free(host);
  return status;
}

stg_status stg_prover_device_trace(stg_prover *prover, stg_error *reterr) {
  struct stg_engine *engine = prover->object.engine;
  struct stg_prover_device *on = &prover->device;
  const size_t bytes = prover->limits.depth * sizeof(struct stg_prove_step);
  if (on->trace != 0) {
    return STG_OK;
  }
  stg_status status = stg_device_alloc(engine->device, bytes, &on->trace, reterr);
  if (status == STG_OK) {
    stg_usage_hold(&engine->usage, &(struct stg_held_bytes){.prover = bytes});
    prover->held.prover += bytes;
  }
  return status;
}
