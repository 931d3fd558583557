/*
 * test_parser.c: precedence, associativity, limits, and the canonical text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "codegen/lang/emit.h"
#include "codegen/lang/parser.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CAPACITY 512

/* Vectors u and v, parameters a, b and min. */
struct fixture {
  struct stg_scope scope;
  struct stg_node nodes[CAPACITY];
  uint8_t heights[CAPACITY];
  struct stg_parser parser;
};

static void init(struct fixture *f, uint16_t capacity) {
  static const char *const vectors[] = {"u", "v"};
  static const char *const params[] = {"a", "b", "min"};
  *f = (struct fixture){
      .scope = {.vectors = vectors, .n_vectors = 2, .params = params, .n_params = 3}};
  f->parser = (struct stg_parser){
      .scope = &f->scope, .nodes = f->nodes, .heights = f->heights, .capacity = capacity};
}

/* "(+ a (* b 2))": every operator and call in parentheses. */
static void print_tree(/* NOLINT(misc-no-recursion): bounded by the parser */
                       const struct stg_node *nodes, uint16_t root, struct stg_strbuf *out) {
  const struct stg_node *node = &nodes[root];
  if (stg_node_arity(node->kind) == 0) {
    static const char *const params[] = {"a", "b", "min"};
    const struct stg_ast ast = {.nodes = nodes};
    stg_emit_expression(&ast, root, params, out);
    return;
  }
  stg_strbuf_printf(out, "(%s", stg_node_text(node->kind));
  for (unsigned i = 0; i < stg_node_arity(node->kind); i++) {
    stg_strbuf_char(out, ' ');
    print_tree(nodes, node->arg[i], out);
  }
  stg_strbuf_char(out, ')');
}

static const struct {
  const char *text;
  const char *tree;
} tree_rows[] = {
    {"a + b * 2", "(+ a (* b 2))"},
    {"a * b + 2", "(+ (* a b) 2)"},
    {"a - b - 2", "(- (- a b) 2)"},
    {"a / b / 2", "(/ (/ a b) 2)"},
    {"a - (b - 2)", "(- a (- b 2))"},
    {"-a * b", "(* (- a) b)"},
    {"-(a * b)", "(- (* a b))"},
    {"a - -b", "(- a (- b))"},
    {"--a", "(- (- a))"},
    {"!!(a < b)", "(! (! (< a b)))"},
    {"a + 1 < b * 2", "(< (+ a 1) (* b 2))"},
    {"a < b && b <= 2 || a == b", "(|| (&& (< a b) (<= b 2)) (== a b))"},
    {"a < b || b > 2 && a != b", "(|| (< a b) (&& (> b 2) (!= a b)))"},
    {"a >= b ? 1 : 2", "(?: (>= a b) 1 2)"},
    {"a < b ? 1 : a > b ? 2 : 3", "(?: (< a b) 1 (?: (> a b) 2 3))"},
    {"a < b ? a > b ? 1 : 2 : 3", "(?: (< a b) (?: (> a b) 1 2) 3)"},
    {"(a < b ? 1 : 2) + 3", "(+ (?: (< a b) 1 2) 3)"},
    {"min(a, min) * min", "(* (min a min) min)"},
    {"clamp(a, -inf, b + 1)", "(clamp a (- inf) (+ b 1))"},
    {"dot(h, v) * u", "(* (dot h v1) v0)"},
    {"sigmoid(exp(log(sqrt(abs(tanh(a))))))", "(sigmoid (exp (log (sqrt (abs (tanh a))))))"},
    {"norm(h + 2 * v) / max(a, b)", "(/ (norm (+ h (* 2 v1))) (max a b))"},
    {" ( ( a ) ) ", "a"},
};

static void gives_every_expression_its_tree(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(tree_rows); i++) {
    struct fixture f;
    init(&f, CAPACITY);
    uint16_t root = 0;
    stg_error err = STG_ERROR_INIT;
    stg_status status = stg_parse_expression(&f.parser, tree_rows[i].text, &root, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, STG_OK);
    assert_int_equal(root, f.parser.n_nodes - 1);
    struct stg_strbuf tree = {0};
    print_tree(f.nodes, root, &tree);
    assert_string_equal(stg_strbuf_text(&tree), tree_rows[i].tree);
    stg_strbuf_finish(&tree);
  }
}

static void puts_operands_before_their_users(void **state) {
  (void)state;
  struct fixture f;
  init(&f, CAPACITY);
  uint16_t root = 0;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(
      stg_parse_expression(&f.parser, "a < b ? clamp(a, b, 2) : -(a + b) * 3", &root, &err),
      STG_OK);
  for (uint16_t i = 0; i < f.parser.n_nodes; i++) {
    for (unsigned k = 0; k < stg_node_arity(f.nodes[i].kind); k++) {
      assert_true(f.nodes[i].arg[k] < i);
    }
  }
}

static void remembers_columns(void **state) {
  (void)state;
  struct fixture f;
  init(&f, CAPACITY);
  uint16_t root = 0;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_parse_expression(&f.parser, "a + min(b, 2)", &root, &err), STG_OK);
  assert_int_equal(f.nodes[root].column, 3);
  assert_int_equal(f.nodes[f.nodes[root].arg[0]].column, 1);
  assert_int_equal(f.nodes[f.nodes[root].arg[1]].column, 5);
}

