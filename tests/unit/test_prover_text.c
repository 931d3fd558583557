/*
 * test_prover_text.c: the text of the proof search, what it takes of a device, and weights as it
 * reads them.
 *
 * What the text says is pinned by tests/golden/cuda-prover, which also runs it on the host; whether
 * it compiles by tests/nvrtc.
 */
#include "codegen/prover_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/prover_args.h"
#include "codegen/prover_extents.h"
#include "codegen/prover_pack.h"
#include "runtime/base/alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LINE_CHARS 100
/* Of a layer of 8 inputs, in floats. */
#define BIAS 2048
#define GAIN 2304
#define SHIFT 2560

static struct stg_prover_kernel usual(void) {
  return (struct stg_prover_kernel){.limits = {.atoms = 6, .children = 120, .depth = 20},
                                    .net = {.embed = 250, .hidden = 256, .blocks = 8}};
}

static struct stg_strbuf must_generate(const struct stg_prover_kernel *kernel,
                                       struct stg_launch_rule *ret_rule) {
  struct stg_strbuf source = {0};
  stg_error err = STG_ERROR_INIT;
  const stg_status status = stg_prover_generate(kernel, &source, ret_rule, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return source;
}

static void every_literal_changes_the_text_and_no_argument_does(void **state) {
  (void)state;
  struct stg_prover_kernel variants[8];
  struct stg_strbuf texts[COUNT(variants)];
  struct stg_launch_rule rule;
  for (size_t i = 0; i < COUNT(variants); i++) {
    variants[i] = usual();
  }
  variants[1].limits.atoms = 5;
  variants[2].limits.children = 119;
  variants[3].net.embed = 248;
  variants[4].net.hidden = 254;
  variants[5].net.blocks = 7;
  variants[6].arithmetic = STG_PROVER_TF32X3;
  variants[7].arithmetic = STG_PROVER_TF32;
  for (size_t i = 0; i < COUNT(variants); i++) {
    texts[i] = must_generate(&variants[i], &rule);
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(stg_strbuf_text(&texts[i]), stg_strbuf_text(&texts[k]));
    }
  }
  struct stg_prover_kernel same = usual();
  same.limits.depth = 3;
  same.net.epsilon = 1e-3f;
  struct stg_strbuf again = must_generate(&same, &rule);
  assert_string_equal(stg_strbuf_text(&texts[0]), stg_strbuf_text(&again));
  stg_strbuf_finish(&again);
  for (size_t i = 0; i < COUNT(variants); i++) {
    stg_strbuf_finish(&texts[i]);
  }
}

static void no_line_is_long_and_each_ends_where_it_should(void **state) {
  (void)state;
  const struct stg_prover_kernel kernel = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  for (const char *line = stg_strbuf_text(&text); *line != '\0';) {
    const size_t len = strcspn(line, "\n");
    assert_true(len <= MAX_LINE_CHARS);
    assert_true(len == 0 || (line[len - 1] != ' ' && memchr(line, '\t', len) == NULL));
    assert_int_equal(line[len], '\n');
    line += len + 1;
  }
  stg_strbuf_finish(&text);
}

static void the_prelude_has_what_the_entry_needs(void **state) {
  (void)state;
  const struct stg_prover_kernel kernel = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf prelude = {0};
  struct stg_strbuf text = must_generate(&kernel, &rule);
  stg_prover_prelude(&prelude);
  assert_int_equal(stg_strbuf_status(&prelude, NULL), STG_OK);
  assert_non_null(strstr(stg_strbuf_text(&prelude), "struct stg_prover_args {"));
  assert_non_null(strstr(stg_strbuf_text(&prelude), "void stg_prover_run("));
  assert_null(strstr(stg_strbuf_text(&prelude), "stg_steer"));
  assert_non_null(strstr(stg_strbuf_text(&text), "\n" STG_PROVER_KERNEL_NAME "(const "));
  stg_strbuf_finish(&prelude);
  stg_strbuf_finish(&text);
}

