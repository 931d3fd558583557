/*
 * test_stats.c: an engine's counters, as a struct and as JSON, and what an engine says of itself.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/steer_batch.h"

static stg_stats stats_of(const struct steer_env *env) {
  stg_stats stats;
  memset(&stats, 0xee, sizeof stats);
  stats.struct_size = sizeof stats;
  stg_engine_stats(env->engine, &stats);
  return stats;
}

static void work_is_counted_where_it_happens(void **state) {
  struct steer_env *env = *state;
  const stg_steer_desc desc = {.hidden_size = 32, .dtype = STG_F32, .max_rows = 16};
  const stg_stats before = stats_of(env);
  struct steer_bed *bed = steer_bed_create(env, &desc);
  const stg_vector v = steer_bed_direction(bed, 1, 1), w = steer_bed_direction(bed, 2, 1);
  steer_bed_direction(bed, 1, 1);
  const stg_op_call calls[] = {steer_cap_max(v, 1), steer_cap_max(w, 1)};
  steer_bed_set(bed, 0, calls, 2);
  steer_bed_params(bed, 0, 0, 0, (const float[]){0, 2}, 2);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 4});
  steer_batch_fill(batch, 3, 1);
  steer_batch_map(batch, 0, 4, 0);
  steer_batch_run(batch);
  steer_batch_run(batch);
  steer_batch_apply(batch);
  const stg_stats after = stats_of(env);
  assert_int_equal(before.steps + 2, after.steps);
  assert_int_equal(before.applies + 3, after.applies);
  assert_int_equal(before.vectors_live + 2, after.vectors_live);
  assert_int_equal(before.vector_bytes + (uint64_t)2 * 32 * 4, after.vector_bytes);
  assert_int_equal(before.vector_intern_hits + 1, after.vector_intern_hits);
  assert_int_equal(before.gram_pairs + 1, after.gram_pairs);
  assert_int_equal(before.gram_hits + 1, after.gram_hits);
  assert_int_equal(0, after.kernel_compiles);
  assert_int_equal(0, after.plain_launches);
  assert_int_equal(0, after.graph_launches);
  assert_true(after.compile_ms == 0);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  assert_int_equal(before.vectors_live, stats_of(env).vectors_live);
  assert_int_equal(before.gram_pairs, stats_of(env).gram_pairs);
}

static void the_text_is_json_with_every_counter(void **state) {
  static const char *const fields[] = {
      "kernel_memory_hits",
      "kernel_disk_hits",
      "kernel_compiles",
      "compile_ms",
      "load_us",
      "cache_stores",
      "cache_store_failures",
      "cache_quarantined",
      "cache_pack_hits",
      "cache_misses",
      "cache_evictions",
      "cache_evicted_bytes",
      "graphs_created",
      "graph_updates",
      "graph_launches",
      "plain_launches",
      "graph_fallbacks",
      "steps",
      "applies",
      "vectors_live",
      "vector_bytes",
      "vector_intern_hits",
      "gram_pairs",
      "gram_hits",
      "step_rows",
      "step_pad_rows",
      "step_requests",
      "step_pad_requests",
      "rows_steered",
      "rows_untouched",
      "rows_unseen",
      "tier0_launches",
      "tier1_launches",
      "table_bytes",
      "bank_bytes",
      "frame_bytes",
      "pinned_bytes",
      "kernels_live",
      "kernel_bytes",
      "plans_live",
      "graphs_live",
      "plan_evictions",
      "graph_evictions",
      "plan_bytes",
      "kernel_swaps",
      "compiles_queued",
      "compiles_running",
      "compiles_refused",
      "compile_threads",
      "traffic_shapes",
      "traffic_dropped",
      "host_graphs_live",
      "regions_recorded",
      "region_replays",
      "region_failures",
      "region_bytes",
  };
  struct steer_env *env = *state;
  char text[4096];
  const size_t needed = stg_engine_stats_json(env->engine, text, sizeof text);
  assert_int_equal(strlen(text) + 1, needed);
  assert_true(text[0] == '{' && text[needed - 2] == '}');
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", fields[i]);
    assert_non_null(strstr(text, quoted));
  }
}

static void a_short_buffer_gets_what_fits(void **state) {
  struct steer_env *env = *state;
  char text[4096], part[8] = "xxxxxxx";
  const size_t needed = stg_engine_stats_json(env->engine, text, sizeof text);
  assert_int_equal(needed, stg_engine_stats_json(env->engine, NULL, 0));
  assert_int_equal(needed, stg_engine_stats_json(env->engine, part, 5));
  assert_int_equal(0, memcmp(part, text, 4));
  assert_string_equal("xx", part + 5);
  assert_int_equal('\0', part[4]);
  assert_int_equal(needed, stg_engine_stats_json(env->engine, text, needed));
  assert_int_equal('}', text[needed - 2]);
}

static void a_cpu_engine_says_so_and_why(void **state) {
  struct steer_env *env = *state;
  stg_engine_info info = {.struct_size = sizeof info};
  stg_engine_get_info(env->engine, &info);
  assert_int_equal(STG_BACKEND_CPU, info.backend);
  assert_string_equal("cpu backend: asked for", info.reason);
  assert_string_equal("cpu", info.arch);
  assert_true(info.device[0] != '\0');
  assert_int_equal(0, info.driver_version);
}

static void a_struct_of_another_size_is_left_alone(void **state) {
  struct steer_env *env = *state;
  const size_t info_sizes[] = {0, sizeof(size_t), sizeof(stg_engine_info) + 8};
  const size_t stats_sizes[] = {0, sizeof(size_t), sizeof(stg_stats) + 8};
  for (size_t i = 0; i < sizeof info_sizes / sizeof info_sizes[0]; i++) {
    stg_engine_info info, info_before;
    memset(&info, 0xee, sizeof info);
    info.struct_size = info_sizes[i];
    memcpy(&info_before, &info, sizeof info);
    stg_engine_get_info(env->engine, &info);
    assert_memory_equal(&info_before, &info, sizeof info);
    stg_stats stats, stats_before;
    memset(&stats, 0xee, sizeof stats);
    stats.struct_size = stats_sizes[i];
    memcpy(&stats_before, &stats, sizeof stats);
    stg_engine_stats(env->engine, &stats);
    assert_memory_equal(&stats_before, &stats, sizeof stats);
  }
}

static void of_no_engine_nothing_is_said(void **state) {
  struct steer_env *env = *state;
  stg_engine_info info = {.struct_size = sizeof info, .reason = "as it was"};
  stg_stats stats = {.struct_size = sizeof stats, .steps = 7};
  stg_engine_get_info(NULL, &info);
  stg_engine_stats(NULL, &stats);
  assert_string_equal("as it was", info.reason);
  assert_int_equal(7, stats.steps);
  stg_engine_get_info(env->engine, NULL);
  stg_engine_stats(env->engine, NULL);
}

static void options_that_make_no_sense_are_refused(void **state) {
  (void)state;
  stg_options options;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.struct_size = 3;
  expect_error(STG_E_INVALID, "struct_size is 3", stg_engine_create(&options, &engine, &error),
               &error);
  expect_error(STG_E_INVALID, "struct_size is 0", stg_engine_create(NULL, &engine, &error), &error);
  stg_options_init(&options);
  options.backend = (stg_backend)7;
  expect_error(STG_E_INVALID, "backend 7", stg_engine_create(&options, &engine, &error), &error);
  stg_options_init(&options);
  options.compile = (stg_compile_mode)4;
  expect_error(STG_E_INVALID, "compile 4", stg_engine_create(&options, &engine, &error), &error);
  stg_options_init(&options);
  options.log_level = (stg_log_level)(STG_LOG_DEBUG + 1);
  expect_error(STG_E_INVALID, "log_level 6 is unknown",
               stg_engine_create(&options, &engine, &error), &error);
  options.log_level = STG_LOG_DEFAULT;
  options.compile_threads = 65;
  expect_error(STG_E_INVALID, "compile_threads 65 is more than 64",
               stg_engine_create(&options, &engine, &error), &error);
  stg_options_init(&options);
  options.device = -1;
  expect_error(STG_E_INVALID, "device -1 is negative", stg_engine_create(&options, &engine, &error),
               &error);
  stg_options_init(&options);
  expect_error(STG_E_INVALID, "ret_engine is NULL", stg_engine_create(&options, NULL, &error),
               &error);
  assert_null(engine);
}

static void the_plan_of_a_cpu_frame_hashes_its_text(void **state) {
  struct steer_env *env = *state;
  const stg_steer_desc desc = {.hidden_size = 32, .dtype = STG_F32, .max_rows = 64};
  struct steer_bed *bed = steer_bed_create(env, &desc);
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_NOT_FOUND, "has had no step", stg_frame_plan(bed->frame, &plan, &error),
               &error);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 20});
  steer_batch_map(batch, 0, 10, 0);
  steer_batch_run(batch);
  expect_status(STG_OK, stg_frame_plan(bed->frame, &plan, &error), &error);
  assert_string_equal("cpu", plan.source);
  assert_int_equal(-1, plan.tier);
  assert_int_equal(24, plan.row_bucket);
  assert_int_equal(16, plan.seq_bucket);
  assert_int_equal(8, plan.batch_bucket);
  assert_non_null(strstr(plan.signature, "| cpu | batch<=8 seq<=16 rows<=24"));
  assert_int_equal(32, strlen(plan.kernel_key));
  assert_int_equal(32, strlen(plan.graph_key));
  assert_true(plan.compile_ms == 0);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_is_counted_where_it_happens),
      cmocka_unit_test(the_text_is_json_with_every_counter),
      cmocka_unit_test(a_short_buffer_gets_what_fits),
      cmocka_unit_test(a_cpu_engine_says_so_and_why),
      cmocka_unit_test(a_struct_of_another_size_is_left_alone),
      cmocka_unit_test(of_no_engine_nothing_is_said),
      cmocka_unit_test(options_that_make_no_sense_are_refused),
      cmocka_unit_test(the_plan_of_a_cpu_frame_hashes_its_text),
  };
  return cmocka_run_group_tests(tests, steer_env_cpu, steer_env_close);
}
