/*
 * test_traffic.c: steps counted by signature: on the CPU backend through the public API, and the
 * record itself to its limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <steergraph/steergraph.h>

#include "engine/engine.h"
#include "engine/traffic.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"

#define HIDDEN 8
#define THREADS 4
#define STEPS 1000

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static stg_engine *open_engine(uint32_t max_plans) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.max_plans = max_plans;
  ok(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

static stg_steer *open_table(stg_engine *engine, stg_dtype dtype, const char *const *ops,
                             size_t n_ops) {
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = dtype,
                               .max_rows = 256,
                               .ops = ops,
                               .n_ops = n_ops};
  stg_steer *steer = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_create(engine, &desc, &steer, &error), &error);
  return steer;
}

static void step_times(stg_steer *steer, int times, int64_t rows, uint32_t longest) {
  static int32_t map[256];
  const stg_step args = {
      .struct_size = sizeof args, .rows = rows, .row_map = map, .requests = 1, .longest = longest};
  stg_frame *frame = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_frame_create(steer, &frame, &error), &error);
  for (int i = 0; i < times; i++) {
    ok(stg_steer_step(frame, &args, NULL, &error), &error);
  }
  stg_frame_destroy(frame);
}

static void close_all(stg_engine *engine, stg_steer *steer) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_destroy(steer, &error), &error);
  ok(stg_engine_destroy(engine, &error), &error);
}

static stg_stats stats_of(const stg_engine *engine) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  return stats;
}

static void expect_saved(stg_engine *engine, void *const *state, const char *wanted) {
  const char *path = temp_path(state, "traffic.json");
  char *text = NULL;
  size_t size = 0;
  stg_error error = STG_ERROR_INIT;
  ok(stg_traffic_save(engine, path, &error), &error);
  ok(stg_file_read(path, 1 << 24, &text, &size, &error), &error);
  assert_string_equal(wanted, text);
  stg_free(text);
}

#define ADD "steer v1 | ops=add chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden"
#define NONE " epilogue=none windows=0 counters=0 probes=0"
#define HEAD "{\n  \"steergraph\": 1,\n  \"user_ops\": {"
#define LIST "},\n  \"manifest\": [\n"
#define ROW(text, count) "    {\"signature\": \"" text "\", \"count\": " count "}"

static void saves_what_was_stepped_most_used_first(void **state) {
  static const char *const only_add[] = {"add"};
  stg_engine *engine = open_engine(0);
  stg_steer *steer = open_table(engine, STG_F32, only_add, 1);
  expect_saved(engine, state, HEAD "},\n  \"manifest\": []\n}\n");
  step_times(steer, 2, 100, 100);
  step_times(steer, 3, 3, 1);
  step_times(steer, 5, 90, 90);
  step_times(steer, 3, 99, 1);
  assert_int_equal(4, stats_of(engine).traffic_shapes);
  assert_int_equal(0, stats_of(engine).traffic_dropped);
  expect_saved(
      engine, state,
      HEAD LIST ROW(ADD " | tile=prefill" NONE " | batch<=8 seq<=96 rows<=96", "5") ",\n" ROW(
          ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=112",
          "3") ",\n" ROW(ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=4",
                         "3") ",\n" ROW(ADD " | tile=prefill" NONE " | batch<=8 seq<=112 rows<=112",
                                        "2") "\n  ]\n}\n");
  close_all(engine, steer);
}

static void names_user_ops_by_the_hash_of_their_bodies(void **state) {
  static const char lean[] = "{\"op\": \"lean\", \"vectors\": [\"v\"], \"params\": {\"scale\": "
                             "{\"default\": 1}}, \"body\": [\"h += (scale * 1) * v\"]}";
  static const char *const ops[] = {"add", "lean"};
  stg_engine *engine = open_engine(0);
  stg_error error = STG_ERROR_INIT;
  ok(stg_op_register(engine, "lean.json", lean, sizeof lean - 1, &error), &error);
  stg_steer *steer = open_table(engine, STG_BF16, ops, 2);
  step_times(steer, 1, 1, 1);
#define LEAN_HASH "91e1c7774a09c4ec7b43e6781e362e00"
  expect_saved(engine, state,
               HEAD "\n    \"" LEAN_HASH "\": {\"op\": \"lean\", \"vectors\": [\"v\"], \"params\": "
                    "{\"scale\": {\"default\": 1}}, \"require\": [], \"body\": [\"h += (scale * 1) "
                    "* v\"]}\n  " LIST ROW(
                        "steer v1 | ops=add,user:" LEAN_HASH
                        " chain<=16 | hidden=8 dtype=bf16 bank=bf16 state=hidden | tile=decode" NONE
                        " | batch<=8 seq<=1 rows<=1",
                        "1") "\n  ]\n}\n");
  close_all(engine, steer);
}

/* What is saved of a table with windows, counters and an op with an output is what another engine
 * is warmed by. */
