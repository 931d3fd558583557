/*
 * lower.h: a checked op body -> the scalar program of the chain that is this op alone.
 */
#ifndef STG_CODEGEN_LANG_LOWER_H
#define STG_CODEGEN_LANG_LOWER_H

#include "codegen/lang/ast.h"
#include "codegen/program.h"

/** The program lives in `arena`. STG_E_NO_MEMORY is the only failure of a checked body. */
STG_NODISCARD stg_status stg_lower_op(struct stg_arena *arena, const struct stg_ast *ast,
                                      uint32_t n_vectors, struct stg_program *ret_program,
                                      stg_error *reterr);

#endif
