/*
 * test_steer_tiers.c: compiling in the background on a device: the same bits before and after a
 * swap, pending user ops, and whose threads NVRTC runs on.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/thread.h"
#include "runtime/clock.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/nvrtc_line.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_random.h"

#define ROWS 90
#define SLOTS 4
#define MAX_CALLS 64

/* What the log said of calls into NVRTC since main looked for it. */
struct nvrtc_calls {
  pthread_mutex_t lock;
  uint64_t since_ns;
  size_t count;
  long threads[MAX_CALLS];
};

static struct nvrtc_calls nvrtc_calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_nvrtc_call(void *user, stg_log_level level, const char *message) {
  struct nvrtc_calls *calls = user;
  struct nvrtc_line line;
  (void)level;
  if (!nvrtc_line_parse(message, &line) || line.from_ns < calls->since_ns) {
    return;
  }
  pthread_mutex_lock(&calls->lock);
  assert_true(calls->count < MAX_CALLS);
  calls->threads[calls->count++] = line.thread;
  pthread_mutex_unlock(&calls->lock);
}

/* Calls into NVRTC so far; none may be of this thread, which applies. */
static size_t calls_elsewhere(void) {
  pthread_mutex_lock(&nvrtc_calls.lock);
  const size_t count = nvrtc_calls.count;
  for (size_t i = 0; i < count; i++) {
    assert_int_not_equal(stg_thread_id(), nvrtc_calls.threads[i]);
  }
  pthread_mutex_unlock(&nvrtc_calls.lock);
  return count;
}

/* Nothing in any cache, and compiles in the background, two at a time. */
static stg_engine *cold_engine(stg_launch_mode launch) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.launch = launch;
  options.cache_mode = STG_CACHE_OFF;
  options.compile_threads = 2;
  options.log = keep_nvrtc_call;
  options.log_user = &nvrtc_calls;
  options.log_level = STG_LOG_INFO;
  nvrtc_calls.count = 0;
  return steer_engine(&options);
}

static int tier_of(const struct steer_batch *batch) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_frame_plan(batch->frame, &info, &error), &error);
  return info.tier;
}

static void wait_for_swaps(const stg_engine *engine, uint64_t count) {
  const struct timespec pause = {.tv_nsec = 1000000};
  while (steer_engine_stats(engine).kernel_swaps < count) {
    nanosleep(&pause, NULL);
  }
}

/* Until nothing compiles any more. */
static void wait_for_rest(const stg_engine *engine) {
  const struct timespec pause = {.tv_nsec = 1000000};
  stg_stats stats = steer_engine_stats(engine);
  while (stats.compiles_queued + stats.compiles_running > 0) {
    nanosleep(&pause, NULL);
    stats = steer_engine_stats(engine);
  }
}

/* Chains of add, ablation and projection_cap over four slots; two of six runs are not steered. */
static struct steer_batch *batch_of_three(struct steer_bed *bed) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
  stg_vector v[3];
  for (int k = 0; k < 3; k++) {
    v[k] = steer_bed_direction(bed, 710 + (uint64_t)k, 1);
  }
  const stg_op_call calls[] = {steer_cap_max(v[0], 0.1F), steer_add(v[1], 2), steer_ablate(v[2], 0),
                               steer_add(v[0], 3)};
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    steer_bed_set(bed, slot, calls + slot, SLOTS - slot);
  }
  steer_batch_fill(batch, 711, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    batch->row_map[r] = (int32_t)(r / 9 % 6) - 2;
  }
  return batch;
}

static unsigned char *result_of(const struct steer_batch *batch) {
  unsigned char *bits = malloc(batch->image_bytes);
  assert_non_null(bits);
  memcpy(bits, batch->result, batch->image_bytes);
  return bits;
}

static const char *const three[] = {"ablation", "add", "projection_cap"};

