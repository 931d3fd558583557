/*
 * check.h: the type rules: scalars, conditions and vectors that are linear combinations.
 */
#ifndef STG_CODEGEN_LANG_CHECK_H
#define STG_CODEGEN_LANG_CHECK_H

#include "codegen/lang/ast.h"
#include "runtime/base/error.h"

/**
 * Type the nodes `first`..`root` of one requirement, which must be a condition over parameters and
 * numbers. STG_E_FORMAT begins with "column N: ".
 */
STG_NODISCARD stg_status stg_check_require(struct stg_node *nodes, uint16_t first, uint16_t root,
                                           stg_error *reterr);

/** Type the nodes `first`..root of one statement. STG_E_FORMAT begins with "column N: ". */
STG_NODISCARD stg_status stg_check_statement(struct stg_node *nodes, uint16_t first,
                                             const struct stg_statement *statement,
                                             stg_error *reterr);

#endif
