/*
 * scope.h: what a name means inside an op: the state, a vector, a parameter, an assigned name.
 *
 * Declared names are checked once, with the op; assigned names enter as their statements are read.
 */
#ifndef STG_CODEGEN_LANG_SCOPE_H
#define STG_CODEGEN_LANG_SCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codegen/lang/ast.h"
#include "runtime/base/error.h"

/* Borrows every text; `names` point into the statements that assigned them. */
struct stg_scope {
  const char *const *vectors;
  size_t n_vectors;
  const char *const *params;
  size_t n_params;
  struct {
    const char *text;
    size_t len;
  } names[STG_OP_MAX_STATEMENTS];
  uint16_t n_names;
};

/** A letter or '_', then letters, digits and '_': at most STG_OP_MAX_NAME_CHARS of them. */
bool stg_name_is_valid(const char *text);

/** Check counts, spelling and clashes of the declared names. STG_E_FORMAT. */
STG_NODISCARD stg_status stg_scope_check(const struct stg_scope *scope, stg_error *reterr);

/** What a name stands for where it is used: its leaf kind and index; false when unknown. */
bool stg_scope_find(const struct stg_scope *scope, const char *text, size_t len,
                    enum stg_node_kind *ret_kind, uint16_t *ret_ref);

/** The function of that name; false when there is none. */
bool stg_function_find(const char *text, size_t len, enum stg_node_kind *ret_kind);

/** Enter an assigned name. STG_E_FORMAT, without a column, when the name is taken. */
STG_NODISCARD stg_status stg_scope_assign(struct stg_scope *scope, const char *text, size_t len,
                                          uint16_t *ret_ref, stg_error *reterr);

#endif
