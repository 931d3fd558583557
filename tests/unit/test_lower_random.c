/*
 * test_lower_random.c: random bodies mean the same to the program as to the tree.
 *
 * Each body is evaluated in double twice: its scalar program by interpret_program, and its tree
 * naively, vectors as vectors, statement by statement.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/support/compile_op.h"
#include "tests/support/interpret_program.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HIDDEN INTERPRET_HIDDEN
#define N_BODIES 3000
#define MAX_STATEMENTS 5

static uint32_t draw(uint64_t *seed, uint32_t n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33) % n;
}

/* ---- writing a body ---- */

struct writing {
  struct stg_strbuf *out;
  uint64_t *seed;
  unsigned n_names; /* t0.. so far */
};

/* NOLINTBEGIN(misc-no-recursion): bounded by `depth` */
static void write_scalar(struct writing *w, int depth);
static void write_vector(struct writing *w, int depth);

/* `pattern` with S, V and C as a scalar, a vector and a condition. */
static void write_pattern(struct writing *w, const char *pattern, int depth) {
  for (; *pattern != '\0'; pattern++) {
    if (*pattern == 'S') {
      write_scalar(w, depth - 1);
    } else if (*pattern == 'V') {
      write_vector(w, depth - 1);
    } else if (*pattern == 'C') {
      /* never near its own branch point, whichever way it is evaluated */
      static const char *const conditions[] = {"x < 0.25",         "dot(h, u) >= y",
                                               "!(y == 2)",        "x > 0 && y > 0",
                                               "x != y || y <= 0", "norm(v) < 2 * norm(u)"};
      stg_strbuf_str(w->out, conditions[draw(w->seed, COUNT(conditions))]);
    } else {
      stg_strbuf_char(w->out, *pattern);
    }
  }
}

static void write_scalar(struct writing *w, int depth) {
  static const char *const leaves[] = {"x", "y", "0.5", "2", "dot(h, v)", "norm(h)", "dot(u, v)"};
  static const char *const patterns[] = {
      "(S + S)",      "(S - S)",         "S * S",       "(-S)",       "S / (1 + abs(S))",
      "dot(V, V)",    "norm(V)",         "tanh(S)",     "sigmoid(S)", "clamp(S, -1, 1)",
      "min(S, S)",    "max(S, S)",       "(C ? S : S)", "(S)",        "sqrt(abs(S))",
      "exp(tanh(S))", "log(1 + abs(S))", "abs(S)",
  };
  if (depth > 0 && draw(w->seed, 4) != 0) {
    write_pattern(w, patterns[draw(w->seed, COUNT(patterns))], depth);
  } else if (w->n_names > 0 && draw(w->seed, 2) == 0) {
    stg_strbuf_printf(w->out, "t%u", draw(w->seed, w->n_names));
  } else {
    stg_strbuf_str(w->out, leaves[draw(w->seed, COUNT(leaves))]);
  }
}

static void write_vector(struct writing *w, int depth) {
  static const char *const leaves[] = {"h", "u", "v"};
  static const char *const patterns[] = {"(V + V)", "(V - V)",     "S * V", "V * S",
                                         "(-V)",    "(C ? V : V)", "(V)",   "V / (1 + abs(S))"};
  if (depth > 0 && draw(w->seed, 4) != 0) {
    write_pattern(w, patterns[draw(w->seed, COUNT(patterns))], depth);
  } else {
    stg_strbuf_str(w->out, leaves[draw(w->seed, COUNT(leaves))]);
  }
}

/* NOLINTEND(misc-no-recursion) */

/* A few statements, the last of which assigns h. */
static void write_body(struct stg_strbuf lines[MAX_STATEMENTS], size_t n, uint64_t *seed) {
  struct writing w = {.seed = seed};
  for (size_t i = 0; i < n; i++) {
    w.out = &lines[i];
    if (i + 1 < n && draw(seed, 2) == 0) {
      stg_strbuf_printf(w.out, "t%u = ", w.n_names);
      write_scalar(&w, 3);
      w.n_names++;
    } else {
      stg_strbuf_str(w.out, draw(seed, 3) == 0 ? "h = " : "h += ");
      write_vector(&w, 3);
    }
  }
}

/* ---- evaluating a tree ---- */

struct meaning {
  double scalar;
  double vector[HIDDEN];
};

struct evaluation {
  const struct stg_op *op;
  const struct interpret_row *row;
  double h[HIDDEN];
  double names[STG_OP_MAX_STATEMENTS];
};

