/*
 * ast.c: what a node kind is called, how many operands it takes and how tightly it binds.
 *
 * Tables only; knows no text being parsed and no type rule.
 */
#include "codegen/lang/ast.h"

const char *stg_node_text(enum stg_node_kind kind) {
  static const char *const texts[] = {
#define STG_NODE_TEXT(name, arity, text) [STG_NODE_##name] = text,
      STG_NODE_LIST(STG_NODE_TEXT)
#undef STG_NODE_TEXT
  };
  return texts[kind];
}

unsigned stg_node_arity(enum stg_node_kind kind) {
  static const unsigned char arities[] = {
#define STG_NODE_ARITY(name, arity, text) [STG_NODE_##name] = arity,
      STG_NODE_LIST(STG_NODE_ARITY)
#undef STG_NODE_ARITY
  };
  return arities[kind];
}

bool stg_node_is_function(enum stg_node_kind kind) {
  return kind >= STG_NODE_DOT && kind <= STG_NODE_SIGMOID;
}

enum stg_precedence stg_node_precedence(enum stg_node_kind kind) {
  if (kind == STG_NODE_SELECT) {
    return STG_PRECEDENCE_SELECT;
  }
  if (kind == STG_NODE_OR) {
    return STG_PRECEDENCE_OR;
  }
  if (kind == STG_NODE_AND) {
    return STG_PRECEDENCE_AND;
  }
  if (kind >= STG_NODE_LT && kind <= STG_NODE_NE) {
    return STG_PRECEDENCE_COMPARE;
  }
  if (kind == STG_NODE_ADD || kind == STG_NODE_SUB) {
    return STG_PRECEDENCE_ADD;
  }
  if (kind == STG_NODE_MUL || kind == STG_NODE_DIV) {
    return STG_PRECEDENCE_MUL;
  }
  if (kind == STG_NODE_NEG || kind == STG_NODE_NOT) {
    return STG_PRECEDENCE_UNARY;
  }
  return STG_PRECEDENCE_PRIMARY;
}

const char *stg_value_type_name(enum stg_value_type type) {
  static const char *const names[] = {
      [STG_TYPE_SCALAR] = "scalar", [STG_TYPE_BOOL] = "condition", [STG_TYPE_VECTOR] = "vector"};
  return names[type];
}
