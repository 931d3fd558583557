/*
 * test_rope_text.c: the texts of the rope family, their extents, and how rows are spread.
 *
 * What texts say is pinned by tests/golden/cuda-rope; whether they compile by tests/nvrtc.
 */
#include "codegen/rope_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/rope_args.h"
#include "codegen/rope_extents.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LINE_CHARS 100

static struct stg_rope_kernel usual(void) {
  return (struct stg_rope_kernel){
      .geometry = {.heads = 32, .kv_heads = 8, .dim = 128, .rot = 128, .dtype = STG_BF16},
      .sink = STG_ROPE_SINK_DENSE,
  };
}

static struct stg_strbuf must_generate(const struct stg_rope_kernel *kernel,
                                       struct stg_launch_rule *ret_rule) {
  struct stg_strbuf source = {0};
  stg_error err = STG_ERROR_INIT;
  const stg_status status = stg_rope_generate(kernel, &source, ret_rule, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return source;
}

static void equal_arguments_give_equal_bytes(void **state) {
  (void)state;
  const struct stg_rope_kernel kernel = usual();
  const struct stg_rope_kernel same = usual();
  struct stg_launch_rule rule;
  struct stg_strbuf a = must_generate(&kernel, &rule);
  struct stg_strbuf b = must_generate(&same, &rule);
  assert_string_equal(stg_strbuf_text(&a), stg_strbuf_text(&b));
  stg_strbuf_finish(&a);
  stg_strbuf_finish(&b);
}

static void every_part_of_the_geometry_changes_the_text(void **state) {
  (void)state;
  struct stg_rope_kernel variants[20];
  struct stg_strbuf texts[COUNT(variants)];
  struct stg_launch_rule rule;
  for (size_t i = 0; i < COUNT(variants); i++) {
    variants[i] = usual();
  }
  variants[1].geometry.heads = 16;
  variants[2].geometry.kv_heads = 4;
  variants[3].geometry.dim = 256;
  variants[4].geometry.rot = 64;
  variants[5].geometry.dtype = STG_F16;
  variants[6].geometry.layout = STG_ROPE_LAYOUT_GROUPED;
  variants[7].geometry.layout = STG_ROPE_LAYOUT_HEAD_FASTEST;
  variants[8].geometry.pairs = STG_ROPE_PAIRS_INTERLEAVED;
  variants[9].geometry.round = STG_ROPE_ROUND_EACH_OP;
  variants[10].geometry.trig = STG_ROPE_TRIG_DTYPE;
  variants[11].geometry.trig = STG_ROPE_TRIG_SWAPPED_BF16;
  variants[12].geometry.xpos = STG_ROPE_XPOS_PAIRS;
  variants[13].geometry.order = STG_HEADS_HEADS_FIRST;
  variants[14].sink = STG_ROPE_SINK_OUT;
  variants[15].sink = STG_ROPE_SINK_PAGED;
  variants[16].table = true;
  variants[17].sink = STG_ROPE_SINK_OUT;
  variants[17].backward = true;
  variants[18].work = STG_ROPE_TRANSPOSE;
  variants[19].work = STG_ROPE_ADVANCE;
  for (size_t i = 0; i < COUNT(variants); i++) {
    texts[i] = must_generate(&variants[i], &rule);
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(stg_strbuf_text(&texts[i]), stg_strbuf_text(&texts[k]));
    }
  }
  for (size_t i = 0; i < COUNT(variants); i++) {
    stg_strbuf_finish(&texts[i]);
  }
}

/* Whose scale an element has differs where neighbours are pairs, and nowhere else. */
static void scales_by_element_only_where_neighbours_are_pairs(void **state) {
  (void)state;
  for (int xpos = 0; xpos < 3; xpos++) {
    for (int pairs = 0; pairs < 2; pairs++) {
      struct stg_rope_kernel kernel = usual();
      struct stg_launch_rule rule;
      kernel.geometry.xpos = (enum stg_rope_xpos)xpos;
      kernel.geometry.pairs = (enum stg_rope_pairs)pairs;
      struct stg_strbuf text = must_generate(&kernel, &rule);
      const bool mixed = xpos == STG_ROPE_XPOS_HALVES && pairs == STG_ROPE_PAIRS_INTERLEAVED;
      assert_true((strstr(stg_strbuf_text(&text), "bool scale_by_element = true;") != NULL) ==
                  mixed);
      stg_strbuf_finish(&text);
    }
  }
}