static double evaluate_scalar(enum stg_node_kind kind, double x, double y, double z) {
  const double values[STG_NODE_KINDS] = {
      [STG_NODE_NEG] = -x,
      [STG_NODE_NOT] = x == 0,
      [STG_NODE_ADD] = x + y,
      [STG_NODE_SUB] = x - y,
      [STG_NODE_MUL] = x * y,
      [STG_NODE_DIV] = x / y,
      [STG_NODE_LT] = x<y, [STG_NODE_LE] = x <= y, [STG_NODE_GT] = x> y,
      [STG_NODE_GE] = x >= y,
      [STG_NODE_EQ] = x == y,
      [STG_NODE_NE] = x != y,
      [STG_NODE_AND] = x != 0 && y != 0,
      [STG_NODE_OR] = x != 0 || y != 0,
      [STG_NODE_SELECT] = x != 0 ? y : z,
      [STG_NODE_CLAMP] = fmin(fmax(x, y), z),
      [STG_NODE_MIN] = fmin(x, y),
      [STG_NODE_MAX] = fmax(x, y),
      [STG_NODE_ABS] = fabs(x),
      [STG_NODE_SQRT] = sqrt(x),
      [STG_NODE_EXP] = exp(x),
      [STG_NODE_LOG] = log(x),
      [STG_NODE_TANH] = tanh(x),
      [STG_NODE_SIGMOID] = 1 / (1 + exp(-x)),
  };
  return values[kind];
}

/* Element i of a vector-valued node; a scalar operand has the same scalar for every i. */
static double evaluate_element(const struct evaluation *e, const struct stg_node *node,
                               const struct meaning *x, const struct meaning *y,
                               const struct meaning *z, size_t i) {
  const struct stg_node *nodes = e->op->ast.nodes;
  bool left_is_vector = nodes[node->arg[0]].type == STG_TYPE_VECTOR;
  bool right_is_vector = nodes[node->arg[1]].type == STG_TYPE_VECTOR;
  double left = left_is_vector ? x->vector[i] : x->scalar;
  double right = right_is_vector ? y->vector[i] : y->scalar;
  if (node->kind == STG_NODE_STATE) {
    return e->h[i];
  }
  if (node->kind == STG_NODE_VECTOR) {
    return e->row->vectors[node->ref][i];
  }
  return evaluate_scalar(node->kind, left, right, z->vector[i]);
}

static void evaluate_node(const struct evaluation *e, uint32_t at, struct meaning *meanings) {
  const struct stg_node *node = &e->op->ast.nodes[at];
  const struct meaning *x = &meanings[node->arg[0]];
  const struct meaning *y = &meanings[node->arg[1]];
  const struct meaning *z = &meanings[node->arg[2]];
  struct meaning *result = &meanings[at];
  if (node->type == STG_TYPE_VECTOR) {
    for (size_t i = 0; i < HIDDEN; i++) {
      result->vector[i] = evaluate_element(e, node, x, y, z, i);
    }
  } else if (node->kind == STG_NODE_NUMBER) {
    result->scalar = node->number;
  } else if (node->kind == STG_NODE_PARAM) {
    result->scalar = (double)e->row->params[0][node->ref];
  } else if (node->kind == STG_NODE_NAME) {
    result->scalar = e->names[node->ref];
  } else if (node->kind == STG_NODE_DOT) {
    result->scalar = interpret_dot(x->vector, y->vector);
  } else if (node->kind == STG_NODE_NORM) {
    result->scalar = sqrt(interpret_dot(x->vector, x->vector));
  } else {
    result->scalar = evaluate_scalar(node->kind, x->scalar, y->scalar, z->scalar);
  }
}

/* The body statement by statement on a copy of the row; false when something left [-1e6, 1e6]. */
static bool evaluate_body(const struct stg_op *op, const struct interpret_row *row,
                          double *ret_row) {
  static struct meaning meanings[STG_OP_MAX_NODES];
  struct evaluation e = {.op = op, .row = row};
  memcpy(e.h, row->h, sizeof e.h);
  uint32_t first = 0;
  for (uint16_t s = 0; s < op->ast.n_statements; s++) {
    const struct stg_statement *statement = &op->ast.statements[s];
    for (uint32_t at = first; at <= statement->root; at++) {
      evaluate_node(&e, at, meanings);
      if (!(fabs(meanings[at].scalar) <= 1e6)) {
        return false;
      }
    }
    const struct meaning *root = &meanings[statement->root];
    for (size_t i = 0; i < HIDDEN && statement->kind != STG_STATEMENT_LET; i++) {
      e.h[i] = (statement->kind == STG_STATEMENT_ADD ? e.h[i] : 0) + root->vector[i];
    }
    if (statement->kind == STG_STATEMENT_LET) {
      e.names[statement->ref] = root->scalar;
    }
    first = statement->root + 1u;
  }
  memcpy(ret_row, e.h, sizeof e.h);
  return true;
}

