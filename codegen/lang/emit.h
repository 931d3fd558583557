/*
 * emit.h: tree -> text again, with the fewest parentheses that read back as the same tree.
 */
#ifndef STG_CODEGEN_LANG_EMIT_H
#define STG_CODEGEN_LANG_EMIT_H

#include "codegen/lang/ast.h"
#include "runtime/base/strbuf.h"

/**
 * Append the expression under `root`. `params` names the parameters; NULL: p0, p1 and so on.
 * Vectors are always v0.., assigned names t0...
 */
void stg_emit_expression(const struct stg_ast *ast, uint16_t root, const char *const *params,
                         struct stg_strbuf *out);

/** Append the body in its canonical form, one statement per line. */
void stg_emit_body(const struct stg_ast *ast, struct stg_strbuf *out);

#endif
