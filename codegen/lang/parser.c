/*
 * parser.c: precedence climbing over the tokens of one statement. Knows names, but no types.
 *
 *   statement   name "=" expression | "h" "=" expression | "h" "+=" expression
 *   expression  binary [ "?" expression ":" expression ]
 *   binary      unary { operator unary }      || then && then comparison then + - then * /
 *   unary       { "-" | "!" } primary
 *   primary     number | name | function "(" expression { "," expression } ")" | "(" expression ")"
 *
 * Recursion is bounded by STG_OP_MAX_DEPTH (enter), and so is the height of the tree (add_node),
 * so that whoever walks it may recurse too.
 */
#include "codegen/lang/parser.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* Tokens that are binary operators; how tightly they bind is the node's affair. */
static bool binary_node(enum stg_token_kind token, enum stg_node_kind *ret_kind) {
  static const struct {
    enum stg_token_kind token;
    enum stg_node_kind node;
  } rows[] = {
      {STG_TOKEN_ADD, STG_NODE_ADD}, {STG_TOKEN_SUB, STG_NODE_SUB}, {STG_TOKEN_MUL, STG_NODE_MUL},
      {STG_TOKEN_DIV, STG_NODE_DIV}, {STG_TOKEN_LT, STG_NODE_LT},   {STG_TOKEN_LE, STG_NODE_LE},
      {STG_TOKEN_GT, STG_NODE_GT},   {STG_TOKEN_GE, STG_NODE_GE},   {STG_TOKEN_EQ, STG_NODE_EQ},
      {STG_TOKEN_NE, STG_NODE_NE},   {STG_TOKEN_AND, STG_NODE_AND}, {STG_TOKEN_OR, STG_NODE_OR},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].token == token) {
      *ret_kind = rows[i].node;
      return true;
    }
  }
  return false;
}

static stg_status advance(struct stg_parser *p, stg_error *reterr) {
  return stg_lexer_next(&p->lexer, &p->token, reterr);
}

static stg_status unexpected(const struct stg_parser *p, const char *expected, stg_error *reterr) {
  if (p->token.kind == STG_TOKEN_END) {
    return stg_error_set(reterr, STG_E_FORMAT, "column %u: expected %s, found the end",
                         p->token.column, expected);
  }
  return stg_error_set(reterr, STG_E_FORMAT, "column %u: expected %s, found '%.*s'",
                       p->token.column, expected, (int)p->token.len, p->token.text);
}

static stg_status expect(struct stg_parser *p, enum stg_token_kind kind, const char *expected,
                         stg_error *reterr) {
  return p->token.kind == kind ? advance(p, reterr) : unexpected(p, expected, reterr);
}

static stg_status too_deep(unsigned column, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_FORMAT,
                       "column %u: nested deeper than %d levels; assign a part to a name first",
                       column, STG_OP_MAX_DEPTH);
}

static stg_status enter(struct stg_parser *p, stg_error *reterr) {
  if (p->depth == STG_OP_MAX_DEPTH) {
    return too_deep(p->token.column, reterr);
  }
  p->depth++;
  return STG_OK;
}

/* Append `node`, whose operands are there already. */
static stg_status add_node(struct stg_parser *p, struct stg_node node, uint16_t *ret_node,
                           stg_error *reterr) {
  uint8_t height = 0;
  for (unsigned i = 0; i < stg_node_arity(node.kind); i++) {
    uint8_t below = p->heights[node.arg[i]];
    height = below > height ? below : height;
  }
  if (height == STG_OP_MAX_DEPTH) {
    return too_deep(node.column, reterr);
  }
  if (p->n_nodes == p->capacity) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: the op has more than %u operands and operators; split it",
                         node.column, p->capacity);
  }
  p->nodes[p->n_nodes] = node;
  p->heights[p->n_nodes] = (uint8_t)(height + 1);
  *ret_node = p->n_nodes++;
  return STG_OK;
}

static stg_status parse_conditional(struct stg_parser *p, uint16_t *ret_root, stg_error *reterr);

/* NOLINTBEGIN(misc-no-recursion): bounded by enter() */

