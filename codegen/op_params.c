/*
 * op_params.c: may an op be called with these parameter values?
 *
 * Requirements are evaluated from the tree in double, which holds every float32 exactly, so a
 * comparison of parameters is exact.
 */
#include <assert.h>
#include <math.h>

#include "codegen/lang/emit.h"
#include "codegen/op.h"

static double clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/* Operators and functions of scalars and conditions; a condition is 0 or 1. */
static double evaluate_call(enum stg_node_kind kind, double x, double y, double z) {
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
      [STG_NODE_CLAMP] = clamp(x, y, z),
      [STG_NODE_MIN] = y < x ? y : x,
      [STG_NODE_MAX] = y > x ? y : x,
      [STG_NODE_ABS] = fabs(x),
      [STG_NODE_SQRT] = sqrt(x),
      [STG_NODE_EXP] = exp(x),
      [STG_NODE_LOG] = log(x),
      [STG_NODE_TANH] = tanh(x),
      [STG_NODE_SIGMOID] = 1 / (1 + exp(-x)),
  };
  return values[kind];
}

/* NOLINTBEGIN(misc-no-recursion): the parser bounds the height of the tree by STG_OP_MAX_DEPTH */
static double evaluate(const struct stg_op *op, uint16_t root, const float *params) {
  const struct stg_node *node = &op->ast.nodes[root];
  if (node->kind == STG_NODE_NUMBER) {
    return node->number;
  }
  if (node->kind == STG_NODE_PARAM) {
    return (double)params[node->ref];
  }
  double args[3] = {0, 0, 0};
  for (unsigned i = 0; i < stg_node_arity(node->kind); i++) {
    args[i] = evaluate(op, node->arg[i], params);
  }
  return evaluate_call(node->kind, args[0], args[1], args[2]);
}
/* NOLINTEND(misc-no-recursion) */

/* "op 'x': requires min <= max, but min = 3, max = 1" */
static stg_status not_met(const struct stg_op *op, uint16_t root, const float *params,
                          stg_error *reterr) {
  const char *names[STG_OP_MAX_PARAMS];
  for (size_t i = 0; i < op->n_params; i++) {
    names[i] = op->params[i].name;
  }
  struct stg_strbuf text = {0};
  stg_emit_expression(&op->ast, root, names, &text);
  for (size_t i = 0; i < op->n_params; i++) {
    stg_strbuf_printf(&text, "%s%s = ", i == 0 ? ", but " : ", ", names[i]);
    stg_strbuf_float(&text, params[i]);
  }
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    status = stg_error_set(reterr, STG_E_INVALID, "op '%s' requires %s", op->name,
                           stg_strbuf_text(&text));
  }
  stg_strbuf_finish(&text);
  return status;
}

static stg_status check_column(const struct stg_op *op, float column, stg_error *reterr) {
  if (column >= 0 && column <= STG_OP_MAX_COLUMN && column == truncf(column)) {
    return STG_OK;
  }
  struct stg_strbuf text = {0};
  stg_strbuf_float(&text, column);
  stg_status status =
      stg_error_set(reterr, STG_E_INVALID, "op '%s': column %s is no integer from 0 to %d",
                    op->name, stg_strbuf_text(&text), STG_OP_MAX_COLUMN);
  stg_strbuf_finish(&text);
  return status;
}

stg_status stg_op_check_params(const struct stg_op *op, const float *params, stg_error *reterr) {
  for (size_t i = 0; i < op->n_params; i++) {
    const struct stg_op_param *param = &op->params[i];
    if (isnan(params[i])) {
      return stg_error_set(reterr, STG_E_INVALID, "op '%s': parameter '%s' is NaN; give a number",
                           op->name, param->name);
    }
    bool may_be_infinite = param->has_default && isinf(param->default_value);
    if (isinf(params[i]) && !may_be_infinite) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "op '%s': parameter '%s' is %s; give a finite number", op->name,
                           param->name, params[i] > 0 ? "inf" : "-inf");
    }
  }
  if (op->has_output) {
    stg_status status = check_column(op, params[op->column], reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  for (uint16_t i = 0; i < op->ast.n_require; i++) {
    if (evaluate(op, op->ast.require[i], params) == 0) {
      return not_met(op, op->ast.require[i], params, reterr);
    }
  }
  return STG_OK;
}
