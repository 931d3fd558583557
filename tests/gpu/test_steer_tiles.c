/*
 * test_steer_tiles.c: a cold table in the background on a device: the decode tile serves until the
 * prefill tile is there, with the same bits; captures wait for the kernel that they keep.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_random.h"

#define SLOTS 4

static const char *const three[] = {"ablation", "add", "projection_cap"};

/* Nothing in any cache, and compiles in the background. */
static stg_engine *cold_engine(stg_launch_mode launch) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.launch = launch;
  options.cache_mode = STG_CACHE_OFF;
  options.pack_path = "";
  options.compile = STG_COMPILE_BACKGROUND;
  options.compile_threads = 2;
  return steer_engine(&options);
}

static stg_plan_info plan_of(const struct steer_batch *batch) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_frame_plan(batch->frame, &info, &error), &error);
  return info;
}

static bool is_of_tile(const struct steer_batch *batch, const char *tile) {
  return strstr(plan_of(batch).signature, tile) != NULL;
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

static unsigned char *result_of(const struct steer_batch *batch) {
  unsigned char *bits = malloc(batch->image_bytes);
  assert_non_null(bits);
  memcpy(bits, batch->result, batch->image_bytes);
  return bits;
}

/* Chains of add, projection_cap and ablation over four slots; two of six runs are not steered. */
static struct steer_batch *batch_of_three(struct steer_bed *bed) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 90});
  stg_vector v[3];
  for (int k = 0; k < 3; k++) {
    v[k] = steer_bed_direction(bed, 750 + (uint64_t)k, 1);
  }
  const stg_op_call calls[] = {steer_cap_max(v[0], 0.1F), steer_add(v[1], 2), steer_ablate(v[2], 0),
                               steer_add(v[0], 3)};
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    steer_bed_set(bed, slot, calls + slot, SLOTS - slot);
  }
  steer_batch_fill(batch, 751, 1);
  for (int64_t r = 0; r < 90; r++) {
    batch->row_map[r] = (int32_t)(r / 9 % 6) - 2;
  }
  return batch;
}

/* The other tile serves until the wanted one is there; what serves meanwhile shows in no bit, with
 * graphs or without. A compile takes longer than the steps until `before` is read, as a rule; where
 * it does not, the tile has been swapped already, and the test has seen less. */
static void a_table_begins_with_one_tile(void **state) {
  struct steer_env *env = *state;
  static const struct {
    int64_t hidden;
    stg_dtype dtype;
    stg_launch_mode launch;
  } cases[] = {
      {4096, STG_BF16, STG_LAUNCH_GRAPH},
      {8192, STG_BF16, STG_LAUNCH_PLAIN},
      {2880, STG_F16, STG_LAUNCH_GRAPH},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_engine *engine = cold_engine(cases[i].launch);
    const stg_steer_desc all = {.hidden_size = cases[i].hidden,
                                .dtype = cases[i].dtype,
                                .max_rows = 128,
                                .max_slots = SLOTS};
    struct steer_bed *bed = steer_bed_on(env, engine, &all);
    const uint64_t compiles = steer_engine_stats(engine).kernel_compiles;
    struct steer_batch *batch = batch_of_three(bed);
    batch->longest = 9;
    steer_batch_expect_ok(batch);
    const bool other = is_of_tile(batch, "tile=decode");
    print_message("hidden %lld: %llu compiled at first, served by the %s tile\n",
                  (long long)cases[i].hidden, (unsigned long long)compiles,
                  other ? "decode" : "prefill");
    assert_int_equal(0, plan_of(batch).tier);
    assert_true(other || is_of_tile(batch, "tile=prefill"));
    unsigned char *before = result_of(batch);
    wait_for_rest(engine);
    steer_batch_expect_ok(batch);
    assert_true(is_of_tile(batch, "tile=prefill"));
    assert_int_equal(0, plan_of(batch).tier);
    assert_memory_equal(before, batch->result, batch->image_bytes);
    batch->longest = 1;
    steer_batch_expect_ok(batch);
    assert_true(is_of_tile(batch, "tile=decode"));
    assert_memory_equal(before, batch->result, batch->image_bytes);
    const stg_stats stats = steer_engine_stats(engine);
    assert_int_equal(cases[i].launch == STG_LAUNCH_GRAPH ? 2 : 0, stats.graphs_created);
    assert_int_equal(0, stats.graph_fallbacks);
    assert_int_equal(2, stats.kernel_compiles);
    assert_int_equal(0, stats.kernel_swaps);
    free(before);
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
    steer_engine_close(engine);
  }
}

