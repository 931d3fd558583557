/*
 * test_check.c: every way in which an op may be wrong, each with its whole message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/compile_op.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Compile with vectors u and v, parameters a and b. */
static stg_status compile(struct stg_arena *arena, const char *require, const char *first,
                          const char *second, const struct stg_op **ret_op, stg_error *reterr) {
  const struct test_op text = {
      .vectors = {"u", "v"}, .params = {"a", "b"}, .require = {require}, .body = {first, second}};
  return compile_op(arena, &text, ret_op, reterr);
}

/* One statement that is wrong; the file name before each message is left out. */
static const struct {
  const char *statement;
  const char *message;
} statement_rows[] = {
    /* grammar */
    {"", "column 1: expected 'h' or a name to assign to, found the end"},
    {"   ", "column 4: expected 'h' or a name to assign to, found the end"},
    {"3 = a", "column 1: expected 'h' or a name to assign to, found '3'"},
    {"h", "column 2: expected '=' or '+=', found the end"},
    {"h + v", "column 3: expected '=' or '+=', found '+'"},
    {"h -= v", "column 3: expected '=' or '+=', found '-'"},
    {"p", "column 2: expected '=', found the end"},
    {"p == a", "column 3: expected '=', found '=='"},
    {"p += a", "column 3: only h can be added to; assign 'p' once, with '='"},
    {"h =", "column 4: expected a number, a name or '(', found the end"},
    {"h += a *", "column 9: expected a number, a name or '(', found the end"},
    {"h += * v", "column 6: expected a number, a name or '(', found '*'"},
    {"h += +v", "column 6: expected a number, a name or '(', found '+'"},
    {"h += (a * v", "column 12: expected an operator or ')', found the end"},
    {"h += a * v)", "column 11: expected an operator or the end, found ')'"},
    {"h += a v", "column 8: expected an operator or the end, found 'v'"},
    {"h += v; a", "column 7: unexpected ';'; operators are + - * / < <= > >= == != && || ! ? : = "
                  "+="},
    {"h += v = u", "column 8: expected an operator or the end, found '='"},
    {"p = a < b < 1", "column 11: comparisons do not chain; join two with && or use parentheses"},
    {"p = a == b != 1", "column 12: comparisons do not chain; join two with && or use parentheses"},
    {"p = a < b ? 1", "column 14: expected an operator or ':', found the end"},
    {"p = a & b", "column 7: unexpected '&'; operators are + - * / < <= > >= == != && || ! ? : = "
                  "+="},
    /* calls */
    {"p = dot(h)", "column 5: dot takes 2 arguments, not 1"},
    {"p = norm(h, v)", "column 5: norm takes 1 argument, not 2"},
    {"p = clamp(a, b)", "column 5: clamp takes 3 arguments, not 2"},
    {"p = clamp(a, b, 1, 2)", "column 5: clamp takes 3 arguments, not 4"},
    {"p = abs()", "column 9: expected a number, a name or '(', found ')'"},
    {"p = abs(a", "column 10: expected ',' or ')', found the end"},
    {"p = pow(a, 2)", "column 5: unknown function 'pow'; there are dot, norm, clamp, min, max, "
                      "abs, sqrt, exp, log, tanh and sigmoid"},
    {"p = a(2)", "column 5: unknown function 'a'; there are dot, norm, clamp, min, max, abs, sqrt, "
                 "exp, log, tanh and sigmoid"},
    {"p = sqrt * 2", "column 5: 'sqrt' is a function; write its arguments in parentheses"},
    /* names */
    {"h += q * v", "column 6: unknown name 'q'; names, parameters and vectors are declared first"},
    {"p = p + 1", "column 5: unknown name 'p'; names, parameters and vectors are declared first"},
    {"h += H", "column 6: unknown name 'H'; names, parameters and vectors are declared first"},
    {"a = 1", "column 1: 'a' is a parameter; take another name"},
    {" v = 1", "column 2: 'v' is a vector; take another name"},
    {"inf = 1", "column 1: 'inf' is reserved; take another name"},
    {"dot = 1", "column 1: 'dot' is a function; take another name"},
    /* types */
    {"h = a", "column 5: h takes a vector, not a scalar; multiply by the vector it goes along"},
    {"h += dot(h, v)", "column 6: h takes a vector, not a scalar; multiply by the vector it goes "
                       "along"},
    {"h += a < b", "column 8: h takes a vector, not a condition; multiply by the vector it goes "
                   "along"},
    {"p = v", "column 5: names hold scalars, not vectors; write the vector where it is used"},
    {"p = h + v", "column 7: names hold scalars, not vectors; write the vector where it is used"},
    {"p = a < b", "column 7: names hold scalars, not conditions; write c ? 1 : 0"},
    {"h = h * v", "column 7: a vector cannot be multiplied by a vector; use dot(a, b)"},
    {"h = a / v", "column 7: nothing can be divided by a vector; use norm(a)"},
    {"h = h / v", "column 7: nothing can be divided by a vector; use norm(a)"},
    {"h = h + a", "column 9: + needs a vector here, not a scalar"},
    {"h = a - h", "column 9: - needs a scalar here, not a vector"},
    {"p = (a < b) + 1", "column 8: + needs a scalar here, not a condition"},
    {"p = 1 + (a < b)", "column 12: + needs a scalar here, not a condition"},
    {"p = 2 * (a < b)", "column 12: * needs a scalar here, not a condition"},
    {"p = (a < b) / 2", "column 8: / needs a scalar here, not a condition"},
    {"p = -(a < b)", "column 9: - needs a scalar or a vector, not a condition; use !"},
    {"p = h < v ? 1 : 0", "column 5: < needs a scalar here, not a vector"},
    {"p = (a < b) == (b < a) ? 1 : 0", "column 8: == needs a scalar here, not a condition"},
    {"p = a ? 1 : 0", "column 5: ? : needs a condition here, not a scalar"},
    {"p = v ? 1 : 0", "column 5: ? : needs a condition here, not a vector"},
    {"p = a < b ? (a < 1) : (b < 1)", "column 16: ? : needs a scalar here, not a condition"},
    {"p = a < b ? 1 : v", "column 17: ? : needs a scalar here, not a vector"},
    {"h = a < b ? h : 1", "column 17: ? : needs a vector here, not a scalar"},
    {"p = a && b ? 1 : 0", "column 5: && needs a condition here, not a scalar"},
    {"p = a < b || v ? 1 : 0", "column 14: || needs a condition here, not a vector"},
    {"p = !a ? 1 : 0", "column 6: ! needs a condition here, not a scalar"},
    {"p = dot(h, a)", "column 12: dot needs a vector here, not a scalar"},
    {"p = norm(2)", "column 10: norm needs a vector here, not a scalar"},
    {"p = abs(h)", "column 9: abs needs a scalar here, not a vector"},
    {"p = clamp(a, v, b)", "column 14: clamp needs a scalar here, not a vector"},
    {"p = max(a, a < b)", "column 14: max needs a scalar here, not a condition"},
};

