/*
 * prover_launch.c: launches of the proof search: pools of the host's in as many as they need, with
 * what the device says of its progress; and pools that are on the device, as a host's capture takes
 * them too. A launch goes out plainly: it takes milliseconds, and no kernel ahead of it may be
 * overtaken.
 */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "codegen/prover_extents.h"
#include "engine/exec.h"
#include "engine/prover.h"
#include "runtime/base/error.h"
#include "runtime/nvtx.h"

/* How often a run looks how far the device is, where somebody wants to know. */
#define PAUSE_NS 500000

/* A result on the device is the host's proof. */
_Static_assert(sizeof(stg_proof) == sizeof(struct stg_prove_result) &&
                   offsetof(stg_proof, depth) == offsetof(struct stg_prove_result, depth) &&
                   offsetof(stg_proof, outcome) == offsetof(struct stg_prove_result, outcome) &&
                   sizeof(stg_outcome) == sizeof(uint32_t) &&
                   offsetof(stg_proof, close) == offsetof(struct stg_prove_result, close) &&
                   offsetof(stg_proof, actions) == offsetof(struct stg_prove_result, actions),
               "one layout");
_Static_assert(sizeof(stg_atom) == sizeof(struct stg_prove_atom), "and of atoms");

/* One launch over up to `most` queries. */
static stg_status launch(stg_prover *prover, struct stg_prover_args *args, uint32_t most,
                         stg_stream stream, bool counts, stg_error *reterr) {
  struct stg_engine *engine = prover->object.engine;
  const struct stg_kernel *kernel = stg_kernels_of_variant(prover->kernels, 0);
  const struct stg_plan_launch how = {.stream = stream};
  const struct stg_node_launch node = {
      .kernel = kernel,
      .dims = {.grid_x = stg_prover_blocks(prover->device.blocks, most),
               .block_x = kernel->rule.threads,
               .shared_bytes = kernel->rule.stage_bytes},
      .args = args};
  stg_status status = stg_plan_launch(engine, &how, &node, 1, reterr);
  if (status == STG_OK && counts) {
    stg_usage_launch(&engine->usage, stg_kernel_tier(kernel));
    stg_plan_count_step(engine->plans, prover->plan);
  }
  return status;
}

/* ---- pools of the host's ---- */

/* A run on its way. */
struct run {
  stg_prover *prover;
  const stg_prover_run_desc *desc;
  size_t first; /* of the launch */
  size_t told;  /* done, as was last said */
};

static void tell(struct run *run, size_t done) {
  if (run->desc->progress != NULL && done > run->told) {
    run->told = done;
    run->desc->progress(run->desc->user, done, run->desc->n);
  }
}

/* Until all that is on the stream has been done. */
static stg_status wait(struct run *run, stg_error *reterr) {
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  struct stg_device *device = run->prover->object.engine->device;
  struct stg_prover_device *on = &run->prover->device;
  bool done = false;
  if (run->desc->progress == NULL) {
    return stg_stream_synchronize(device, on->stream, reterr);
  }
  stg_status status = stg_event_record(device, on->event, on->stream, reterr);
  while (status == STG_OK && !done) {
    status = stg_event_query(device, on->event, &done, reterr);
    if (status == STG_OK && !done) {
      tell(run, run->first + *on->staged.done);
      nanosleep(&pause, NULL);
    }
  }
  return status;
}

static stg_status run_part(struct run *run, const struct stg_prove_atom *queries, uint32_t n,
                           struct stg_prove_result *ret_results, stg_error *reterr) {
  stg_prover *prover = run->prover;
  struct stg_device *device = prover->object.engine->device;
  struct stg_prover_device *on = &prover->device;
  struct stg_prover_args args = on->args;
  const size_t before = (size_t)(args.queries - on->room_n);
  *on->staged.n = n;
  *on->staged.done = 0;
  memcpy(on->staged.queries, queries, n * sizeof *queries);
  args.done = run->desc->progress != NULL ? (uint64_t)(uintptr_t)on->staged.done : 0;
  args.first = run->first;
  args.seed = run->desc->seed;
  args.flags = run->desc->sample ? STG_PROVER_SAMPLE : 0;
  if (run->desc->trace) {
    args.trace = on->trace;
    args.traced = run->desc->traced;
  }
  stg_status status = stg_copy_to_device(device, on->room_n, on->staged.n,
                                         before + n * sizeof *queries, on->stream, reterr);
  if (status == STG_OK) {
    status = launch(prover, &args, n, on->stream, true, reterr);
  }
  if (status == STG_OK) {
    status = stg_copy_to_host(device, on->staged.results, args.results, n * sizeof *ret_results,
                              on->stream, reterr);
  }
  if (status == STG_OK) {
    status = wait(run, reterr);
  }
  if (status == STG_OK) {
    memcpy(ret_results, on->staged.results, n * sizeof *ret_results);
    tell(run, run->first + n);
  }
  return status;
}