/* The bytes of a packed row are the same. */
static void interleaved_rows_are_read_as_concat(void **state) {
  (void)state;
  struct stg_rope_kernel kernel = usual();
  struct stg_launch_rule rule;
  kernel.geometry.kv_heads = 32;
  kernel.geometry.layout = STG_ROPE_LAYOUT_INTERLEAVED;
  struct stg_strbuf text = must_generate(&kernel, &rule);
  assert_non_null(strstr(stg_strbuf_text(&text), "128 bf16, interleaved\n"));
  assert_non_null(strstr(stg_strbuf_text(&text), "int layout = STG_CONCAT; "));
  stg_strbuf_finish(&text);
}

static void no_line_is_long_and_each_ends_where_it_should(void **state) {
  (void)state;
  for (int work = 0; work < 3; work++) {
    struct stg_rope_kernel kernel = usual();
    struct stg_launch_rule rule;
    kernel.work = (enum stg_rope_work)work;
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
}

static void each_work_has_its_name_its_argument_and_its_files(void **state) {
  (void)state;
  static const struct {
    enum stg_rope_work work;
    const char *name, *arg, *run;
    size_t bytes;
  } expected[] = {
      {STG_ROPE_ROTATE, "stg_rope_rotate", "struct stg_rope_args {", "void stg_rope_run(",
       sizeof(struct stg_rope_args)},
      {STG_ROPE_TRANSPOSE, "stg_rope_transpose", "struct stg_transpose_args {",
       "void stg_transpose_run(", sizeof(struct stg_transpose_args)},
      {STG_ROPE_ADVANCE, "stg_rope_advance", "struct stg_advance_args {", "void stg_advance_run(",
       sizeof(struct stg_advance_args)},
  };
  for (size_t i = 0; i < COUNT(expected); i++) {
    struct stg_strbuf prelude = {0};
    stg_rope_prelude(expected[i].work, &prelude);
    assert_int_equal(stg_strbuf_status(&prelude, NULL), STG_OK);
    assert_string_equal(stg_rope_kernel_name(expected[i].work), expected[i].name);
    assert_int_equal(stg_rope_args_bytes(expected[i].work), expected[i].bytes);
    assert_true(expected[i].bytes <= 256);
    assert_non_null(strstr(stg_strbuf_text(&prelude), expected[i].arg));
    assert_non_null(strstr(stg_strbuf_text(&prelude), expected[i].run));
    for (size_t k = 0; k < COUNT(expected); k++) {
      assert_true(k == i || strstr(stg_strbuf_text(&prelude), expected[k].run) == NULL);
    }
    stg_strbuf_finish(&prelude);
  }
}

/* ---- extents ---- */

static void check_extents(const struct stg_rope_geometry *g) {
  const struct stg_rope_extents e = stg_rope_extents_of(g);
  const uint32_t piece = !e.wide ? 1 : g->dtype == STG_F32 ? 4 : 8;
  assert_int_equal(e.row_heads, g->heads + 2 * g->kv_heads);
  assert_int_equal(e.items, e.row_heads * e.units);
  assert_int_equal(e.turned_units * 2 * piece, g->rot);
  /* two pieces each, but that the last unit may have one */
  const uint32_t pieces = g->dim / piece;
  assert_int_equal(pieces * piece, g->dim);
  assert_true(2 * e.units == pieces || 2 * e.units == pieces + 1);
  assert_true(2 * e.units == pieces || e.units > e.turned_units);
  assert_true(e.threads % 32 == 0);
  assert_in_range(e.threads, 32, 128);
  assert_in_range(e.turns, 1, g->dtype == STG_F32 ? 4 : 3);
  assert_in_range(e.resident_blocks, 1, 16);
  assert_true(e.threads * e.resident_blocks <= 1024);
  static const int64_t rows[] = {1, 32, 263, 264, 8192, INT32_MAX};
  uint32_t before = UINT32_MAX;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const struct stg_rope_spans s = stg_rope_spans_of(g, rows[i], false);
    assert_true(s.span_items <= e.threads * e.turns);
    assert_int_equal(s.span_items % e.threads, 0);
    assert_true(s.spans * s.span_items >= e.items);
    assert_true((s.spans - 1) * s.span_items < e.items);
    assert_true(s.spans <= before);
    before = s.spans;
    /* without V as many blocks as have something else, but in groups, where it lies between */
    const struct stg_rope_spans alone = stg_rope_spans_of(g, rows[i], true);
    const bool grouped = g->layout == STG_ROPE_LAYOUT_GROUPED;
    const uint32_t items = grouped ? e.items : e.items - g->kv_heads * e.units;
    assert_true(alone.span_items <= e.threads * e.turns);
    assert_true(alone.spans * alone.span_items >= items);
    assert_true((alone.spans - 1) * alone.span_items < items);
  }
}