static void names_file_statement_and_column_of_a_bad_body(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(statement_rows); i++) {
    struct stg_arena arena = {0};
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    char wanted[STG_ERROR_MESSAGE_BYTES] = "test.json: body[1]: ";
    strncat(wanted, statement_rows[i].message, sizeof wanted - strlen(wanted) - 1);
    stg_status status = compile(&arena, NULL, "x = a", statement_rows[i].statement, &op, &err);
    assert_string_equal(err.message, wanted);
    assert_int_equal(status, STG_E_FORMAT);
    assert_int_equal(err.code, STG_E_FORMAT);
    assert_null(op);
    stg_arena_finish(&arena);
  }
}

static const struct {
  const char *require;
  const char *message;
} require_rows[] = {
    {"", "column 1: expected a number, a name or '(', found the end"},
    {"a", "column 1: a requirement must be a condition, not a scalar; compare it with something"},
    {"a + b", "column 3: a requirement must be a condition, not a scalar; compare it with "
              "something"},
    {"dot(h, v) > 0", "column 5: a requirement may use parameters and numbers only, not a vector"},
    {"norm(v) > 0", "column 6: a requirement may use parameters and numbers only, not a vector"},
    {"x < 1", "column 1: unknown name 'x'; names, parameters and vectors are declared first"},
    {"a < b, b", "column 6: expected an operator or the end, found ','"},
    {"a = b", "column 3: expected an operator or the end, found '='"},
    {"a < (b < 1)", "column 8: < needs a scalar here, not a condition"},
};

