/*
 * test_op.c: compiled ops: hashes, codes, order, parameter checks, and no crash on any text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/support/compile_op.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct stg_op *must_compile(struct stg_arena *arena, const struct test_op *text) {
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status = compile_op(arena, text, &op, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return op;
}

static void names_and_spacing_do_not_change_the_hash(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op one = {.name = "one",
                              .vectors = {"v"},
                              .params = {"scale"},
                              .require = {"scale > 0"},
                              .body = {"p = dot(h, v)", "h += (scale * p) * v"}};
  const struct test_op two = {.name = "two",
                              .vectors = {"direction"},
                              .params = {"k"},
                              .body = {"q=dot(h,direction)", "h+=k*q*direction"}};
  const struct stg_op *a = must_compile(&arena, &one);
  const struct stg_op *b = must_compile(&arena, &two);
  assert_string_equal(a->canonical, "t0 = dot(h, v0)\nh += p0 * t0 * v0\n");
  assert_string_equal(b->canonical, a->canonical);
  assert_true(stg_key_equal(a->body_hash, b->body_hash));
  assert_int_equal(a->code, b->code);
  assert_true(a->code >= 0x80000000u);
  stg_arena_finish(&arena);
}

static void unused_vectors_and_parameters_change_the_hash(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op texts[] = {
      {.vectors = {"v"}, .body = {"h += v"}},
      {.vectors = {"v", "w"}, .body = {"h += v"}},
      {.vectors = {"v"}, .params = {"x"}, .body = {"h += v"}},
      {.vectors = {"v"}, .body = {"h += 2 * v"}},
  };
  for (size_t i = 0; i < COUNT(texts); i++) {
    for (size_t k = 0; k < i; k++) {
      assert_false(stg_key_equal(must_compile(&arena, &texts[i])->body_hash,
                                 must_compile(&arena, &texts[k])->body_hash));
    }
  }
  stg_arena_finish(&arena);
}

static void keeps_a_given_code_and_copies_every_name(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  char name[] = "mine";
  char vector[] = "v";
  char param[] = "x";
  char body[] = "h += x * v";
  const char *vectors[] = {vector};
  const char *bodies[] = {body};
  const struct stg_op_param params[] = {{param, true, 2.5f}};
  const struct stg_op_source source = {.file = "f.json",
                                       .name = name,
                                       .code = 7,
                                       .vectors = vectors,
                                       .n_vectors = 1,
                                       .params = params,
                                       .n_params = 1,
                                       .body = bodies,
                                       .n_body = 1};
  const struct stg_op *op = NULL;
  assert_int_equal(stg_op_compile(&arena, &source, &op, NULL), STG_OK);
  name[0] = vector[0] = param[0] = body[0] = '?';
  assert_int_equal(op->code, 7);
  assert_string_equal(op->name, "mine");
  assert_int_equal(stg_op_find_vector(op, "v"), 0);
  assert_int_equal(stg_op_find_vector(op, "x"), -1);
  assert_int_equal(stg_op_find_param(op, "x"), 0);
  assert_int_equal(stg_op_find_param(op, "v"), -1);
  assert_true(op->params[0].has_default);
  assert_float_equal(op->params[0].default_value, 2.5f, 0);
  stg_arena_finish(&arena);
}

static void an_output_is_a_scalar_with_a_column(void **state) {
  (void)state;
  static const struct {
    struct test_op text;
    const char *message;
  } cases[] = {
      {{.vectors = {"v"}, .output = "dot(h, v)"},
       "test.json: output: it needs a parameter 'column', which says where it goes"},
      {{.vectors = {"v"}, .params = {"column"}, .output = "h + v"},
       "test.json: output: column 3: an output is a scalar, not a vector; write dot(h, v) or "
       "c ? 1 : 0"},
      {{.vectors = {"v"}, .params = {"column"}, .output = "1 < 2"},
       "test.json: output: column 3: an output is a scalar, not a condition; write dot(h, v) or "
       "c ? 1 : 0"},
      {{.params = {"column"}, .body = {"h = h"}, .output = "1"},
       "test.json: output: an op has a body or an output, not both; write two ops"},
      {{.params = {"column"}, .output = "dot(h, w)"},
       "test.json: output: column 8: unknown name 'w'; names, parameters and vectors are declared "
       "first"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct stg_arena arena = {0};
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(compile_op(&arena, &cases[i].text, &op, &err), STG_E_FORMAT);
    assert_string_equal(err.message, cases[i].message);
    stg_arena_finish(&arena);
  }
}

static void the_column_belongs_to_the_hash(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op first = {
      .vectors = {"v"}, .params = {"column", "x"}, .output = "x * dot(h, v)"};
  const struct test_op second = {
      .vectors = {"v"}, .params = {"x", "column"}, .output = "x * dot(h, v)"};
  const struct stg_op *ops[2] = {NULL, NULL};
  assert_int_equal(compile_op(&arena, &first, &ops[0], NULL), STG_OK);
  assert_int_equal(compile_op(&arena, &second, &ops[1], NULL), STG_OK);
  assert_true(ops[0]->has_output && ops[1]->has_output);
  assert_int_equal(ops[0]->column, 0);
  assert_int_equal(ops[1]->column, 1);
  assert_string_equal(ops[0]->canonical, "out[p0] = p1 * dot(h, v0)\n");
  assert_false(stg_key_equal(ops[0]->body_hash, ops[1]->body_hash));
  stg_arena_finish(&arena);
}

static void a_nan_default_is_refused(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const char *body[] = {"h = x * h"};
  const struct stg_op_param params[] = {{"x", true, NAN}};
  const struct stg_op_source source = {
      .file = "f.json", .name = "mine", .params = params, .n_params = 1, .body = body, .n_body = 1};
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_op_compile(&arena, &source, &op, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "f.json: params[0]: the default of 'x' is NaN");
  stg_arena_finish(&arena);
}

static void sorts_builtins_by_name_before_user_ops_by_hash(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  struct stg_op ops[] = {
      {.name = "b", .code = 0x80000001u, .body_hash = {.high = 2, .low = 1}},
      {.name = "swap", .code = 7},
      {.name = "a", .code = 0xffffffffu, .body_hash = {.high = 1, .low = 9}},
      {.name = "add", .code = 8},
  };
  const struct stg_op *sorted[] = {&ops[0], &ops[1], &ops[2], &ops[3]};
  qsort(sorted, COUNT(sorted), sizeof(const struct stg_op *), stg_op_compare);
  assert_ptr_equal(sorted[0], &ops[3]);
  assert_ptr_equal(sorted[1], &ops[1]);
  assert_ptr_equal(sorted[2], &ops[2]);
  assert_ptr_equal(sorted[3], &ops[0]);
  assert_int_equal(stg_op_compare(&sorted[0], &sorted[0]), 0);
  stg_arena_finish(&arena);
}

/* projection_cap's declaration, with `gain` beside it. */
static const struct stg_op *bounded_op(struct stg_arena *arena) {
  static const char *const vectors[] = {"v"};
  static const char *const require[] = {"min <= max", "min>-inf||(max<inf)"};
  static const char *const body[] = {"h += clamp(gain, min, max) * v"};
  const struct stg_op_param params[] = {
      {"min", true, -INFINITY}, {"max", true, INFINITY}, {"gain", false, 0}};
  const struct stg_op_source source = {.file = "f.json",
                                       .name = "bounded",
                                       .vectors = vectors,
                                       .n_vectors = 1,
                                       .params = params,
                                       .n_params = 3,
                                       .require = require,
                                       .n_require = 2,
                                       .body = body,
                                       .n_body = 1};
  const struct stg_op *op = NULL;
  assert_int_equal(stg_op_compile(arena, &source, &op, NULL), STG_OK);
  return op;
}