static void extents_cover_every_geometry(void **state) {
  (void)state;
  static const uint32_t heads[][2] = {{1, 1},   {8, 2},  {12, 12},    {32, 8},
                                      {32, 32}, {64, 8}, {1024, 1024}};
  for (size_t h = 0; h < COUNT(heads); h++) {
    for (uint32_t dim = 2; dim <= STG_ROPE_MAX_DIM; dim += 2) {
      for (uint32_t rot = 2; rot <= dim; rot += 2) {
        const stg_dtype dtype = (dim + rot) % 4 == 0 ? STG_F32 : STG_BF16;
        const struct stg_rope_geometry g = {.heads = heads[h][0],
                                            .kv_heads = heads[h][1],
                                            .dim = dim,
                                            .rot = rot,
                                            .dtype = dtype,
                                            .layout = (enum stg_rope_layout)(dim / 2 % 4),
                                            .xpos = (enum stg_rope_xpos)(rot / 2 % 3)};
        check_extents(&g);
      }
    }
  }
}

static void the_usual_row_is_one_block_of_many_rows_and_three_of_few(void **state) {
  (void)state;
  const struct stg_rope_kernel kernel = usual();
  const struct stg_rope_extents e = stg_rope_extents_of(&kernel.geometry);
  assert_int_equal(e.threads, 128);
  assert_int_equal(e.turns, 3);
  assert_int_equal(stg_rope_spans_of(&kernel.geometry, 8192, false).spans, 1);
  assert_int_equal(stg_rope_spans_of(&kernel.geometry, 32, false).spans, 3);
}

static void float32_has_16_bytes_a_piece_as_16_bit_types_have(void **state) {
  (void)state;
  struct stg_rope_geometry g = {
      .heads = 32, .kv_heads = 32, .dim = 128, .rot = 128, .dtype = STG_F32};
  const struct stg_rope_extents e = stg_rope_extents_of(&g);
  assert_int_equal(e.units, 16);
  assert_int_equal(e.turns, 4);
  assert_int_equal(stg_rope_spans_of(&g, 8192, true).spans, 2);
  g.dim = 12;
  g.rot = 8;
  assert_true(stg_rope_extents_of(&g).wide);
  g.dtype = STG_BF16;
  assert_false(stg_rope_extents_of(&g).wide);
}

static void a_v_that_stays_takes_no_blocks_but_in_groups(void **state) {
  (void)state;
  struct stg_rope_geometry g = {
      .heads = 32, .kv_heads = 32, .dim = 128, .rot = 128, .dtype = STG_BF16};
  assert_int_equal(stg_rope_spans_of(&g, 8192, false).spans, 2);
  assert_int_equal(stg_rope_spans_of(&g, 8192, true).spans, 2); /* of 512 items, by 384 */
  assert_int_equal(stg_rope_spans_of(&g, 32, false).spans, 6);
  assert_int_equal(stg_rope_spans_of(&g, 32, true).spans, 4);
  g.layout = STG_ROPE_LAYOUT_HEAD_FASTEST;
  assert_int_equal(stg_rope_spans_of(&g, 32, true).spans, 4);
  g.layout = STG_ROPE_LAYOUT_GROUPED;
  assert_int_equal(stg_rope_spans_of(&g, 32, true).spans, 6);
}

