/*
 * oracle/evaluate.c: statements of an op body over whole rows, as they are written.
 *
 * Vector expressions are computed element by element into scratch rows, dots by a plain loop:
 * what a reader of the op file would do by hand. It must not know of the scalar program, of the
 * storage dtype or of bounds.
 */
#include "engine/oracle/evaluate.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static struct stg_oracle_scalar scalar_at(struct stg_oracle_eval *e, uint16_t index);
static void vector_at(struct stg_oracle_eval *e, uint16_t index, struct stg_oracle_vector *ret);

static const struct stg_node *node_at(const struct stg_oracle_eval *e, uint16_t index) {
  return &e->call->op->ast.nodes[index];
}

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

/* Rows in use while operand k of the node is evaluated, by how vector_at and scalar_at hold them.
 */
static size_t rows_held(const struct stg_node *node, unsigned k) {
  if (node->kind == STG_NODE_DOT) {
    return k + 1;
  }
  if (node->kind == STG_NODE_NORM) {
    return 1;
  }
  return node->type == STG_TYPE_VECTOR && (node->kind == STG_NODE_ADD || node->kind == STG_NODE_SUB)
             ? k
             : 0;
}

/* NOLINTBEGIN(misc-no-recursion): the parser bounds the height of the tree by STG_OP_MAX_DEPTH */

static size_t rows_needed(const struct stg_ast *ast, uint16_t index) {
  const struct stg_node *node = &ast->nodes[index];
  size_t rows = 0;
  for (unsigned k = 0; k < stg_node_arity(node->kind); k++) {
    rows = larger(rows, rows_held(node, k) + rows_needed(ast, node->arg[k]));
  }
  return rows;
}

size_t stg_oracle_spare_rows(const struct stg_ast *ast) {
  size_t rows = 0;
  for (uint16_t s = 0; s < ast->n_statements; s++) {
    rows = larger(rows, 1 + rows_needed(ast, ast->statements[s].root));
  }
  return rows;
}

static double *take_row(struct stg_oracle_eval *e) {
  double *row = e->spare;
  e->spare += e->n;
  return row;
}

static void return_row(struct stg_oracle_eval *e) {
  e->spare -= e->n;
}

static struct stg_oracle_scalar dot_at(struct stg_oracle_eval *e, const struct stg_node *node) {
  struct stg_oracle_vector x = {.elements = take_row(e)};
  vector_at(e, node->arg[0], &x);
  struct stg_oracle_vector y = {.elements = take_row(e)};
  vector_at(e, node->arg[1], &y);
  double value = stg_oracle_naive_dot(x.elements, y.elements, e->n);
  return_row(e);
  return_row(e);
  return e->run == NULL ? stg_oracle_exact(value)
                        : stg_oracle_run_dot(e->run, e->index, &x, &y, value);
}

static struct stg_oracle_scalar norm_at(struct stg_oracle_eval *e, const struct stg_node *node) {
  struct stg_oracle_vector x = {.elements = take_row(e)};
  vector_at(e, node->arg[0], &x);
  double value = sqrt(stg_oracle_naive_dot(x.elements, x.elements, e->n));
  return_row(e);
  return e->run == NULL ? stg_oracle_exact(value)
                        : stg_oracle_run_norm(e->run, e->index, &x, value);
}

static bool compares(enum stg_node_kind kind, double x, double y) {
  if (kind == STG_NODE_LT) {
    return x < y;
  }
  if (kind == STG_NODE_LE) {
    return x <= y;
  }
  if (kind == STG_NODE_GT) {
    return x > y;
  }
  if (kind == STG_NODE_GE) {
    return x >= y;
  }
  return (kind == STG_NODE_EQ) == (x == y);
}

static bool comparison_at(struct stg_oracle_eval *e, uint16_t index) {
  const struct stg_node *node = node_at(e, index);
  struct stg_oracle_scalar x = scalar_at(e, node->arg[0]);
  struct stg_oracle_scalar y = scalar_at(e, node->arg[1]);
  bool outcome = compares(node->kind, x.value, y.value);
  if (e->replay) {
    return e->outcomes[index] < 0 ? outcome : e->outcomes[index] != 0;
  }
  if (e->run != NULL) {
    outcome = stg_oracle_run_decide(e->run, x, y, outcome);
  }
  e->outcomes[index] = (signed char)outcome;
  return outcome;
}

static bool is_true(struct stg_oracle_eval *e, uint16_t index) {
  return scalar_at(e, index).value != 0;
}

