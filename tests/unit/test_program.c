/*
 * test_program.c: the builder's sharing and folding, the checker, the printer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "codegen/program_builder.h"
#include "runtime/base/alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void shares_equal_instructions(void **state) {
  (void)state;
  struct stg_program_builder b = {.n_vectors = 2, .n_ops = 2};
  uint32_t x = stg_build_param(&b, 0, 1);
  uint32_t d = stg_build_dot(&b, 1);
  assert_int_equal(stg_build_param(&b, 0, 1), x);
  assert_int_not_equal(stg_build_param(&b, 1, 0), x);
  assert_int_equal(stg_build_gram(&b, 0, 1), stg_build_gram(&b, 1, 0));
  assert_int_equal(stg_build_op2(&b, STG_INSTR_MUL, x, d), stg_build_op2(&b, STG_INSTR_MUL, x, d));
  assert_int_not_equal(stg_build_op2(&b, STG_INSTR_MUL, x, d),
                       stg_build_op2(&b, STG_INSTR_MUL, d, x));
  assert_int_not_equal(stg_build_const(&b, 0.0f), stg_build_const(&b, -0.0f));
  const uint32_t plain[] = {STG_NO_VALUE, STG_NO_VALUE, STG_NO_VALUE};
  const uint32_t scaled[] = {x, STG_NO_VALUE, STG_NO_VALUE};
  assert_int_equal(stg_build_norm2(&b, plain), stg_build_norm2(&b, plain));
  assert_int_not_equal(stg_build_norm2(&b, plain), stg_build_norm2(&b, scaled));
  stg_build_abandon(&b);
}

static void shares_among_thousands_of_instructions(void **state) {
  (void)state;
  struct stg_program_builder b = {.n_vectors = 1, .n_ops = 1};
  uint32_t first[5000];
  for (uint32_t i = 0; i < COUNT(first); i++) {
    first[i] = stg_build_const(&b, (float)i);
    assert_int_equal(first[i], i);
  }
  for (uint32_t i = 0; i < COUNT(first); i++) {
    assert_int_equal(stg_build_const(&b, (float)i), first[i]);
  }
  assert_int_equal(b.n_instrs, COUNT(first));
  stg_build_abandon(&b);
}

static void folds_only_what_cannot_change_a_bit(void **state) {
  (void)state;
  struct stg_program_builder b = {.n_vectors = 1, .n_ops = 1};
  uint32_t x = stg_build_dot(&b, 0);
  uint32_t y = stg_build_param(&b, 0, 0);
  uint32_t one = stg_build_const(&b, 1.0f);
  uint32_t two = stg_build_const(&b, 2.0f);
  uint32_t zero = stg_build_const(&b, 0.0f);
  uint32_t minus_zero = stg_build_const(&b, -0.0f);
  assert_int_equal(stg_build_op2(&b, STG_INSTR_MUL, x, one), x);
  assert_int_equal(stg_build_op2(&b, STG_INSTR_MUL, one, x), x);
  assert_int_equal(stg_build_op2(&b, STG_INSTR_DIV, x, one), x);
  assert_int_equal(stg_build_op2(&b, STG_INSTR_ADD, x, minus_zero), x);
  assert_int_equal(stg_build_op2(&b, STG_INSTR_ADD, minus_zero, x), x);
  assert_int_equal(stg_build_op2(&b, STG_INSTR_SUB, x, zero), x);
  assert_int_equal(stg_build_op1(&b, STG_INSTR_NEG, stg_build_op1(&b, STG_INSTR_NEG, x)), x);
  assert_int_equal(stg_build_op1(&b, STG_INSTR_NEG, one), stg_build_const(&b, -1.0f));
  assert_int_equal(stg_build_op3(&b, STG_INSTR_FMA, one, x, y),
                   stg_build_op2(&b, STG_INSTR_ADD, x, y));
  assert_int_equal(stg_build_op3(&b, STG_INSTR_FMA, x, one, y),
                   stg_build_op2(&b, STG_INSTR_ADD, x, y));
  uint32_t cond = stg_build_op2(&b, STG_INSTR_LT, x, y);
  uint32_t truth = stg_build_op2(&b, STG_INSTR_LT, one, two);
  uint32_t lie = stg_build_op2(&b, STG_INSTR_GE, one, two);
  assert_int_equal(stg_build_op3(&b, STG_INSTR_SELECT, cond, x, x), x);
  assert_int_equal(stg_build_op3(&b, STG_INSTR_SELECT, truth, x, y), x);
  assert_int_equal(stg_build_op3(&b, STG_INSTR_SELECT, lie, x, y), y);
  /* 0 + -0 is 0, 1/x is no x, and a product with 0 may be NaN */
  assert_true(stg_build_op2(&b, STG_INSTR_ADD, x, zero) > minus_zero);
  assert_true(stg_build_op2(&b, STG_INSTR_SUB, x, minus_zero) > minus_zero);
  assert_true(stg_build_op2(&b, STG_INSTR_DIV, one, x) > minus_zero);
  assert_true(stg_build_op2(&b, STG_INSTR_MUL, x, zero) > minus_zero);
  assert_true(stg_build_op2(&b, STG_INSTR_ADD, one, two) > minus_zero);
  stg_build_abandon(&b);
}

