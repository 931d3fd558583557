/*
 * test_steer_kernels.c: where kernels come from, how they are launched, and what is counted.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_random.h"
#include "tests/support/temp_folder.h"

#define HIDDEN 768

static const stg_steer_desc table = {
    .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 128, .max_slots = 8};

static stg_engine *engine_with(const char *cache_path, stg_compile_mode compile,
                               stg_launch_mode launch) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_path = cache_path;
  options.pack_path = "";
  options.compile = compile;
  options.launch = launch;
  return steer_engine(&options);
}

static stg_plan_info plan_of(const struct steer_bed *bed) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_frame_plan(bed->frame, &info, &error), &error);
  return info;
}

/* Ninety rows over eight slots of random chains; the same for every bed. */
static struct steer_batch *mixed_batch(struct steer_bed *bed) {
  struct steer_draws draws = {.seed = 601};
  const struct steer_menu menu = {
      .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = 12};
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 90});
  stg_op_call calls[4];
  steer_random_vectors(&draws, bed, 12);
  for (uint32_t slot = 0; slot < 8; slot++) {
    steer_random_chain(&draws, bed, &menu, 1 + slot % 4, calls);
    steer_bed_set(bed, slot, calls, 1 + slot % 4);
  }
  steer_batch_fill(batch, 602, 1);
  for (int64_t r = 0; r < 90; r++) {
    batch->row_map[r] = (int32_t)(r / 9) - 2;
  }
  return batch;
}

static void graphs_and_plain_launches_give_the_same_bits(void **state) {
  struct steer_env *env = *state;
  static const stg_launch_mode modes[] = {STG_LAUNCH_GRAPH, STG_LAUNCH_PLAIN};
  unsigned char *bits[2];
  size_t image_bytes = 0;
  for (int i = 0; i < 2; i++) {
    stg_engine *engine = engine_with(env->cache_path, STG_COMPILE_BLOCK, modes[i]);
    struct steer_bed *bed = steer_bed_on(env, engine, &table);
    struct steer_batch *batch = mixed_batch(bed);
    steer_batch_expect_ok(batch);
    steer_batch_expect_ok(batch);
    image_bytes = batch->image_bytes;
    bits[i] = malloc(image_bytes);
    assert_non_null(bits[i]);
    memcpy(bits[i], batch->result, image_bytes);
    const stg_stats stats = steer_engine_stats(engine);
    assert_int_equal(2, stats.steps);
    assert_int_equal(2, stats.applies);
    assert_int_equal(i == 0 ? 2 : 0, stats.graph_launches);
    assert_int_equal(i == 0 ? 2 : 0, stats.graph_updates);
    assert_int_equal(i == 0 ? 1 : 0, stats.graphs_created);
    assert_int_equal(i == 0 ? 0 : 2, stats.plain_launches);
    assert_int_equal(0, stats.graph_fallbacks);
    assert_int_equal(12, stats.vectors_live);
    assert_int_equal(2, stats.tier0_launches);
    assert_int_equal(0, stats.tier1_launches);
    /* ten runs of nine rows: padding, unsteered rows, and eight slots */
    assert_int_equal(2 * 72, stats.rows_steered);
    assert_int_equal(2 * 9, stats.rows_untouched);
    assert_true(stats.table_bytes > 0 && stats.frame_bytes > 0 && stats.kernel_bytes > 0);
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
    const stg_stats after = steer_engine_stats(engine);
    assert_int_equal(0, after.vectors_live);
    assert_int_equal(0, after.table_bytes + after.bank_bytes + after.frame_bytes);
    assert_int_equal(0, after.pinned_bytes + after.kernel_bytes);
    steer_engine_close(engine);
  }
  assert_memory_equal(bits[0], bits[1], image_bytes);
  free(bits[0]);
  free(bits[1]);
}

/* Bits do not follow from the declared set: tier 0 may serve a call that tier 1 served before. */
static void every_declared_set_gives_the_same_bits(void **state) {
  struct steer_env *env = *state;
  static const char *const few[] = {"ablation", "add", "add_keep_norm", "projection_cap"};
  unsigned char *bits[2];
  size_t image_bytes = 0;
  for (int i = 0; i < 2; i++) {
    stg_steer_desc desc = table;
    desc.ops = i == 0 ? NULL : few;
    desc.n_ops = i == 0 ? 0 : 4;
    struct steer_bed *bed = steer_bed_create(env, &desc);
    struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 90});
    stg_vector v[3];
    for (int k = 0; k < 3; k++) {
      v[k] = steer_bed_direction(bed, 610 + (uint64_t)k, 1);
    }
    const stg_op_call calls[] = {steer_cap_max(v[0], 0.1F), steer_add(v[1], 2),
                                 steer_ablate(v[2], 0), steer_keep_norm(v[0], 3)};
    for (uint32_t slot = 0; slot < 4; slot++) {
      steer_bed_set(bed, slot, calls + slot, 4 - slot);
    }
    steer_batch_fill(batch, 611, 1);
    for (int64_t r = 0; r < 90; r++) {
      batch->row_map[r] = (int32_t)(r / 9 % 6) - 2;
    }
    steer_batch_expect_ok(batch);
    assert_int_equal(i, plan_of(bed).tier);
    image_bytes = batch->image_bytes;
    bits[i] = malloc(image_bytes);
    assert_non_null(bits[i]);
    memcpy(bits[i], batch->result, image_bytes);
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
  }
  assert_memory_equal(bits[0], bits[1], image_bytes);
  free(bits[0]);
  free(bits[1]);
}

