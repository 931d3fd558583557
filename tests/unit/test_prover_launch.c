/*
 * test_prover_launch.c: provers and pools that are on the device, on a device of the host:
 * launches, captures, what is refused, and calls after the device was lost or the process forked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/hostmem.h"
#include "runtime/device.h"
#include "tests/support/forked_calls.h"
#include "tests/support/prover_cuda.h"
#include "tests/support/test_fork.h"

/* A pool in memory of the device. */
struct on_device {
  stg_atom *queries;
  uint32_t *n;
  stg_proof *proofs;
  stg_prover_launch_desc desc;
};

static void *device_memory(size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  must(stg_mem_alloc(bed.engine, bytes, &memory, &error), &error);
  return memory;
}

static void put_pool(struct on_device *pool, size_t from, uint32_t n) {
  stg_error error = STG_ERROR_INIT;
  must(stg_mem_upload(bed.engine, pool->queries, bed.queries + from, n * sizeof(stg_atom), &error),
       &error);
  must(stg_mem_upload(bed.engine, pool->n, &n, sizeof n, &error), &error);
  memset(pool->proofs, 0xff, N * sizeof(stg_proof)); /* device memory is heap */
  pool->desc.first = from;
}

static void open_pool(struct on_device *pool) {
  *pool = (struct on_device){.queries = device_memory(N * sizeof(stg_atom)),
                             .n = device_memory(sizeof(uint32_t)),
                             .proofs = device_memory(N * sizeof(stg_proof))};
  pool->desc = (stg_prover_launch_desc){.struct_size = sizeof pool->desc,
                                        .queries = pool->queries,
                                        .n = pool->n,
                                        .proofs = pool->proofs,
                                        .sample = true,
                                        .seed = 9};
}

static void close_pool(struct on_device *pool) {
  stg_mem_free(bed.engine, pool->queries);
  stg_mem_free(bed.engine, pool->n);
  stg_mem_free(bed.engine, pool->proofs);
}

static void synchronize(void) {
  stg_error error = STG_ERROR_INIT;
  must(stg_stream_synchronize(stg_mem_device(bed.engine), NULL, &error), &error);
}

static void open_with_first(struct on_device *pool) {
  open_bed();
  bed.run.sample = true;
  bed.run.seed = 9;
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  open_pool(pool);
}

static void a_pool_on_the_device_is_one_launch(void **state) {
  struct on_device pool;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_with_first(&pool);
  const stg_stats before = stats_now();
  put_pool(&pool, 0, 10);
  must(stg_prover_launch(bed.prover, &pool.desc, NULL, &error), &error);
  assert_true(is_untouched(&pool.proofs[0])); /* nobody waited */
  synchronize();
  assert_first(pool.proofs, 10);
  assert_true(is_untouched(&pool.proofs[10]));
  put_pool(&pool, 0, N); /* more than the prover's capacity, of which the launch has room for 40 */
  pool.desc.capacity = 40;
  must(stg_prover_launch(bed.prover, &pool.desc, NULL, &error), &error);
  synchronize();
  assert_first(pool.proofs, 40);
  assert_true(is_untouched(&pool.proofs[40]));
  put_pool(&pool, 20, 5);
  pool.desc.capacity = 0;
  must(stg_prover_launch(bed.prover, &pool.desc, NULL, &error), &error);
  synchronize();
  for (size_t i = 0; i < 5; i++) {
    assert_true(prover_is_same(&first[20 + i], &pool.proofs[i]));
  }
  const stg_stats after = stats_now();
  assert_int_equal(3, after.plain_launches - before.plain_launches);
  assert_int_equal(before.prover_candidates, after.prover_candidates); /* the device's alone */
  prover_objects_run(&bed); /* what the launches counted is not the run's */
  prover_objects_judge(&bed);
  close_pool(&pool);
  close_bed();
}