/* Geometries, tiles and launches that a swap must not show in. */
static void a_swap_changes_no_bit(void **state) {
  struct steer_env *env = *state;
  static const struct {
    int64_t hidden;
    stg_dtype dtype;
    stg_launch_mode launch;
    uint32_t longest;
  } cases[] = {
      {768, STG_BF16, STG_LAUNCH_GRAPH, 9},
      {4096, STG_BF16, STG_LAUNCH_GRAPH, 1},
      {1000, STG_F16, STG_LAUNCH_PLAIN, 9},
      {2048, STG_F32, STG_LAUNCH_PLAIN, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_engine *engine = cold_engine(cases[i].launch);
    const stg_steer_desc desc = {.hidden_size = cases[i].hidden,
                                 .dtype = cases[i].dtype,
                                 .max_rows = 128,
                                 .max_slots = SLOTS,
                                 .ops = three,
                                 .n_ops = 3};
    struct steer_bed *bed = steer_bed_on(env, engine, &desc);
    struct steer_batch *batch = batch_of_three(bed);
    batch->longest = cases[i].longest;
    steer_batch_expect_ok(batch);
    const int first = tier_of(batch);
    unsigned char *before = result_of(batch);
    wait_for_swaps(engine, 2);
    wait_for_rest(engine);
    steer_batch_expect_ok(batch);
    assert_int_equal(1, tier_of(batch));
    assert_memory_equal(before, batch->result, batch->image_bytes);
    print_message("hidden %lld: tier %d, then 1\n", (long long)cases[i].hidden, first);
    const stg_stats stats = steer_engine_stats(engine);
    assert_int_equal(cases[i].launch == STG_LAUNCH_GRAPH ? 1 : 0, stats.graphs_created);
    assert_int_equal(0, stats.graph_fallbacks);
    assert_int_equal(4, stats.kernel_compiles);
    assert_true(calls_elsewhere() >= 4);
    free(before);
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
    steer_engine_close(engine);
  }
}

static stg_slot_counters counters_of(const struct steer_batch *batch, uint32_t slot) {
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_steer_counters(batch->bed->steer, slot, 0, batch->stream, &counters, &error),
           &error);
  return counters;
}

/* A table with windows, counters and probes has general kernels of its own. Slot 0 acts on what is
 * generated: the last 9 of its 18 rows. */
static void a_swap_changes_no_cell_and_no_count(void **state) {
  struct steer_env *env = *state;
  static const char *const ops[] = {"ablation", "add", "probe", "projection_cap"};
  const stg_window generated = {.phase = STG_PHASE_GENERATION};
  const stg_steer_desc desc = {.hidden_size = 768,
                               .dtype = STG_BF16,
                               .max_rows = 128,
                               .max_slots = SLOTS,
                               .ops = ops,
                               .n_ops = 4,
                               .windows = true,
                               .counters = true,
                               .probes = 2};
  stg_engine *engine = cold_engine(STG_LAUNCH_GRAPH);
  struct steer_bed *bed = steer_bed_on(env, engine, &desc);
  struct steer_batch *batch = batch_of_three(bed);
  const stg_vector v = steer_bed_direction(bed, 740, 1);
  const stg_op_call calls[] = {steer_probe(v, 1), steer_add(v, 20), steer_probe(v, 0)};
  steer_bed_set_window(bed, 0, calls, 3, &generated);
  steer_batch_place(batch, 0, ROWS, 0, 45);
  steer_batch_expect_ok(batch);
  const stg_slot_counters once = counters_of(batch, 0);
  assert_int_equal(9, once.rows_touched);
  assert_int_equal(9, once.rows_changed);
  unsigned char *before = result_of(batch);
  const size_t cell_bytes = (size_t)(ROWS * batch->probe_stride) * sizeof(float);
  float *cells = malloc(cell_bytes);
  assert_non_null(cells);
  memcpy(cells, batch->probes_result, cell_bytes);
  wait_for_swaps(engine, 2);
  steer_batch_expect_ok(batch);
  assert_int_equal(1, tier_of(batch));
  assert_memory_equal(before, batch->result, batch->image_bytes);
  assert_memory_equal(cells, batch->probes_result, cell_bytes);
  const stg_slot_counters twice = counters_of(batch, 0);
  assert_int_equal(18, twice.rows_touched);
  assert_int_equal(18, twice.rows_changed);
  assert_memory_equal(&once.max_update, &twice.max_update, sizeof once.max_update);
  free(cells);
  free(before);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  steer_engine_close(engine);
}

