/*
 * test_components_signature.c: signatures of the components family: their text, that it reads back,
 * and where one does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/components_decl.h"
#include "engine/ops.h"
#include "engine/signature_parse.h"

#define SHAPE " | batch<=8 seq<=1 rows<=4"
#define WIDTHS "d_in=128 d_out=341 components=1200 "
#define APPLY "components v1 | work=apply " WIDTHS

static const char *const signatures[] = {
    APPLY "dtype=f32 math=tf32 | weights=plain mask=elements bias=1 delta=0 tile=128",
    APPLY "dtype=f32 math=exact | weights=plain mask=none bias=0 delta=1 tile=32",
    APPLY "dtype=bf16 math=exact | weights=turned mask=bool bias=0 delta=1 tile=64",
    "components v1 | work=weights " WIDTHS "dtype=f16 math=exact | mask=bool bias=1 delta=1",
    "components v1 | work=sum " WIDTHS "dtype=f32 | bias=0 delta=0",
    "components v1 | work=sum " WIDTHS "dtype=f32 | bias=1 delta=0",
    "components v1 | work=sum " WIDTHS "dtype=f32 | bias=0 delta=1",
    APPLY "dtype=f16 math=exact | weights=turned mask=elements bias=0 delta=0 tile=64 + "
          "components v1 | work=weights " WIDTHS
          "dtype=f16 math=exact | mask=elements bias=0 delta=0 + components v1 | work=sum " WIDTHS
          "dtype=f16 | bias=0 delta=0",
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

static void each_reads_back_and_has_a_key_of_its_own(void **state) {
  struct stg_key keys[COUNT];
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    struct stg_arena arena = {0};
    struct stg_strbuf text = {0}, again = {0};
    struct stg_parsed parsed;
    struct stg_kernel_text kernel;
    stg_error error = STG_ERROR_INIT;
    stg_strbuf_printf(&text, "%s" SHAPE, signatures[i]);
    if (parse(stg_strbuf_text(&text), &parsed, &arena, &error) != STG_OK) {
      fail_msg("'%s': %s", signatures[i], error.message);
    }
    stg_parsed_print(&parsed, &again);
    assert_string_equal(stg_strbuf_text(&text), stg_strbuf_text(&again));
    const struct stg_decl *decl = parsed.parts[0].decl;
    assert_int_equal(STG_OK, decl->family->kernel_text(decl, 0, "cpu", NULL, &kernel, NULL));
    keys[i] = kernel.key;
    for (size_t k = 0; k < i; k++) {
      assert_false(stg_key_equal(keys[k], keys[i]));
    }
    stg_kernel_text_finish(&kernel);
    stg_strbuf_finish(&text);
    stg_strbuf_finish(&again);
    stg_arena_finish(&arena);
  }
}

#define GOOD "dtype=f32 math=tf32 | weights=plain mask=elements bias=0 delta=0 tile="
#define MATH "dtype=bf16 math=tf32 | weights=plain mask=none bias=0 delta=0 tile=32"
#define TURNED "dtype=f32 math=tf32 | weights=turned mask=none bias=1 delta=0 tile=32"

static void what_does_not_read_says_where(void **state) {
  static const struct {
    const char *text;
    stg_status status;
    const char *message;
  } cases[] = {
      {"components v2 | work=apply", STG_E_FORMAT, "column 1: expected 'components v1 | work='"},
      {"components v1 | work=half", STG_E_FORMAT, "column 22: expected apply, weights or sum"},
      {"components v1 | work=sum d_in=1048577", STG_E_FORMAT, "1048577 is more than 1048576"},
      {"components v1 | work=sum d_in=0 d_out=1 components=1 dtype=f32 | bias=0 delta=0",
       STG_E_INVALID, "d_in: 0 is not in 1..1048576"},
      {"components v1 | work=sum d_in=1 d_out=1 components=0 dtype=f32 | bias=0 delta=0",
       STG_E_INVALID, "components: 0 is not in 1..1048576"},
      {"components v1 | work=sum d_in=1 d_out=1 components=1 dtype=f32 | mask=none", STG_E_FORMAT,
       "expected ' bias=', found ' mask=none"},
      {APPLY "dtype=f64", STG_E_FORMAT, "expected bf16, f16 or f32, found 'f64"},
      {APPLY "dtype=f32 math=fast", STG_E_FORMAT, "expected exact or tf32, found 'fast"},
      {APPLY MATH, STG_E_INVALID, "math: tf32 is of f32 alone, not of bf16"},
      {APPLY TURNED, STG_E_INVALID, "bias: the way back has none"},
      {APPLY GOOD "48", STG_E_FORMAT, "expected 32, 64 or 128, found '48"},
      {APPLY "dtype=f32 math=tf32 | weights=plain mask=some", STG_E_FORMAT,
       "expected none, elements or bool, found 'some"},
      {APPLY "dtype=f32 math=tf32 | weights=upright", STG_E_FORMAT,
       "expected plain or turned, found 'upright"},
      {APPLY "dtype=f32 math=tf32 | weights=plain mask=none bias=2", STG_E_FORMAT,
       "expected 0 or 1, found '2"},
      {"components v1 | work=weights " WIDTHS "dtype=f32 math=tf32 mask=none", STG_E_FORMAT,
       "expected ' |', found ' mask=none"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_arena arena = {0};
    struct stg_strbuf text = {0};
    struct stg_parsed parsed;
    stg_error error = STG_ERROR_INIT;
    stg_strbuf_printf(&text, "%s" SHAPE, cases[i].text);
    const stg_status status = parse(stg_strbuf_text(&text), &parsed, &arena, &error);
    if (status != cases[i].status || strstr(error.message, cases[i].message) == NULL) {
      fail_msg("'%s': %s: %s", cases[i].text, stg_status_name(status), error.message);
    }
    stg_strbuf_finish(&text);
    stg_arena_finish(&arena);
  }
}

/* What a kernel's text has nothing of does not tell kernels apart. */
static void a_sum_is_of_what_has_sums_alone(void **state) {
  const struct stg_components_geometry whole = {.d_in = 3,
                                                .d_out = 4,
                                                .components = 5,
                                                .dtype = STG_F32,
                                                .tf32 = true,
                                                .mask = STG_COMPONENTS_MASK_BOOL,
                                                .bias = true,
                                                .delta = true};
  struct stg_components_decl decl;
  struct stg_strbuf text = {0};
  (void)state;
  assert_int_equal(STG_OK,
                   stg_components_decl_init(STG_COMPONENTS_TASK_SUM, &whole, 32, &decl, NULL));
  stg_components_decl_print(&decl, "cpu", &text);
  assert_string_equal(
      "components v1 | work=sum d_in=3 d_out=4 components=5 dtype=f32 | bias=1 delta=1 | cpu",
      stg_strbuf_text(&text));
  assert_true(!decl.geometry.tf32 && decl.tile == 0);
  assert_int_equal(STG_COMPONENTS_MASK_NONE, decl.geometry.mask);
  assert_ptr_equal(&stg_family_components, stg_family_find(stg_strbuf_text(&text)));
  stg_strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_reads_back_and_has_a_key_of_its_own),
      cmocka_unit_test(what_does_not_read_says_where),
      cmocka_unit_test(a_sum_is_of_what_has_sums_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