/* Whatever is there when it runs, by whatever weights are the prover's then. */
static void a_replay_proves_what_is_there_then(void **state) {
  struct on_device pool;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_with_first(&pool);
  const stg_stats before = stats_now();
  const uint64_t capture = host_device_begin_capture();
  must(stg_prover_launch(bed.prover, &pool.desc, NULL, &error), &error);
  host_device_end_capture();
  assert_int_equal(before.tier0_launches, stats_now().tier0_launches);
  for (uint32_t n = 3; n <= CAPACITY; n += 6) {
    put_pool(&pool, 0, n);
    assert_int_equal(1, host_device_replay(capture, NULL));
    synchronize();
    assert_first(pool.proofs, n);
    assert_true(is_untouched(&pool.proofs[n]));
  }
  memset(bed.blocks[0], 0, (size_t)40 * 40 * sizeof(float));
  must(stg_prover_set_weights(bed.prover, &bed.weights, &error), &error);
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  put_pool(&pool, 0, CAPACITY);
  assert_int_equal(1, host_device_replay(capture, NULL));
  synchronize();
  assert_first(pool.proofs, CAPACITY);
  must_say(STG_E_BUSY,
           "stg_prover_destroy: 1 host graphs that were captured with the prover are alive; "
           "destroy them first",
           stg_prover_destroy(bed.prover, &error), &error);
  assert_int_equal(1, stats_now().host_graphs_live);
  assert_int_equal(1, host_device_drop_graph(capture));
  close_pool(&pool);
  close_bed();
}

static void a_capture_that_cannot_hold_the_prover_fails(void **state) {
  struct on_device pool;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_with_first(&pool);
  host_device_refuse_pins(true);
  host_device_say_capturing(true);
  must_say(STG_E_CUDA, "prover: cuGraphRetainUserObject failed: a test said so",
           stg_prover_launch(bed.prover, &pool.desc, NULL, &error), &error);
  host_device_refuse_pins(false);
  host_device_say_capturing(false);
  close_pool(&pool);
  close_bed();
}

