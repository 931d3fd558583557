/*
 * parser.h: statements -> nodes, in one array for the whole op, operands before their users.
 *
 * The nodes of one statement are contiguous and its root is the last of them.
 */
#ifndef STG_CODEGEN_LANG_PARSER_H
#define STG_CODEGEN_LANG_PARSER_H

#include "codegen/lang/ast.h"
#include "codegen/lang/lexer.h"
#include "codegen/lang/scope.h"

/*
 * One op being read. The caller sets `scope` (names are entered into it as they are assigned),
 * `nodes`, `heights` and `capacity` and owns them; one node per byte of text always suffices.
 */
struct stg_parser {
  struct stg_scope *scope;
  struct stg_node *nodes;
  uint8_t *heights; /* of the tree under each node */
  uint16_t n_nodes;
  uint16_t capacity; /* at most STG_OP_MAX_NODES */
  unsigned depth;    /* open parentheses, calls, conditionals and unary operators */
  struct stg_lexer lexer;
  struct stg_token token; /* the next, not yet taken */
};

/** Read `text` as one expression. STG_E_FORMAT begins with "column N: ". */
STG_NODISCARD stg_status stg_parse_expression(struct stg_parser *parser, const char *text,
                                              uint16_t *ret_root, stg_error *reterr);

/** Read `text` as `name = x`, `h = x` or `h += x`. STG_E_FORMAT begins with "column N: ". */
STG_NODISCARD stg_status stg_parse_statement(struct stg_parser *parser, const char *text,
                                             struct stg_statement *ret_statement,
                                             stg_error *reterr);

#endif
