/*
 * test_plans.c: the plans of an engine: shared, bounded, and kept while a frame uses them. On the
 * CPU, where a plan is its text; test_plan_graphs.c has those with graphs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include <steergraph/steergraph.h>

#define SIZES 100 /* row buckets 1..100, and batch buckets likewise */
#define LIMIT 16

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

static void close_engine(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_engine_destroy(engine, &error), &error);
}

static stg_stats stats_of(const stg_engine *engine) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  return stats;
}

/* A table of `hidden` that has a bucket for every count, so that every step may have its own. */
static stg_steer *open_table(stg_engine *engine, int64_t hidden) {
  static int64_t sizes[SIZES];
  for (int64_t i = 0; i < SIZES; i++) {
    sizes[i] = i + 1;
  }
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = hidden,
                               .dtype = STG_F32,
                               .max_rows = SIZES,
                               .max_slots = 1,
                               .max_vectors = 1,
                               .row_buckets = sizes,
                               .n_row_buckets = SIZES,
                               .batch_buckets = sizes,
                               .n_batch_buckets = SIZES};
  stg_steer *steer = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_create(engine, &desc, &steer, &error), &error);
  return steer;
}

static void close_table(stg_steer *steer) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_destroy(steer, &error), &error);
}

static stg_frame *open_frame(stg_steer *steer) {
  stg_frame *frame = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_frame_create(steer, &frame, &error), &error);
  return frame;
}

static stg_status try_step(stg_frame *frame, int64_t rows, uint32_t requests, stg_error *reterr) {
  static const int32_t map[SIZES]; /* all of slot 0, which is empty */
  const stg_step step = {.struct_size = sizeof step,
                         .rows = rows,
                         .row_map = map,
                         .requests = requests,
                         .longest = (uint32_t)rows};
  return stg_steer_step(frame, &step, NULL, reterr);
}

static void step(stg_frame *frame, int64_t rows, uint32_t requests) {
  stg_error error = STG_ERROR_INIT;
  ok(try_step(frame, rows, requests, &error), &error);
}

static stg_plan_info plan_of(const stg_frame *frame) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  ok(stg_frame_plan(frame, &info, &error), &error);
  return info;
}

static void ten_thousand_shapes_leave_no_more_than_the_limit(void **state) {
  (void)state;
  stg_engine *engine = open_engine(LIMIT);
  stg_steer *steer = open_table(engine, 8);
  stg_frame *frame = open_frame(steer);
  uint64_t most_bytes = 0;
  for (int64_t rows = 1; rows <= SIZES; rows++) {
    for (uint32_t requests = 1; requests <= SIZES; requests++) {
      step(frame, rows, requests);
      const stg_stats stats = stats_of(engine);
      assert_true(stats.plans_live <= LIMIT);
      most_bytes = stats.plan_bytes > most_bytes ? stats.plan_bytes : most_bytes;
    }
  }
  const stg_stats stats = stats_of(engine);
  assert_int_equal(LIMIT, stats.plans_live);
  assert_int_equal(SIZES * SIZES - LIMIT, stats.plan_evictions);
  assert_true(most_bytes > 0 && most_bytes < (uint64_t)LIMIT * 2048);
  assert_int_equal(0, stats.graphs_live);
  stg_frame_destroy(frame);
  close_table(steer);
  assert_int_equal(0, stats_of(engine).plans_live);
  assert_int_equal(0, stats_of(engine).plan_bytes);
  close_engine(engine);
}

static void ten_thousand_declarations_leave_nothing(void **state) {
  (void)state;
  stg_engine *engine = open_engine(0);
  for (int64_t hidden = 1; hidden <= 10000; hidden++) {
    stg_steer *steer = open_table(engine, hidden);
    stg_frame *frame = open_frame(steer);
    step(frame, 1, 1);
    assert_int_equal(1, stats_of(engine).plans_live);
    stg_frame_destroy(frame);
    close_table(steer);
  }
  assert_int_equal(0, stats_of(engine).plans_live);
  assert_int_equal(0, stats_of(engine).plan_bytes);
  close_engine(engine);
}

static void what_was_idle_longest_goes_first(void **state) {
  (void)state;
  stg_engine *engine = open_engine(3);
  stg_steer *steer = open_table(engine, 8);
  stg_frame *frame = open_frame(steer);
  step(frame, 1, 1);
  step(frame, 2, 1);
  step(frame, 3, 1);
  step(frame, 1, 1); /* 2 is now idle longest */
  step(frame, 4, 1);
  assert_int_equal(1, stats_of(engine).plan_evictions);
  step(frame, 3, 1);
  step(frame, 1, 1);
  assert_int_equal(1, stats_of(engine).plan_evictions); /* both were still there */
  step(frame, 2, 1);
  assert_int_equal(2, stats_of(engine).plan_evictions);
  stg_frame_destroy(frame);
  close_table(steer);
  close_engine(engine);
}

