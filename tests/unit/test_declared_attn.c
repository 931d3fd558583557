/*
 * test_declared_attn.c: what the command declares of the attention side is what making it asks for.
 */
#include "engine/declared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/attention.h>

#define ARCH "sm_90"

struct bed {
  stg_engine *engine;
  struct stg_arena arena;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void open_bed(struct bed *bed) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  *bed = (struct bed){.engine = NULL};
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_mode = STG_CACHE_OFF;
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  stg_arena_finish(&bed->arena);
  ok(stg_engine_destroy(bed->engine, &error), &error);
}

static const stg_kv_desc cache = {.struct_size = sizeof cache,
                                  .batch = 3,
                                  .kv_heads = 2,
                                  .dim = 16,
                                  .capacity = 64,
                                  .dtype = STG_F32};
static const stg_rope_desc rope = {.struct_size = sizeof rope, .heads = 4};
static const stg_attend_desc attend = {.struct_size = sizeof attend, .heads = 4};
static const stg_steer_desc steer = {
    .struct_size = sizeof steer, .hidden_size = 64, .dtype = STG_F32};

/* The kernels of a declaration, as far as their texts tell them apart. */
static void expect_kernels(struct bed *bed, const struct stg_declared *declared,
                           const char *const *texts, size_t count) {
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(count, stg_declared_kernels(declared));
  for (size_t i = 0; i < count; i++) {
    struct stg_explained kernel;
    ok(stg_explain_kernel(bed->engine, declared, i, ARCH, &bed->arena, &kernel, &error), &error);
    if (strstr(kernel.signature, texts[i]) == NULL) {
      fail_msg("kernel %zu: no '%s' in '%s'", i, texts[i], kernel.signature);
    }
  }
}

static void expect_graph(struct bed *bed, const struct stg_declared *declared,
                         const size_t *kernels, size_t count) {
  const struct stg_batch_sizes sizes = {.rows = 2, .requests = 2, .longest = 1};
  struct stg_explained_graph graph;
  stg_error error = STG_ERROR_INIT;
  ok(stg_explain_graph(bed->engine, declared, ARCH, &sizes, &bed->arena, &graph, &error), &error);
  assert_int_equal(count, graph.n_kernels);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(kernels[i], graph.kernels[i]);
  }
}

static void a_rope_that_is_gone_back_launches_the_way_back(void **state) {
  static const char *const texts[] = {"dir=forward", "dir=backward", "work=transpose"};
  static const size_t launched[] = {1};
  (void)state;
  struct bed bed;
  const struct stg_declared *declared = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_rope_desc desc = rope;
  open_bed(&bed);
  desc.kv_heads = 2;
  desc.dim = 16;
  desc.dtype = STG_F32;
  desc.backward = desc.transpose = true;
  ok(stg_declare_rope(&desc, NULL, &bed.arena, &declared, &error), &error);
  expect_kernels(&bed, declared, texts, 3);
  expect_graph(&bed, declared, launched, 1);
  assert_string_equal("rope", stg_declared_family(declared, 2));
  assert_null(stg_declared_family(declared, 3));
  close_bed(&bed);
}

static void a_cache_has_a_kernel_that_is_not_launched_with_others(void **state) {
  static const char *const of_rope[] = {"sink=dense", "work=advance"};
  static const char *const of_attend[] = {"cache=paged", "work=advance"};
  static const size_t launched[] = {0};
  (void)state;
  struct bed bed;
  const struct stg_declared *declared = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_kv_desc paged = cache;
  paged.block = 8;
  paged.n_blocks = 24;
  open_bed(&bed);
  ok(stg_declare_rope(&rope, &cache, &bed.arena, &declared, &error), &error);
  expect_kernels(&bed, declared, of_rope, 2);
  expect_graph(&bed, declared, launched, 1);
  ok(stg_declare_attend(&attend, &paged, &bed.arena, &declared, &error), &error);
  expect_kernels(&bed, declared, of_attend, 2);
  expect_graph(&bed, declared, launched, 1);
  close_bed(&bed);
}

static void what_cannot_be_is_refused_with_its_value(void **state) {
  (void)state;
  struct bed bed;
  const struct stg_declared *declared = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_kv_desc empty = cache;
  stg_rope_desc odd = rope;
  stg_attend_desc negative = attend;
  open_bed(&bed);
  empty.capacity = 0;
  odd.rot = 5;
  negative.window = -1;
  assert_int_equal(STG_E_INVALID, stg_declare_rope(&rope, &empty, &bed.arena, &declared, &error));
  assert_string_equal("capacity: 0 is not in 1..2147483646", error.message);
  assert_int_equal(STG_E_INVALID, stg_declare_rope(&odd, &cache, &bed.arena, &declared, &error));
  assert_non_null(strstr(error.message, "rot"));
  assert_int_equal(STG_E_INVALID,
                   stg_declare_attend(&negative, &cache, &bed.arena, &declared, &error));
  assert_string_equal("window: -1 is below 0", error.message);
  assert_null(declared);
  assert_int_equal(0, stg_declared_chunk(&negative, &cache));
  assert_int_equal(0, stg_declared_chunk(&attend, &empty));
  close_bed(&bed);
}

