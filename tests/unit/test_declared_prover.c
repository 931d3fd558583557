/*
 * test_declared_prover.c: what the command declares of the proof search is what making a prover
 * asks for, whatever its base.
 */
#include "engine/declared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/prover.h>

#include "runtime/base/strbuf.h"
#include "specs/spec.h"

#define CPU "prover v1 | atoms=6 children=120 | embed=20 width=30 blocks=8 arithmetic=tf32 | cpu"

static const stg_atom fact = {1, 1, 2};
static const stg_prover_desc desc = {.struct_size = sizeof desc,
                                     .predicates = 1,
                                     .constants = 2,
                                     .facts = &fact,
                                     .n_facts = 1,
                                     .embed = 20,
                                     .hidden = 30,
                                     .arithmetic = STG_ARITHMETIC_TF32,
                                     .capacity = 100};

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

static void it_is_what_a_prover_asks_for(void **state) {
  const struct stg_declared *declared = NULL;
  const struct stg_batch_sizes sizes = {.rows = 100, .requests = 1, .longest = 1};
  struct stg_explained kernel;
  struct stg_explained_graph graph;
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_prover *prover = NULL;
  stg_error error = STG_ERROR_INIT;
  struct bed bed;
  (void)state;
  open_bed(&bed);
  ok(stg_declare_prover(&desc, &bed.arena, &declared, &error), &error);
  assert_int_equal(1, stg_declared_kernels(declared));
  assert_string_equal("prover", stg_declared_family(declared, 0));
  assert_string_equal("prover", stg_declared_variant(declared, 0));
  ok(stg_explain_kernel(bed.engine, declared, 0, "cpu", &bed.arena, &kernel, &error), &error);
  assert_string_equal(CPU, kernel.signature);
  ok(stg_explain_graph(bed.engine, declared, "cpu", &sizes, &bed.arena, &graph, &error), &error);
  assert_string_equal(CPU " | batch<=1 seq<=1 rows<=112", graph.signature);
  ok(stg_prover_create(bed.engine, &desc, &prover, &error), &error);
  ok(stg_prover_plan(prover, &plan, &error), &error);
  assert_string_equal(graph.signature, plan.signature);
  assert_string_equal(kernel.kernel_key, plan.kernel_key);
  assert_string_equal(graph.graph_key, plan.graph_key);
  assert_string_equal("cpu", plan.source);
  ok(stg_prover_destroy(prover, &error), &error);
  ok(stg_explain_kernel(bed.engine, declared, 0, "sm_90", &bed.arena, &kernel, &error), &error);
  assert_string_equal("stg_prover", kernel.kernel_name);
  assert_int_equal(256, kernel.threads);
  assert_int_equal(8, kernel.rows_per_block);
  close_bed(&bed);
}

/* The command need not have read it to declare the kernel. */
static void its_base_is_not_looked_at(void **state) {
  const struct stg_declared *declared = NULL;
  stg_prover_desc bare = desc;
  stg_error error = STG_ERROR_INIT;
  struct bed bed;
  (void)state;
  open_bed(&bed);
  bare.facts = NULL;
  bare.n_facts = bare.n_rules = SIZE_MAX;
  ok(stg_declare_prover(&bare, &bed.arena, &declared, &error), &error);
  close_bed(&bed);
}

static void what_no_prover_can_be_is_not_declared(void **state) {
  const struct stg_declared *declared = NULL;
  stg_prover_desc wrong = desc;
  stg_error error = STG_ERROR_INIT;
  struct bed bed;
  (void)state;
  open_bed(&bed);
  wrong.hidden = 18;
  assert_int_equal(STG_E_UNSUPPORTED, stg_declare_prover(&wrong, &bed.arena, &declared, &error));
  assert_string_equal("embed: 20 is not even and in 2..18, up to hidden", error.message);
  wrong = desc;
  wrong.arithmetic = (stg_arithmetic)-1;
  assert_int_equal(STG_E_INVALID, stg_declare_prover(&wrong, &bed.arena, &declared, &error));
  assert_string_equal("arithmetic: -1 is none of f32 (0), tf32x3 (1), tf32 (2)", error.message);
  assert_null(declared);
  close_bed(&bed);
}

/* The reader of workloads, which does not see the kernel's check, has one of its own. */
static stg_status read_net(uint32_t embed, uint32_t hidden, uint32_t blocks) {
  struct stg_strbuf text = {0};
  struct stg_spec spec = {0};
  stg_strbuf_printf(
      &text,
      "{\"steergraph\": 1, \"family\": \"prover\", \"knowledge\": {\"generate\": "
      "{\"kind\": \"countries\", \"seed\": 1, \"size\": 50}}, \"queries\": {\"first\": 1}, "
      "\"policy\": {\"embed\": %u, \"hidden\": %u, \"blocks\": %u, \"weights\": "
      "{\"random\": {\"seed\": 1}}}, \"corruptions\": {\"count\": 1, \"seed\": 1}}",
      embed, hidden, blocks);
  const stg_status status =
      stg_spec_parse("w.json", stg_strbuf_text(&text), text.len, NULL, &spec, NULL);
  if (status == STG_OK) {
    stg_spec_finish(&spec);
  }
  stg_strbuf_finish(&text);
  return status;
}

static void a_workload_has_the_sizes_that_there_are_kernels_for(void **state) {
  static const uint32_t widths[] = {1, 2, 3, 4, 33, 250, 255, 256, 257, 258};
  static const uint32_t blocks[] = {1, 64, 65};
  enum { WIDTHS = sizeof widths / sizeof widths[0], ALL = WIDTHS * WIDTHS * 3 };
  struct bed bed;
  size_t n_read = 0;
  (void)state;
  open_bed(&bed);
  for (size_t i = 0; i < ALL; i++) {
    const struct stg_declared *declared = NULL;
    stg_prover_desc sized = desc;
    sized.embed = widths[i % WIDTHS];
    sized.hidden = widths[i / WIDTHS % WIDTHS];
    sized.blocks = blocks[i / WIDTHS / WIDTHS];
    const bool is_read = read_net(sized.embed, sized.hidden, sized.blocks) == STG_OK;
    if (is_read != (stg_declare_prover(&sized, &bed.arena, &declared, NULL) == STG_OK)) {
      fail_msg("embed %u, hidden %u, blocks %u", sized.embed, sized.hidden, sized.blocks);
    }
    n_read += is_read;
  }
  assert_int_equal(n_read, 2 * (4 + 3 + 2 + 1)); /* of 2, 4, 250 and 256 */
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_what_a_prover_asks_for),
      cmocka_unit_test(its_base_is_not_looked_at),
      cmocka_unit_test(what_no_prover_can_be_is_not_declared),
      cmocka_unit_test(a_workload_has_the_sizes_that_there_are_kernels_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
