/*
 * test_lower.c: op bodies against their scalar programs, instruction by instruction.
 *
 * The order of operations is the numeric contract with the CUDA kernel, so it is asserted whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/compile_op.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Vectors u (0) and v (1), parameters x (0) and y (1); the header line is left out. */
struct row {
  const char *body[4];
  const char *program;
};

static void assert_programs(const struct row *rows, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct stg_arena arena = {0};
    struct test_op text = {.vectors = {"u", "v"}, .params = {"x", "y"}};
    memcpy(text.body, rows[i].body, sizeof rows[i].body);
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    stg_status status = compile_op(&arena, &text, &op, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, STG_OK);
    struct stg_strbuf program = {0};
    stg_program_print(&op->program, &program);
    const char *header = "program of 1 ops, 2 vectors\n";
    assert_memory_equal(program.data, header, strlen(header));
    assert_string_equal(program.data + strlen(header), rows[i].program);
    stg_strbuf_finish(&program);
    stg_arena_finish(&arena);
  }
}

static void keeps_plain_coefficients_as_they_are(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += v"}, "%0 = const 1 (0x3f800000)\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += x * v"}, "%0 = param 0, 0\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += v * x"}, "%0 = param 0, 0\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h = h + x * v"}, "%0 = param 0, 0\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h = h - v"}, "%0 = const -1 (0xbf800000)\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += -(x * v)"}, "%0 = param 0, 0\n%1 = neg %0\nscale = 1\ncoef 0 = 0\ncoef 1 = %1\n"},
      {{"h = x * h"}, "%0 = param 0, 0\nscale = %0\ncoef 0 = 0\ncoef 1 = 0\n"},
      {{"h = 1 * h"}, "%0 = const 1 (0x3f800000)\nscale = %0\ncoef 0 = 0\ncoef 1 = 0\n"},
      {{"h = h"}, "scale = 1\ncoef 0 = 0\ncoef 1 = 0\n"},
      {{"h = -h"}, "%0 = const -1 (0xbf800000)\nscale = %0\ncoef 0 = 0\ncoef 1 = 0\n"},
      {{"h = v"},
       "%0 = const 0 (0x00000000)\n%1 = const 1 (0x3f800000)\nscale = %0\ncoef 0 = 0\n"
       "coef 1 = %1\n"},
      {{"h += u - u"}, "scale = 1\ncoef 0 = 0\ncoef 1 = 0\n"},
      {{"h += v + v"}, "%0 = const 2 (0x40000000)\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += v / x"},
       "%0 = param 0, 0\n%1 = const 1 (0x3f800000)\n%2 = div %1, %0\nscale = 1\ncoef 0 = 0\n"
       "coef 1 = %2\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void adds_coefficients_of_one_vector(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += x * v", "h += y * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = add %0, %1\nscale = 1\ncoef 0 = 0\ncoef 1 = %2\n"},
      {{"h += x * v - y * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = sub %0, %1\nscale = 1\ncoef 0 = 0\ncoef 1 = %2\n"},
      {{"h += x * v - v"},
       "%0 = param 0, 0\n%1 = const -1 (0xbf800000)\n%2 = add %0, %1\nscale = 1\ncoef 0 = 0\n"
       "coef 1 = %2\n"},
      {{"h += x * (u - v)"}, "%0 = param 0, 0\n%1 = neg %0\nscale = 1\ncoef 0 = %0\ncoef 1 = %1\n"},
      {{"h += v", "h = x * h"}, "%0 = param 0, 0\nscale = %0\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += x * h"},
       "%0 = param 0, 0\n%1 = const 1 (0x3f800000)\n%2 = add %1, %0\nscale = %2\ncoef 0 = 0\n"
       "coef 1 = 0\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void takes_dots_of_the_current_state(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += dot(h, u) * v"}, "%0 = dot 0\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += dot(u, h) * v"}, "%0 = dot 0\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      /* a name keeps the value of the state it was taken from */
      {{"p = dot(h, v)", "h += x * u", "h += p * v"},
       "%0 = dot 1\n%1 = param 0, 0\nscale = 1\ncoef 0 = %1\ncoef 1 = %0\n"},
      {{"h += x * u", "h += dot(h, v) * v"},
       "%0 = param 0, 0\n%1 = dot 1\n%2 = gram 0, 1\n%3 = fma %0, %2, %1\nscale = 1\n"
       "coef 0 = %0\ncoef 1 = %3\n"},
      {{"h += u", "h += dot(h, v) * v"},
       "%0 = dot 1\n%1 = gram 0, 1\n%2 = add %0, %1\n%3 = const 1 (0x3f800000)\nscale = 1\n"
       "coef 0 = %3\ncoef 1 = %2\n"},
      {{"h = x * h - u", "h += dot(h, v) * v"},
       "%0 = param 0, 0\n%1 = dot 1\n%2 = mul %0, %1\n%3 = gram 0, 1\n%4 = sub %2, %3\n"
       "%5 = const -1 (0xbf800000)\nscale = %0\ncoef 0 = %5\ncoef 1 = %4\n"},
      {{"h = x * h + y * u", "h += dot(h, v) * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = dot 1\n%3 = mul %0, %2\n%4 = gram 0, 1\n"
       "%5 = fma %1, %4, %3\nscale = %0\ncoef 0 = %1\ncoef 1 = %5\n"},
      /* x*u.h + y*v.h in the order of the vectors, whichever way it is written */
      {{"h += dot(y * v + x * u, h) * v"},
       "%0 = param 0, 1\n%1 = param 0, 0\n%2 = dot 0\n%3 = mul %1, %2\n%4 = dot 1\n"
       "%5 = fma %0, %4, %3\nscale = 1\ncoef 0 = 0\ncoef 1 = %5\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void takes_dots_of_vectors_from_the_gram_matrix(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += dot(v, u) * v"}, "%0 = gram 0, 1\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += dot(v, v) * v"}, "%0 = gram 1, 1\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += norm(v) * v"}, "%0 = gram 1, 1\n%1 = sqrt %0\nscale = 1\ncoef 0 = 0\ncoef 1 = %1\n"},
      {{"h += dot(v, u - v) * v"},
       "%0 = gram 0, 1\n%1 = gram 1, 1\n%2 = sub %0, %1\nscale = 1\ncoef 0 = 0\ncoef 1 = %2\n"},
      {{"h += norm(x * v) * v"},
       "%0 = param 0, 0\n%1 = gram 1, 1\n%2 = mul %0, %1\n%3 = mul %0, %2\n"
       "%4 = const 0 (0x00000000)\n%5 = max %3, %4\n%6 = sqrt %5\nscale = 1\ncoef 0 = 0\n"
       "coef 1 = %6\n"},
      {{"h += norm(u - u) * v"},
       "%0 = const 0 (0x00000000)\n%1 = max %0, %0\n%2 = sqrt %1\nscale = 1\ncoef 0 = 0\n"
       "coef 1 = %2\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void takes_norms_of_the_state_from_norm2(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += norm(h) * v"},
       "%0 = norm2 1, 0, 0\n%1 = sqrt %0\nscale = 1\ncoef 0 = 0\ncoef 1 = %1\n"},
      {{"h += dot(h, h) * v"}, "%0 = norm2 1, 0, 0\nscale = 1\ncoef 0 = 0\ncoef 1 = %0\n"},
      {{"h += x * u", "h += norm(y * h + v) * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = mul %0, %1\n%3 = const 1 (0x3f800000)\n"
       "%4 = norm2 %1, %2, %3\n%5 = sqrt %4\nscale = 1\ncoef 0 = %0\ncoef 1 = %5\n"},
      {{"h += dot(h + v, h + v) * v"},
       "%0 = const 1 (0x3f800000)\n%1 = norm2 1, 0, %0\nscale = 1\ncoef 0 = 0\ncoef 1 = %1\n"},
      /* two combinations with h: h.h from NORM2 of the row, the rest bilinear */
      {{"h += dot(h + x * u, h) * v"},
       "%0 = param 0, 0\n%1 = norm2 1, 0, 0\n%2 = dot 0\n%3 = fma %0, %2, %1\nscale = 1\n"
       "coef 0 = 0\ncoef 1 = %3\n"},
      {{"h += dot(h + x * u, y * h + v) * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = norm2 1, 0, 0\n%3 = dot 0\n%4 = fma %0, %3, %2\n"
       "%5 = mul %1, %4\n%6 = dot 1\n%7 = gram 0, 1\n%8 = fma %0, %7, %6\n%9 = add %5, %8\n"
       "scale = 1\ncoef 0 = 0\ncoef 1 = %9\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void never_contracts_or_reorders_scalars(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += (x * y + x) * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = mul %0, %1\n%3 = add %2, %0\nscale = 1\n"
       "coef 0 = 0\ncoef 1 = %3\n"},
      {{"h += (2 * 3 + x) * v"},
       "%0 = const 2 (0x40000000)\n%1 = const 3 (0x40400000)\n%2 = mul %0, %1\n%3 = param 0, 0\n"
       "%4 = add %2, %3\nscale = 1\ncoef 0 = 0\ncoef 1 = %4\n"},
      {{"h += clamp(x, -1, min(y, 0.1)) * v"},
       "%0 = param 0, 0\n%1 = const -1 (0xbf800000)\n%2 = param 0, 1\n"
       "%3 = const 0.1 (0x3dcccccd)\n%4 = min %2, %3\n%5 = clamp %0, %1, %4\nscale = 1\n"
       "coef 0 = 0\ncoef 1 = %5\n"},
      {{"h += (x < y && !(y >= 1) ? x : y) * v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = lt %0, %1\n%3 = const 1 (0x3f800000)\n"
       "%4 = ge %1, %3\n%5 = not %4\n%6 = and %2, %5\n%7 = select %6, %0, %1\nscale = 1\n"
       "coef 0 = 0\ncoef 1 = %7\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void chooses_vectors_factor_by_factor(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"h += x < y ? u : v"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = lt %0, %1\n%3 = const 1 (0x3f800000)\n"
       "%4 = const 0 (0x00000000)\n%5 = select %2, %3, %4\n%6 = select %2, %4, %3\nscale = 1\n"
       "coef 0 = %5\ncoef 1 = %6\n"},
      /* what both sides have alike is not chosen */
      {{"h = x < y ? h + x * u : h"},
       "%0 = param 0, 0\n%1 = param 0, 1\n%2 = lt %0, %1\n%3 = const 0 (0x00000000)\n"
       "%4 = select %2, %0, %3\nscale = 1\ncoef 0 = %4\ncoef 1 = 0\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void drops_what_nobody_reads(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"p = dot(h, v)", "q = exp(p)", "h += x * u"},
       "%0 = param 0, 0\nscale = 1\ncoef 0 = %0\ncoef 1 = 0\n"},
      {{"h += norm(h) * v", "h = u"},
       "%0 = const 0 (0x00000000)\n%1 = const 1 (0x3f800000)\nscale = %0\ncoef 0 = %1\n"
       "coef 1 = 0\n"},
  };
  assert_programs(rows, COUNT(rows));
}

static void knows_what_the_program_reads(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op reads_norm = {.vectors = {"u", "v"},
                                     .body = {"h += norm(h) * v", "h += norm(u) * u"}};
  const struct test_op reads_dots = {.vectors = {"u", "v", "w"},
                                     .body = {"p = dot(h, u) + dot(h, w)", "h += p * v"}};
  const struct stg_op *op = NULL;
  assert_int_equal(compile_op(&arena, &reads_norm, &op, NULL), STG_OK);
  assert_true(op->reads_norm);
  assert_int_equal(op->dot_mask, 0);
  assert_int_equal(compile_op(&arena, &reads_dots, &op, NULL), STG_OK);
  assert_false(op->reads_norm);
  assert_int_equal(op->dot_mask, 5);
  stg_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_plain_coefficients_as_they_are),
      cmocka_unit_test(adds_coefficients_of_one_vector),
      cmocka_unit_test(takes_dots_of_the_current_state),
      cmocka_unit_test(takes_dots_of_vectors_from_the_gram_matrix),
      cmocka_unit_test(takes_norms_of_the_state_from_norm2),
      cmocka_unit_test(never_contracts_or_reorders_scalars),
      cmocka_unit_test(chooses_vectors_factor_by_factor),
      cmocka_unit_test(drops_what_nobody_reads),
      cmocka_unit_test(knows_what_the_program_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
