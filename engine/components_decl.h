/*
 * components_decl.h: a kernel of the components family as it was declared: what its text depends
 * on, and the text of its signature.
 */
#ifndef STG_ENGINE_COMPONENTS_DECL_H
#define STG_ENGINE_COMPONENTS_DECL_H

#include "codegen/components.h"
#include "engine/family.h"

/* Of each extent. */
#define STG_COMPONENTS_MAX_EXTENT (1U << 20)

/* What a kernel computes. */
enum stg_components_task {
  STG_COMPONENTS_TASK_APPLY,   /* y */
  STG_COMPONENTS_TASK_TURNED,  /* dx and dd: the same, with turned weights */
  STG_COMPONENTS_TASK_WEIGHTS, /* parts of what sums over rows, and dm of rows */
  STG_COMPONENTS_TASK_SUM,     /* the sums of the parts */
};

struct stg_components_decl {
  struct stg_decl base;
  enum stg_components_task task;
  /* what the task's text has: the others are 0 */
  struct stg_components_geometry geometry;
  uint32_t tile; /* of an apply, turned or not */
  /* not of the text; borrowed from whoever declares, {NULL, 0} where a signature was read */
  struct stg_buckets row_buckets;
};

/** Check and declare a kernel of the components of a geometry. STG_E_INVALID names the member and
 * the value. */
STG_NODISCARD stg_status stg_components_decl_init(enum stg_components_task task,
                                                  const struct stg_components_geometry *geometry,
                                                  uint32_t tile,
                                                  struct stg_components_decl *ret_decl,
                                                  stg_error *reterr);
/** Append its signature; `arch` may be NULL, and is left out then. */
void stg_components_decl_print(const struct stg_components_decl *decl, const char *arch,
                               struct stg_strbuf *out);
/** Read what that wrote without an architecture, but for checks: STG_E_FORMAT. */
STG_NODISCARD stg_status stg_components_decl_read(struct stg_signature_reader *reader,
                                                  struct stg_components_decl *ret_decl);
/** The shape of a call: rows rounded up, whatever sequences they are of. STG_E_CAPACITY. */
STG_NODISCARD stg_status stg_components_shape(const struct stg_buckets *row_buckets, int64_t rows,
                                              struct stg_graph_shape *ret_shape, stg_error *reterr);
/** STG_E_UNSUPPORTED for a kernel that is written for the CPU alone, which it names. */
STG_NODISCARD stg_status stg_components_check_kernel(const struct stg_components_decl *decl,
                                                     const char *arch, stg_error *reterr);

#endif
