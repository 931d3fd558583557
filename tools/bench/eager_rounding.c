/*
 * bench/eager_rounding.c: see bench/eager_rounding.h.
 *
 * Walks the op's tree as the oracle does, with float32 and roundings where the oracle has doubles.
 */
#include "tools/bench/eager_rounding.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/oracle/evaluate.h"
#include "engine/oracle/worker.h"
#include "runtime/base/dtype.h"

#define LANES 64
#define CHUNK_ELEMS ((size_t)256)

/* A number per row: of a tensor, as the storage dtype holds it, or of Python. Conditions are 0
 * and 1. */
struct number {
  double value;
  bool is_tensor;
};

struct eval {
  const struct stg_oracle_op *call;
  size_t n;
  stg_dtype dtype;
  float *state;
  float *spare;
  struct number names[STG_OP_MAX_STATEMENTS];
};

static struct number scalar_at(struct eval *e, uint16_t index);
static void vector_at(struct eval *e, uint16_t index, float *ret);

static float round_one(stg_dtype dtype, float value) {
  uint32_t bits = 0;
  stg_store_f32(dtype, &bits, 0, value);
  return stg_load_f32(dtype, &bits, 0);
}

static void round_row(const struct eval *e, float *row) {
  uint16_t narrow[CHUNK_ELEMS];
  for (size_t done = 0; e->dtype != STG_F32 && done < e->n; done += CHUNK_ELEMS) {
    const size_t count = e->n - done < CHUNK_ELEMS ? e->n - done : CHUNK_ELEMS;
    stg_convert(e->dtype, narrow, STG_F32, row + done, count);
    stg_convert(STG_F32, row + done, e->dtype, narrow, count);
  }
}

static struct number python(double value) {
  return (struct number){.value = value};
}

/* The result of a call on tensors. */
static struct number tensor(const struct eval *e, float value) {
  return (struct number){.value = (double)round_one(e->dtype, value), .is_tensor = true};
}

static const struct stg_node *node_at(const struct eval *e, uint16_t index) {
  return &e->call->op->ast.nodes[index];
}

static float *take_row(struct eval *e) {
  float *row = e->spare;
  e->spare += e->n;
  return row;
}

static void return_row(struct eval *e) {
  e->spare -= e->n;
}

static float dot(const float *x, const float *y, size_t n) {
  float sums[LANES] = {0};
  for (size_t j = 0; j < n; j++) {
    sums[j % LANES] += x[j] * y[j];
  }
  for (size_t half = LANES / 2; half > 0; half /= 2) {
    for (size_t k = 0; k < half; k++) {
      sums[k] += sums[k + half];
    }
  }
  return sums[0];
}

/* NOLINTBEGIN(misc-no-recursion): the parser bounds the height of the tree by STG_OP_MAX_DEPTH */

static struct number dot_at(struct eval *e, const struct stg_node *node) {
  float *x = take_row(e);
  vector_at(e, node->arg[0], x);
  float *y = take_row(e);
  vector_at(e, node->arg[1], y);
  const float value = dot(x, y, e->n);
  return_row(e);
  return_row(e);
  return tensor(e, value);
}

static struct number norm_at(struct eval *e, const struct stg_node *node) {
  float *x = take_row(e);
  vector_at(e, node->arg[0], x);
  const float value = sqrtf(dot(x, x, e->n));
  return_row(e);
  return tensor(e, value);
}

static bool is_true(struct eval *e, uint16_t index) {
  return scalar_at(e, index).value != 0;
}

static bool compares(enum stg_node_kind kind, double x, double y) {
  if (kind == STG_NODE_LT || kind == STG_NODE_GE) {
    return kind == STG_NODE_LT ? x < y : x >= y;
  }
  if (kind == STG_NODE_LE || kind == STG_NODE_GT) {
    return kind == STG_NODE_LE ? x <= y : x > y;
  }
  return (kind == STG_NODE_EQ) == (x == y);
}

static bool condition_at(struct eval *e, const struct stg_node *node) {
  if (node->kind == STG_NODE_NOT) {
    return !is_true(e, node->arg[0]);
  }
  if (node->kind == STG_NODE_AND) {
    return is_true(e, node->arg[0]) && is_true(e, node->arg[1]);
  }
  if (node->kind == STG_NODE_OR) {
    return is_true(e, node->arg[0]) || is_true(e, node->arg[1]);
  }
  const double x = scalar_at(e, node->arg[0]).value;
  return compares(node->kind, x, scalar_at(e, node->arg[1]).value);
}

/*
 * Python numbers in double; beside a tensor everything is float32. Of float32 numbers, + - * / and
 * sqrt rounded to double and then to float32 are what float32 gives; the other functions are within
 * its last place.
 */