static void names_file_requirement_and_column_of_a_bad_requirement(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(require_rows); i++) {
    struct stg_arena arena = {0};
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    char wanted[STG_ERROR_MESSAGE_BYTES] = "test.json: require[0]: ";
    strncat(wanted, require_rows[i].message, sizeof wanted - strlen(wanted) - 1);
    stg_status status = compile(&arena, require_rows[i].require, "x = 1", "h += x * v", &op, &err);
    assert_string_equal(err.message, wanted);
    assert_int_equal(status, STG_E_FORMAT);
    assert_null(op);
    stg_arena_finish(&arena);
  }
}

#define LONG_NAME "a23456789012345678901234567890123456789012345678901234567890123"

/* Declarations that are wrong as a whole. */
static const struct {
  struct test_op text;
  const char *message;
} op_rows[] = {
    {{.name = "x"}, "the body is empty; it needs a statement such as h += v"},
    {{.body = {"p = 1"}}, "the body never assigns h; end it with h = or h +="},
    {{.name = "", .body = {"h = h"}},
     "op: the name must be 1 to 63 lower-case letters, digits and '_', beginning with a letter"},
    {{.name = "Add", .body = {"h = h"}},
     "op: the name must be 1 to 63 lower-case letters, digits and '_', beginning with a letter"},
    {{.name = "_x", .body = {"h = h"}},
     "op: the name must be 1 to 63 lower-case letters, digits and '_', beginning with a letter"},
    {{.name = "a/b", .body = {"h = h"}},
     "op: the name must be 1 to 63 lower-case letters, digits and '_', beginning with a letter"},
    {{.name = LONG_NAME "x", .body = {"h = h"}},
     "op: the name must be 1 to 63 lower-case letters, digits and '_', beginning with a letter"},
    {{.vectors = {"a", "b", "c", "d", "e"}, .body = {"h = h"}}, "5 vectors; an op has at most 4"},
    {{.params = {"a", "b", "c", "d", "e", "f", "g", "i", "j"}, .body = {"h = h"}},
     "9 parameters; an op has at most 8"},
    {{.vectors = {"u", "u"}, .body = {"h = h"}},
     "vectors[1]: 'u' is declared already, as vectors[0]; take another name"},
    {{.params = {"x", "y", "x"}, .body = {"h = h"}},
     "params[2]: 'x' is declared already, as params[0]; take another name"},
    {{.vectors = {"u", "v"}, .params = {"v"}, .body = {"h = h"}},
     "params[0]: 'v' is declared already, as vectors[1]; take another name"},
    {{.vectors = {"h"}, .body = {"h = h"}}, "vectors[0]: 'h' is reserved; take another name"},
    {{.params = {"inf"}, .body = {"h = h"}}, "params[0]: 'inf' is reserved; take another name"},
    {{.params = {"op"}, .body = {"h = h"}}, "params[0]: 'op' is reserved; take another name"},
    {{.vectors = {"min"}, .body = {"h = h"}}, "vectors[0]: 'min' is a function; take another name"},
    {{.vectors = {"2v"}, .body = {"h = h"}},
     "vectors[0]: '2v' is not a name; use 1 to 63 letters, digits and '_', not beginning with a "
     "digit"},
    {{.params = {"a\nb\xff"}, .body = {"h = h"}},
     "params[0]: 'a?b?' is not a name; use 1 to 63 letters, digits and '_', not beginning with a "
     "digit"},
    {{.params = {LONG_NAME "x"}, .body = {"h = h"}},
     "params[0]: 'a234567890123456789012345678901' is not a name; use 1 to 63 letters, digits and "
     "'_', not beginning with a digit"},
    {{.body = {"p = 1", "p = 2"}},
     "body[1]: column 1: 'p' is assigned already; a name is assigned once"},
    {{.body = {"q = p", "p = 2"}},
     "body[0]: column 5: unknown name 'p'; names, parameters and vectors are declared first"},
};