/* ---- the tests ---- */

static const struct stg_op *must_compile(struct stg_arena *arena, const struct test_op *text) {
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status = compile_op(arena, text, &op, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return op;
}

static const struct stg_op *random_op(struct stg_arena *arena, uint64_t *seed) {
  struct stg_strbuf lines[MAX_STATEMENTS] = {0};
  struct test_op text = {.vectors = {"u", "v"}, .params = {"x", "y"}};
  size_t n = 1 + draw(seed, MAX_STATEMENTS);
  write_body(lines, n, seed);
  for (size_t i = 0; i < n; i++) {
    text.body[i] = stg_strbuf_text(&lines[i]);
  }
  const struct stg_op *op = must_compile(arena, &text);
  for (size_t i = 0; i < n; i++) {
    stg_strbuf_finish(&lines[i]);
  }
  return op;
}

static void fill_row(struct interpret_row *row, uint64_t *seed) {
  for (size_t i = 0; i < HIDDEN; i++) {
    row->h[i] = (double)draw(seed, 2001) / 1000 - 1;
    row->vectors[0][i] = ((double)draw(seed, 2001) / 1000 - 1) / 4;
    row->vectors[1][i] = row->vectors[0][i] + ((double)draw(seed, 2001) / 1000 - 1) / 8;
  }
  row->params[0][0] = (float)draw(seed, 4001) / 1000 - 2;
  row->params[0][1] = (float)draw(seed, 4001) / 1000 - 2;
}

static void programs_of_random_bodies_do_what_the_trees_say(void **state) {
  (void)state;
  uint64_t seed = 11;
  size_t compared = 0;
  for (int n = 0; n < N_BODIES; n++) {
    struct stg_arena arena = {0};
    struct interpret_row row = {0};
    double by_tree[HIDDEN];
    double by_program[HIDDEN];
    const struct stg_op *op = random_op(&arena, &seed);
    fill_row(&row, &seed);
    bool is_tame = evaluate_body(op, &row, by_tree);
    interpret_program(&op->program, &row, by_program);
    double largest = 1;
    double worst = 0;
    for (size_t i = 0; i < HIDDEN && is_tame; i++) {
      largest = fmax(largest, fabs(by_tree[i]));
      worst = fmax(worst, fabs(by_program[i] - by_tree[i]));
    }
    /* norms of differences that nearly vanish keep half the digits */
    if (!(worst <= 1e-6 * largest)) {
      print_message("body %d differs by %g of %g:\n%s", n, worst, largest, op->canonical);
    }
    assert_true(worst <= 1e-6 * largest);
    compared += is_tame;
    stg_arena_finish(&arena);
  }
  assert_true(compared > N_BODIES / 2);
}

/* Compile the canonical text of `op`, under the names it uses, and compare. */
static void assert_reads_back(struct stg_arena *arena, const struct stg_op *op) {
  struct test_op text = {.vectors = {"v0", "v1"}, .params = {"p0", "p1"}};
  char *line = stg_arena_strdup(arena, op->canonical);
  for (size_t i = 0; *line != '\0'; i++) {
    text.body[i] = line;
    line += strcspn(line, "\n");
    *line++ = '\0';
  }
  const struct stg_op *again = must_compile(arena, &text);
  assert_string_equal(again->canonical, op->canonical);
  assert_true(stg_key_equal(again->body_hash, op->body_hash));
  assert_int_equal(again->program.n_instrs, op->program.n_instrs);
  assert_int_equal(again->program.scale, op->program.scale);
  for (uint32_t i = 0; i < op->program.n_instrs; i++) {
    assert_int_equal(again->program.instrs[i].kind, op->program.instrs[i].kind);
  }
}

static void canonical_text_reads_back_as_the_same_op(void **state) {
  (void)state;
  uint64_t seed = 12;
  for (int n = 0; n < N_BODIES; n++) {
    struct stg_arena arena = {0};
    assert_reads_back(&arena, random_op(&arena, &seed));
    stg_arena_finish(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_of_random_bodies_do_what_the_trees_say),
      cmocka_unit_test(canonical_text_reads_back_as_the_same_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
