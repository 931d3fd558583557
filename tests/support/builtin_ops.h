/*
 * builtin_ops.h: the built-in ops, compiled as the engine compiles them.
 */
#ifndef STG_TESTS_SUPPORT_BUILTIN_OPS_H
#define STG_TESTS_SUPPORT_BUILTIN_OPS_H

#include "codegen/op.h"

/** The op of that name, alive as long as `arena`; NULL when there is none or it does not compile.
 */
const struct stg_op *builtin_op(struct stg_arena *arena, const char *name, stg_error *reterr);

#endif
