/*
 * op_file.h: op definitions: the embedded built-ins and a user's JSON files, as plain declarations.
 *
 * Gives struct stg_op_decl, text only; turning it into a compiled op is codegen's work.
 */
#ifndef STG_SPECS_OP_FILE_H
#define STG_SPECS_OP_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/embedded.h"
#include "specs/json.h"

/* Limits of an op file (specs/README.md). */
#define STG_OP_FILE_MAX_VECTORS 4
#define STG_OP_FILE_MAX_PARAMS 8
#define STG_OP_FILE_MAX_STATEMENTS 32
#define STG_OP_FILE_MAX_TEXT_BYTES 4096
#define STG_OP_FILE_MAX_NAME_BYTES 63

struct stg_op_decl_param {
  const char *name;
  bool has_default;
  float default_value;
};

/* Everything borrowed from the arena it was read into. `output` is a scalar in place of a body, or
 * NULL. */
struct stg_op_decl {
  const char *file;
  const char *name;
  const char *const *vectors;
  size_t n_vectors;
  const struct stg_op_decl_param *params;
  size_t n_params;
  const char *const *require;
  size_t n_require;
  const char *const *body;
  size_t n_body;
  const char *output;
};

/**
 * The embedded files specs/ops/<stem>.json. The order is fixed and append-only: it gives ops their
 * codes.
 */
size_t stg_builtin_op_count(void);
const struct stg_embedded_file *stg_builtin_op(size_t index);
/** Read built-in `index` < count; its `file` is "specs/ops/<stem>.json". */
STG_NODISCARD stg_status stg_builtin_op_decl(struct stg_arena *arena, size_t index,
                                             const struct stg_op_decl **ret_decl,
                                             stg_error *reterr);
bool stg_op_name_is_builtin(const char *name);

/** Read one op definition from JSON text. STG_E_FORMAT with file and path. */
STG_NODISCARD stg_status stg_op_decl_parse(struct stg_arena *arena, const char *file,
                                           const char *text, size_t len,
                                           const struct stg_op_decl **ret_decl, stg_error *reterr);
/** The same from a value of a larger document; messages say where in it. */
STG_NODISCARD stg_status stg_op_decl_read(struct stg_arena *arena, const struct stg_json *at,
                                          const struct stg_op_decl **ret_decl, stg_error *reterr);
STG_NODISCARD stg_status stg_op_decl_load(struct stg_arena *arena, const char *path,
                                          const struct stg_op_decl **ret_decl, stg_error *reterr);

#endif