static void what_is_saved_of_any_table_can_be_warmed(void **state) {
  static const char twice[] = "{\"op\": \"twice\", \"vectors\": [\"v\"], \"params\": {\"column\": "
                              "{}}, \"output\": \"2 * dot(h, v)\"}";
  static const char *const ops[] = {"probe", "twice"};
  static const int32_t map[] = {0}, places[] = {0};
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .ops = ops,
                               .n_ops = 2,
                               .windows = true,
                               .counters = true,
                               .probes = 3};
  const stg_step args = {.struct_size = sizeof args,
                         .rows = 1,
                         .row_map = map,
                         .positions = places,
                         .prompt_lens = places};
  stg_engine *engine = open_engine(0);
  stg_steer *steer = NULL;
  stg_frame *frame = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_op_register(engine, "twice.json", twice, sizeof twice - 1, &error), &error);
  ok(stg_steer_create(engine, &desc, &steer, &error), &error);
  ok(stg_frame_create(steer, &frame, &error), &error);
  ok(stg_steer_step(frame, &args, NULL, &error), &error);
  stg_frame_destroy(frame);
  const char *path = temp_path(state, "traffic.json");
  char *text = NULL;
  size_t size = 0;
  ok(stg_traffic_save(engine, path, &error), &error);
  ok(stg_file_read(path, 1 << 24, &text, &size, &error), &error);
  close_all(engine, steer);
  assert_non_null(strstr(text, "windows=1 counters=1 probes=1"));
  assert_non_null(strstr(text, "\"output\": \"2 * dot(h, v)\""));
  stg_engine *later = open_engine(0);
  stg_warm_report report = {.struct_size = sizeof report};
  ok(stg_warm(later, path, text, size, NULL, &report, &error), &error);
  assert_int_equal(1, report.total);
  assert_int_equal(1, report.done);
  assert_int_equal(1, stats_of(later).plans_live);
  stg_free(text);
  close_all(later, NULL);
}

/* Between a plan's look-up of its count and its first step: a count of 0 would be no manifest. */
static void leaves_out_what_is_about_to_have_its_first_step(void **state) {
  stg_engine *engine = open_engine(0);
  const struct stg_graph_shape shape = {.batch = 8, .seq = 1, .rows = 1};
  static const char kernel[] = ADD " | tile=decode" NONE;
  struct stg_traffic_count *count =
      stg_traffic_find(engine->traffic, kernel, strlen(kernel), &shape);
  expect_saved(engine, state, HEAD "},\n  \"manifest\": []\n}\n");
  stg_traffic_add(count);
  expect_saved(
      engine, state,
      HEAD LIST ROW(ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=1", "1") "\n  ]\n}\n");
  close_all(engine, NULL);
}

static void counts_survive_plans_and_tables(void **state) {
  static const char *const only_add[] = {"add"};
  stg_engine *engine = open_engine(1);
  for (int round = 0; round < 4; round++) {
    stg_steer *steer = open_table(engine, STG_F32, only_add, 1);
    stg_error error = STG_ERROR_INIT;
    step_times(steer, 1, 1, 1);
    step_times(steer, 2, 2, 1); /* one plan is kept: each pushes the other out */
    ok(stg_steer_destroy(steer, &error), &error);
  }
  assert_true(stats_of(engine).plan_evictions > 0);
  assert_int_equal(0, stats_of(engine).plans_live);
  expect_saved(engine, state,
               HEAD LIST ROW(ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=2", "8") ",\n" ROW(
                   ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=1", "4") "\n  ]\n}\n");
  close_all(engine, NULL);
}

static void refuses_what_it_cannot_write(void **state) {
  stg_engine *engine = open_engine(0);
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_traffic_save(engine, NULL, &error));
  assert_string_equal("stg_traffic_save: engine or path is NULL", error.message);
  assert_int_equal(STG_E_IO, stg_traffic_save(engine, temp_path(state, "no/such/folder"), &error));
  assert_non_null(strstr(error.message, "cannot create a file in '"));
  assert_non_null(strstr(error.message, "/no/such': No such file or directory"));
  close_all(engine, NULL);
}

static void *step_often(void *steer) {
  for (int64_t rows = 1; rows <= 4; rows++) {
    step_times(steer, STEPS, rows, 1);
  }
  return NULL;
}

