/*
 * emit.c: the canonical printer of op bodies. Knows the tree only, never the text it came from.
 */
#include "codegen/lang/emit.h"

struct emitter {
  const struct stg_ast *ast;
  const char *const *params;
  struct stg_strbuf *out;
};

static void emit_leaf(const struct emitter *e, const struct stg_node *node) {
  if (node->kind == STG_NODE_NUMBER) {
    stg_strbuf_float(e->out, (float)node->number);
  } else if (node->kind == STG_NODE_STATE) {
    stg_strbuf_char(e->out, 'h');
  } else if (node->kind == STG_NODE_PARAM && e->params != NULL) {
    stg_strbuf_str(e->out, e->params[node->ref]);
  } else {
    const char *letter = node->kind == STG_NODE_PARAM    ? "p"
                         : node->kind == STG_NODE_VECTOR ? "v"
                                                         : "t";
    stg_strbuf_printf(e->out, "%s%u", letter, node->ref);
  }
}

static void emit_node(const struct emitter *e, uint16_t index);

/* NOLINTBEGIN(misc-no-recursion): the parser bounds the height of the tree by STG_OP_MAX_DEPTH */

/* In parentheses when it binds less tightly than its place asks. */
static void emit_operand(const struct emitter *e, uint16_t index, enum stg_precedence at_least) {
  if (stg_node_precedence(e->ast->nodes[index].kind) >= at_least) {
    emit_node(e, index);
    return;
  }
  stg_strbuf_char(e->out, '(');
  emit_node(e, index);
  stg_strbuf_char(e->out, ')');
}

static void emit_call(const struct emitter *e, const struct stg_node *node) {
  stg_strbuf_printf(e->out, "%s(", stg_node_text(node->kind));
  for (unsigned i = 0; i < stg_node_arity(node->kind); i++) {
    stg_strbuf_str(e->out, i == 0 ? "" : ", ");
    emit_node(e, node->arg[i]);
  }
  stg_strbuf_char(e->out, ')');
}

static void emit_node(const struct emitter *e, uint16_t index) {
  const struct stg_node *node = &e->ast->nodes[index];
  enum stg_precedence own = stg_node_precedence(node->kind);
  enum stg_precedence tighter = (enum stg_precedence)(own + 1);
  if (stg_node_arity(node->kind) == 0) {
    emit_leaf(e, node);
  } else if (stg_node_is_function(node->kind)) {
    emit_call(e, node);
  } else if (own == STG_PRECEDENCE_SELECT) {
    emit_operand(e, node->arg[0], tighter);
    stg_strbuf_str(e->out, " ? ");
    emit_node(e, node->arg[1]);
    stg_strbuf_str(e->out, " : ");
    emit_node(e, node->arg[2]);
  } else if (own == STG_PRECEDENCE_UNARY) {
    stg_strbuf_str(e->out, stg_node_text(node->kind));
    emit_operand(e, node->arg[0], own);
  } else {
    emit_operand(e, node->arg[0], own == STG_PRECEDENCE_COMPARE ? tighter : own);
    stg_strbuf_printf(e->out, " %s ", stg_node_text(node->kind));
    emit_operand(e, node->arg[1], tighter);
  }
}

/* NOLINTEND(misc-no-recursion) */

void stg_emit_expression(const struct stg_ast *ast, uint16_t root, const char *const *params,
                         struct stg_strbuf *out) {
  struct emitter emitter = {.ast = ast, .params = params, .out = out};
  emit_node(&emitter, root);
}

void stg_emit_body(const struct stg_ast *ast, struct stg_strbuf *out) {
  for (uint16_t i = 0; i < ast->n_statements; i++) {
    const struct stg_statement *statement = &ast->statements[i];
    if (statement->kind == STG_STATEMENT_LET) {
      stg_strbuf_printf(out, "t%u = ", statement->ref);
    } else if (statement->kind == STG_STATEMENT_OUTPUT) {
      stg_strbuf_printf(out, "out[p%u] = ", statement->ref);
    } else {
      stg_strbuf_str(out, statement->kind == STG_STATEMENT_SET ? "h = " : "h += ");
    }
    stg_emit_expression(ast, statement->root, NULL, out);
    stg_strbuf_char(out, '\n');
  }
}