static void apply_allocates_nothing(void **state) {
  struct steer_env *env = *state;
  static const stg_launch_mode modes[] = {STG_LAUNCH_GRAPH, STG_LAUNCH_PLAIN};
  for (int i = 0; i < 2; i++) {
    stg_engine *engine = engine_with(env->cache_path, STG_COMPILE_BLOCK, modes[i]);
    struct steer_bed *bed = steer_bed_on(env, engine, &table);
    struct steer_batch *batch = mixed_batch(bed);
    const stg_apply apply = steer_batch_args(batch);
    stg_error error = STG_ERROR_INIT;
    steer_batch_send(batch);
    steer_batch_step(batch);
    stg_alloc_fail_at(1);
    stg_status status = stg_steer_apply(batch->frame, &apply, batch->stream, &error);
    stg_alloc_fail_at(0);
    expect_status(STG_OK, status, &error);
    steer_batch_fetch(batch);
    steer_batch_check(batch);
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
    steer_engine_close(engine);
  }
}

/* A signature seen before: a step neither compiles nor makes a graph. */
static void a_shape_seen_before_costs_no_graph_and_no_compile(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = steer_bed_create(env, &table);
  struct steer_batch *batch = mixed_batch(bed);
  steer_batch_expect_ok(batch);
  const stg_stats before = steer_engine_stats(env->engine);
  for (int k = 0; k < 10; k++) {
    steer_batch_expect_ok(batch);
  }
  const stg_stats after = steer_engine_stats(env->engine);
  assert_int_equal(before.graphs_created, after.graphs_created);
  assert_int_equal(before.kernel_compiles, after.kernel_compiles);
  assert_int_equal(before.kernel_disk_hits, after.kernel_disk_hits);
  assert_int_equal(before.steps + 10, after.steps);
  assert_int_equal(before.graph_launches + 10, after.graph_launches);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void without_a_compile_an_empty_cache_is_not_warm(void **state) {
  struct steer_env *env = *state;
  stg_engine *engine = engine_with(NULL, STG_COMPILE_NEVER, STG_LAUNCH_DEFAULT);
  stg_steer_desc desc = table;
  stg_steer *steer = NULL;
  stg_error error = STG_ERROR_INIT;
  desc.struct_size = sizeof desc;
  expect_error(STG_E_NOT_WARM, "steer v1 | ops=", stg_steer_create(engine, &desc, &steer, &error),
               &error);
  assert_non_null(strstr(error.message, "hidden=768 dtype=bf16"));
  assert_null(steer);
  assert_int_equal(0, steer_engine_stats(engine).kernel_compiles);
  steer_engine_close(engine);
  assert_true(env->cuda);
}

/* Two kernels a table, decode and prefill: compiled once, then read from the folder. */
static void a_second_engine_takes_its_kernels_from_the_folder(void **state) {
  struct steer_env *env = *state;
  void *folder = NULL;
  assert_int_equal(0, temp_folder_setup(&folder));
  stg_engine *first = engine_with(folder, STG_COMPILE_BLOCK, STG_LAUNCH_DEFAULT);
  struct steer_bed *bed = steer_bed_on(env, first, &table);
  struct steer_batch *batch = mixed_batch(bed);
  steer_batch_expect_ok(batch);
  assert_string_equal("compiled", plan_of(bed).source);
  assert_true(plan_of(bed).compile_ms > 0);
  stg_stats stats = steer_engine_stats(first);
  assert_int_equal(2, stats.kernel_compiles);
  assert_int_equal(2, stats.cache_stores);
  assert_int_equal(0, stats.kernel_disk_hits);
  struct steer_bed *beside = steer_bed_on(env, first, &table);
  assert_int_equal(2, steer_engine_stats(first).kernel_memory_hits);
  steer_bed_destroy(beside);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  steer_engine_close(first);

  stg_engine *second = engine_with(folder, STG_COMPILE_NEVER, STG_LAUNCH_DEFAULT);
  bed = steer_bed_on(env, second, &table);
  batch = mixed_batch(bed);
  steer_batch_expect_ok(batch);
  assert_string_equal("disk", plan_of(bed).source);
  stats = steer_engine_stats(second);
  assert_int_equal(0, stats.kernel_compiles);
  assert_int_equal(2, stats.kernel_disk_hits);
  assert_int_equal(0, stats.cache_stores);
  assert_true(stats.load_us > 0);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  steer_engine_close(second);
  assert_int_equal(0, temp_folder_teardown(&folder));
}

static void the_plan_says_what_serves_a_frame(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = steer_bed_create(env, &table);
  struct steer_batch *batch = mixed_batch(bed);
  stg_engine_info engine = {.struct_size = sizeof engine};
  stg_engine_get_info(env->engine, &engine);
  batch->requests = 9;
  batch->longest = 9;
  steer_batch_expect_ok(batch);
  const stg_plan_info prefill = plan_of(bed);
  assert_int_equal(0, prefill.tier);
  assert_int_equal(96, prefill.row_bucket);
  assert_int_equal(16, prefill.batch_bucket);
  assert_int_equal(16, prefill.seq_bucket);
  assert_true(prefill.tile_rows == 1 && prefill.threads % 32 == 0 && prefill.registers > 0);
  assert_non_null(strstr(prefill.signature, "tile=prefill"));
  assert_non_null(strstr(prefill.signature, engine.arch));
  assert_non_null(strstr(prefill.signature, "batch<=16 seq<=16 rows<=96"));
  char key[33], graph_key[33];
  memcpy(key, prefill.kernel_key, sizeof key);
  memcpy(graph_key, prefill.graph_key, sizeof graph_key);
  batch->longest = 1;
  steer_batch_expect_ok(batch);
  const stg_plan_info decode = plan_of(bed);
  assert_int_equal(1, decode.tile_rows);
  assert_int_equal(1, decode.seq_bucket);
  assert_true(prefill.threads <= decode.threads);
  assert_non_null(strstr(decode.signature, "tile=decode"));
  assert_string_not_equal(key, decode.kernel_key);
  assert_string_not_equal(graph_key, decode.graph_key);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_table_with_user_ops_says_tier_one_and_its_body(void **state) {
  struct steer_env *env = *state;
  static const char *const ops[] = {"add", "lean"};
  stg_steer_desc desc = table;
  struct stg_op_info lean;
  stg_error error = STG_ERROR_INIT;
  steer_register_lean(env->engine);
  check_ok(stg_engine_op_find(env->engine, "lean", &lean, &error), &error);
  desc.ops = ops;
  desc.n_ops = 2;
  struct steer_bed *bed = steer_bed_create(env, &desc);
  const stg_op_call calls[] = {
      {.op = "lean", .vectors = {steer_bed_direction(bed, 1, 1), steer_bed_direction(bed, 2, 2)}},
      steer_add(steer_bed_direction(bed, 3, 1), 2),
  };
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 20});
  steer_bed_set(bed, 0, calls, 2);
  steer_batch_fill(batch, 603, 1);
  steer_batch_map(batch, 0, 20, 0);
  steer_batch_expect_ok(batch);
  const stg_plan_info plan = plan_of(bed);
  assert_int_equal(1, plan.tier);
  assert_non_null(strstr(plan.signature, "ops=add,user:"));
  assert_non_null(strstr(plan.signature, lean.body_hash));
  assert_null(strstr(plan.signature, "lean"));
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_backend_left_open_takes_the_device_and_says_so(void **state) {
  struct steer_env *env = *state;
  stg_options options;
  stg_engine_info info = {.struct_size = sizeof info};
  stg_options_init(&options);
  stg_engine *engine = steer_engine(&options);
  stg_engine_get_info(engine, &info);
  assert_int_equal(STG_BACKEND_CUDA, info.backend);
  assert_non_null(strstr(info.reason, "cuda backend: "));
  assert_non_null(strstr(info.reason, info.arch));
  assert_int_equal(0, strncmp(info.arch, "sm_", 3));
  assert_true(info.driver_version >= 12000);
  steer_engine_close(engine);
  assert_true(env->cuda);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(graphs_and_plain_launches_give_the_same_bits),
      cmocka_unit_test(every_declared_set_gives_the_same_bits),
      cmocka_unit_test(apply_allocates_nothing),
      cmocka_unit_test(a_shape_seen_before_costs_no_graph_and_no_compile),
      cmocka_unit_test(without_a_compile_an_empty_cache_is_not_warm),
      cmocka_unit_test(a_second_engine_takes_its_kernels_from_the_folder),
      cmocka_unit_test(the_plan_says_what_serves_a_frame),
      cmocka_unit_test(a_table_with_user_ops_says_tier_one_and_its_body),
      cmocka_unit_test(a_backend_left_open_takes_the_device_and_says_so),
  };
  return cmocka_run_group_tests_name("steer kernels", tests, steer_env_cuda, steer_env_close);
}
