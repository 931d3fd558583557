/*
 * test_steer_capture_compiles.c: captures in a loop, in the strictest mode, while fifty signatures
 * compile and load on the engine's threads and another thread makes their tables.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/clock.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 768
#define ROWS 90
#define SLOTS 4
/* Each has a kernel per tile. */
#define TABLES 25
#define LIMIT_S 240

static const char *const names[] = {"ablation",  "add",  "add_keep_norm",  "add_norm_matched",
                                    "gated_add", "swap", "projection_cap", "scale_norm"};
#define NAMES (sizeof names / sizeof names[0])

/* Tables of two ops each, made on a thread of their own. Not on a stack: a test that fails leaves
 * the thread behind. */
struct maker {
  stg_engine *engine;
  size_t wanted;
  stg_steer *tables[TABLES];
  atomic_size_t made;
  atomic_bool failed;
  stg_error error;
};

static struct maker maker;

static void *make_tables(void *user) {
  struct maker *m = user;
  size_t first = 0, second = 1;
  for (size_t i = 0; i < m->wanted && !atomic_load(&m->failed); i++) {
    const char *const ops[] = {names[first], names[second]};
    const stg_steer_desc desc = {.struct_size = sizeof desc,
                                 .hidden_size = HIDDEN,
                                 .dtype = STG_BF16,
                                 .max_rows = 128,
                                 .max_slots = SLOTS,
                                 .ops = ops,
                                 .n_ops = 2};
    if (stg_steer_create(m->engine, &desc, &m->tables[i], &m->error) != STG_OK) {
      atomic_store(&m->failed, true);
    }
    atomic_fetch_add(&m->made, 1);
    second++;
    if (second == NAMES) {
      first++;
      second = first + 1;
    }
  }
  return NULL;
}

/* Nothing in any cache. */
static stg_engine *cold_engine(void) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.pack_path = "";
  options.compile = STG_COMPILE_BACKGROUND;
  return steer_engine(&options);
}

static struct steer_batch *batch_on(struct steer_bed *bed, stg_stream stream) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
  batch->stream = stream;
  steer_batch_fill(batch, 901, 1);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    const stg_vector v = steer_bed_direction(bed, 900 + slot, 1);
    const stg_op_call calls[] = {steer_add(v, (float)slot - 2), steer_cap_max(v, 1)};
    steer_bed_set(bed, slot, calls, 1 + slot % 2);
  }
  for (int64_t r = 0; r < ROWS; r++) {
    batch->row_map[r] = (int32_t)(r / 9 % 6) - 2;
  }
  return batch;
}

static struct stg_graph *captured(struct stg_device *device, struct steer_batch *batch) {
  struct stg_graph *graph = NULL;
  size_t nodes = 99;
  stg_error error = STG_ERROR_INIT;
  steer_batch_step(batch);
  check_ok(stg_capture_begin(device, batch->stream, &error), &error);
  steer_batch_apply(batch);
  check_ok(stg_capture_end(device, batch->stream, &graph, &nodes, &error), &error);
  assert_int_equal(1, nodes);
  return graph;
}

/* With other slots each time; the map stays. */
static void expect_replay_ok(struct stg_device *device, struct steer_batch *batch,
                             struct stg_graph *graph, int round) {
  stg_error error = STG_ERROR_INIT;
  steer_bed_params(batch->bed, (uint32_t)round % SLOTS, 0, 0,
                   (const float[]){(float)(round % 9) - 4}, 1);
  steer_batch_send(batch);
  steer_batch_step(batch);
  check_ok(stg_graph_launch(device, graph, batch->stream, &error), &error);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
}

static void captures_stay_valid_while_fifty_signatures_compile(void **state) {
  struct steer_env *env = *state;
  stg_engine *engine = cold_engine();
  struct stg_device *device = stg_mem_device(engine);
  pthread_t thread;
  stg_stream stream = NULL;
  stg_error error = STG_ERROR_INIT;
  const stg_steer_desc all = {
      .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 128, .max_slots = SLOTS};
  struct steer_bed *bed = steer_bed_on(env, engine, &all);
  check_ok(stg_stream_create(device, &stream, &error), &error);
  struct steer_batch *batch = batch_on(bed, stream);
  struct stg_graph *first = captured(device, batch);
  maker = (struct maker){.engine = engine, .wanted = env->quick ? 4 : TABLES};
  maker.error = (stg_error)STG_ERROR_INIT;
  const uint64_t until_ns = stg_clock_ns() + (uint64_t)LIMIT_S * 1000000000;
  assert_int_equal(0, pthread_create(&thread, NULL, make_tables, &maker));
  int rounds = 0;
  while (!atomic_load(&maker.failed) && stg_clock_ns() < until_ns &&
         (rounds < 50 || steer_engine_stats(engine).kernel_swaps < 2 * maker.wanted)) {
    struct stg_graph *graph = captured(device, batch);
    expect_replay_ok(device, batch, graph, rounds);
    stg_graph_destroy(device, graph);
    rounds++;
  }
  pthread_join(thread, NULL);
  if (atomic_load(&maker.failed)) {
    fail_msg("table %zu: %s", atomic_load(&maker.made), maker.error.message);
  }
  assert_int_equal(2 * maker.wanted, steer_engine_stats(engine).kernel_swaps);
  assert_int_equal(2 + 2 * maker.wanted, steer_engine_stats(engine).kernel_compiles);
  print_message("%d captures while %zu kernels compiled\n", rounds, 2 * maker.wanted);
  for (int round = 0; round < 4; round++) {
    expect_replay_ok(device, batch, first, round);
  }
  for (size_t i = 0; i < maker.wanted; i++) {
    check_ok(stg_steer_destroy(maker.tables[i], &error), &error);
  }
  stg_graph_destroy(device, first);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  stg_stream_destroy(device, stream);
  steer_engine_close(engine);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  if (under_compute_sanitizer()) {
    /* see test_capture.c: under the tool a load breaks the captures of other threads */
    print_message("loads beside a capture are left out under compute-sanitizer\n");
    return EXIT_SKIPPED;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(captures_stay_valid_while_fifty_signatures_compile),
  };
  return cmocka_run_group_tests_name("steer capture compiles", tests, steer_env_cuda,
                                     steer_env_close);
}