/* The text of a plan is borrowed until the frame's next step, whatever other frames do. */
static void a_frame_keeps_its_plan(void **state) {
  (void)state;
  stg_engine *engine = open_engine(1);
  stg_steer *steer = open_table(engine, 8);
  stg_frame *kept = open_frame(steer), *other = open_frame(steer);
  char before[512];
  step(kept, 7, 3);
  const stg_plan_info info = plan_of(kept);
  assert_true(strlen(info.signature) < sizeof before);
  memcpy(before, info.signature, strlen(info.signature) + 1);
  for (int64_t rows = 1; rows <= SIZES; rows++) {
    step(other, rows, 1);
    assert_true(stats_of(engine).plans_live <= 2); /* what frames use may be above the limit */
  }
  assert_string_equal(before, info.signature);
  assert_non_null(strstr(before, "batch<=3 seq<=7 rows<=7"));
  assert_ptr_equal(info.signature, plan_of(kept).signature);
  stg_frame_destroy(other);
  stg_frame_destroy(kept);
  assert_int_equal(1, stats_of(engine).plans_live);
  close_table(steer);
  close_engine(engine);
}

static void a_step_that_is_refused_keeps_the_plan(void **state) {
  (void)state;
  stg_engine *engine = open_engine(1);
  stg_steer *steer = open_table(engine, 8);
  stg_frame *frame = open_frame(steer);
  stg_error error = STG_ERROR_INIT;
  step(frame, 7, 3);
  assert_int_equal(STG_E_CAPACITY, try_step(frame, 7, SIZES + 1, &error));
  assert_int_equal(7, plan_of(frame).row_bucket);
  assert_int_equal(1, stats_of(engine).plans_live);
  stg_frame_destroy(frame);
  close_table(steer);
  close_engine(engine);
}

static void tables_that_declare_the_same_share_plans(void **state) {
  (void)state;
  stg_engine *engine = open_engine(0);
  stg_steer *tables[3] = {open_table(engine, 8), open_table(engine, 8), open_table(engine, 16)};
  stg_frame *frames[3];
  for (int i = 0; i < 3; i++) {
    frames[i] = open_frame(tables[i]);
    step(frames[i], 5, 1);
  }
  assert_int_equal(2, stats_of(engine).plans_live);
  assert_ptr_equal(plan_of(frames[0]).signature, plan_of(frames[1]).signature);
  stg_frame_destroy(frames[0]);
  close_table(tables[0]);
  assert_int_equal(2, stats_of(engine).plans_live);
  step(frames[1], 5, 1);
  for (int i = 1; i < 3; i++) {
    stg_frame_destroy(frames[i]);
    close_table(tables[i]);
  }
  assert_int_equal(0, stats_of(engine).plans_live);
  close_engine(engine);
}

/* Its own table, of a declaration that others have too, and shapes enough to evict at each step. */
static void *step_through(void *user) {
  stg_engine *engine = user;
  stg_steer *steer = NULL;
  uintptr_t wrong = 0;
  for (int round = 0; round < 20; round++) {
    const stg_steer_desc desc = {.struct_size = sizeof desc,
                                 .hidden_size = 8 + round % 3,
                                 .dtype = STG_F32,
                                 .max_rows = SIZES,
                                 .max_slots = 1};
    stg_frame *frame = NULL;
    wrong += stg_steer_create(engine, &desc, &steer, NULL) == STG_OK ? 0 : 1;
    wrong += stg_frame_create(steer, &frame, NULL) == STG_OK ? 0 : 1;
    for (int64_t rows = 1; rows <= SIZES; rows++) {
      stg_plan_info info = {.struct_size = sizeof info};
      wrong += try_step(frame, rows, (uint32_t)(1 + rows % 3 * 20), NULL) == STG_OK ? 0 : 1;
      wrong += stg_frame_plan(frame, &info, NULL) == STG_OK && info.row_bucket >= rows ? 0 : 1;
    }
    stg_frame_destroy(frame);
    wrong += stg_steer_destroy(steer, NULL) == STG_OK ? 0 : 1;
  }
  return (void *)wrong;
}

static void threads_share_one_table_of_plans(void **state) {
  (void)state;
  stg_engine *engine = open_engine(5);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(0, pthread_create(&threads[i], NULL, step_through, engine));
  }
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    assert_int_equal(0, pthread_join(threads[i], &wrong));
    assert_null(wrong);
  }
  assert_int_equal(0, stats_of(engine).plans_live);
  assert_true(stats_of(engine).plan_evictions > 0);
  close_engine(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_thousand_shapes_leave_no_more_than_the_limit),
      cmocka_unit_test(ten_thousand_declarations_leave_nothing),
      cmocka_unit_test(what_was_idle_longest_goes_first),
      cmocka_unit_test(a_frame_keeps_its_plan),
      cmocka_unit_test(a_step_that_is_refused_keeps_the_plan),
      cmocka_unit_test(tables_that_declare_the_same_share_plans),
      cmocka_unit_test(threads_share_one_table_of_plans),
  };
  return cmocka_run_group_tests_name("plans", tests, NULL, NULL);
}