/* The operands of a call, its '(' being the next token. */
static stg_status parse_call(struct stg_parser *p, enum stg_node_kind kind, uint16_t column,
                             uint16_t *ret_root, stg_error *reterr) {
  struct stg_node node = {.kind = kind, .column = column};
  unsigned n_args = 0;
  stg_status status = enter(p, reterr);
  do {
    if (status == STG_OK) {
      status = advance(p, reterr); /* '(' or ',' */
    }
    uint16_t arg = 0;
    if (status == STG_OK) {
      status = parse_conditional(p, &arg, reterr);
    }
    if (status != STG_OK) {
      return status;
    }
    if (n_args < stg_node_arity(kind)) {
      node.arg[n_args] = arg;
    }
    n_args++;
  } while (p->token.kind == STG_TOKEN_COMMA);
  status = expect(p, STG_TOKEN_CLOSE, "',' or ')'", reterr);
  if (status != STG_OK) {
    return status;
  }
  p->depth--;
  unsigned arity = stg_node_arity(kind);
  if (n_args != arity) {
    return stg_error_set(reterr, STG_E_FORMAT, "column %u: %s takes %u argument%s, not %u", column,
                         stg_node_text(kind), arity, arity == 1 ? "" : "s", n_args);
  }
  return add_node(p, node, ret_root, reterr);
}

/* A name: a call when '(' follows, otherwise what the scope says. */
static stg_status parse_name(struct stg_parser *p, uint16_t *ret_root, stg_error *reterr) {
  struct stg_token name = p->token;
  int shown = (int)name.len;
  stg_status status = advance(p, reterr);
  if (status != STG_OK) {
    return status;
  }
  enum stg_node_kind kind = STG_NODE_NAME;
  bool is_function = stg_function_find(name.text, name.len, &kind);
  if (p->token.kind == STG_TOKEN_OPEN) {
    if (!is_function) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "column %u: unknown function '%.*s'; there are dot, norm, clamp, min, "
                           "max, abs, sqrt, exp, log, tanh and sigmoid",
                           name.column, shown, name.text);
    }
    return parse_call(p, kind, name.column, ret_root, reterr);
  }
  struct stg_node node = {.column = name.column};
  if (stg_scope_find(p->scope, name.text, name.len, &node.kind, &node.ref)) {
    node.number = node.kind == STG_NODE_NUMBER ? (double)INFINITY : 0; /* `inf` */
    return add_node(p, node, ret_root, reterr);
  }
  if (is_function) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: '%.*s' is a function; write its arguments in parentheses",
                         name.column, shown, name.text);
  }
  return stg_error_set(reterr, STG_E_FORMAT,
                       "column %u: unknown name '%.*s'; names, parameters and vectors are declared "
                       "first",
                       name.column, shown, name.text);
}

static stg_status parse_primary(struct stg_parser *p, uint16_t *ret_root, stg_error *reterr) {
  if (p->token.kind == STG_TOKEN_NAME) {
    return parse_name(p, ret_root, reterr);
  }
  if (p->token.kind == STG_TOKEN_NUMBER) {
    struct stg_node node = {
        .kind = STG_NODE_NUMBER, .column = p->token.column, .number = (double)p->token.number};
    stg_status status = advance(p, reterr);
    return status == STG_OK ? add_node(p, node, ret_root, reterr) : status;
  }
  if (p->token.kind != STG_TOKEN_OPEN) {
    return unexpected(p, "a number, a name or '('", reterr);
  }
  stg_status status = enter(p, reterr);
  if (status == STG_OK) {
    status = advance(p, reterr);
  }
  if (status == STG_OK) {
    status = parse_conditional(p, ret_root, reterr);
  }
  if (status == STG_OK) {
    status = expect(p, STG_TOKEN_CLOSE, "an operator or ')'", reterr);
    p->depth--;
  }
  return status;
}

static stg_status parse_unary(struct stg_parser *p, uint16_t *ret_root, stg_error *reterr) {
  struct stg_node node = {.column = p->token.column};
  if (p->token.kind == STG_TOKEN_SUB) {
    node.kind = STG_NODE_NEG;
  } else if (p->token.kind == STG_TOKEN_NOT) {
    node.kind = STG_NODE_NOT;
  } else {
    return parse_primary(p, ret_root, reterr);
  }
  stg_status status = enter(p, reterr);
  if (status == STG_OK) {
    status = advance(p, reterr);
  }
  if (status == STG_OK) {
    status = parse_unary(p, &node.arg[0], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  p->depth--;
  return add_node(p, node, ret_root, reterr);
}

/* Operators that bind at least as tightly as `loosest`. */
static stg_status parse_binary(struct stg_parser *p, enum stg_precedence loosest,
                               uint16_t *ret_root, stg_error *reterr) {
  uint16_t root = 0;
  stg_status status = parse_unary(p, &root, reterr);
  bool compared = false;
  struct stg_node node = {0};
  while (status == STG_OK && binary_node(p->token.kind, &node.kind)) {
    enum stg_precedence precedence = stg_node_precedence(node.kind);
    if (precedence < loosest) {
      break;
    }
    if (precedence == STG_PRECEDENCE_COMPARE && compared) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "column %u: comparisons do not chain; join two with && or use "
                           "parentheses",
                           p->token.column);
    }
    /* anything looser than a comparison starts a new operand, which may hold one again */
    compared = precedence == STG_PRECEDENCE_COMPARE;
    node.column = p->token.column;
    node.arg[0] = root;
    status = advance(p, reterr);
    if (status == STG_OK) {
      status = parse_binary(p, (enum stg_precedence)(precedence + 1), &node.arg[1], reterr);
    }
    if (status == STG_OK) {
      status = add_node(p, node, &root, reterr);
    }
  }
  if (status == STG_OK) {
    *ret_root = root;
  }
  return status;
}