static void tells_the_statements_apart(void **state) {
  (void)state;
  struct fixture f;
  init(&f, CAPACITY);
  struct stg_statement s = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_parse_statement(&f.parser, "p = dot(h, v)", &s, &err), STG_OK);
  assert_int_equal(s.kind, STG_STATEMENT_LET);
  assert_int_equal(s.ref, 0);
  assert_int_equal(stg_parse_statement(&f.parser, "q = p * 2", &s, &err), STG_OK);
  assert_int_equal(s.ref, 1);
  assert_int_equal(stg_parse_statement(&f.parser, "h += p * v", &s, &err), STG_OK);
  assert_int_equal(s.kind, STG_STATEMENT_ADD);
  assert_int_equal(stg_parse_statement(&f.parser, "h = q * h", &s, &err), STG_OK);
  assert_int_equal(s.kind, STG_STATEMENT_SET);
  assert_int_equal(f.scope.n_names, 2);
}

static const struct {
  const char *text;
  const char *canonical;
} canonical_rows[] = {
    {"h = ((a)) * (h)", "h = p0 * h\n"},
    {"h += (a * b) * v", "h += p0 * p1 * v1\n"},
    {"h += a * (b * v)", "h += p0 * (p1 * v1)\n"},
    {"h += (a - (b - min)) * v", "h += (p0 - (p1 - p2)) * v1\n"},
    {"h += ((a - b) - min) * v", "h += (p0 - p1 - p2) * v1\n"},
    {"h += (-(a + b)) * v", "h += -(p0 + p1) * v1\n"},
    {"h += -((a) * v)", "h += -(p0 * v1)\n"},
    {"h += (- - a) * v", "h += --p0 * v1\n"},
    {"h += (!(a < b) && (b < a || a == 1) ? 1.50 : 0) * v",
     "h += (!(p0 < p1) && (p1 < p0 || p0 == 1) ? 1.5 : 0) * v1\n"},
    {"h = (a < b ? v : (a > b ? u : h))", "h = p0 < p1 ? v1 : p0 > p1 ? v0 : h\n"},
    {"h = ((a < b ? a : b) < 1) ? v : u", "h = (p0 < p1 ? p0 : p1) < 1 ? v1 : v0\n"},
    {"h += clamp((a), (-inf), (inf)) * v", "h += clamp(p0, -inf, inf) * v1\n"},
    {"h += 1e10 * v", "h += 1e+10 * v1\n"},
    {"h += 0.1 * v", "h += 0.1 * v1\n"},
    {"long_name = (a + 1)", "t0 = p0 + 1\n"},
};

/* Parse one statement with the fixture's scope and print it canonically. */
static void canonical(struct fixture *f, const char *text, struct stg_strbuf *out) {
  struct stg_statement statement = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_parse_statement(&f->parser, text, &statement, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  const struct stg_ast ast = {.nodes = f->nodes, .statements = &statement, .n_statements = 1};
  stg_emit_body(&ast, out);
}

static void emits_the_fewest_parentheses(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(canonical_rows); i++) {
    struct fixture f;
    struct stg_strbuf text = {0};
    init(&f, CAPACITY);
    canonical(&f, canonical_rows[i].text, &text);
    assert_string_equal(stg_strbuf_text(&text), canonical_rows[i].canonical);
    stg_strbuf_finish(&text);
  }
}

/* `count` times `part`, then `core`, then `count` times `end`. */
static void repeat(struct stg_strbuf *out, size_t count, const char *part, const char *core,
                   const char *end) {
  out->len = 0;
  for (size_t i = 0; i < count; i++) {
    stg_strbuf_str(out, part);
  }
  stg_strbuf_str(out, core);
  for (size_t i = 0; i < count; i++) {
    stg_strbuf_str(out, end);
  }
}

static void refuses_to_nest_deeper_than_the_limit(void **state) {
  (void)state;
  static const struct {
    const char *part, *core, *end;
    size_t at_most; /* of `part` */
  } rows[] = {
      {"(", "a", ")", STG_OP_MAX_DEPTH},
      {"-", "a", "", STG_OP_MAX_DEPTH - 1},
      {"abs(", "a", ")", STG_OP_MAX_DEPTH - 1},
      {"a<b?1:", "a", "", STG_OP_MAX_DEPTH - 2}, /* under the last one there is a comparison */
      {"a+", "a", "", STG_OP_MAX_DEPTH - 1},
      {"(a+", "a", ")", STG_OP_MAX_DEPTH - 1},
  };
  struct stg_strbuf text = {0};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct fixture f;
    uint16_t root = 0;
    stg_error err = STG_ERROR_INIT;
    init(&f, CAPACITY);
    repeat(&text, rows[i].at_most, rows[i].part, rows[i].core, rows[i].end);
    stg_status status = stg_parse_expression(&f.parser, text.data, &root, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(status, STG_OK);
    init(&f, CAPACITY);
    repeat(&text, rows[i].at_most + 1, rows[i].part, rows[i].core, rows[i].end);
    assert_int_equal(stg_parse_expression(&f.parser, text.data, &root, &err), STG_E_FORMAT);
    assert_non_null(
        strstr(err.message, ": nested deeper than 64 levels; assign a part to a name first"));
  }
  stg_strbuf_finish(&text);
}

static void refuses_more_nodes_than_there_is_room_for(void **state) {
  (void)state;
  struct fixture f;
  init(&f, 4);
  uint16_t root = 0;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_parse_expression(&f.parser, "a + b * 2", &root, &err), STG_E_FORMAT);
  assert_string_equal(err.message,
                      "column 3: the op has more than 4 operands and operators; split it");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_every_expression_its_tree),
      cmocka_unit_test(puts_operands_before_their_users),
      cmocka_unit_test(remembers_columns),
      cmocka_unit_test(tells_the_statements_apart),
      cmocka_unit_test(emits_the_fewest_parentheses),
      cmocka_unit_test(refuses_to_nest_deeper_than_the_limit),
      cmocka_unit_test(refuses_more_nodes_than_there_is_room_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