static const struct {
  float params[3];
  const char *message; /* NULL: fine */
} param_rows[] = {
    {{-1, 1, 2}, NULL},
    {{-INFINITY, 1, 2}, NULL},
    {{1, INFINITY, 2}, NULL},
    {{1, 1, 2}, NULL},
    {{3, 1, 0.5f}, "op 'bounded' requires min <= max, but min = 3, max = 1, gain = 0.5"},
    {{-INFINITY, INFINITY, 2},
     "op 'bounded' requires min > -inf || max < inf, but min = -inf, max = inf, gain = 2"},
    {{NAN, 1, 2}, "op 'bounded': parameter 'min' is NaN; give a number"},
    {{-1, 1, NAN}, "op 'bounded': parameter 'gain' is NaN; give a number"},
    {{-1, 1, INFINITY}, "op 'bounded': parameter 'gain' is inf; give a finite number"},
    {{-1, 1, -INFINITY}, "op 'bounded': parameter 'gain' is -inf; give a finite number"},
};

static void checks_parameter_values_against_the_declaration(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *op = bounded_op(&arena);
  for (size_t i = 0; i < COUNT(param_rows); i++) {
    stg_error err = STG_ERROR_INIT;
    stg_status status = stg_op_check_params(op, param_rows[i].params, &err);
    bool fine = param_rows[i].message == NULL;
    assert_int_equal(status, fine ? STG_OK : STG_E_INVALID);
    assert_string_equal(err.message, fine ? "" : param_rows[i].message);
  }
  stg_arena_finish(&arena);
}

/* Each must hold for x = 4 and y = -0.5. */
static const char *const true_requirements[] = {
    "x + y == 3.5",
    "x - y == 4.5",
    "x * y == -2",
    "x / y == -8",
    "-x == -4",
    "!(x == y)",
    "x != y && x > y && x >= 4 && y < x && y <= x",
    "x < y || x >= y",
    "(x < y ? 1 : 2) == 2",
    "clamp(x, y, 1) == 1 && clamp(y, 0, x) == 0 && clamp(1, y, x) == 1",
    "min(x, y) == y && max(x, y) == x",
    "abs(y) == 0.5",
    "sqrt(x) == 2",
    "exp(0) == 1 && log(1) == 0 && tanh(0) == 0 && sigmoid(0) == 0.5",
};