static void steps_of_many_threads_are_all_counted(void **state) {
  static const char *const only_add[] = {"add"};
  stg_engine *engine = open_engine(2);
  stg_steer *steer = open_table(engine, STG_F32, only_add, 1);
  pthread_t threads[THREADS];
  for (int t = 0; t < THREADS; t++) {
    assert_int_equal(0, pthread_create(&threads[t], NULL, step_often, steer));
  }
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
  }
  expect_saved(
      engine, state,
      HEAD LIST ROW(ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=4", "8000") ",\n" ROW(
          ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=1",
          "4000") ",\n" ROW(ADD " | tile=decode" NONE " | batch<=8 seq<=1 rows<=2",
                            "4000") "\n  ]\n}\n");
  close_all(engine, steer);
}

#define KERNEL_CHARS (sizeof "steer v1 | x" - 1)

static void what_is_beyond_the_limit_is_counted_together(void **state) {
  (void)state;
  struct stg_traffic *traffic = NULL;
  struct stg_traffic_totals totals;
  stg_error error = STG_ERROR_INIT;
  ok(stg_traffic_create(&traffic, &error), &error);
  for (int64_t i = 0; i < STG_TRAFFIC_MAX_SHAPES + 10; i++) {
    const struct stg_graph_shape shape = {.batch = 8, .seq = 1, .rows = i + 1};
    stg_traffic_add(stg_traffic_find(traffic, "steer v1 | x | sm_90", KERNEL_CHARS, &shape));
  }
  const struct stg_graph_shape known = {.batch = 8, .seq = 1, .rows = 7};
  struct stg_traffic_count *count =
      stg_traffic_find(traffic, "steer v1 | x | sm_80", KERNEL_CHARS, &known);
  assert_string_equal("steer v1 | x", count->kernel); /* whatever the architecture was */
  assert_int_equal(1, count->steps);
  stg_traffic_get_totals(traffic, &totals);
  assert_int_equal(STG_TRAFFIC_MAX_SHAPES, totals.shapes);
  assert_int_equal(10, totals.dropped);
  stg_traffic_destroy(traffic);
}

static void without_memory_steps_are_counted_as_dropped(void **state) {
  (void)state;
  struct stg_traffic *traffic = NULL;
  struct stg_traffic_totals totals;
  const struct stg_graph_shape shape = {8, 1, 1};
  stg_error error = STG_ERROR_INIT;
  ok(stg_traffic_create(&traffic, &error), &error);
  stg_alloc_fail_at(1);
  stg_traffic_add(stg_traffic_find(traffic, "steer v1 | x | sm_90", KERNEL_CHARS, &shape));
  stg_alloc_fail_at(0);
  stg_traffic_get_totals(traffic, &totals);
  assert_int_equal(0, totals.shapes);
  assert_int_equal(1, totals.dropped);
  stg_traffic_destroy(traffic);
}

/* A manifest of `n` declarations. */
static char *many_declarations(int n) {
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, "{\"steergraph\": 1, \"manifest\": [");
  for (int i = 1; i <= n; i++) {
    stg_strbuf_printf(&text,
                      "%s{\"count\": %d, \"signature\": \"steer v1 | ops=add chain<=16 | hidden=%d "
                      "dtype=f32 bank=f32 state=hidden | tile=decode" NONE
                      " | batch<=8 seq<=1 rows<=1\"}",
                      i > 1 ? "," : "", n - i + 1, i);
  }
  stg_strbuf_str(&text, "]}");
  return stg_strbuf_take(&text);
}

static void as_many_declarations_are_warmed_as_are_taken(void **state) {
  (void)state;
  stg_engine *engine = open_engine(0);
  char *json = many_declarations(1030);
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  ok(stg_warm(engine, NULL, json, strlen(json), NULL, &report, &error), &error);
  assert_int_equal(1030, report.total);
  assert_int_equal(1024, report.done);
  assert_int_equal(6, report.left);
  stg_free(json);
  close_all(engine, NULL);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(saves_what_was_stepped_most_used_first),
      IN_FOLDER(names_user_ops_by_the_hash_of_their_bodies),
      IN_FOLDER(what_is_saved_of_any_table_can_be_warmed),
      IN_FOLDER(leaves_out_what_is_about_to_have_its_first_step),
      IN_FOLDER(counts_survive_plans_and_tables),
      IN_FOLDER(refuses_what_it_cannot_write),
      IN_FOLDER(steps_of_many_threads_are_all_counted),
      cmocka_unit_test(what_is_beyond_the_limit_is_counted_together),
      cmocka_unit_test(without_memory_steps_are_counted_as_dropped),
      cmocka_unit_test(as_many_declarations_are_warmed_as_are_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