/* ---- refusals ---- */

static void refuses(const struct stg_rope_kernel *kernel, const char *message) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule = {.threads = 7};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_rope_generate(kernel, &source, &rule, &err), STG_E_INVALID);
  assert_string_equal(err.message, message);
  assert_int_equal(source.len, 0);
  assert_int_equal(rule.threads, 7);
  stg_strbuf_finish(&source);
}

static void refuses_what_is_no_geometry(void **state) {
  (void)state;
  struct stg_rope_kernel kernel = usual();
  kernel.geometry.heads = 0;
  refuses(&kernel, "heads: 0 is not in 1..1024");
  kernel.geometry.heads = 1025;
  refuses(&kernel, "heads: 1025 is not in 1..1024");
  kernel = usual();
  kernel.geometry.kv_heads = 0;
  refuses(&kernel, "kv_heads: 0 does not divide the 32 heads");
  kernel.geometry.kv_heads = 5;
  refuses(&kernel, "kv_heads: 5 does not divide the 32 heads");
  kernel = usual();
  kernel.geometry.dim = 129;
  refuses(&kernel, "dim: 129 is not even and in 2..256");
  kernel.geometry.dim = 258;
  refuses(&kernel, "dim: 258 is not even and in 2..256");
  kernel.work = STG_ROPE_TRANSPOSE;
  refuses(&kernel, "dim: 258 is not even and in 2..256");
  kernel = usual();
  kernel.geometry.rot = 0;
  refuses(&kernel, "rot: 0 is not even and in 2..128, the dim");
  kernel.geometry.rot = 130;
  refuses(&kernel, "rot: 130 is not even and in 2..128, the dim");
  kernel.geometry.rot = 63;
  refuses(&kernel, "rot: 63 is not even and in 2..128, the dim");
  kernel = usual();
  kernel.geometry.dtype = (stg_dtype)9;
  refuses(&kernel, "dtype: 9 is none of bf16 (1), f16 (2), f32 (3)");
  kernel = usual();
  kernel.geometry.layout = STG_ROPE_LAYOUT_INTERLEAVED;
  refuses(&kernel, "layout: interleaved needs as many KV heads as heads, not 8 and 32");
  kernel = usual();
  kernel.backward = true;
  refuses(&kernel, "backward: gradients do not go to a cache");
}

static void says_where_memory_ran_out(void **state) {
  (void)state;
  const struct stg_rope_kernel kernel = usual();
  struct stg_strbuf source = {.failed = true};
  struct stg_launch_rule rule = {.threads = 7};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_rope_generate(&kernel, &source, &rule, &err), STG_E_NO_MEMORY);
  assert_int_equal(rule.threads, 7);
  stg_strbuf_finish(&source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_arguments_give_equal_bytes),
      cmocka_unit_test(every_part_of_the_geometry_changes_the_text),
      cmocka_unit_test(scales_by_element_only_where_neighbours_are_pairs),
      cmocka_unit_test(interleaved_rows_are_read_as_concat),
      cmocka_unit_test(no_line_is_long_and_each_ends_where_it_should),
      cmocka_unit_test(each_work_has_its_name_its_argument_and_its_files),
      cmocka_unit_test(extents_cover_every_geometry),
      cmocka_unit_test(the_usual_row_is_one_block_of_many_rows_and_three_of_few),
      cmocka_unit_test(float32_has_16_bytes_a_piece_as_16_bit_types_have),
      cmocka_unit_test(a_v_that_stays_takes_no_blocks_but_in_groups),
      cmocka_unit_test(refuses_what_is_no_geometry),
      cmocka_unit_test(says_where_memory_ran_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
