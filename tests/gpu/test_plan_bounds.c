/*
 * test_plan_bounds.c: plans with graphs on a device: ten thousand signatures leave no more than the
 * limit, on the host and on the device, and a plan serves two streams by a graph each.
 */
#include "tests/gpu/gpu_test.h"

#include "tests/gpu/driver_calls.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 64
#define SIZES 100 /* row buckets 1..100, and batch buckets likewise */
#define LIMIT 16
/* What the driver may keep for itself, taken in pieces of 2 MiB; and what it may once half of the
 * signatures have been seen: 800 bytes for each of the rest. */
#define SLACK_BYTES ((size_t)64 << 20)
#define LATE_SLACK_BYTES ((size_t)4 << 20)

static stg_engine *open_engine(const struct steer_env *env, uint32_t max_plans) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_path = env->cache_path;
  options.pack_path = "";
  options.max_plans = max_plans;
  return steer_engine(&options);
}

static struct steer_bed *open_bed(struct steer_env *env, stg_engine *engine) {
  static int64_t sizes[SIZES];
  for (int64_t i = 0; i < SIZES; i++) {
    sizes[i] = i + 1;
  }
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = SIZES,
                               .max_slots = 2,
                               .row_buckets = sizes,
                               .n_row_buckets = SIZES,
                               .batch_buckets = sizes,
                               .n_batch_buckets = SIZES};
  struct steer_bed *bed = steer_bed_on(env, engine, &desc);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 981, 2), 1.5F);
  steer_bed_set(bed, 0, &call, 1);
  return bed;
}

static void step_through(struct steer_batch *batch, int64_t rows, uint32_t requests) {
  const stg_step step = {.struct_size = sizeof step,
                         .rows = rows,
                         .row_map = batch->row_map,
                         .requests = requests,
                         .longest = (uint32_t)rows};
  const stg_apply apply = steer_batch_args(batch);
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_steer_step(batch->frame, &step, batch->stream, &error), &error);
  check_ok(stg_steer_apply(batch->frame, &apply, batch->stream, &error), &error);
}

/* Every shape of `rows`, with a wait at its end. */
static void step_through_requests(struct steer_batch *batch, int64_t rows) {
  stg_error error = STG_ERROR_INIT;
  for (uint32_t requests = 1; requests <= SIZES; requests++) {
    step_through(batch, rows, requests);
  }
  check_ok(stg_mem_synchronize(batch->bed->engine, &error), &error);
}

static size_t free_bytes(const stg_engine *engine) {
  struct stg_device *device = stg_mem_device((stg_engine *)(uintptr_t)engine);
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_device_hold(device, &error), &error);
  const size_t bytes = driver_free_bytes();
  stg_device_let_go(device);
  return bytes;
}

static void ten_thousand_signatures_leave_no_more_than_the_limit(void **state) {
  struct steer_env *env = *state;
  stg_engine *engine = open_engine(env, LIMIT);
  struct steer_bed *bed = open_bed(env, engine);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = SIZES});
  const int64_t last = env->quick ? 10 : SIZES;
  steer_batch_fill(batch, 982, 0);
  steer_batch_map(batch, 0, SIZES / 2, 0);
  steer_batch_send(batch);
  step_through_requests(batch, 1); /* what the driver takes once is taken now */
  const size_t before = free_bytes(engine);
  size_t halfway = before;
  for (int64_t rows = 2; rows <= last; rows++) {
    step_through_requests(batch, rows);
    const stg_stats stats = steer_engine_stats(engine);
    assert_true(stats.plans_live <= LIMIT && stats.graphs_live <= LIMIT);
    assert_true(stats.plan_bytes < (uint64_t)LIMIT * 4096);
    halfway = rows == last / 2 ? free_bytes(engine) : halfway;
  }
  const size_t after = free_bytes(engine);
  const stg_stats stats = steer_engine_stats(engine);
  const uint64_t made = (uint64_t)last * SIZES;
  print_message("%llu graphs made; %zu KiB of device memory less, %zu KiB in the second half\n",
                (unsigned long long)stats.graphs_created,
                before > after ? (before - after) >> 10 : 0,
                halfway > after ? (halfway - after) >> 10 : 0);
  assert_int_equal(made, stats.graphs_created);
  assert_int_equal(made, stats.plan_evictions + stats.plans_live);
  assert_int_equal(0, stats.graph_fallbacks);
  /* compute-sanitizer takes device memory of its own for each graph */
  assert_true(under_compute_sanitizer() || after + SLACK_BYTES > before);
  assert_true(under_compute_sanitizer() || after + LATE_SLACK_BYTES >= halfway);
  /* the last plan is as good as the first */
  steer_batch_fill(batch, 983, 1);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  assert_int_equal(0, steer_engine_stats(engine).plans_live);
  assert_int_equal(0, steer_engine_stats(engine).graphs_live);
  steer_engine_close(engine);
}

/* Frames on two streams, step by step in turns: one plan, and a graph for each stream. */
static void two_streams_share_a_plan_and_have_a_graph_each(void **state) {
  struct steer_env *env = *state;
  stg_engine *engine = open_engine(env, LIMIT);
  struct stg_device *device = stg_mem_device(engine);
  struct steer_bed *bed = open_bed(env, engine);
  struct steer_batch *batches[2];
  stg_stream streams[2] = {NULL, NULL};
  stg_frame *second = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_frame_create(bed->steer, &second, &error), &error);
  for (int i = 0; i < 2; i++) {
    check_ok(stg_stream_create(device, &streams[i], &error), &error);
    batches[i] = steer_batch_create(bed, &(struct steer_layout){.rows = SIZES});
    batches[i]->stream = streams[i];
    batches[i]->frame = i == 0 ? bed->frame : second;
    steer_batch_fill(batches[i], 990 + (uint64_t)i, 1);
    steer_batch_map(batches[i], i == 0 ? 0 : 10, 40, 0);
    batches[i]->requests = 3;
    batches[i]->longest = 60;
  }
  for (int round = 0; round < (env->quick ? 10 : 200); round++) {
    for (int i = 0; i < 2; i++) {
      steer_batch_send(batches[i]);
    }
    for (int i = 0; i < 2; i++) {
      steer_bed_params(bed, 0, 0, 0, (const float[]){(float)(round + i)}, 1);
      steer_batch_step(batches[i]);
      steer_batch_apply(batches[i]);
    }
    for (int i = 0; i < 2; i++) {
      steer_batch_fetch(batches[i]);
      steer_batch_check(batches[i]);
    }
  }
  const stg_stats stats = steer_engine_stats(engine);
  assert_int_equal(1, stats.plans_live);
  assert_int_equal(2, stats.graphs_live);
  assert_int_equal(2, stats.graphs_created);
  stg_frame_destroy(second);
  for (int i = 0; i < 2; i++) {
    steer_batch_destroy(batches[i]);
  }
  steer_bed_destroy(bed);
  stg_stream_destroy(device, streams[0]);
  stg_stream_destroy(device, streams[1]);
  steer_engine_close(engine);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_thousand_signatures_leave_no_more_than_the_limit),
      cmocka_unit_test(two_streams_share_a_plan_and_have_a_graph_each),
  };
  return cmocka_run_group_tests_name("plan bounds", tests, steer_env_cuda, steer_env_close);
}
