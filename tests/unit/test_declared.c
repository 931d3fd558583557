/*
 * test_declared.c: what the command declares: kernels by number, and the graph of several.
 */
#include "engine/declared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <steergraph/engine.h>

#include "tests/support/fake_family.h"

#define ARCH "sm_90"

struct bed {
  stg_engine *engine;
  struct stg_arena arena;
  const struct stg_declared *steer;
  struct fake_decl fakes[2];
  struct stg_declared several; /* a fake one, the table's, a fake one */
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void open_bed(struct bed *bed) {
  const stg_steer_desc desc = {.struct_size = sizeof desc, .hidden_size = 64, .dtype = STG_F32};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  *bed = (struct bed){.fakes = {fake_decl(1), fake_decl(2)}};
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_mode = STG_CACHE_OFF;
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_declare_steer(bed->engine, &desc, &bed->arena, &bed->steer, &error), &error);
  bed->several = (struct stg_declared){
      .parts = {&bed->fakes[0].base, bed->steer->parts[0], &bed->fakes[1].base}, .n_parts = 3};
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  stg_arena_finish(&bed->arena);
  ok(stg_engine_destroy(bed->engine, &error), &error);
}

static void kernels_are_numbered_part_by_part(void **state) {
  static const char *const variants[] = {"fake", "steer decode", "steer prefill", "fake"};
  static const char *const texts[] = {"fake v1 | number=1 | " ARCH, " | tile=decode ",
                                      " | tile=prefill ", "fake v1 | number=2 | " ARCH};
  (void)state;
  struct bed bed;
  open_bed(&bed);
  assert_int_equal(2, stg_declared_kernels(bed.steer));
  assert_int_equal(4, stg_declared_kernels(&bed.several));
  for (size_t i = 0; i < 4; i++) {
    struct stg_explained kernel;
    stg_error error = STG_ERROR_INIT;
    assert_string_equal(variants[i], stg_declared_variant(&bed.several, i));
    ok(stg_explain_kernel(bed.engine, &bed.several, i, ARCH, &bed.arena, &kernel, &error), &error);
    assert_string_equal(variants[i], kernel.variant);
    assert_non_null(strstr(kernel.signature, texts[i]));
  }
  close_bed(&bed);
}

static void a_number_too_high_is_refused(void **state) {
  (void)state;
  struct bed bed;
  struct stg_explained kernel;
  bool compiled = false;
  double ms = 0;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  assert_null(stg_declared_variant(&bed.several, 4));
  assert_int_equal(STG_E_NOT_FOUND, stg_explain_kernel(bed.engine, &bed.several, 4, ARCH,
                                                       &bed.arena, &kernel, &error));
  assert_string_equal("kernel 4: the declaration has 4", error.message);
  assert_int_equal(STG_E_NOT_FOUND,
                   stg_offline_build(bed.engine, bed.steer, 2, ARCH, &compiled, &ms, &error));
  assert_string_equal("kernel 2: the declaration has 2", error.message);
  close_bed(&bed);
}

static void a_table_that_nobody_may_have_is_refused(void **state) {
  (void)state;
  struct bed bed;
  const stg_steer_desc desc = {.struct_size = sizeof desc, .hidden_size = 0, .dtype = STG_F32};
  const struct stg_declared *declared = NULL;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  assert_int_equal(STG_E_INVALID,
                   stg_declare_steer(bed.engine, &desc, &bed.arena, &declared, &error));
  assert_string_equal("hidden_size: 0 is not in 1..1048576", error.message);
  assert_null(declared);
  close_bed(&bed);
}

/* The first part says the shape, and the table's which of its kernels serves. */
static void a_graph_of_several_has_one_signature(void **state) {
  (void)state;
  struct bed bed;
  struct stg_explained kernels[3];
  struct stg_explained_graph graph;
  struct stg_key keys[3];
  char hex[STG_KEY_HEX_CHARS + 1];
  const struct stg_graph_shape shape = {.batch = 3, .seq = 7, .rows = 15};
  const struct stg_batch_sizes batch = {.rows = 15, .requests = 3, .longest = 7};
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  ok(stg_explain_graph(bed.engine, &bed.several, ARCH, &batch, &bed.arena, &graph, &error), &error);
  assert_int_equal(3, graph.n_kernels);
  assert_int_equal(0, graph.kernels[0]);
  assert_int_equal(2, graph.kernels[1]); /* prefill */
  assert_int_equal(3, graph.kernels[2]);
  for (size_t i = 0; i < 3; i++) {
    ok(stg_explain_kernel(bed.engine, &bed.several, graph.kernels[i], ARCH, &bed.arena, &kernels[i],
                          &error),
       &error);
    assert_true(stg_key_parse(kernels[i].kernel_key, &keys[i]));
  }
  stg_key_hex(stg_graph_key(keys, 3, &shape), hex);
  assert_string_equal(hex, graph.graph_key);
  assert_non_null(strstr(graph.signature, "fake v1 | number=1 + steer v1 | ops="));
  assert_non_null(strstr(graph.signature,
                         " probes=0 + fake v1 | number=2 | " ARCH " | batch<=3 seq<=7 rows<=15"));
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_are_numbered_part_by_part),
      cmocka_unit_test(a_number_too_high_is_refused),
      cmocka_unit_test(a_table_that_nobody_may_have_is_refused),
      cmocka_unit_test(a_graph_of_several_has_one_signature),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