/* A block of these parts, stepped over two sequences; its signature and keys. */
struct made {
  stg_kv *kv;
  stg_rope *rope;
  stg_attend *attend;
  stg_steer *steer;
  stg_frame *frame;
  stg_rows *rows;
  stg_block *block;
  stg_plan_info plan;
};

static void make(struct bed *bed, struct made *ret) {
  static const int32_t seq[] = {0, 2}, slots[] = {STG_ROW_UNSTEERED, STG_ROW_UNSTEERED};
  stg_error error = STG_ERROR_INIT;
  struct made made = {.plan = {.struct_size = sizeof made.plan}};
  ok(stg_kv_create(bed->engine, &cache, &made.kv, &error), &error);
  stg_rope_desc of_rope = rope;
  stg_attend_desc of_attend = attend;
  of_rope.kv = of_attend.kv = made.kv;
  ok(stg_rope_create(bed->engine, &of_rope, &made.rope, &error), &error);
  ok(stg_attend_create(bed->engine, &of_attend, &made.attend, &error), &error);
  ok(stg_steer_create(bed->engine, &steer, &made.steer, &error), &error);
  ok(stg_frame_create(made.steer, &made.frame, &error), &error);
  const stg_rows_desc rows = {.struct_size = sizeof rows, .kv = made.kv, .max_rows = 4};
  ok(stg_rows_create(bed->engine, &rows, &made.rows, &error), &error);
  const stg_block_desc block = {.struct_size = sizeof block,
                                .rope = made.rope,
                                .attend = made.attend,
                                .steer = made.steer,
                                .advance = true};
  ok(stg_block_create(bed->engine, &block, &made.block, &error), &error);
  const stg_rows_step step = {.struct_size = sizeof step, .rows = 2, .seq = seq};
  ok(stg_rows_step_set(made.rows, &step, NULL, &error), &error);
  const stg_step of_frame = {.struct_size = sizeof of_frame, .rows = 2, .row_map = slots};
  ok(stg_steer_step(made.frame, &of_frame, NULL, &error), &error);
  ok(stg_block_step(made.block, made.rows, made.frame, NULL, &error), &error);
  ok(stg_block_plan(made.block, &made.plan, &error), &error);
  *ret = made;
}

static void unmake(struct made *made) {
  stg_error error = STG_ERROR_INIT;
  stg_block_destroy(made->block);
  ok(stg_rows_destroy(made->rows, &error), &error);
  stg_frame_destroy(made->frame);
  ok(stg_steer_destroy(made->steer, &error), &error);
  ok(stg_attend_destroy(made->attend, &error), &error);
  ok(stg_rope_destroy(made->rope, &error), &error);
  ok(stg_kv_destroy(made->kv, &error), &error);
}

static void a_block_is_explained_as_it_is_made(void **state) {
  static const char *const names[] = {"rope", "decode", "steer decode", "steer prefill", "rope"};
  (void)state;
  struct bed bed;
  struct made made;
  struct stg_explained_graph graph;
  struct stg_made_kernel kernel;
  const struct stg_declared *declared = NULL;
  const struct stg_batch_sizes sizes = {.rows = 2, .requests = 2, .longest = 1};
  const struct stg_declared_block block = {
      .kv = &cache, .rope = &rope, .attend = &attend, .steer = &steer, .advance = true};
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  ok(stg_declare_block(bed.engine, &block, &bed.arena, &declared, &error), &error);
  ok(stg_explain_graph(bed.engine, declared, "cpu", &sizes, &bed.arena, &graph, &error), &error);
  make(&bed, &made);
  assert_string_equal(made.plan.signature, graph.signature);
  assert_string_equal(made.plan.graph_key, graph.graph_key);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(names[i], stg_declared_variant(declared, i));
    ok(stg_declared_made(bed.engine, declared, i, &kernel, &error), &error);
    assert_string_equal("cpu", kernel.source);
  }
  assert_int_equal(STG_E_NOT_FOUND, stg_declared_made(bed.engine, declared, 5, &kernel, &error));
  assert_string_equal("kernel 5: the declaration has 5", error.message);
  unmake(&made);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rope_that_is_gone_back_launches_the_way_back),
      cmocka_unit_test(a_cache_has_a_kernel_that_is_not_launched_with_others),
      cmocka_unit_test(what_cannot_be_is_refused_with_its_value),
      cmocka_unit_test(a_block_is_explained_as_it_is_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
