/*
 * test_prover_signature.c: signatures of the family prover: their text, that it reads back, where
 * one does not, and what makes another kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <steergraph/steergraph.h>

#include "engine/ops.h"
#include "engine/prover_decl.h"
#include "engine/signature_parse.h"

#define SHAPE " | batch<=1 seq<=1 rows<=16384"
#define USUAL "prover v1 | atoms=6 children=120 | embed=250 width=256 blocks=8 arithmetic="

static const char *const signatures[] = {
    USUAL "f32",
    USUAL "tf32x3",
    USUAL "tf32",
    "prover v1 | atoms=8 children=120 | embed=250 width=256 blocks=8 arithmetic=f32",
    "prover v1 | atoms=6 children=128 | embed=250 width=256 blocks=8 arithmetic=f32",
    "prover v1 | atoms=6 children=120 | embed=248 width=256 blocks=8 arithmetic=f32",
    "prover v1 | atoms=6 children=120 | embed=250 width=254 blocks=8 arithmetic=f32",
    "prover v1 | atoms=6 children=120 | embed=250 width=256 blocks=64 arithmetic=f32",
};
#define COUNT (sizeof signatures / sizeof signatures[0])

static stg_status parse(const char *text, struct stg_parsed *ret, struct stg_arena *arena,
                        stg_error *reterr) {
  struct stg_op_table *ops = NULL;
  assert_int_equal(STG_OK, stg_op_table_create(&ops, NULL));
  const stg_status status = stg_signature_parse(text, ops, arena, ret, reterr);
  stg_op_table_destroy(ops);
  return status;
}

static void each_reads_back(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    struct stg_arena arena = {0};
    struct stg_strbuf text = {0}, again = {0};
    struct stg_parsed parsed;
    stg_error error = STG_ERROR_INIT;
    stg_strbuf_printf(&text, "%s" SHAPE, signatures[i]);
    if (parse(stg_strbuf_text(&text), &parsed, &arena, &error) != STG_OK) {
      fail_msg("'%s': %s", signatures[i], error.message);
    }
    stg_parsed_print(&parsed, &again);
    assert_string_equal(stg_strbuf_text(&text), stg_strbuf_text(&again));
    stg_strbuf_finish(&text);
    stg_strbuf_finish(&again);
    stg_arena_finish(&arena);
  }
}

static void what_does_not_read_says_where(void **state) {
  static const struct {
    const char *text;
    stg_status status;
    const char *message;
  } cases[] = {
      {"prover v2 | atoms=6", STG_E_FORMAT,
       "column 1: expected 'prover v1 | atoms=', found 'prover v2 | atoms=6 | batch<=1 seq<=1 "
       "ro...'"},
      {"prover v1 | atoms=9", STG_E_FORMAT, "column 19: 9 is more than 8"},
      {"prover v1 | atoms=0 children=120 | embed=2 width=2 blocks=1 arithmetic=f32", STG_E_INVALID,
       "atoms: 0 is not in 1..8"},
      {"prover v1 | atoms=6 children=129", STG_E_FORMAT, "column 30: 129 is more than 128"},
      {"prover v1 | atoms=6 children=1 | embed=2 width=2 blocks=1 arithmetic=f32", STG_E_INVALID,
       "children: 1 is not in 2..128"},
      {"prover v1 | atoms=6 children=120 | embed=257", STG_E_FORMAT,
       "column 42: 257 is more than 256"},
      {"prover v1 | atoms=6 children=120 | embed=0 width=2 blocks=1 arithmetic=f32",
       STG_E_UNSUPPORTED, "embed: 0 is not even and in 2..2, up to hidden"},
      {"prover v1 | atoms=6 children=120 | embed=250 width=1 blocks=1 arithmetic=f32",
       STG_E_UNSUPPORTED, "hidden: 1 is not even and in 2..256"},
      {"prover v1 | atoms=6 children=120 | embed=250 width=40 blocks=1 arithmetic=f32",
       STG_E_UNSUPPORTED, "embed: 250 is not even and in 2..40, up to hidden"},
      {"prover v1 | atoms=6 children=120 | embed=3 width=4 blocks=1 arithmetic=f32",
       STG_E_UNSUPPORTED, "embed: 3 is not even and in 2..4, up to hidden"},
      {"prover v1 | atoms=6 children=120 | embed=2 width=2 blocks=0 arithmetic=f32",
       STG_E_UNSUPPORTED, "blocks: 0 is not in 1..64"},
      {USUAL "bf16", STG_E_FORMAT,
       "column 76: expected f32, tf32x3 or tf32, found 'bf16 | batch<=1 seq<=1 rows<=16384'"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_arena arena = {0};
    struct stg_strbuf text = {0};
    struct stg_parsed parsed;
    stg_error error = STG_ERROR_INIT;
    stg_strbuf_printf(&text, "%s" SHAPE, cases[i].text);
    const stg_status status = parse(stg_strbuf_text(&text), &parsed, &arena, &error);
    if (status != cases[i].status || strcmp(cases[i].message, error.message) != 0) {
      fail_msg("'%s': %s: %s", cases[i].text, stg_status_name(status), error.message);
    }
    stg_strbuf_finish(&text);
    stg_arena_finish(&arena);
  }
}

/* Which kernel is asked for depends on the signature alone, and on all of it. */
static void other_signatures_have_other_keys(void **state) {
  struct stg_key keys[COUNT];
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    struct stg_arena arena = {0};
    struct stg_strbuf text = {0};
    struct stg_parsed parsed;
    struct stg_kernel_text kernel;
    stg_error error = STG_ERROR_INIT;
    stg_strbuf_printf(&text, "%s" SHAPE, signatures[i]);
    assert_int_equal(STG_OK, parse(stg_strbuf_text(&text), &parsed, &arena, &error));
    const struct stg_decl *decl = parsed.parts[0].decl;
    assert_int_equal(STG_OK, decl->family->kernel_text(decl, 0, "sm_90", NULL, &kernel, &error));
    keys[i] = kernel.key;
    stg_strbuf_printf(&text, " | sm_90");
    assert_memory_equal(signatures[i], stg_strbuf_text(&kernel.signature), strlen(signatures[i]));
    stg_kernel_text_finish(&kernel);
    stg_strbuf_finish(&text);
    stg_arena_finish(&arena);
    for (size_t k = 0; k < i; k++) {
      assert_false(stg_key_equal(keys[k], keys[i]));
    }
  }
}

/* Pools of any size have one; the shape is what a launch has room for. */
static void the_shape_is_the_capacity(void **state) {
  static const int64_t cases[][2] = {{1, 1},         {7, 8},         {100, 112},        {512, 512},
                                     {16384, 16384}, {20000, 32768}, {1 << 20, 1 << 20}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_graph_shape shape;
    assert_int_equal(STG_OK, stg_prover_shape(cases[i][0], &shape, NULL));
    assert_int_equal(1, shape.batch);
    assert_int_equal(1, shape.seq);
    assert_int_equal(cases[i][1], shape.rows);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_reads_back),
      cmocka_unit_test(what_does_not_read_says_where),
      cmocka_unit_test(other_signatures_have_other_keys),
      cmocka_unit_test(the_shape_is_the_capacity),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
