/*
 * test_attn_engine.c: the attention side of an engine on a device: the scripts of decode and
 * prefill steps as on the CPU, a cache of fixed size against one that grows, and captures of a
 * host: 100 replays as 100 calls.
 */
#include <string.h>

#include "tests/gpu/gpu_test.h"
#include "tests/support/attn_growing.h"
#include "tests/support/attn_objects.h"
#include "tests/support/attn_script.h"
#include "tests/support/steer_env.h"

#define REPLAYS 100

static stg_engine *cpu_engine(void) {
  return obj_engine(STG_BACKEND_CPU, STG_LAUNCH_DEFAULT);
}

/* Sums have another order than on the CPU: one rounding of a result may go the other way. */
static float tolerance_of(stg_dtype dtype) {
  return dtype == STG_BF16 ? 0x1p-7F : dtype == STG_F16 ? 0x1p-10F : 0x1p-17F;
}

/* q, K, V, lengths and what was refused have the CPU's bits. */
static void a_device_does_what_the_cpu_does(void **state) {
  const struct steer_env *env = *state;
  stg_engine *cpu = cpu_engine();
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < n_attn_scripts; i++) {
    const struct attn_script *script = &attn_scripts[i];
    struct attn_trace wanted, apart, block;
    attn_script_run(cpu, script, ATTN_APART, &wanted);
    attn_script_run(env->engine, script, ATTN_APART, &apart);
    attn_script_run(env->engine, script, ATTN_BLOCK, &block);
    attn_trace_compare(script->name, &wanted, &apart, tolerance_of(script->dtype));
    attn_trace_compare(script->name, &apart, &block, 0);
    attn_trace_finish(&wanted);
    attn_trace_finish(&apart);
    attn_trace_finish(&block);
  }
  check_ok(stg_engine_destroy(cpu, &error), &error);
}

static void a_fixed_cache_equals_one_that_grows(void **state) {
  const struct steer_env *env = *state;
  attn_growing_run(env->engine, env->quick ? 256 : 1024, 0);
  attn_growing_run(env->engine, 256, 16);
}

/* ---- captures ---- */

static const int32_t all_of_them[] = {2, 0, 1};

static void draw(const struct objects *all) {
  float host[OBJ_MAX_ROWS * OBJ_PACKED];
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) {
    host[i] = (float)(i * 37 % 101) / 50 - 1;
  }
  check_ok(stg_mem_upload(all->engine, all->qkv, host, sizeof host, &error), &error);
}

static void open_objects(struct objects *all, stg_engine *engine) {
  obj_open_on(all, engine);
  obj_open_block(all);
  draw(all);
}

/* A step's rows and plan on the stream. */
static void step_on(const struct objects *all, stg_stream stream, int64_t rows) {
  const stg_rows_step step = {.struct_size = sizeof step, .rows = rows, .seq = all_of_them};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_rows_step_set(all->rows, &step, stream, &error), &error);
  check_ok(stg_block_step(all->block, all->rows, NULL, stream, &error), &error);
}

static void apply_on(const struct objects *all, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  for (uint32_t layer = 0; layer < OBJ_LAYERS; layer++) {
    const stg_rope_tensors rope = obj_rope_tensors(all, layer);
    const stg_attend_tensors attend = obj_attend_tensors(all, layer);
    const stg_block_tensors both = {
        .struct_size = sizeof both, .layer = layer, .rope = &rope, .attend = &attend};
    check_ok(stg_block_apply(all->block, &both, stream, &error), &error);
  }
}

static void expect_equal(const struct objects *a, const struct objects *b, stg_stream stream) {
  stg_kv_tensors of_a = {.struct_size = sizeof of_a}, of_b = {.struct_size = sizeof of_b};
  float out[2][3 * OBJ_ROW];
  int32_t len[2][OBJ_BATCH];
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_stream_synchronize(stg_mem_device(a->engine), stream, &error), &error);
  stg_kv_get_tensors(a->kv, &of_a);
  stg_kv_get_tensors(b->kv, &of_b);
  check_ok(stg_mem_download(a->engine, out[0], a->out, sizeof out[0], &error), &error);
  check_ok(stg_mem_download(b->engine, out[1], b->out, sizeof out[1], &error), &error);
  check_ok(stg_mem_download(a->engine, len[0], of_a.len, sizeof len[0], &error), &error);
  check_ok(stg_mem_download(b->engine, len[1], of_b.len, sizeof len[1], &error), &error);
  assert_memory_equal(out[0], out[1], sizeof out[0]);
  assert_memory_equal(len[0], len[1], sizeof len[0]);
}

/* Each at another length, some with fewer rows; behind the capacity rows are refused in both. */
static void replays_equal_calls(void **state) {
  const struct steer_env *env = *state;
  struct stg_device *device = stg_mem_device(env->engine);
  struct objects eager, captured;
  struct stg_graph *graph = NULL;
  stg_stream_handle stream = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  open_objects(&eager, env->engine);
  open_objects(&captured, env->engine);
  check_ok(stg_stream_create(device, &stream, &error), &error);
  step_on(&captured, stream, 3);
  check_ok(stg_capture_begin(device, stream, &error), &error);
  apply_on(&captured, stream);
  check_ok(stg_capture_end(device, stream, &graph, &nodes, &error), &error);
  assert_int_equal(2 + 3, nodes);
  const uint64_t compiles = steer_engine_stats(env->engine).kernel_compiles;
  for (int i = 0; i < REPLAYS; i++) {
    const int64_t rows = i % 4 == 3 ? 2 : 3;
    step_on(&captured, stream, rows);
    check_ok(stg_graph_launch(device, graph, stream, &error), &error);
    step_on(&eager, stream, rows);
    apply_on(&eager, stream);
    expect_equal(&eager, &captured, stream);
  }
  assert_int_equal(compiles, steer_engine_stats(env->engine).kernel_compiles);
  assert_int_equal(STG_E_KV_FULL, stg_kv_status(captured.kv, stream, NULL, &error));
  assert_int_equal(STG_E_BUSY, stg_rows_destroy(captured.rows, &error));
  stg_graph_destroy(device, graph);
  obj_close_on(&eager); /* rows wait for the stream of their last step, so it goes after them */
  obj_close_on(&captured);
  stg_stream_destroy(device, stream);
}

/* A replay that is ahead of the host takes the rows that were set in the stream's order. */
static void steps_may_be_issued_ahead(void **state) {
  const struct steer_env *env = *state;
  struct objects waited, ahead;
  stg_stream stream = stg_mem_stream(env->engine);
  open_objects(&waited, env->engine);
  open_objects(&ahead, env->engine);
  for (int i = 0; i < OBJ_CAPACITY; i++) {
    step_on(&ahead, stream, 1 + i % 3);
    apply_on(&ahead, stream);
  }
  for (int i = 0; i < OBJ_CAPACITY; i++) {
    stg_error error = STG_ERROR_INIT;
    step_on(&waited, stream, 1 + i % 3);
    apply_on(&waited, stream);
    check_ok(stg_mem_synchronize(env->engine, &error), &error);
  }
  expect_equal(&waited, &ahead, stream);
  obj_close_on(&waited);
  obj_close_on(&ahead);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_does_what_the_cpu_does),
      cmocka_unit_test(a_fixed_cache_equals_one_that_grows),
      cmocka_unit_test(replays_equal_calls),
      cmocka_unit_test(steps_may_be_issued_ahead),
  };
  const int skip = skip_without_gpu();
  return skip != 0 ? skip : cmocka_run_group_tests(tests, steer_env_cuda, steer_env_close);
}