static struct stg_oracle_scalar operator_at(struct stg_oracle_eval *e,
                                            const struct stg_node *node) {
  struct stg_oracle_scalar operands[3];
  for (unsigned k = 0; k < stg_node_arity(node->kind); k++) {
    operands[k] = scalar_at(e, node->arg[k]);
  }
  return stg_oracle_operator(node->kind, operands);
}

/* A number, or a condition as 0 and 1. */
static struct stg_oracle_scalar scalar_at(struct stg_oracle_eval *e, uint16_t index) {
  const struct stg_node *node = node_at(e, index);
  switch (node->kind) {
  case STG_NODE_NUMBER:
    return stg_oracle_exact(node->number);
  case STG_NODE_PARAM:
    return stg_oracle_exact((double)e->call->params[node->ref]);
  case STG_NODE_NAME:
    return e->names[node->ref];
  case STG_NODE_DOT:
    return dot_at(e, node);
  case STG_NODE_NORM:
    return norm_at(e, node);
  case STG_NODE_LT:
  case STG_NODE_LE:
  case STG_NODE_GT:
  case STG_NODE_GE:
  case STG_NODE_EQ:
  case STG_NODE_NE:
    return stg_oracle_exact(comparison_at(e, index));
  case STG_NODE_NOT:
    return stg_oracle_exact(!is_true(e, node->arg[0]));
  case STG_NODE_AND:
    return stg_oracle_exact(is_true(e, node->arg[0]) && is_true(e, node->arg[1]));
  case STG_NODE_OR:
    return stg_oracle_exact(is_true(e, node->arg[0]) || is_true(e, node->arg[1]));
  case STG_NODE_SELECT:
    return scalar_at(e, is_true(e, node->arg[0]) ? node->arg[1] : node->arg[2]);
  case STG_NODE_NEG:
  case STG_NODE_ADD:
  case STG_NODE_SUB:
  case STG_NODE_MUL:
  case STG_NODE_DIV:
  case STG_NODE_CLAMP:
  case STG_NODE_MIN:
  case STG_NODE_MAX:
  case STG_NODE_ABS:
  case STG_NODE_SQRT:
  case STG_NODE_EXP:
  case STG_NODE_LOG:
  case STG_NODE_TANH:
  case STG_NODE_SIGMOID:
    return operator_at(e, node);
  case STG_NODE_STATE:
  case STG_NODE_VECTOR:
  case STG_NODE_KINDS:
    break;
  }
  assert(false); /* a vector where the checker saw a scalar */
  return stg_oracle_exact(0);
}

/* x += sign * y, or x -= y. */
static void accumulate(struct stg_oracle_eval *e, const struct stg_oracle_vector *y, bool subtract,
                       struct stg_oracle_vector *x) {
  for (int64_t j = 0; j < e->n; j++) {
    x->elements[j] += subtract ? -y->elements[j] : y->elements[j];
  }
  x->state = subtract ? stg_oracle_sub(x->state, y->state) : stg_oracle_add(x->state, y->state);
  for (size_t k = 0; k < STG_OP_MAX_VECTORS; k++) {
    x->vectors[k] = subtract ? stg_oracle_sub(x->vectors[k], y->vectors[k])
                             : stg_oracle_add(x->vectors[k], y->vectors[k]);
  }
}

static void multiply(struct stg_oracle_eval *e, struct stg_oracle_scalar factor,
                     struct stg_oracle_vector *x) {
  for (int64_t j = 0; j < e->n; j++) {
    x->elements[j] *= factor.value;
  }
  x->state = stg_oracle_mul(factor, x->state);
  for (size_t k = 0; k < STG_OP_MAX_VECTORS; k++) {
    x->vectors[k] = stg_oracle_mul(factor, x->vectors[k]);
  }
}

static void divide(struct stg_oracle_eval *e, struct stg_oracle_scalar divisor,
                   struct stg_oracle_vector *x) {
  for (int64_t j = 0; j < e->n; j++) {
    x->elements[j] /= divisor.value;
  }
  x->state = stg_oracle_div(x->state, divisor);
  for (size_t k = 0; k < STG_OP_MAX_VECTORS; k++) {
    x->vectors[k] = stg_oracle_div(x->vectors[k], divisor);
  }
}

static void sum_at(struct stg_oracle_eval *e, const struct stg_node *node,
                   struct stg_oracle_vector *ret) {
  vector_at(e, node->arg[0], ret);
  struct stg_oracle_vector y = {.elements = take_row(e)};
  vector_at(e, node->arg[1], &y);
  accumulate(e, &y, node->kind == STG_NODE_SUB, ret);
  return_row(e);
}