static stg_status parse_conditional(struct stg_parser *p, uint16_t *ret_root, stg_error *reterr) {
  struct stg_node node = {.kind = STG_NODE_SELECT};
  stg_status status = parse_binary(p, STG_PRECEDENCE_OR, &node.arg[0], reterr);
  if (status != STG_OK || p->token.kind != STG_TOKEN_QUESTION) {
    *ret_root = status == STG_OK ? node.arg[0] : *ret_root;
    return status;
  }
  node.column = p->token.column;
  status = enter(p, reterr);
  if (status == STG_OK) {
    status = advance(p, reterr);
  }
  if (status == STG_OK) {
    status = parse_conditional(p, &node.arg[1], reterr);
  }
  if (status == STG_OK) {
    status = expect(p, STG_TOKEN_COLON, "an operator or ':'", reterr);
  }
  if (status == STG_OK) {
    status = parse_conditional(p, &node.arg[2], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  p->depth--;
  return add_node(p, node, ret_root, reterr);
}

/* NOLINTEND(misc-no-recursion) */

static stg_status parse_to_end(struct stg_parser *p, uint16_t *ret_root, stg_error *reterr) {
  uint16_t root = 0;
  p->depth = 0;
  stg_status status = parse_conditional(p, &root, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (p->token.kind != STG_TOKEN_END) {
    return unexpected(p, "an operator or the end", reterr);
  }
  *ret_root = root;
  return STG_OK;
}

static stg_status start(struct stg_parser *p, const char *text, stg_error *reterr) {
  p->lexer = (struct stg_lexer){.text = text};
  return advance(p, reterr);
}

stg_status stg_parse_expression(struct stg_parser *parser, const char *text, uint16_t *ret_root,
                                stg_error *reterr) {
  stg_status status = start(parser, text, reterr);
  return status == STG_OK ? parse_to_end(parser, ret_root, reterr) : status;
}

/* The left side and its '=' or '+='. A name is entered only after its own value was read. */
static stg_status parse_target(struct stg_parser *p, struct stg_token *ret_target,
                               enum stg_statement_kind *ret_kind, stg_error *reterr) {
  struct stg_token target = p->token;
  bool is_state = target.len == 1 && target.text[0] == 'h';
  if (target.kind != STG_TOKEN_NAME) {
    return unexpected(p, "'h' or a name to assign to", reterr);
  }
  stg_status status = advance(p, reterr);
  if (status != STG_OK) {
    return status;
  }
  bool adds = p->token.kind == STG_TOKEN_ADD_ASSIGN;
  if (adds && !is_state) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "column %u: only h can be added to; assign '%.*s' once, with '='",
                         p->token.column, (int)target.len, target.text);
  }
  if (!adds && p->token.kind != STG_TOKEN_ASSIGN) {
    return unexpected(p, is_state ? "'=' or '+='" : "'='", reterr);
  }
  *ret_target = target;
  *ret_kind = adds ? STG_STATEMENT_ADD : is_state ? STG_STATEMENT_SET : STG_STATEMENT_LET;
  return advance(p, reterr);
}

stg_status stg_parse_statement(struct stg_parser *parser, const char *text,
                               struct stg_statement *ret_statement, stg_error *reterr) {
  struct stg_statement statement = {0};
  struct stg_token target = {0};
  stg_status status = start(parser, text, reterr);
  if (status == STG_OK) {
    status = parse_target(parser, &target, &statement.kind, reterr);
  }
  if (status == STG_OK) {
    status = parse_to_end(parser, &statement.root, reterr);
  }
  if (status == STG_OK && statement.kind == STG_STATEMENT_LET) {
    status = stg_scope_assign(parser->scope, target.text, target.len, &statement.ref, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "column %u: ", target.column);
    }
  }
  if (status == STG_OK) {
    *ret_statement = statement;
  }
  return status;
}
