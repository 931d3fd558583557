/*
 * test_components_parts.c: spans of rows, and where the parts of sums over rows lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/components_args.h"

static void spans_cover_the_rows_and_have_whole_parts(void **state) {
  static const uint32_t components[] = {1, 80, 81, 1200, 2048, 20000, UINT32_MAX};
  for (size_t k = 0; k < sizeof components / sizeof components[0]; k++) {
    for (int64_t rows = 1; rows < 5000; rows++) {
      const int64_t span = stg_components_span(components[k], rows);
      const int64_t spans = stg_components_spans(components[k], rows);
      assert_true(span % STG_COMPONENTS_PART == 0);
      assert_true(spans >= 1 && spans <= STG_COMPONENTS_BLOCKS);
      assert_true((spans - 1) * span < rows && rows <= spans * span);
    }
  }
  (void)state;
}

/* 15 blocks of components, each 8 spans: 120 of 132. */
static void spans_and_blocks_are_as_many_as_a_card_works_on(void **state) {
  assert_int_equal(8, stg_components_spans(1200, 16384));
  assert_int_equal(2048, stg_components_span(1200, 16384));
  assert_int_equal(5, stg_components_spans(2048, 16384));
  assert_int_equal(128, stg_components_spans(7, 16384)); /* of 128 rows */
  assert_int_equal(1, stg_components_spans(20000, 16384));
  (void)state;
}

static void no_rows_have_no_spans(void **state) {
  static const uint32_t components[] = {1, 1200, UINT32_MAX};
  for (size_t k = 0; k < sizeof components / sizeof components[0]; k++) {
    assert_int_equal(STG_COMPONENTS_PART, stg_components_span(components[k], 0));
    assert_int_equal(0, stg_components_spans(components[k], 0));
  }
  (void)state;
}

static void parts_lie_one_behind_the_other_by_16_bytes(void **state) {
  const struct stg_components_geometry g = {
      .d_in = 5, .components = 7, .d_out = 3, .dtype = STG_F32, .bias = true, .delta = true};
  struct stg_components_parts parts;
  assert_true(stg_components_parts_of(&g, 150, 50, true, &parts)); /* 5 spans of 32, 3 groups */
  assert_int_equal(0, parts.dv);
  assert_int_equal(176, parts.du);           /* 5*35 = 175 */
  assert_int_equal(176 + 108, parts.ddelta); /* 5*21 = 105 */
  assert_int_equal(284 + 76, parts.dbias);   /* 5*15 = 75 */
  assert_int_equal(360 + 16, parts.dm);      /* 5*3 */
  assert_int_equal(376 + 56, parts.floats);  /* (5 + 3)*7 */
  (void)state;
}

static void what_is_not_there_takes_no_room(void **state) {
  const struct stg_components_geometry g = {
      .d_in = 4, .components = 8, .d_out = 4, .dtype = STG_F32};
  struct stg_components_parts parts;
  assert_true(stg_components_parts_of(&g, 32, 1, false, &parts));
  assert_int_equal(64, parts.floats);
  (void)state;
}

/* Each row of dm belongs to one span and one group, and is inside. */
static void spans_and_groups_with_common_rows_have_a_row_of_dm_each(void **state) {
  static const int64_t shares[] = {1, 2, 31, 32, 33, 64, 100, 700, 5000};
  static const int64_t rows_of[] = {1, 33, 300, 700, 2049};
  for (size_t k = 0; k < sizeof shares / sizeof shares[0] * 5; k++) {
    const int64_t share = shares[k / 5];
    const int64_t rows = rows_of[k % 5];
    int64_t span_at[5000];
    int64_t group_at[5000];
    memset(span_at, -1, sizeof span_at);
    const int64_t count = stg_components_spans(1200, rows) + stg_components_groups(rows, share);
    for (int64_t row = 0; row < rows; row++) {
      const int64_t span = row / stg_components_span(1200, rows);
      const int64_t group = row / share;
      const int64_t at = span + group;
      assert_true(at < count && at < 5000);
      assert_true(span_at[at] == -1 || (span_at[at] == span && group_at[at] == group));
      span_at[at] = span;
      group_at[at] = group;
    }
  }
  (void)state;
}

static void parts_that_no_memory_has_are_refused(void **state) {
  struct stg_components_geometry g = {
      .d_in = UINT32_MAX, .components = UINT32_MAX, .d_out = 1, .dtype = STG_F32};
  struct stg_components_parts parts = {.floats = 9};
  assert_false(stg_components_parts_of(&g, 300, 1, false, &parts));
  g.d_out = UINT32_MAX;
  g.d_in = 1;
  assert_false(stg_components_parts_of(&g, 300, 1, false, &parts));
  assert_int_equal(9, parts.floats);
  (void)state;
}

/* ---- what addresses allow ---- */

static void flags_say_what_is_aligned_one_by_one(void **state) {
  (void)state;
  const struct stg_components_geometry g = {.d_in = 128,
                                            .d_out = 341,
                                            .components = 1200,
                                            .dtype = STG_BF16,
                                            .mask = STG_COMPONENTS_MASK_DTYPE};
  const struct stg_components_apply_args all = {.in = 4096,
                                                .out = 4096,
                                                .first = 4096,
                                                .second = 4096,
                                                .delta = 4096,
                                                .mask = 4096,
                                                .in_stride = 128,
                                                .out_stride = 344,
                                                .mask_stride = 1200};
  const uint32_t rows = STG_COMPONENTS_ALIGNED_IN | STG_COMPONENTS_ALIGNED_MASK |
                        STG_COMPONENTS_ALIGNED_OUT | STG_COMPONENTS_ALIGNED_DELTA;
  /* U has rows of 341, whichever it is */
  assert_int_equal(stg_components_apply_flags(&g, false, &all),
                   rows | STG_COMPONENTS_ALIGNED_FIRST);
  assert_int_equal(stg_components_apply_flags(&g, true, &all),
                   rows | STG_COMPONENTS_ALIGNED_SECOND);
  struct stg_components_apply_args some = all;
  some.in_stride = 129;
  some.out = 4098;
  some.first = 4104;
  assert_int_equal(stg_components_apply_flags(&g, false, &some),
                   STG_COMPONENTS_ALIGNED_MASK | STG_COMPONENTS_ALIGNED_DELTA);
  /* a mask of bytes counts in bytes */
  struct stg_components_geometry bytes = g;
  bytes.mask = STG_COMPONENTS_MASK_BOOL;
  some.mask_stride = 1208;
  assert_int_equal(stg_components_apply_flags(&bytes, false, &some), STG_COMPONENTS_ALIGNED_DELTA);
  some.mask_stride = 1216;
  assert_int_equal(stg_components_apply_flags(&bytes, false, &some),
                   STG_COMPONENTS_ALIGNED_MASK | STG_COMPONENTS_ALIGNED_DELTA);
  bytes.d_in = 100;
  assert_int_equal(stg_components_apply_flags(&bytes, false, &some), STG_COMPONENTS_ALIGNED_MASK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flags_say_what_is_aligned_one_by_one),
      cmocka_unit_test(spans_cover_the_rows_and_have_whole_parts),
      cmocka_unit_test(spans_and_blocks_are_as_many_as_a_card_works_on),
      cmocka_unit_test(no_rows_have_no_spans),
      cmocka_unit_test(parts_lie_one_behind_the_other_by_16_bytes),
      cmocka_unit_test(what_is_not_there_takes_no_room),
      cmocka_unit_test(spans_and_groups_with_common_rows_have_a_row_of_dm_each),
      cmocka_unit_test(parts_that_no_memory_has_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
