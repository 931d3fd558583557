/*
 * builtin_ops.c: embedded JSON -> declaration -> compiled op.
 */
#include "tests/support/builtin_ops.h"

#include <string.h>

#include "specs/op_file.h"

static const struct stg_op *compile(struct stg_arena *arena, const struct stg_op_decl *decl,
                                    uint32_t code, stg_error *reterr) {
  struct stg_op_param params[STG_OP_MAX_PARAMS];
  for (size_t i = 0; i < decl->n_params; i++) {
    params[i] = (struct stg_op_param){.name = decl->params[i].name,
                                      .has_default = decl->params[i].has_default,
                                      .default_value = decl->params[i].default_value};
  }
  const struct stg_op_source source = {
      .file = decl->file,
      .name = decl->name,
      .code = code,
      .vectors = decl->vectors,
      .n_vectors = decl->n_vectors,
      .params = params,
      .n_params = decl->n_params,
      .require = decl->require,
      .n_require = decl->n_require,
      .body = decl->body,
      .n_body = decl->n_body,
      .output = decl->output,
  };
  const struct stg_op *op = NULL;
  return stg_op_compile(arena, &source, &op, reterr) == STG_OK ? op : NULL;
}

const struct stg_op *builtin_op(struct stg_arena *arena, const char *name, stg_error *reterr) {
  for (size_t i = 0; i < stg_builtin_op_count(); i++) {
    if (strcmp(stg_builtin_op(i)->stem, name) == 0) {
      const struct stg_op_decl *decl = NULL;
      stg_status status = stg_builtin_op_decl(arena, i, &decl, reterr);
      return status == STG_OK ? compile(arena, decl, (uint32_t)i + 1, reterr) : NULL;
    }
  }
  stg_error_set(reterr, STG_E_NOT_FOUND, "no built-in op '%s'", name);
  return NULL;
}
