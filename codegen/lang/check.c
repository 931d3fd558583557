/*
 * check.c: one pass over the nodes of a statement, operands first.
 *
 * A vector may be added to a vector, multiplied or divided by a scalar, negated, and chosen by a
 * condition: what is left is always a linear combination of h and the op's vectors, which is what
 * lowering relies on. Conditions live in `?:`, `&&`, `||`, `!` and requirements only.
 */
#include "codegen/lang/check.h"

static stg_status wrong_operand(const struct stg_node *user, const struct stg_node *operand,
                                enum stg_value_type wanted, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_FORMAT, "column %u: %s needs a %s here, not a %s",
                       operand->column,
                       user->kind == STG_NODE_SELECT ? "? :" : stg_node_text(user->kind),
                       stg_value_type_name(wanted), stg_value_type_name(operand->type));
}

/* All operands of one type, which gives the result's. */
static stg_status check_uniform(const struct stg_node *nodes, struct stg_node *node,
                                enum stg_value_type operand, enum stg_value_type result,
                                stg_error *reterr) {
  for (unsigned i = 0; i < stg_node_arity(node->kind); i++) {
    const struct stg_node *arg = &nodes[node->arg[i]];
    if (arg->type != operand) {
      return wrong_operand(node, arg, operand, reterr);
    }
  }
  node->type = result;
  return STG_OK;
}

/* + and -, and the two values of a conditional: both scalars or both vectors. */
static stg_status check_alike(struct stg_node *node, const struct stg_node *a,
                              const struct stg_node *b, stg_error *reterr) {
  if (a->type == STG_TYPE_BOOL) {
    return wrong_operand(node, a, STG_TYPE_SCALAR, reterr);
  }
  if (b->type != a->type) {
    return wrong_operand(node, b, a->type, reterr);
  }
  node->type = a->type;
  return STG_OK;
}

static stg_status check_negation(const struct stg_node *nodes, struct stg_node *node,
                                 stg_error *reterr) {
  const struct stg_node *arg = &nodes[node->arg[0]];
  if (arg->type == STG_TYPE_BOOL) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: - needs a scalar or a vector, not a condition; use !",
                         arg->column);
  }
  node->type = arg->type;
  return STG_OK;
}

static stg_status check_product(const struct stg_node *nodes, struct stg_node *node,
                                stg_error *reterr) {
  const struct stg_node *a = &nodes[node->arg[0]];
  const struct stg_node *b = &nodes[node->arg[1]];
  if (a->type == STG_TYPE_BOOL || b->type == STG_TYPE_BOOL) {
    return wrong_operand(node, a->type == STG_TYPE_BOOL ? a : b, STG_TYPE_SCALAR, reterr);
  }
  bool is_product = node->kind == STG_NODE_MUL;
  if (b->type == STG_TYPE_VECTOR && (!is_product || a->type == STG_TYPE_VECTOR)) {
    return stg_error_set(reterr, STG_E_FORMAT, "column %u: %s", node->column,
                         is_product ? "a vector cannot be multiplied by a vector; use dot(a, b)"
                                    : "nothing can be divided by a vector; use norm(a)");
  }
  node->type =
      a->type == STG_TYPE_VECTOR || b->type == STG_TYPE_VECTOR ? STG_TYPE_VECTOR : STG_TYPE_SCALAR;
  return STG_OK;
}

static stg_status check_conditional(const struct stg_node *nodes, struct stg_node *node,
                                    stg_error *reterr) {
  const struct stg_node *condition = &nodes[node->arg[0]];
  if (condition->type != STG_TYPE_BOOL) {
    return wrong_operand(node, condition, STG_TYPE_BOOL, reterr);
  }
  return check_alike(node, &nodes[node->arg[1]], &nodes[node->arg[2]], reterr);
}

static stg_status check_node(const struct stg_node *nodes, struct stg_node *node,
                             stg_error *reterr) {
  if (node->kind == STG_NODE_STATE || node->kind == STG_NODE_VECTOR) {
    node->type = STG_TYPE_VECTOR;
    return STG_OK;
  }
  if (node->kind == STG_NODE_NEG) {
    return check_negation(nodes, node, reterr);
  }
  if (node->kind == STG_NODE_ADD || node->kind == STG_NODE_SUB) {
    return check_alike(node, &nodes[node->arg[0]], &nodes[node->arg[1]], reterr);
  }
  if (node->kind == STG_NODE_MUL || node->kind == STG_NODE_DIV) {
    return check_product(nodes, node, reterr);
  }
  if (node->kind == STG_NODE_SELECT) {
    return check_conditional(nodes, node, reterr);
  }
  if (node->kind == STG_NODE_NOT || node->kind == STG_NODE_AND || node->kind == STG_NODE_OR) {
    return check_uniform(nodes, node, STG_TYPE_BOOL, STG_TYPE_BOOL, reterr);
  }
  if (stg_node_precedence(node->kind) == STG_PRECEDENCE_COMPARE) {
    return check_uniform(nodes, node, STG_TYPE_SCALAR, STG_TYPE_BOOL, reterr);
  }
  bool takes_vectors = node->kind == STG_NODE_DOT || node->kind == STG_NODE_NORM;
  return check_uniform(nodes, node, takes_vectors ? STG_TYPE_VECTOR : STG_TYPE_SCALAR,
                       STG_TYPE_SCALAR, reterr);
}

static stg_status check_range(struct stg_node *nodes, uint16_t first, uint16_t root,
                              stg_error *reterr) {
  stg_status status = STG_OK;
  for (unsigned i = first; i <= root && status == STG_OK; i++) {
    status = check_node(nodes, &nodes[i], reterr);
  }
  return status;
}

stg_status stg_check_require(struct stg_node *nodes, uint16_t first, uint16_t root,
                             stg_error *reterr) {
  for (unsigned i = first; i <= root; i++) {
    if (nodes[i].kind == STG_NODE_STATE || nodes[i].kind == STG_NODE_VECTOR) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "column %u: a requirement may use parameters and numbers only, not a "
                           "vector",
                           nodes[i].column);
    }
  }
  stg_status status = check_range(nodes, first, root, reterr);
  if (status == STG_OK && nodes[root].type != STG_TYPE_BOOL) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: a requirement must be a condition, not a %s; compare it with "
                         "something",
                         nodes[root].column, stg_value_type_name(nodes[root].type));
  }
  return status;
}

stg_status stg_check_statement(struct stg_node *nodes, uint16_t first,
                               const struct stg_statement *statement, stg_error *reterr) {
  stg_status status = check_range(nodes, first, statement->root, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_node *root = &nodes[statement->root];
  if (statement->kind == STG_STATEMENT_OUTPUT) {
    return root->type == STG_TYPE_SCALAR
               ? STG_OK
               : stg_error_set(reterr, STG_E_FORMAT,
                               "column %u: an output is a scalar, not a %s; write dot(h, v) or "
                               "c ? 1 : 0",
                               root->column, stg_value_type_name(root->type));
  }
  if (statement->kind == STG_STATEMENT_LET && root->type == STG_TYPE_VECTOR) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: names hold scalars, not vectors; write the vector where it is "
                         "used",
                         root->column);
  }
  if (statement->kind == STG_STATEMENT_LET && root->type == STG_TYPE_BOOL) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: names hold scalars, not conditions; write c ? 1 : 0",
                         root->column);
  }
  if (statement->kind != STG_STATEMENT_LET && root->type != STG_TYPE_VECTOR) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: h takes a vector, not a %s; multiply by the vector it goes "
                         "along",
                         root->column, stg_value_type_name(root->type));
  }
  return STG_OK;
}