static void product_at(struct stg_oracle_eval *e, const struct stg_node *node,
                       struct stg_oracle_vector *ret) {
  bool left = node_at(e, node->arg[0])->type == STG_TYPE_VECTOR;
  struct stg_oracle_scalar factor = scalar_at(e, node->arg[left ? 1 : 0]);
  vector_at(e, node->arg[left ? 0 : 1], ret);
  multiply(e, factor, ret);
}

/* h or a vector of the op. */
static void leaf_at(struct stg_oracle_eval *e, const struct stg_node *node,
                    struct stg_oracle_vector *ret) {
  bool is_state = node->kind == STG_NODE_STATE;
  const double *source = is_state ? e->state : e->call->vectors[node->ref];
  *ret = (struct stg_oracle_vector){.elements = ret->elements};
  *(is_state ? &ret->state : &ret->vectors[node->ref]) = stg_oracle_exact(1);
  memcpy(ret->elements, source, (size_t)e->n * sizeof *source);
}

/* ret->elements is the caller's; everything else of *ret is set. */
static void vector_at(struct stg_oracle_eval *e, uint16_t index, struct stg_oracle_vector *ret) {
  const struct stg_node *node = node_at(e, index);
  if (node->kind == STG_NODE_STATE || node->kind == STG_NODE_VECTOR) {
    leaf_at(e, node, ret);
  } else if (node->kind == STG_NODE_NEG) {
    vector_at(e, node->arg[0], ret);
    multiply(e, stg_oracle_exact(-1), ret);
  } else if (node->kind == STG_NODE_ADD || node->kind == STG_NODE_SUB) {
    sum_at(e, node, ret);
  } else if (node->kind == STG_NODE_MUL) {
    product_at(e, node, ret);
  } else if (node->kind == STG_NODE_DIV) {
    vector_at(e, node->arg[0], ret);
    divide(e, scalar_at(e, node->arg[1]), ret);
  } else {
    assert(node->kind == STG_NODE_SELECT);
    vector_at(e, is_true(e, node->arg[0]) ? node->arg[1] : node->arg[2], ret);
  }
}

/* NOLINTEND(misc-no-recursion) */

/*
 * What `h = x` adds to element j of h. Where h is not finite there is no difference to take, but an
 * x that keeps h as it is adds its vectors alone.
 */
static double difference(const struct stg_oracle_eval *e, const struct stg_oracle_vector *x,
                         int64_t j) {
  if (isfinite(e->state[j]) || x->state.value != 1) {
    return x->elements[j] - e->state[j];
  }
  double sum = 0;
  for (size_t k = 0; k < e->call->op->n_vectors; k++) {
    sum += x->vectors[k].value * e->call->vectors[k][j];
  }
  return sum;
}

static void assign(struct stg_oracle_eval *e, const struct stg_statement *statement) {
  struct stg_oracle_vector x = {.elements = take_row(e)};
  bool adds = statement->kind == STG_STATEMENT_ADD;
  vector_at(e, statement->root, &x);
  for (int64_t j = 0; j < e->n; j++) {
    if (e->update != NULL) {
      e->update[j] += adds ? x.elements[j] : difference(e, &x, j);
    }
    e->state[j] = adds ? e->state[j] + x.elements[j] : x.elements[j];
  }
  if (adds) {
    x.state = stg_oracle_add(stg_oracle_exact(1), x.state);
  }
  if (e->run != NULL) {
    stg_oracle_run_set(e->run, e->index, &x);
  }
  return_row(e);
}

/* A cell is rounded once more, to float32. */
static void give_out(struct stg_oracle_eval *e, const struct stg_statement *statement) {
  const struct stg_oracle_scalar value = scalar_at(e, statement->root);
  if (e->run != NULL) {
    e->run->cells[e->run->n_cells++] = (struct stg_oracle_cell){
        .column = (size_t)e->call->params[statement->ref],
        .ref = value.value,
        .bound = value.error + 0x1p-24 * fabs(value.value) + 0x1p-149,
    };
  }
}

void stg_oracle_evaluate(struct stg_oracle_eval *eval, uint16_t first, uint16_t end) {
  const struct stg_ast *ast = &eval->call->op->ast;
  for (uint16_t s = first; s < end; s++) {
    const struct stg_statement *statement = &ast->statements[s];
    if (statement->kind == STG_STATEMENT_OUTPUT) {
      give_out(eval, statement);
      continue;
    }
    if (statement->kind != STG_STATEMENT_LET) {
      assign(eval, statement);
      continue;
    }
    struct stg_oracle_scalar value = scalar_at(eval, statement->root);
    if (value.id == 0 && eval->run != NULL) {
      value.id = ++eval->run->last_id;
    }
    eval->names[statement->ref] = value;
  }
}