static void refuses_bad_declarations(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(op_rows); i++) {
    struct stg_arena arena = {0};
    const struct stg_op *op = NULL;
    stg_error err = STG_ERROR_INIT;
    char wanted[STG_ERROR_MESSAGE_BYTES] = "test.json: ";
    strncat(wanted, op_rows[i].message, sizeof wanted - strlen(wanted) - 1);
    stg_status status = compile_op(&arena, &op_rows[i].text, &op, &err);
    assert_string_equal(err.message, wanted);
    assert_int_equal(status, STG_E_FORMAT);
    assert_null(op);
    stg_arena_finish(&arena);
  }
}

static void refuses_more_statements_than_the_limit(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  struct test_op text = {.vectors = {"v"}};
  for (size_t i = 0; i < STG_OP_MAX_STATEMENTS; i++) {
    text.body[i] = "h += v";
  }
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile_op(&arena, &text, &op, &err), STG_OK);
  text.body[STG_OP_MAX_STATEMENTS] = "h += v";
  assert_int_equal(compile_op(&arena, &text, &op, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "test.json: 33 statements; an op has at most 32");
  stg_arena_finish(&arena);
}

static void refuses_more_text_than_the_limit(void **state) {
  (void)state;
  struct stg_strbuf body = {0};
  stg_strbuf_str(&body, "h=v");
  while (body.len < STG_OP_MAX_TEXT_BYTES - 2) { /* the names of the op and of its vector */
    stg_strbuf_char(&body, ' ');
  }
  struct stg_arena arena = {0};
  struct test_op text = {.name = "x", .vectors = {"v"}, .body = {stg_strbuf_text(&body)}};
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile_op(&arena, &text, &op, &err), STG_OK);
  text.name = "xy";
  assert_int_equal(compile_op(&arena, &text, &op, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "test.json: 4097 bytes of names and statements; at most 4096");
  stg_strbuf_finish(&body);
  stg_arena_finish(&arena);
}

static void refuses_more_nodes_than_the_limit(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  struct test_op text = {.vectors = {"v"}, .params = {"a"}};
  /* 49 terms make 99 nodes with the product by v, so 21 statements are over 2048 */
  struct stg_strbuf line = {0};
  stg_strbuf_str(&line, "h+=(a");
  for (int i = 0; i < 48; i++) {
    stg_strbuf_str(&line, "+a");
  }
  stg_strbuf_str(&line, ")*v");
  for (size_t i = 0; i < 21; i++) {
    text.body[i] = stg_strbuf_text(&line);
  }
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile_op(&arena, &text, &op, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "test.json: body[20]: column 72: the op has more than 2048 "
                                   "operands and operators; split it");
  stg_strbuf_finish(&line);
  stg_arena_finish(&arena);
}

static void lets_parameters_share_a_functions_name(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op text = {
      .vectors = {"v"}, .params = {"min", "abs"}, .body = {"h += min(min, abs(abs)) * v"}};
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile_op(&arena, &text, &op, &err), STG_OK);
  assert_string_equal(op->canonical, "h += min(p0, abs(p1)) * v0\n");
  stg_arena_finish(&arena);
}

static void types_the_tree(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(compile(&arena, NULL, "p = a < b ? 1 : 0", "h += p * v", &op, &err), STG_OK);
  const struct stg_node *nodes = op->ast.nodes;
  const struct stg_node *select = &nodes[op->ast.statements[0].root];
  assert_int_equal(select->type, STG_TYPE_SCALAR);
  assert_int_equal(nodes[select->arg[0]].type, STG_TYPE_BOOL);
  const struct stg_node *product = &nodes[op->ast.statements[1].root];
  assert_int_equal(product->type, STG_TYPE_VECTOR);
  assert_int_equal(nodes[product->arg[0]].type, STG_TYPE_SCALAR);
  assert_int_equal(nodes[product->arg[1]].type, STG_TYPE_VECTOR);
  stg_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_file_statement_and_column_of_a_bad_body),
      cmocka_unit_test(names_file_requirement_and_column_of_a_bad_requirement),
      cmocka_unit_test(refuses_bad_declarations),
      cmocka_unit_test(refuses_more_statements_than_the_limit),
      cmocka_unit_test(refuses_more_text_than_the_limit),
      cmocka_unit_test(refuses_more_nodes_than_the_limit),
      cmocka_unit_test(lets_parameters_share_a_functions_name),
      cmocka_unit_test(types_the_tree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
