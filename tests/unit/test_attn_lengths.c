/*
 * test_attn_lengths.c: one compile and one graph for every length: launches, plans and compiles as
 * lengths grow, wherever positions come from, and in caches of other sizes. On a device of the
 * host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/device.h"
#include "tests/support/attn_objects.h"
#include "tests/support/host_device.h"

/* Of a rope, an attend, and the advance. */
#define KERNELS 3
#define LENGTHS 512

static const int32_t all_of_them[] = {2, 0, 1};

static void synchronize(const struct objects *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_stream_synchronize(stg_mem_device(all->engine), NULL, &error), &error);
}

/* Every kernel is in no cache, so that compiles are counted. */
static stg_engine *open_compiling(void) {
  const struct host_compiler compiler = {.missing = ""};
  host_device_set_compiler(&compiler);
  return obj_engine(STG_BACKEND_CUDA, STG_LAUNCH_DEFAULT);
}

static void close_compiling(struct objects *all) {
  const struct host_compiler compiler = {0};
  obj_close(all);
  host_device_set_compiler(&compiler);
}

static void open_block(struct objects *all, stg_engine *engine, int64_t capacity) {
  stg_kv_desc desc = obj_kv_desc();
  desc.capacity = capacity;
  obj_open_of(all, engine, &desc);
  obj_open_block(all);
}

static const int32_t *lengths(const struct objects *all) {
  stg_kv_tensors tensors = {.struct_size = sizeof tensors};
  stg_kv_get_tensors(all->kv, &tensors);
  return tensors.len;
}

static void expect_nothing_new(const stg_stats *before, const struct objects *all) {
  const stg_stats after = obj_stats(all);
  assert_int_equal(before->kernel_compiles, after.kernel_compiles);
  assert_int_equal(before->graphs_created, after.graphs_created);
  assert_int_equal(before->plans_live, after.plans_live);
  assert_int_equal(before->plain_launches, after.plain_launches);
}

static void a_layer_is_one_launch_at_every_length(void **state) {
  struct objects all;
  (void)state;
  open_block(&all, open_compiling(), LENGTHS);
  obj_step(&all, all_of_them, 3);
  const stg_stats before = obj_stats(&all);
  assert_int_equal(KERNELS, before.kernel_compiles);
  assert_int_equal(2, before.graphs_created); /* without the advance, and with it */
  assert_int_equal(2, before.plans_live);
  for (int length = 1; length < LENGTHS; length++) {
    host_device_reset_calls();
    obj_step(&all, all_of_them, 3);
    assert_int_equal(2 + 3, host_device_calls().launches); /* nodes */
    assert_int_equal(1, host_device_calls().copies);       /* of the rows */
  }
  expect_nothing_new(&before, &all);
  const stg_stats after = obj_stats(&all);
  const uint64_t steps = LENGTHS - 1;
  assert_int_equal(steps * OBJ_LAYERS, after.graph_launches - before.graph_launches);
  assert_int_equal(steps * OBJ_LAYERS, after.attention_applies - before.attention_applies);
  assert_int_equal(steps, after.steps - before.steps);
  assert_int_equal(3 * steps, after.step_rows - before.step_rows);
  assert_int_equal(steps * OBJ_LAYERS, after.tier0_launches - before.tier0_launches);
  synchronize(&all);
  for (int seq = 0; seq < OBJ_BATCH; seq++) {
    assert_int_equal(LENGTHS, lengths(&all)[seq]);
  }
  close_compiling(&all);
}

/* Whoever asks for a step's plan knows the positions, and could let them into its signature. */
static void positions_that_the_host_knows_are_no_part_of_a_plan(void **state) {
  struct objects all;
  stg_stats before = {.struct_size = sizeof before};
  (void)state;
  open_block(&all, open_compiling(), OBJ_CAPACITY);
  for (int32_t at = 0; at < OBJ_CAPACITY; at++) {
    const int32_t pos[] = {at, at, at};
    const stg_rows_step step = {
        .struct_size = sizeof step, .rows = 3, .seq = all_of_them, .pos = pos};
    stg_error error = STG_ERROR_INIT;
    must(stg_rows_step_set(all.rows, &step, NULL, &error), &error);
    must(stg_block_step(all.block, all.rows, NULL, NULL, &error), &error);
    for (uint32_t layer = 0; layer < OBJ_LAYERS; layer++) {
      must(obj_try_layer(&all, layer, &error), &error);
    }
    before = at == 0 ? obj_stats(&all) : before;
  }
  assert_int_equal(KERNELS, before.kernel_compiles);
  assert_int_equal(2, before.plans_live);
  expect_nothing_new(&before, &all);
  synchronize(&all);
  for (int seq = 0; seq < OBJ_BATCH; seq++) {
    assert_int_equal(OBJ_CAPACITY, lengths(&all)[seq]);
  }
  close_compiling(&all);
}

/* Frequencies, scale and capacity are arguments; no more than the chunk follows from the last. */
static void caches_of_other_sizes_share_the_kernels(void **state) {
  static const int64_t capacities[] = {1, 257, 9000};
  struct objects all;
  (void)state;
  open_block(&all, open_compiling(), OBJ_CAPACITY);
  obj_step(&all, all_of_them, 3);
  const stg_stats before = obj_stats(&all);
  assert_int_equal(KERNELS, before.kernel_compiles);
  for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
    struct objects other;
    open_block(&other, all.engine, capacities[i]);
    obj_step(&other, all_of_them, 3);
    obj_close_on(&other);
  }
  expect_nothing_new(&before, &all);
  close_compiling(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_layer_is_one_launch_at_every_length),
      cmocka_unit_test(positions_that_the_host_knows_are_no_part_of_a_plan),
      cmocka_unit_test(caches_of_other_sizes_share_the_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