static void launches_of_what_is_no_pool_are_refused(void **state) {
  struct on_device pool;
  stg_prover_launch_desc desc;
  stg_error error = STG_ERROR_INIT;
  char text[200];
  (void)state;
  open_with_first(&pool);
#define REFUSED(change, status, message)                                                           \
  do {                                                                                             \
    desc = pool.desc;                                                                              \
    change;                                                                                        \
    must_say(status, message, stg_prover_launch(bed.prover, &desc, NULL, &error), &error);         \
  } while (0)
  snprintf(text, sizeof text,
           "stg_prover_launch: prover or desc is NULL, or struct_size is not %zu", sizeof desc);
  REFUSED(desc.struct_size = 8, STG_E_INVALID, text);
  must_say(STG_E_INVALID, text, stg_prover_launch(NULL, &pool.desc, NULL, &error), &error);
  REFUSED(desc.capacity = 1048577, STG_E_INVALID, "capacity: 1048577 is not in 1..1048576");
  snprintf(text, sizeof text,
           "stg_prover_launch: queries at %p, n at (nil), proofs at %p: NULL, or not a multiple of "
           "4",
           (void *)pool.queries, (void *)pool.proofs);
  REFUSED(desc.n = NULL, STG_E_INVALID, text);
  const char *odd = (const char *)pool.queries + 2;
  snprintf(text, sizeof text,
           "stg_prover_launch: queries at %p, n at %p, proofs at %p: NULL, or not a multiple of 4",
           (const void *)odd, (void *)pool.n, (void *)pool.proofs);
  REFUSED(desc.queries = (const stg_atom *)(const void *)odd, STG_E_INVALID, text);
#undef REFUSED
  stg_prover *bare = NULL;
  must(stg_prover_create(bed.engine, &bed.desc, &bare, &error), &error);
  must_say(STG_E_INVALID, "stg_prover_launch: there are no weights; call stg_prover_set_weights",
           stg_prover_launch(bare, &pool.desc, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_prover_run: there are no weights; call stg_prover_set_weights",
           stg_prover_run(bare, &bed.run, bed.proofs, &error), &error);
  must(stg_prover_destroy(bare, &error), &error);
  stg_engine *cpu = prover_engine(STG_BACKEND_CPU);
  must(stg_prover_create(cpu, &bed.desc, &bare, &error), &error);
  must_say(STG_E_UNSUPPORTED, "stg_prover_launch: the engine's backend is cpu; use stg_prover_run",
           stg_prover_launch(bare, &pool.desc, NULL, &error), &error);
  must(stg_prover_destroy(bare, &error), &error);
  must(stg_engine_destroy(cpu, &error), &error);
  close_pool(&pool);
  close_bed();
}

static void say_nothing(void *user, size_t done, size_t n) {
  (void)user;
  (void)done;
  (void)n;
}

static void a_lost_device_is_told_at_every_call(void **state) {
  static const char said[] = "device 0 is lost since a test said so";
  struct on_device pool;
  stg_prover *other = NULL;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_with_first(&pool);
  host_device_lose(true);
  must_say(STG_E_DEVICE_LOST, said, stg_prover_run(bed.prover, &bed.run, bed.proofs, &error),
           &error);
  bed.run.progress = say_nothing;
  must_say(STG_E_DEVICE_LOST, said, stg_prover_run(bed.prover, &bed.run, bed.proofs, &error),
           &error);
  must_say(STG_E_DEVICE_LOST, said, stg_prover_launch(bed.prover, &pool.desc, NULL, &error),
           &error);
  must_say(STG_E_DEVICE_LOST, said, stg_prover_set_weights(bed.prover, &bed.weights, &error),
           &error);
  must_say(STG_E_DEVICE_LOST, said, stg_prover_create(bed.engine, &bed.desc, &other, &error),
           &error);
  must(stg_prover_destroy(bed.prover, &error), &error);
  bed.prover = NULL;
  host_device_lose(false);
  close_pool(&pool);
  close_bed();
}

#define TOLD(call) forked_is(STG_E_FORKED, #call, call, &error)

static bool child_is_told(const struct on_device *pool) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_prover *other = NULL;
  stg_error error = STG_ERROR_INIT;
  return TOLD(stg_prover_create(bed.engine, &bed.desc, &other, &error)) &&
         TOLD(stg_prover_set_weights(bed.prover, &bed.weights, &error)) &&
         TOLD(stg_prover_run(bed.prover, &bed.run, bed.proofs, &error)) &&
         TOLD(stg_prover_launch(bed.prover, &pool->desc, NULL, &error)) &&
         TOLD(stg_prover_plan(bed.prover, &info, &error)) &&
         forked_is(STG_OK, "stg_prover_destroy", stg_prover_destroy(bed.prover, &error), &error);
}

static void a_child_is_told_at_every_call(void **state) {
  struct on_device pool;
  (void)state;
  open_with_first(&pool);
  const pid_t child = test_fork();
  if (child == 0) {
    alarm(FORKED_SECONDS);
    host_device_reset_calls();
    _exit(child_is_told(&pool) && host_device_calls().all == 0 ? 0 : 1);
  }
  assert_true(forked_child_was_right(child));
  prover_objects_run(&bed); /* the parent goes on */
  assert_first(bed.proofs, N);
  close_pool(&pool);
  close_bed();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pool_on_the_device_is_one_launch),
      cmocka_unit_test(a_replay_proves_what_is_there_then),
      cmocka_unit_test(a_capture_that_cannot_hold_the_prover_fails),
      cmocka_unit_test(launches_of_what_is_no_pool_are_refused),
      cmocka_unit_test(a_lost_device_is_told_at_every_call),
      cmocka_unit_test(a_child_is_told_at_every_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
