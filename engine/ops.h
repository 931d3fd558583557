/*
 * ops.h: the ops an engine knows: the built-ins, then what its host registered.
 *
 * Joins specs (JSON to declaration) and codegen (declaration to compiled op). Ops are never
 * removed, so a pointer stays good for the engine's life.
 */
#ifndef STG_ENGINE_OPS_H
#define STG_ENGINE_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "codegen/op.h"

struct stg_op_table;

/** Compile the built-ins. */
STG_NODISCARD stg_status stg_op_table_create(struct stg_op_table **ret_table, stg_error *reterr);
void stg_op_table_destroy(struct stg_op_table *table);

/** Add a user op from JSON text; see stg_op_register. Any thread. */
STG_NODISCARD stg_status stg_op_table_add(struct stg_op_table *table, const char *file,
                                          const char *json, size_t len, stg_error *reterr);
struct stg_op_decl;
/** Add a user op that was read already; the declaration is not kept. Any thread. */
STG_NODISCARD stg_status stg_op_table_add_decl(struct stg_op_table *table,
                                               const struct stg_op_decl *decl, stg_error *reterr);
size_t stg_op_table_count(struct stg_op_table *table);
/** Op `index` < count, in the order of registration, built-ins first. Any thread. */
const struct stg_op *stg_op_table_at(struct stg_op_table *table, size_t index);
/** STG_E_NOT_FOUND lists the names there are. Any thread. */
STG_NODISCARD stg_status stg_op_table_find(struct stg_op_table *table, const char *name,
                                           const struct stg_op **ret_op, stg_error *reterr);
/** The user op with this body that was registered first, or NULL. Any thread. */
const struct stg_op *stg_op_table_find_body(struct stg_op_table *table, struct stg_key body_hash);
/** What that op was registered with; lives as long as the table. NULL where there is none. */
const struct stg_op_decl *stg_op_table_find_decl(struct stg_op_table *table,
                                                 struct stg_key body_hash);
bool stg_op_is_builtin(const struct stg_op *op);

#endif
