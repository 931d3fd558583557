/*
 * lower.c: walk the statements once and keep the state as a linear combination (combination.h).
 *
 * Scalars and conditions become values of the program, one instruction per node, in the order of
 * the text; nothing is contracted or reassociated. Vectors cost nothing until a dot, a norm or the
 * final state needs their factors.
 */
#include "codegen/lang/lower.h"

#include <assert.h>

#include "codegen/lang/combination.h"
#include "codegen/program_builder.h"
#include "runtime/base/alloc.h"

/* What a node stands for: a value, or a vector. */
struct meaning {
  uint32_t value;
  struct stg_combination vector;
};

struct lowering {
  struct stg_program_builder builder;
  const struct stg_ast *ast;
  struct meaning *meanings; /* by node */
  struct stg_combination state;
  uint32_t names[STG_OP_MAX_STATEMENTS];
};

/* The nodes whose instruction has the same name, operands in the same order. */
static bool plain_instr(enum stg_node_kind node, enum stg_instr_kind *ret_kind) {
#define ROW(name) [STG_NODE_##name] = 1 + STG_INSTR_##name
  static const unsigned char rows[STG_NODE_KINDS] = {
      ROW(NEG), ROW(NOT), ROW(ADD),  ROW(SUB), ROW(MUL), ROW(DIV),  ROW(LT),      ROW(LE),
      ROW(GT),  ROW(GE),  ROW(EQ),   ROW(NE),  ROW(AND), ROW(OR),   ROW(CLAMP),   ROW(MIN),
      ROW(MAX), ROW(ABS), ROW(SQRT), ROW(EXP), ROW(LOG), ROW(TANH), ROW(SIGMOID), ROW(SELECT),
  };
#undef ROW
  if (rows[node] == 0) {
    return false;
  }
  *ret_kind = (enum stg_instr_kind)(rows[node] - 1);
  return true;
}

static uint32_t lower_leaf(struct lowering *l, const struct stg_node *node) {
  if (node->kind == STG_NODE_NUMBER) {
    return stg_build_const(&l->builder, (float)node->number);
  }
  if (node->kind == STG_NODE_PARAM) {
    return stg_build_param(&l->builder, 0, node->ref);
  }
  assert(node->kind == STG_NODE_NAME);
  return l->names[node->ref];
}

/* A scalar or a condition. */
static uint32_t lower_value(struct lowering *l, const struct stg_node *node) {
  struct stg_program_builder *b = &l->builder;
  const struct meaning *arg[3] = {&l->meanings[node->arg[0]], &l->meanings[node->arg[1]],
                                  &l->meanings[node->arg[2]]};
  if (node->kind == STG_NODE_DOT) {
    return stg_combination_dot(b, &arg[0]->vector, &arg[1]->vector);
  }
  if (node->kind == STG_NODE_NORM) {
    return stg_combination_norm(b, &arg[0]->vector);
  }
  enum stg_instr_kind kind;
  if (!plain_instr(node->kind, &kind)) {
    return lower_leaf(l, node);
  }
  switch (stg_node_arity(node->kind)) {
  case 1:
    return stg_build_op1(b, kind, arg[0]->value);
  case 2:
    return stg_build_op2(b, kind, arg[0]->value, arg[1]->value);
  default:
    return stg_build_op3(b, kind, arg[0]->value, arg[1]->value, arg[2]->value);
  }
}

static struct stg_combination lower_vector(struct lowering *l, const struct stg_node *node) {
  struct stg_program_builder *b = &l->builder;
  const struct meaning *x = &l->meanings[node->arg[0]];
  const struct meaning *y = &l->meanings[node->arg[1]];
  const struct meaning *z = &l->meanings[node->arg[2]];
  if (node->kind == STG_NODE_STATE) {
    return l->state;
  }
  if (node->kind == STG_NODE_VECTOR) {
    return stg_combination_vector(node->ref);
  }
  if (node->kind == STG_NODE_NEG) {
    return stg_combination_neg(b, x->vector);
  }
  if (node->kind == STG_NODE_ADD) {
    return stg_combination_add(b, x->vector, y->vector);
  }
  if (node->kind == STG_NODE_SUB) {
    return stg_combination_sub(b, x->vector, y->vector);
  }
  if (node->kind == STG_NODE_SELECT) {
    return stg_combination_select(b, x->value, y->vector, z->vector);
  }
  if (node->kind == STG_NODE_DIV) {
    return stg_combination_div(b, x->vector, y->value);
  }
  assert(node->kind == STG_NODE_MUL);
  return l->ast->nodes[node->arg[0]].type == STG_TYPE_VECTOR
             ? stg_combination_mul(b, x->vector, y->value)
             : stg_combination_mul(b, y->vector, x->value);
}

static void lower_statement(struct lowering *l, uint32_t first,
                            const struct stg_statement *statement) {
  for (uint32_t i = first; i <= statement->root; i++) {
    const struct stg_node *node = &l->ast->nodes[i];
    if (node->type == STG_TYPE_VECTOR) {
      l->meanings[i].vector = lower_vector(l, node);
    } else {
      l->meanings[i].value = lower_value(l, node);
    }
  }
  const struct meaning *root = &l->meanings[statement->root];
  switch (statement->kind) {
  case STG_STATEMENT_LET:
    l->names[statement->ref] = root->value;
    break;
  case STG_STATEMENT_SET:
    l->state = root->vector;
    break;
  case STG_STATEMENT_ADD:
    l->state = stg_combination_add(&l->builder, l->state, root->vector);
    break;
  case STG_STATEMENT_OUTPUT:
    stg_build_output(&l->builder, stg_build_param(&l->builder, 0, statement->ref), root->value);
    break;
  }
}

stg_status stg_lower_op(struct stg_arena *arena, const struct stg_ast *ast, uint32_t n_vectors,
                        struct stg_program *ret_program, stg_error *reterr) {
  struct lowering l = {
      .builder = {.n_vectors = n_vectors, .n_ops = 1},
      .ast = ast,
      .meanings = stg_calloc((size_t)ast->n_nodes + 1, sizeof *l.meanings),
      .state = stg_combination_state(),
  };
  if (l.meanings == NULL) {
    return stg_error_memory(reterr, "an op's program", ast->n_nodes * sizeof *l.meanings);
  }
  uint32_t first = ast->n_require == 0 ? 0 : ast->require[ast->n_require - 1] + 1u;
  for (uint16_t i = 0; i < ast->n_statements; i++) {
    lower_statement(&l, first, &ast->statements[i]);
    first = ast->statements[i].root + 1u;
  }
  uint32_t scale = stg_combination_factor(&l.builder, l.state.h, STG_FACTOR_ONE);
  uint32_t coef[STG_OP_MAX_VECTORS];
  for (uint32_t k = 0; k < n_vectors; k++) {
    coef[k] = stg_combination_factor(&l.builder, l.state.v[k], STG_FACTOR_ZERO);
  }
  stg_status status = stg_build_finish(&l.builder, arena, scale, coef, ret_program, reterr);
  stg_build_abandon(&l.builder);
  stg_free(l.meanings);
  return status;
}