static struct number operator_at(struct eval *e, const struct stg_node *node) {
  struct stg_oracle_scalar operands[3];
  bool is_tensor = false;
  for (unsigned k = 0; k < stg_node_arity(node->kind); k++) {
    const struct number operand = scalar_at(e, node->arg[k]);
    operands[k] = stg_oracle_exact(operand.value);
    is_tensor = is_tensor || operand.is_tensor;
  }
  for (unsigned k = 0; is_tensor && k < stg_node_arity(node->kind); k++) {
    operands[k].value = (double)(float)operands[k].value;
  }
  const double value = stg_oracle_operator(node->kind, operands).value;
  return is_tensor ? tensor(e, (float)value) : python(value);
}

static struct number scalar_at(struct eval *e, uint16_t index) {
  const struct stg_node *node = node_at(e, index);
  if (node->kind == STG_NODE_NUMBER) {
    return python(node->number);
  }
  if (node->kind == STG_NODE_PARAM) {
    return python((double)e->call->params[node->ref]);
  }
  if (node->kind == STG_NODE_NAME) {
    return e->names[node->ref];
  }
  if (node->kind == STG_NODE_DOT) {
    return dot_at(e, node);
  }
  if (node->kind == STG_NODE_NORM) {
    return norm_at(e, node);
  }
  if (node->kind == STG_NODE_SELECT) {
    return scalar_at(e, is_true(e, node->arg[0]) ? node->arg[1] : node->arg[2]);
  }
  return node->type == STG_TYPE_BOOL ? python(condition_at(e, node)) : operator_at(e, node);
}

/* ret = ret + y, or - y. */
static void sum_at(struct eval *e, const struct stg_node *node, float *ret) {
  vector_at(e, node->arg[0], ret);
  float *y = take_row(e);
  vector_at(e, node->arg[1], y);
  const float sign = node->kind == STG_NODE_SUB ? -1.0F : 1.0F;
  for (size_t j = 0; j < e->n; j++) {
    ret[j] += sign * y[j];
  }
  return_row(e);
  round_row(e, ret);
}

static void product_at(struct eval *e, const struct stg_node *node, float *ret) {
  const bool left = node_at(e, node->arg[0])->type == STG_TYPE_VECTOR;
  const float factor = (float)scalar_at(e, node->arg[left ? 1 : 0]).value;
  vector_at(e, node->arg[left ? 0 : 1], ret);
  for (size_t j = 0; j < e->n; j++) {
    ret[j] *= factor;
  }
  round_row(e, ret);
}

static void quotient_at(struct eval *e, const struct stg_node *node, float *ret) {
  const float divisor = (float)scalar_at(e, node->arg[1]).value;
  vector_at(e, node->arg[0], ret);
  for (size_t j = 0; j < e->n; j++) {
    ret[j] /= divisor;
  }
  round_row(e, ret);
}

static void vector_at(struct eval *e, uint16_t index, float *ret) {
  const struct stg_node *node = node_at(e, index);
  if (node->kind == STG_NODE_STATE) {
    memcpy(ret, e->state, e->n * sizeof *ret);
  } else if (node->kind == STG_NODE_VECTOR) {
    for (size_t j = 0; j < e->n; j++) {
      ret[j] = (float)e->call->vectors[node->ref][j];
    }
  } else if (node->kind == STG_NODE_NEG) {
    vector_at(e, node->arg[0], ret);
    for (size_t j = 0; j < e->n; j++) {
      ret[j] = -ret[j];
    }
  } else if (node->kind == STG_NODE_ADD || node->kind == STG_NODE_SUB) {
    sum_at(e, node, ret);
  } else if (node->kind == STG_NODE_MUL) {
    product_at(e, node, ret);
  } else if (node->kind == STG_NODE_DIV) {
    quotient_at(e, node, ret);
  } else {
    assert(node->kind == STG_NODE_SELECT);
    vector_at(e, is_true(e, node->arg[0]) ? node->arg[1] : node->arg[2], ret);
  }
}

/* NOLINTEND(misc-no-recursion) */

static void assign(struct eval *e, const struct stg_statement *statement) {
  float *x = take_row(e);
  vector_at(e, statement->root, x);
  if (statement->kind == STG_STATEMENT_ADD) {
    for (size_t j = 0; j < e->n; j++) {
      e->state[j] += x[j];
    }
    round_row(e, e->state);
  } else {
    memcpy(e->state, x, e->n * sizeof *x);
  }
  return_row(e);
}

size_t stg_eager_rounding_spare(const struct stg_oracle_chain *chain) {
  return stg_oracle_chain_rows(chain);
}

void stg_eager_rounding_row(const struct stg_oracle_chain *chain, int64_t hidden_size,
                            stg_dtype dtype, float *row, float *spare) {
  for (size_t k = 0; k < chain->n_ops; k++) {
    struct eval e = {.call = &chain->ops[k],
                     .n = (size_t)hidden_size,
                     .dtype = dtype,
                     .state = row,
                     .spare = spare};
    const struct stg_ast *ast = &e.call->op->ast;
    for (uint16_t s = 0; s < ast->n_statements; s++) {
      const struct stg_statement *statement = &ast->statements[s];
      if (statement->kind == STG_STATEMENT_LET) {
        e.names[statement->ref] = scalar_at(&e, statement->root);
      } else {
        assign(&e, statement);
      }
    }
  }
}