/* What is left on the device when all launches have ended. */
static stg_status fetch(const struct run *run, const struct stg_prover_pool_room *room,
                        struct stg_prove_counts *ret_counts, stg_error *reterr) {
  const stg_prover *prover = run->prover;
  struct stg_device *device = prover->object.engine->device;
  const struct stg_prover_device *on = &prover->device;
  stg_status status = stg_copy_to_host(device, on->staged.words, on->args.words,
                                       sizeof *on->staged.words, on->stream, reterr);
  if (status == STG_OK && room->steps != NULL) {
    status = stg_copy_to_host(device, room->steps, on->trace,
                              prover->limits.depth * sizeof *room->steps, on->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_stream_synchronize(device, on->stream, reterr);
  }
  if (status == STG_OK) {
    *ret_counts = on->staged.words->counts;
  }
  return status;
}

stg_status stg_prover_run_cuda(stg_prover *prover, const stg_prover_run_desc *desc,
                               const struct stg_prover_pool_room *room,
                               struct stg_prove_counts *ret_counts, stg_error *reterr) {
  const struct stg_prover_device *on = &prover->device;
  struct run run = {.prover = prover, .desc = desc};
  stg_status status = room->steps != NULL ? stg_prover_device_trace(prover, reterr) : STG_OK;
  if (status == STG_OK) {
    status = stg_fill_u32(prover->object.engine->device, on->args.words, 0,
                          sizeof *on->staged.words / 4, on->stream, reterr);
  }
  while (status == STG_OK && run.first < desc->n) {
    const size_t left = desc->n - run.first;
    const uint32_t n = left < prover->capacity ? (uint32_t)left : prover->capacity;
    status = run_part(&run, room->queries + run.first, n, room->results + run.first, reterr);
    run.first += n;
  }
  if (status == STG_OK) {
    status = fetch(&run, room, ret_counts, reterr);
  }
  return status;
}

/* ---- pools on the device ---- */

static bool is_placed(const void *address) {
  return address != NULL && (uintptr_t)address % sizeof(uint32_t) == 0;
}

static stg_status check_launch(const stg_prover *prover, const stg_prover_launch_desc *desc,
                               stg_error *reterr) {
  if (prover == NULL || desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_launch: prover or desc is NULL, or struct_size is not %zu",
                         sizeof *desc);
  }
  stg_status status = stg_engine_check_process(prover->object.engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (!stg_prover_is_cuda(prover)) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "stg_prover_launch: the engine's backend is cpu; use stg_prover_run");
  }
  if (!is_placed(desc->queries) || !is_placed(desc->n) || !is_placed(desc->proofs)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_launch: queries at %p, n at %p, proofs at %p: NULL, or not a "
                         "multiple of 4",
                         (const void *)desc->queries, (const void *)desc->n,
                         (const void *)desc->proofs);
  }
  if (desc->capacity > STG_PROVER_MAX_CAPACITY) {
    return stg_error_set(reterr, STG_E_INVALID, "capacity: %u is not in 1..%d", desc->capacity,
                         STG_PROVER_MAX_CAPACITY);
  }
  if (!stg_prover_has_weights(prover)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_launch: there are no weights; call stg_prover_set_weights");
  }
  return STG_OK;
}

stg_status stg_prover_launch(stg_prover *prover, const stg_prover_launch_desc *desc,
                             stg_stream stream, stg_error *reterr) {
  bool capturing = false;
  stg_status status = check_launch(prover, desc, reterr);
  if (status == STG_OK) {
    status = stg_stream_is_capturing(prover->object.engine->device, stream, &capturing, reterr);
  }
  if (status == STG_OK && capturing) {
    status = stg_attn_object_pin(&prover->object, stream, reterr);
  } else if (status == STG_OK) {
    stg_attn_object_refill(&prover->object);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_prover_args args = prover->device.args;
  args.queries = (uint64_t)(uintptr_t)desc->queries;
  args.n = (uint64_t)(uintptr_t)desc->n;
  args.results = (uint64_t)(uintptr_t)desc->proofs;
  args.capacity = desc->capacity != 0 ? desc->capacity : prover->capacity;
  args.first = desc->first;
  args.seed = desc->seed;
  args.flags = desc->sample ? STG_PROVER_SAMPLE : 0;
  stg_nvtx_push("prove");
  status = launch(prover, &args, args.capacity, stream, !capturing, reterr);
  stg_nvtx_pop();
  return status;
}
