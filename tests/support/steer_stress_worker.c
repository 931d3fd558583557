/*
 * steer_stress_worker.c: a thread of the stress, from its first table to its last.
 */
#include "tests/support/steer_stress_work.h"

#include <stdio.h>

#include "engine/hostmem.h"
#include "runtime/clock.h"
#include "runtime/device.h"

#define MAX_VECTORS 2048
/* Slots of a shared table that no thread has: for one-shots, and so that there are records for
 * every version that an idle frame may hold of every slot. */
#define SPARE_SLOTS 128
/* Rounds from one table of its own to the next, and with it; from one one-shot to the next. */
#define TABLE_EVERY 8
#define TABLE_ROUNDS 4
#define ONCE_EVERY 5

const struct stress_declaration stress_declarations[STRESS_TABLES] = {
    {STRESS_ALL_KINDS, STG_F32},
    {STRESS_ALL_KINDS, STG_BF16},
    {1U << STRESS_ADD | 1U << STRESS_ABLATE, STG_F32},
    {1U << STRESS_ADD | 1U << STRESS_CAP | 1U << STRESS_SCALE, STG_F32},
    {1U << STRESS_ADD | 1U << STRESS_SWAP, STG_F32},
};

stg_status stress_table_create(stg_engine *engine, uint32_t which, stg_steer **ret_steer,
                               stg_error *reterr) {
  const char *ops[STRESS_KINDS];
  size_t n_ops = 0;
  int64_t sizes[STRESS_ROWS]; /* a bucket for every count: plans come and go all the time */
  for (int kind = 0; kind < STRESS_KINDS; kind++) {
    if ((stress_declarations[which].kinds >> kind & 1U) != 0) {
      ops[n_ops++] = stress_op_names[kind];
    }
  }
  for (int i = 0; i < STRESS_ROWS; i++) {
    sizes[i] = i + 1;
  }
  const stg_steer_desc desc = {
      .struct_size = sizeof desc,
      .hidden_size = STRESS_HIDDEN,
      .layers = STRESS_LAYERS,
      .dtype = stress_declarations[which].dtype,
      .max_rows = STRESS_ROWS,
      .max_slots = STRESS_THREADS * STRESS_OWN_SLOTS + (which < STRESS_SHARED ? SPARE_SLOTS : 0),
      .max_vectors = MAX_VECTORS,
      .max_chain = STRESS_MAX_OPS,
      .ops = ops,
      .n_ops = n_ops,
      .row_buckets = sizes,
      .n_row_buckets = STRESS_ROWS,
      .batch_buckets = sizes,
      .n_batch_buckets = STRESS_ROWS,
  };
  return stg_steer_create(engine, &desc, ret_steer, reterr);
}

bool stress_good(struct stress_work *work, const char *what, stg_status status,
                 const stg_error *error) {
  struct stress_worker *worker = work->worker;
  if (status != STG_OK && worker->failure[0] == '\0') {
    snprintf(worker->failure, sizeof worker->failure, "thread %u, round %llu: %s: %s: %.200s",
             worker->index, (unsigned long long)worker->rounds, what, stg_status_name(status),
             error->message);
  }
  return status == STG_OK;
}

static bool open_frame(struct stress_work *work, struct stress_place *place) {
  stg_error error = STG_ERROR_INIT;
  return stress_good(work, "stg_frame_create",
                     stg_frame_create(place->steer, &place->frame, &error), &error);
}

/* A table of the thread's own, used for some rounds; others may have one of the same kernels. */
static bool use_own_table(struct stress_work *work) {
  const uint32_t which = STRESS_SHARED + stress_draw(&work->random, STRESS_TABLES - STRESS_SHARED);
  struct stress_place place = {.declared = &stress_declarations[which]};
  stg_error error = STG_ERROR_INIT;
  bool ok = stress_good(work, "stg_steer_create",
                        stress_table_create(work->engine, which, &place.steer, &error), &error) &&
            open_frame(work, &place);
  for (int i = 0; i < TABLE_ROUNDS && ok; i++) {
    ok = stress_change_slots(work, &place) && stress_run_rows(work, &place);
  }
  stg_frame_destroy(place.frame);
  work->worker->tables++;
  return stress_good(work, "stg_steer_destroy", stg_steer_destroy(place.steer, &error), &error) &&
         ok;
}

static bool one_round(struct stress_work *work) {
  struct stress_worker *worker = work->worker;
  struct stress_place *place = &work->shared[stress_draw(&work->random, STRESS_SHARED)];
  stg_stats stats = {.struct_size = sizeof stats};
  bool ok = stress_change_slots(work, place) && stress_run_rows(work, place);
  if (ok && worker->rounds % ONCE_EVERY == 0) {
    ok = stress_run_once(work, &work->shared[0]);
  }
  if (ok && worker->rounds % TABLE_EVERY == 0) {
    ok = use_own_table(work);
  }
  stg_engine_stats(work->engine, &stats);
  worker->rounds++;
  return ok;
}

static bool open_work(struct stress_work *work) {
  const struct stress *stress = work->worker->stress;
  const size_t bytes = sizeof(float[STRESS_ROWS][STRESS_HIDDEN]);
  stg_error error = STG_ERROR_INIT;
  bool ok = stress_good(work, "memory",
                        stg_mem_alloc(work->engine, bytes, &work->on_hidden, &error), &error) &&
            stress_good(work, "memory", stg_mem_alloc(work->engine, bytes, &work->on_out, &error),
                        &error);
  for (int i = 0; i < STRESS_STREAMS && ok && stress->cuda; i++) {
    ok = stress_good(work, "a stream",
                     stg_stream_create(stg_mem_device(work->engine), &work->streams[i], &error),
                     &error);
  }
  for (uint32_t i = 0; i < STRESS_SHARED && ok; i++) {
    work->shared[i] = (struct stress_place){.steer = stress->shared[i],
                                            .declared = &stress_declarations[i],
                                            .first_slot = work->worker->index * STRESS_OWN_SLOTS};
    ok = open_frame(work, &work->shared[i]);
  }
  return ok;
}

static void close_work(struct stress_work *work) {
  for (uint32_t i = 0; i < STRESS_SHARED; i++) {
    stg_frame_destroy(work->shared[i].frame);
  }
  for (int i = 0; i < STRESS_STREAMS; i++) {
    if (work->streams[i] != NULL) {
      stg_stream_destroy(stg_mem_device(work->engine), work->streams[i]);
    }
  }
  stg_mem_free(work->engine, work->on_hidden);
  stg_mem_free(work->engine, work->on_out);
}

void *stress_work(void *user) {
  struct stress_worker *worker = user;
  struct stress_work work = {.worker = worker,
                             .engine = worker->stress->engine,
                             .random = 0x9E3779B97F4A7C15U * (worker->index + 1)};
  bool ok = open_work(&work);
  while (ok && stg_clock_ns() < worker->stress->until_ns) {
    ok = one_round(&work);
  }
  close_work(&work);
  return NULL;
}
