/*
 * test_bench_attn_case.c: the workloads of rope and attend: their numbers fit together, and their
 * elements are those that tests/layers/test_peer_attention.py expects of peers/attn_case.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/dtype.h"
#include "tools/bench/attn_case.h"

/* In test_peer_attention.py too. */
static const struct {
  enum stg_attn_tensor tensor;
  int64_t index;
  float value;
} elements[] = {
#include "tests/data/attn_elements.h"
};

static void elements_are_those_that_peers_expect(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
    const float found = stg_attn_value(elements[i].tensor, elements[i].index);
    if (found != elements[i].value) {
      fail_msg("tensor %d, element %lld: %a, not %a", (int)elements[i].tensor,
               (long long)elements[i].index, (double)found, (double)elements[i].value);
    }
  }
}

/* Also behind the number of elements after which they begin again. */
static void a_stretch_has_the_elements_one_by_one(void **state) {
  (void)state;
  static const int64_t firsts[] = {0, 5, 16777210, 16777213, 33554431};
  for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
    uint16_t stretch[9];
    stg_attn_fill(STG_ATTN_K, STG_BF16, firsts[i], 9, stretch);
    for (int64_t k = 0; k < 9; k++) {
      const float wanted = stg_attn_value(STG_ATTN_K, firsts[i] + k);
      assert_float_equal(stg_bf16_to_f32(stretch[k]), wanted, 0);
    }
  }
}

static void check_case(const struct stg_attn_case *c, const char *suite) {
  assert_string_equal(c->suite, suite);
  assert_int_equal(0, c->heads % c->kv_heads);
  assert_true(c->shortest <= c->longest && c->shortest >= c->rows_each);
  assert_true(c->capacity == 0 || c->longest <= c->capacity);
  assert_true(c->capacity != 0 || !stg_attn_has_attend(c));
  assert_true(!c->v_stays || (c->work == STG_ATTN_ROPE && c->capacity == 0));
  assert_int_equal(c->shortest, stg_attn_length(c, 0));
  assert_int_equal(c->batch > 1 ? c->longest : c->shortest, stg_attn_length(c, c->batch - 1));
  assert_int_equal(c->longest - 1, stg_attn_position(c, stg_attn_rows(c) - 1));
  assert_int_equal(0, stg_attn_sample(c, 0));
  assert_int_equal(stg_attn_rows(c) - 1, stg_attn_sample(c, stg_attn_samples(c) - 1));
  if (c->block != 0) { /* block_of of attn_bed.c */
    const int64_t blocks = c->capacity / c->block * c->batch;
    assert_int_equal(0, c->capacity % c->block);
    assert_int_equal(0, blocks & (blocks - 1));
  }
}

static void cases_are_whole_and_have_names_of_their_own(void **state) {
  (void)state;
  for (size_t i = 0; i < STG_ROPE_CASES; i++) {
    check_case(&stg_rope_cases[i], "rope");
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(stg_rope_cases[i].name, stg_rope_cases[k].name);
    }
  }
  for (size_t i = 0; i < STG_ATTEND_CASES; i++) {
    check_case(&stg_attend_cases[i], "attend");
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(stg_attend_cases[i].name, stg_attend_cases[k].name);
    }
  }
  check_case(&stg_attn_loop_case, "attend");
}

/* What the targets are about, worked out by hand. */
static void bytes_are_those_of_the_targets(void **state) {
  (void)state;
  assert_int_equal(50331648, stg_attn_bytes(&stg_rope_cases[STG_ROPE_PROMPTS_APPEND]));
  assert_int_equal(536870912, stg_attn_bytes(&stg_rope_cases[STG_ROPE_PUBLISHED]));
  int64_t positions = 0;
  for (uint32_t seq = 0; seq < 32; seq++) {
    positions += 512 + 3584 * (int64_t)seq / 31;
  }
  assert_int_equal(positions * 2 * 8 * 128 * 2, stg_attn_bytes(&stg_attend_cases[STG_ATTEND_LONG]));
}

static void a_case_is_printed_with_all_its_numbers(void **state) {
  (void)state;
  const struct stg_attn_case c = {.suite = "attend",
                                  .name = "x",
                                  .work = STG_ATTN_BLOCK,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .dim = 8,
                                  .dtype = STG_F32,
                                  .batch = 3,
                                  .rows_each = 1,
                                  .shortest = 2,
                                  .longest = 6,
                                  .capacity = 8};
  static const char *const wanted[] = {
      "\"work\": \"block\"", "\"dtype\": \"f32\"", "\"heads\": 4",
      "\"kv_heads\": 2",     "\"dim\": 8",         "\"batch\": 3",
      "\"rows_each\": 1",    "\"capacity\": 8",    "\"compiled\": false"};
  struct stg_strbuf text = {0};
  stg_attn_case_print(&c, &text);
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    assert_non_null(strstr(stg_strbuf_text(&text), wanted[i]));
  }
  stg_strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elements_are_those_that_peers_expect),
      cmocka_unit_test(a_stretch_has_the_elements_one_by_one),
      cmocka_unit_test(cases_are_whole_and_have_names_of_their_own),
      cmocka_unit_test(bytes_are_those_of_the_targets),
      cmocka_unit_test(a_case_is_printed_with_all_its_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