static void finish_drops_the_dead_and_numbers_in_order(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  struct stg_program_builder b = {.n_vectors = 2, .n_ops = 1};
  (void)stg_build_dot(&b, 0);
  uint32_t d = stg_build_dot(&b, 1);
  uint32_t dead = stg_build_op1(&b, STG_INSTR_EXP, d);
  (void)stg_build_op2(&b, STG_INSTR_ADD, dead, d);
  uint32_t x = stg_build_param(&b, 0, 3);
  const uint32_t args[] = {x, STG_NO_VALUE, d};
  uint32_t n = stg_build_norm2(&b, args);
  uint32_t s = stg_build_op1(&b, STG_INSTR_SQRT, n);
  uint32_t half = stg_build_const(&b, 0.5f);
  uint32_t m = stg_build_op2(&b, STG_INSTR_MUL, half, s);
  const uint32_t coef[] = {STG_NO_VALUE, m};
  struct stg_program program = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_build_finish(&b, &arena, x, coef, &program, &err), STG_OK);
  stg_build_abandon(&b);
  struct stg_strbuf text = {0};
  stg_program_print(&program, &text);
  assert_string_equal(stg_strbuf_text(&text), "program of 1 ops, 2 vectors\n"
                                              "%0 = dot 1\n"
                                              "%1 = param 0, 3\n"
                                              "%2 = norm2 %1, 0, %0\n"
                                              "%3 = sqrt %2\n"
                                              "%4 = const 0.5 (0x3f000000)\n"
                                              "%5 = mul %4, %3\n"
                                              "scale = %1\n"
                                              "coef 0 = 0\n"
                                              "coef 1 = %5\n");
  stg_strbuf_finish(&text);
  stg_arena_finish(&arena);
}

static void prints_infinite_and_negative_constants(void **state) {
  (void)state;
  const struct stg_instr instrs[] = {{.kind = STG_INSTR_CONST, .imm = INFINITY},
                                     {.kind = STG_INSTR_CONST, .imm = -INFINITY},
                                     {.kind = STG_INSTR_CONST, .imm = -0.1f}};
  const struct stg_program program = {.n_ops = 1, .instrs = instrs, .n_instrs = 3, .scale = 2};
  struct stg_strbuf text = {0};
  stg_program_print(&program, &text);
  assert_string_equal(stg_strbuf_text(&text), "program of 1 ops, 0 vectors\n"
                                              "%0 = const inf (0x7f800000)\n"
                                              "%1 = const -inf (0xff800000)\n"
                                              "%2 = const -0.1 (0xbdcccccd)\n"
                                              "scale = %2\n");
  stg_strbuf_finish(&text);
}

static const uint32_t checked_args[] = {0, 0, STG_NO_VALUE, 1};

/* One instruction after a dot and a comparison, outputs absent. */
static const struct {
  struct stg_instr instr;
  const char *message;
} bad_rows[] = {
    {{.kind = STG_INSTR_KINDS}, "instruction %2: unknown kind 30"},
    {{.kind = STG_INSTR_ADD, .n_args = 1}, "instruction %2 (add): wrong number of operands"},
    {{.kind = STG_INSTR_NORM2, .n_args = 3}, "instruction %2 (norm2): wrong number of operands"},
    {{.kind = STG_INSTR_ADD, .first_arg = 3, .n_args = 2},
     "instruction %2 (add): operands outside the list"},
    {{.kind = STG_INSTR_ADD, .first_arg = UINT32_MAX, .n_args = 2},
     "instruction %2 (add): operands outside the list"},
    {{.kind = STG_INSTR_ADD, .first_arg = 1, .n_args = 2},
     "instruction %2 (add): an operand is not defined before it"},
    {{.kind = STG_INSTR_NEG, .first_arg = 3, .n_args = 1},
     "instruction %2 (neg): an operand has the wrong type"},
    {{.kind = STG_INSTR_NOT, .first_arg = 0, .n_args = 1},
     "instruction %2 (not): an operand has the wrong type"},
    {{.kind = STG_INSTR_NORM2, .first_arg = 2, .n_args = 2},
     "instruction %2 (norm2): an operand has the wrong type"},
    {{.kind = STG_INSTR_CONST, .imm = NAN}, "instruction %2 (const): the constant is NaN"},
    {{.kind = STG_INSTR_PARAM, .i = 1}, "instruction %2 (param): the op is outside the chain"},
    {{.kind = STG_INSTR_DOT, .i = 1}, "instruction %2 (dot): the vector is outside the chain"},
    {{.kind = STG_INSTR_GRAM, .i = 0, .j = 1},
     "instruction %2 (gram): its vectors are outside the chain or out of order"},
};