/* An apply in a capture; `*ret_graph` has as many nodes as it returns. */
static size_t try_capture(struct steer_batch *batch, struct stg_graph **ret_graph,
                          stg_status *ret_status, stg_error *reterr) {
  struct stg_device *device = stg_mem_device(batch->bed->engine);
  const stg_apply apply = steer_batch_args(batch);
  stg_error error = STG_ERROR_INIT;
  size_t nodes = 99;
  check_ok(stg_capture_begin(device, batch->stream, &error), &error);
  *ret_status = stg_steer_apply(batch->frame, &apply, batch->stream, reterr);
  check_ok(stg_capture_end(device, batch->stream, ret_graph, &nodes, NULL), &error);
  return nodes;
}

/* While the prefill tile or a user op's kernel is missing, a capture that wants it is refused, and
 * stays valid; then it records a kernel of all that was declared. Few rows of built-in ops are
 * never refused. */
static void a_capture_takes_a_kernel_of_all_that_was_declared(void **state) {
  struct steer_env *env = *state;
  static const char *const user[] = {"add", "lean"};
  static const struct {
    int64_t hidden, rows;
    bool user;
    const char *tile;
  } cases[] = {{768, 40, false, "tile=decode"},
               {832, 300, false, "tile=prefill"},
               {1024, 40, true, "tile=decode"}};
  stg_engine *engine = cold_engine(STG_LAUNCH_GRAPH);
  struct stg_device *device = stg_mem_device(engine);
  stg_error error = STG_ERROR_INIT;
  steer_register_lean(engine);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stg_stream stream = NULL;
    struct stg_graph *graph = NULL;
    const stg_steer_desc desc = {.hidden_size = cases[i].hidden,
                                 .dtype = STG_BF16,
                                 .max_rows = 512,
                                 .max_slots = SLOTS,
                                 .ops = cases[i].user ? user : three,
                                 .n_ops = cases[i].user ? 2 : 3};
    struct steer_bed *bed = steer_bed_on(env, engine, &desc);
    struct steer_batch *batch =
        steer_batch_create(bed, &(struct steer_layout){.rows = cases[i].rows});
    const stg_op_call add = steer_add(steer_bed_direction(bed, 3, 1), 2);
    check_ok(stg_stream_create(device, &stream, &error), &error);
    batch->stream = stream;
    steer_bed_set(bed, 0, &add, 1);
    steer_batch_fill(batch, 730, 1);
    steer_batch_map(batch, 0, 30, 0);
    steer_batch_send(batch);
    steer_batch_step(batch);
    stg_status status = STG_OK;
    size_t nodes = try_capture(batch, &graph, &status, &error);
    print_message("the first capture of %lld rows: %s\n", (long long)cases[i].rows,
                  stg_status_name(status));
    if (status != STG_OK) { /* else the compile was faster, or there was none */
      assert_true(i > 0);
      expect_error(STG_E_NOT_WARM, "is not there yet", status, &error);
      assert_non_null(strstr(error.message, cases[i].tile));
      assert_int_equal(0, nodes);
      stg_graph_destroy(device, graph);
      graph = NULL;
      wait_for_rest(engine);
      nodes = try_capture(batch, &graph, &status, &error); /* without another step */
    }
    expect_status(STG_OK, status, &error);
    assert_int_equal(1, nodes);
    check_ok(stg_graph_launch(device, graph, stream, &error), &error);
    steer_batch_fetch(batch);
    steer_batch_check(batch);
    stg_graph_destroy(device, graph);
    steer_batch_destroy(batch);
    steer_bed_destroy(bed);
    stg_stream_destroy(device, stream);
  }
  steer_engine_close(engine);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_table_begins_with_one_tile),
      cmocka_unit_test(a_capture_takes_a_kernel_of_all_that_was_declared),
  };
  return cmocka_run_group_tests_name("steer tiles", tests, steer_env_cuda, steer_env_close);
}