static void evaluates_every_operator_of_a_requirement(void **state) {
  (void)state;
  const float params[] = {4, -0.5f};
  for (size_t i = 0; i < COUNT(true_requirements); i++) {
    struct stg_arena arena = {0};
    char negated[128];
    snprintf(negated, sizeof negated, "!(%s)", true_requirements[i]);
    const struct test_op holds = {
        .params = {"x", "y"}, .require = {true_requirements[i]}, .body = {"h = x * h"}};
    const struct test_op fails = {
        .params = {"x", "y"}, .require = {negated}, .body = {"h = x * h"}};
    stg_error err = STG_ERROR_INIT;
    stg_status status = stg_op_check_params(must_compile(&arena, &holds), params, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, STG_OK);
    assert_int_equal(stg_op_check_params(must_compile(&arena, &fails), params, &err),
                     STG_E_INVALID);
    stg_arena_finish(&arena);
  }
}

static void every_failed_allocation_is_reported(void **state) {
  (void)state;
  const struct test_op text = {.vectors = {"v"},
                               .params = {"x"},
                               .require = {"x > 0"},
                               .body = {"p = dot(h, v)", "h = norm(h + x * v) * p * v"}};
  for (size_t nth = 1;; nth++) {
    struct stg_arena arena = {0};
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = compile_op(&arena, &text, &op, &err);
    stg_alloc_fail_at(0);
    stg_arena_finish(&arena);
    if (status == STG_OK) {
      assert_true(nth > 5);
      return;
    }
    assert_int_equal(status, STG_E_NO_MEMORY);
    assert_null(op);
  }
}

/* Bits of the language in any order; most of it is wrong, and some of it is deep. */
static const char *const soup[] = {
    "h",           "v",         "u",
    "x",           "y",         "p",
    "q",           "inf",       "1",
    "0.5",         "1e9",       "2.",
    "dot",         "norm",      "abs",
    "exp",         "clamp",     "min",
    "max",         "(",         "(",
    "(",           ")",         ")",
    ",",           "+",         "-",
    "*",           "/",         "<",
    "<=",          "==",        "!=",
    "&&",          "||",        "!",
    "?",           ":",         "=",
    "+=",          "@",         "\xff",
    " ",           "\t",        "h +=",
    "p = ",        "dot(h, v)", "sqrt",
    "tanh",        "log",       "1 < x",
    "((((",        "))))",      "- - - -",
    "norm(h) * v", "x * v",     "(x < y ? x : y)",
};

/* A statement of up to 39 bits of soup; mostly one that begins well. */
static void fill_line(struct stg_strbuf *line, uint64_t *seed) {
  size_t n = (size_t)(*seed >> 33) % 40;
  line->len = 0;
  stg_strbuf_str(line, (*seed >> 40) % 4 == 0 ? "" : "h += ");
  for (size_t k = 0; k <= n; k++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    stg_strbuf_str(line, k < n ? soup[(*seed >> 33) % COUNT(soup)] : "");
  }
}

static void random_text_never_crashes(void **state) {
  (void)state;
  uint64_t seed = 1;
  size_t compiled = 0;
  struct stg_strbuf lines[3] = {0};
  for (int round = 0; round < 20000; round++) {
    for (size_t i = 0; i < COUNT(lines); i++) {
      fill_line(&lines[i], &seed);
    }
    struct stg_arena arena = {0};
    const struct test_op text = {
        .vectors = {"u", "v"},
        .params = {"x", "y"},
        .require = {(seed >> 50) % 4 == 0 ? stg_strbuf_text(&lines[2]) : NULL},
        .body = {stg_strbuf_text(&lines[0]),
                 (seed >> 50) % 8 == 1 ? stg_strbuf_text(&lines[1]) : NULL}};
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    stg_status status = compile_op(&arena, &text, &op, &err);
    assert_true(status == STG_OK || status == STG_E_FORMAT);
    assert_int_equal(status == STG_OK, op != NULL);
    assert_int_equal(status == STG_OK, err.message[0] == '\0');
    compiled += status == STG_OK;
    stg_arena_finish(&arena);
  }
  assert_true(compiled > 0); /* the soup is not all bad */
  for (size_t i = 0; i < COUNT(lines); i++) {
    stg_strbuf_finish(&lines[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_spacing_do_not_change_the_hash),
      cmocka_unit_test(unused_vectors_and_parameters_change_the_hash),
      cmocka_unit_test(keeps_a_given_code_and_copies_every_name),
      cmocka_unit_test(an_output_is_a_scalar_with_a_column),
      cmocka_unit_test(the_column_belongs_to_the_hash),
      cmocka_unit_test(a_nan_default_is_refused),
      cmocka_unit_test(sorts_builtins_by_name_before_user_ops_by_hash),
      cmocka_unit_test(checks_parameter_values_against_the_declaration),
      cmocka_unit_test(evaluates_every_operator_of_a_requirement),
      cmocka_unit_test(every_failed_allocation_is_reported),
      cmocka_unit_test(random_text_never_crashes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
