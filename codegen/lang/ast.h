/*
 * ast.h: the typed tree of an op body, as the parser leaves it and the checker approves it.
 *
 * Nodes live in one array and point at each other by index. The float64 oracle walks this tree
 * directly, so it shares the parser with the engine but nothing of the lowering.
 */
#ifndef STG_CODEGEN_LANG_AST_H
#define STG_CODEGEN_LANG_AST_H

#include <stdbool.h>
#include <stdint.h>

#define STG_OP_MAX_VECTORS 4
#define STG_OP_MAX_PARAMS 8
#define STG_OP_MAX_STATEMENTS 32
#define STG_OP_MAX_TEXT_BYTES 4096
#define STG_OP_MAX_NAME_CHARS 63
#define STG_OP_MAX_NODES 2048
#define STG_OP_MAX_DEPTH 64

/*
 * One row per node kind: name, number of operands, canonical spelling.
 * Vector-valued: STATE, VECTOR, and ADD/SUB/NEG/MUL/DIV/SELECT when `type` says so.
 */
#define STG_NODE_LIST(X)                                                                           \
  X(NUMBER, 0, "number")                                                                           \
  X(PARAM, 0, "param")                                                                             \
  X(NAME, 0, "name")                                                                               \
  X(STATE, 0, "h")                                                                                 \
  X(VECTOR, 0, "vector")                                                                           \
  X(NEG, 1, "-")                                                                                   \
  X(NOT, 1, "!")                                                                                   \
  X(ADD, 2, "+")                                                                                   \
  X(SUB, 2, "-")                                                                                   \
  X(MUL, 2, "*")                                                                                   \
  X(DIV, 2, "/")                                                                                   \
  X(LT, 2, "<")                                                                                    \
  X(LE, 2, "<=")                                                                                   \
  X(GT, 2, ">")                                                                                    \
  X(GE, 2, ">=")                                                                                   \
  X(EQ, 2, "==")                                                                                   \
  X(NE, 2, "!=")                                                                                   \
  X(AND, 2, "&&")                                                                                  \
  X(OR, 2, "||")                                                                                   \
  X(SELECT, 3, "?:")                                                                               \
  X(DOT, 2, "dot")                                                                                 \
  X(NORM, 1, "norm")                                                                               \
  X(CLAMP, 3, "clamp")                                                                             \
  X(MIN, 2, "min")                                                                                 \
  X(MAX, 2, "max")                                                                                 \
  X(ABS, 1, "abs")                                                                                 \
  X(SQRT, 1, "sqrt")                                                                               \
  X(EXP, 1, "exp")                                                                                 \
  X(LOG, 1, "log")                                                                                 \
  X(TANH, 1, "tanh")                                                                               \
  X(SIGMOID, 1, "sigmoid")

enum stg_node_kind {
#define STG_NODE_ENUM(name, arity, text) STG_NODE_##name,
  STG_NODE_LIST(STG_NODE_ENUM)
#undef STG_NODE_ENUM
      STG_NODE_KINDS
};

enum stg_value_type { STG_TYPE_SCALAR, STG_TYPE_BOOL, STG_TYPE_VECTOR };

/* `inf` is a NUMBER holding infinity. */
struct stg_node {
  enum stg_node_kind kind;
  enum stg_value_type type; /* set by the checker */
  uint16_t arg[3];          /* operand nodes */
  uint16_t ref;             /* PARAM, NAME, VECTOR: index of the parameter, name or vector */
  uint16_t column;          /* 1-based, in its statement */
  double number;            /* NUMBER: a float32 value, as a parameter's is */
};

enum stg_statement_kind {
  STG_STATEMENT_LET,
  STG_STATEMENT_SET,
  STG_STATEMENT_ADD,
  STG_STATEMENT_OUTPUT
};

/* `name = scalar` (LET, ref is the name's index), `h = vector` (SET), `h += vector` (ADD); a scalar
 * that goes out, to the column that parameter `ref` says (OUTPUT, an op's only statement). */
struct stg_statement {
  enum stg_statement_kind kind;
  uint16_t ref;
  uint16_t root;
};

/* Names are numbered in order of first assignment; a name may be assigned once. */
struct stg_ast {
  const struct stg_node *nodes;
  uint16_t n_nodes;
  const struct stg_statement *statements; /* the body */
  uint16_t n_statements;
  const uint16_t *require; /* root nodes, boolean, over parameters and numbers only */
  uint16_t n_require;
  uint16_t n_names;
};

/** Canonical spelling of an operator or a function, "number", "param" and so on of a leaf. */
const char *stg_node_text(enum stg_node_kind kind);
unsigned stg_node_arity(enum stg_node_kind kind);
/** True for the kinds that are written as a call, dot(a, b) .. sigmoid(x). */
bool stg_node_is_function(enum stg_node_kind kind);

/*
 * How tightly a node binds, loosest first: both the parser and the canonical printer go by it.
 * Comparisons do not associate, the conditional associates to the right, the rest to the left.
 */
enum stg_precedence {
  STG_PRECEDENCE_SELECT,
  STG_PRECEDENCE_OR,
  STG_PRECEDENCE_AND,
  STG_PRECEDENCE_COMPARE,
  STG_PRECEDENCE_ADD,
  STG_PRECEDENCE_MUL,
  STG_PRECEDENCE_UNARY,
  STG_PRECEDENCE_PRIMARY
};
enum stg_precedence stg_node_precedence(enum stg_node_kind kind);

/** "scalar", "condition", "vector". */
const char *stg_value_type_name(enum stg_value_type type);

#endif