/* A table a turn, with an op set of its own, while this thread steps and applies all the time. */
static void no_compile_is_on_the_thread_that_applies(void **state) {
  struct steer_env *env = *state;
  static const char *const sets[][2] = {
      {"add", "swap"}, {"ablation", "add"}, {"add", "scale_norm"}, {"add", "gated_add"}};
  stg_engine *engine = cold_engine(STG_LAUNCH_GRAPH);
  const stg_steer_desc all = {
      .hidden_size = 768, .dtype = STG_BF16, .max_rows = 128, .max_slots = SLOTS};
  struct steer_bed *first = steer_bed_on(env, engine, &all);
  struct steer_batch *batch = batch_of_three(first);
  struct steer_bed *beds[4];
  steer_batch_expect_ok(batch);
  for (int i = 0; i < 4; i++) {
    stg_steer_desc desc = all;
    desc.ops = sets[i];
    desc.n_ops = 2;
    beds[i] = steer_bed_on(env, engine, &desc);
    for (int k = 0; k < 50; k++) {
      steer_batch_run(batch);
    }
  }
  while (steer_engine_stats(engine).kernel_swaps < 8) {
    steer_batch_run(batch);
  }
  wait_for_rest(engine);
  steer_batch_expect_ok(batch);
  assert_true(calls_elsewhere() >= 10);
  assert_int_equal(10, steer_engine_stats(engine).kernel_compiles);
  for (int i = 0; i < 4; i++) {
    steer_bed_destroy(beds[i]);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(first);
  steer_engine_close(engine);
}

static stg_status try_slot(struct steer_bed *bed, uint32_t slot, const stg_op_call *call,
                           stg_error *reterr) {
  const stg_chain chain = {.ops = call, .n_ops = 1};
  return stg_steer_slot_set(bed->steer, slot, &chain, 1, reterr);
}

static void a_user_op_is_pending_and_then_there(void **state) {
  struct steer_env *env = *state;
  static const char *const ops[] = {"add", "lean"};
  stg_engine *engine = cold_engine(STG_LAUNCH_GRAPH);
  stg_error error = STG_ERROR_INIT;
  steer_register_lean(engine);
  const stg_steer_desc desc = {.hidden_size = 768,
                               .dtype = STG_BF16,
                               .max_rows = 64,
                               .max_slots = SLOTS,
                               .ops = ops,
                               .n_ops = 2};
  struct steer_bed *bed = steer_bed_on(env, engine, &desc);
  const stg_vector a = steer_bed_direction(bed, 1, 1), b = steer_bed_direction(bed, 2, 2);
  const stg_op_call add = steer_add(a, 2), lean = {.op = "lean", .vectors = {a, b}};
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 20});
  steer_batch_fill(batch, 720, 1);
  steer_bed_set(bed, 0, &add, 1);
  steer_batch_map(batch, 0, 20, 0);
  steer_batch_expect_ok(batch);
  const struct timespec pause = {.tv_nsec = 1000000};
  size_t pending = 0;
  stg_status status = try_slot(bed, 1, &lean, &error);
  while (status == STG_E_PENDING) {
    assert_non_null(
        strstr(error.message, "slot 1: op 'lean' needs kernel 'steer v1 | ops=add,user:"));
    pending++;
    steer_batch_run(batch);
    nanosleep(&pause, NULL);
    status = try_slot(bed, 1, &lean, &error);
  }
  expect_status(STG_OK, status, &error);
  print_message("pending %zu times\n", pending);
  steer_bed_set(bed, 1, &lean, 1);
  steer_batch_map(batch, 10, 20, 1);
  steer_batch_expect_ok(batch);
  assert_int_equal(1, tier_of(batch));
  wait_for_rest(engine);
  assert_true(calls_elsewhere() >= 4);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  steer_engine_close(engine);
}

/* Whatever is on its way then. */
static void an_engine_closes_while_it_compiles(void **state) {
  struct steer_env *env = *state;
  const struct timespec pause = {.tv_nsec = 20000000};
  for (int i = 0; i < 4; i++) {
    stg_engine *engine = cold_engine(STG_LAUNCH_GRAPH);
    const stg_steer_desc desc = {.hidden_size = 512 + 64 * i,
                                 .dtype = STG_BF16,
                                 .max_rows = 16,
                                 .max_slots = 1,
                                 .ops = three,
                                 .n_ops = 3};
    struct steer_bed *bed = steer_bed_on(env, engine, &desc);
    if (i % 2 == 1) {
      nanosleep(&pause, NULL);
    }
    steer_bed_destroy(bed);
    const uint64_t from_ns = stg_clock_ns();
    steer_engine_close(engine);
    print_message("closed in %.1f ms\n", (double)(stg_clock_ns() - from_ns) * 1e-6);
  }
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  nvrtc_calls.since_ns = stg_clock_ns();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_swap_changes_no_bit),
      cmocka_unit_test(a_swap_changes_no_cell_and_no_count),
      cmocka_unit_test(no_compile_is_on_the_thread_that_applies),
      cmocka_unit_test(a_user_op_is_pending_and_then_there),
      cmocka_unit_test(an_engine_closes_while_it_compiles),
  };
  return cmocka_run_group_tests_name("steer tiers", tests, steer_env_cuda, steer_env_close);
}