static void refuses_what_there_is_no_text_for(void **state) {
  (void)state;
  static const struct {
    struct stg_prover_kernel kernel;
    stg_status status;
    const char *message;
  } rows[] = {
      {{{0, 120, 20}, {250, 256, 8, 0}, STG_PROVER_F32}, STG_E_INVALID, "atoms: 0 is not in 1..8"},
      {{{9, 120, 20}, {250, 256, 8, 0}, STG_PROVER_F32}, STG_E_INVALID, "atoms: 9 is not in 1..8"},
      {{{6, 1, 20}, {250, 256, 8, 0}, STG_PROVER_F32},
       STG_E_INVALID,
       "children: 1 is not in 2..128"},
      {{{6, 129, 20}, {250, 256, 8, 0}, STG_PROVER_F32},
       STG_E_INVALID,
       "children: 129 is not in 2..128"},
      {{{6, 120, 20}, {0, 256, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "embed: 0 is not even and in 2..256, up to hidden"},
      {{{6, 120, 20}, {258, 256, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "embed: 258 is not even and in 2..256, up to hidden"},
      {{{6, 120, 20}, {33, 40, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "embed: 33 is not even and in 2..40, up to hidden"},
      {{{6, 120, 20}, {42, 40, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "embed: 42 is not even and in 2..40, up to hidden"},
      {{{6, 120, 20}, {2, 41, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "hidden: 41 is not even and in 2..256"},
      {{{6, 120, 20}, {250, 0, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "hidden: 0 is not even and in 2..256"},
      {{{6, 120, 20}, {250, 257, 8, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "hidden: 257 is not even and in 2..256"},
      {{{6, 120, 20}, {250, 256, 0, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "blocks: 0 is not in 1..64"},
      {{{6, 120, 20}, {250, 256, 65, 0}, STG_PROVER_F32},
       STG_E_UNSUPPORTED,
       "blocks: 65 is not in 1..64"},
      {{{6, 120, 20}, {250, 256, 8, 0}, (enum stg_prover_arithmetic)3},
       STG_E_INVALID,
       "arithmetic: 3 is none of f32 (0), tf32x3 (1), tf32 (2)"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct stg_strbuf source = {0};
    struct stg_launch_rule rule = {.threads = 77};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_prover_generate(&rows[i].kernel, &source, &rule, &err), rows[i].status);
    assert_string_equal(err.message, rows[i].message);
    assert_int_equal(rule.threads, 77);
    assert_int_equal(source.len, 0);
    stg_strbuf_finish(&source);
  }
}

static void says_what_a_launch_takes(void **state) {
  (void)state;
  const struct stg_prover_kernel kernel = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  const struct stg_prover_extents e = stg_prover_extents_of(&kernel.limits, &kernel.net);
  assert_int_equal(rule.threads, 256);
  assert_int_equal(rule.rows_per_block, 8);
  assert_int_equal(rule.resident_blocks, 2);
  assert_int_equal(stg_launch_stage_bytes(&rule, false), e.shared_bytes);
  assert_int_equal(stg_launch_stage_bytes(&rule, true), e.shared_bytes);
  assert_int_equal(e.threads, 32 * e.slots);
  assert_in_range(e.shared_bytes, 65536, 101376);
  assert_int_equal(e.slot_bytes % 128, 0);
  assert_in_range(e.slot_bytes, 120 * sizeof(struct stg_prove_state) + 2048, 16384);
  assert_int_equal(stg_prover_scratch_bytes(&e, 264), (size_t)2112 * e.slot_bytes);
  stg_strbuf_finish(&text);
}

static void a_query_has_a_block_of_its_own_while_there_are_some(void **state) {
  (void)state;
  assert_int_equal(stg_prover_blocks(264, 0), 1);
  assert_int_equal(stg_prover_blocks(264, 1), 1);
  assert_int_equal(stg_prover_blocks(264, 64), 64);
  assert_int_equal(stg_prover_blocks(264, 264), 264);
  assert_int_equal(stg_prover_blocks(264, 1 << 20), 264);
}

/* Weights 3 to 2 of the first layer, 2 to 2 of a block and the head, 2 to 3 of the last. */
static void packs_layers_with_zeros_around_them(void **state) {
  (void)state;
  static const float w[] = {1, 2, 3, 4, 5, 6};
  static const float v[] = {7, 8, 9};
  static const struct stg_prove_layer block = {.weight = w, .bias = v, .gain = v + 1, .shift = w};
  static const struct stg_prove_weights weights = {.in = {w, v, v, v},
                                                   .blocks = &block,
                                                   .head = {.weight = w, .bias = v},
                                                   .out = {.weight = w, .bias = v}};
  static const struct stg_prove_net net = {.embed = 3, .hidden = 2, .blocks = 1};
  const size_t layer = (size_t)11 * 256; /* 8 inputs, and three vectors */
  float sum = 0;
  assert_int_equal(stg_prover_pack_floats(&net), 4 * layer);
  float *packed = stg_calloc(4 * layer, sizeof *packed);
  assert_non_null(packed);
  memset(packed, 0xa5, 4 * layer * sizeof *packed);
  stg_prover_pack(&net, &weights, packed);
  /* [2, 3] of the first layer, turned */
  const float *in = packed;
  assert_true(in[0] == 1 && in[1] == 4 && in[256] == 2 && in[257] == 5 && in[512] == 3 &&
              in[513] == 6);
  assert_true(in[BIAS] == 7 && in[BIAS + 1] == 8 && in[GAIN] == 7 && in[SHIFT] == 7);
  const float *second = packed + layer;
  assert_true(second[0] == 1 && second[1] == 3 && second[256] == 2 && second[257] == 4);
  assert_true(second[BIAS + 1] == 8 && second[GAIN + 1] == 9 && second[SHIFT + 1] == 2);
  /* [3, 2] of the last */
  const float *out = packed + 3 * layer;
  assert_true(out[0] == 1 && out[1] == 3 && out[2] == 5 && out[256] == 2 && out[257] == 4 &&
              out[258] == 6);
  assert_true(out[BIAS + 2] == 9 && out[GAIN] == 0 && out[SHIFT] == 0);
  for (size_t i = 0; i < 4 * layer; i++) {
    sum += packed[i];
  }
  /* 21 each and 10 each of weights; biases, gains and shifts; nothing else */
  assert_true(sum == 21 + 10 + 10 + 21 + 3 * 15 + (15 + 17 + 3) + 15 + 24);
  stg_free(packed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_literal_changes_the_text_and_no_argument_does),
      cmocka_unit_test(no_line_is_long_and_each_ends_where_it_should),
      cmocka_unit_test(the_prelude_has_what_the_entry_needs),
      cmocka_unit_test(refuses_what_there_is_no_text_for),
      cmocka_unit_test(says_what_a_launch_takes),
      cmocka_unit_test(a_query_has_a_block_of_its_own_while_there_are_some),
      cmocka_unit_test(packs_layers_with_zeros_around_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
