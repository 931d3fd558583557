/*
 * test_attn_signatures.c: signatures of rope and decode: their text, that it reads back, and where
 * one does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/decode_decl.h"
#include "engine/ops.h"
#include "engine/rope_decl.h"
#include "engine/signature_parse.h"

#define SHAPE " | batch<=8 seq<=1 rows<=4"
#define HEADS "heads=32 kv_heads=8 dim=128 dtype=bf16"
#define ROTATE(layout, sink) "rope v1 | work=rotate " HEADS " | layout=" layout " | sink=" sink
#define USUAL "concat rot=128 pairs=half round=final trig=f32 angles=computed xpos=none"
#define DECODE "decode v1 | " HEADS " | cache="

static const char *const signatures[] = {
    ROTATE(USUAL, "dense order=rows dir=forward"),
    ROTATE("grouped rot=64 pairs=interleaved round=each_op trig=dtype angles=table xpos=pairs",
           "paged order=heads dir=forward"),
    ROTATE("head_fastest rot=2 pairs=half round=final trig=swapped_bf16 angles=computed "
           "xpos=halves",
           "out order=rows dir=backward"),
    "rope v1 | work=rotate heads=4 kv_heads=4 dim=6 dtype=f32 | layout=interleaved rot=6 "
    "pairs=half round=final trig=f32 angles=computed xpos=none | sink=out order=rows dir=forward",
    "rope v1 | work=transpose dim=128 dtype=f16",
    "rope v1 | work=advance",
    DECODE "dense chunk=256 window=0 mask=0 loose=0 order=rows",
    DECODE "paged chunk=4096 window=1 mask=1 loose=1 order=heads",
    ROTATE(USUAL,
           "dense order=rows dir=forward") " + " DECODE
                                           "dense chunk=128 window=0 mask=0 loose=0 order=rows"
                                           " + rope v1 | work=advance",
};

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
  for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
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
      {"rope v2 | work=rotate", STG_E_FORMAT,
       "column 1: expected 'rope v1 | work=', found 'rope v2 | work=rotate | batch<=8 seq<=1 ...'"},
      {"rope v1 | work=turn", STG_E_FORMAT,
       "column 16: expected rotate, transpose or advance, found 'turn | batch<=8 seq<=1 rows<=4'"},
      {"rope v1 | work=rotate heads=1025", STG_E_FORMAT, "column 29: 1025 is more than 1024"},
      {"rope v1 | work=transpose dim=7 dtype=f16", STG_E_INVALID,
       "dim: 7 is not even and in 2..256"},
      {"rope v1 | work=transpose dim=8 dtype=f64", STG_E_FORMAT,
       "column 38: expected bf16, f16 or f32, found 'f64 | batch<=8 seq<=1 rows<=4'"},
      {ROTATE("interleaved rot=128 pairs=half round=final trig=f32 angles=computed xpos=none",
              "out order=rows dir=forward"),
       STG_E_INVALID, "layout: interleaved needs as many KV heads as heads, not 8 and 32"},
      {ROTATE(USUAL, "dense order=rows dir=backward"), STG_E_INVALID,
       "backward: gradients do not go to a cache"},
      {"decode v1 | heads=0 kv_heads=8 dim=128 dtype=bf16 | cache=dense chunk=256 window=0 mask=0 "
       "loose=0 order=rows",
       STG_E_INVALID, "heads: 0 are not a multiple of 8 KV heads"},
      {DECODE "dense chunk=100 window=0 mask=0 loose=0 order=rows", STG_E_INVALID,
       "chunk: 100 is not a power of two from 128 to 33554432"},
      {DECODE "dense chunk=256 window=2 mask=0 loose=0 order=rows", STG_E_FORMAT,
       "column 83: 2 is more than 1"},
      {DECODE "sparse chunk=256", STG_E_FORMAT,
       "column 60: expected dense or paged, found 'sparse chunk=256 | batch<=8 seq<=1 rows<...'"},
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

/* A decode kernel of more heads than a signature can name could not be warmed. */
static void heads_are_bounded(void **state) {
  const struct stg_decode_geometry geometry = {
      .heads = 2048, .kv_heads = 2, .dim = 64, .dtype = STG_F32, .chunk = 128};
  struct stg_decode_decl decl;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  assert_int_equal(STG_E_INVALID, stg_decode_decl_init(&geometry, &decl, &error));
  assert_string_equal("heads: 2048 is not in 1..1024", error.message);
}

/* Which kernel is asked for depends on the signature alone, and on all of it. */
static void other_signatures_have_other_keys(void **state) {
  const size_t count = sizeof signatures / sizeof signatures[0] - 1;
  struct stg_key keys[sizeof signatures / sizeof signatures[0]];
  (void)state;
  for (size_t i = 0; i < count; i++) {
    struct stg_arena arena = {0};
    struct stg_strbuf text = {0};
    struct stg_parsed parsed;
    struct stg_kernel_text kernel;
    stg_strbuf_printf(&text, "%s" SHAPE, signatures[i]);
    assert_int_equal(STG_OK, parse(stg_strbuf_text(&text), &parsed, &arena, NULL));
    const struct stg_decl *decl = parsed.parts[0].decl;
    assert_int_equal(STG_OK, decl->family->kernel_text(decl, 0, "sm_90", NULL, &kernel, NULL));
    keys[i] = kernel.key;
    assert_true(kernel.rule.threads > 0 && kernel.source.len > 0 && kernel.prelude.len > 0);
    for (size_t k = 0; k < i; k++) {
      assert_false(stg_key_equal(keys[k], keys[i]));
    }
    stg_kernel_text_finish(&kernel);
    assert_int_equal(STG_OK, decl->family->kernel_text(decl, 0, "cpu", NULL, &kernel, NULL));
    assert_true(kernel.source.len == 0 && !stg_key_equal(keys[i], kernel.key));
    stg_kernel_text_finish(&kernel);
    stg_strbuf_finish(&text);
    stg_arena_finish(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_reads_back),
      cmocka_unit_test(what_does_not_read_says_where),
      cmocka_unit_test(heads_are_bounded),
      cmocka_unit_test(other_signatures_have_other_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