static void checker_names_the_instruction(void **state) {
  (void)state;
  struct stg_instr instrs[] = {
      {.kind = STG_INSTR_DOT}, {.kind = STG_INSTR_LT, .n_args = 2}, {.kind = STG_INSTR_DOT}};
  const struct stg_program program = {.n_vectors = 1,
                                      .n_ops = 1,
                                      .instrs = instrs,
                                      .n_instrs = 3,
                                      .args = checked_args,
                                      .n_args = 4,
                                      .scale = STG_NO_VALUE,
                                      .coef = {STG_NO_VALUE}};
  assert_int_equal(stg_program_check(&program, NULL), STG_OK);
  for (size_t i = 0; i < COUNT(bad_rows); i++) {
    instrs[2] = bad_rows[i].instr;
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_program_check(&program, &err), STG_E_INVALID);
    assert_string_equal(err.message, bad_rows[i].message);
  }
}

static void checker_wants_scalar_outputs(void **state) {
  (void)state;
  const struct stg_instr instrs[] = {{.kind = STG_INSTR_DOT}, {.kind = STG_INSTR_LT, .n_args = 2}};
  struct stg_program program = {.n_vectors = 1,
                                .n_ops = 1,
                                .instrs = instrs,
                                .n_instrs = 2,
                                .args = checked_args,
                                .n_args = 4,
                                .scale = 0,
                                .coef = {0}};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_program_check(&program, &err), STG_OK);
  program.coef[0] = 1;
  assert_int_equal(stg_program_check(&program, &err), STG_E_INVALID);
  assert_string_equal(err.message, "output coef 0: %1 is not a scalar value");
  program.scale = 2;
  assert_int_equal(stg_program_check(&program, &err), STG_E_INVALID);
  assert_string_equal(err.message, "output scale 0: %2 is not a scalar value");
  program.n_vectors = STG_CHAIN_MAX_VECTORS + 1;
  assert_int_equal(stg_program_check(&program, &err), STG_E_INVALID);
  assert_string_equal(err.message, "a program of 1 ops and 33 vectors; at most 16 and 32");
}

static void every_failed_allocation_is_reported(void **state) {
  (void)state;
  for (size_t nth = 1;; nth++) {
    struct stg_arena arena = {0};
    struct stg_program_builder b = {.n_vectors = 1, .n_ops = 1};
    struct stg_program program = {.n_ops = 77};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    uint32_t sum = stg_build_dot(&b, 0);
    for (uint32_t i = 0; i < 200; i++) {
      sum = stg_build_op2(&b, STG_INSTR_ADD, sum, stg_build_param(&b, 0, i));
    }
    stg_status status = stg_build_finish(&b, &arena, STG_NO_VALUE, &sum, &program, &err);
    stg_alloc_fail_at(0);
    stg_build_abandon(&b);
    stg_arena_finish(&arena);
    if (status == STG_OK) {
      assert_int_equal(program.n_ops, 1);
      assert_true(nth > 3);
      return;
    }
    assert_int_equal(status, STG_E_NO_MEMORY);
    assert_int_equal(program.n_ops, 77);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_equal_instructions),
      cmocka_unit_test(shares_among_thousands_of_instructions),
      cmocka_unit_test(folds_only_what_cannot_change_a_bit),
      cmocka_unit_test(finish_drops_the_dead_and_numbers_in_order),
      cmocka_unit_test(prints_infinite_and_negative_constants),
      cmocka_unit_test(checker_names_the_instruction),
      cmocka_unit_test(checker_wants_scalar_outputs),
      cmocka_unit_test(every_failed_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
