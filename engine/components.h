/*
 * components.h: the host of the components family as its own files see it.
 *
 *   components_desc.c       what components are declared as, checked
 *   components_family.c, components_signature.c   kernels
 *   components.c            create, destroy, plan
 *   components_check.c      what a call may be given
 *   components_apart.c      whether tensors overlap
 *   components_apply.c      both directions, and on the CPU
 *   components_launch.c     both on a device
 *
 * Addresses of tensors are kept as pointers, and dereferenced on the CPU alone. Nothing changes
 * after creation but the list of plans, which has a lock: a leaf.
 */
#ifndef STG_ENGINE_COMPONENTS_H
#define STG_ENGINE_COMPONENTS_H

#include <pthread.h>

#include <steergraph/components.h>

#include "engine/attn_object.h"
#include "engine/components_decl.h"
#include "runtime/base/strbuf.h"

/* What a declaration says, but for what it borrows. */
struct stg_components_form {
  struct stg_components_geometry geometry;
  uint32_t tile;
  bool backward;
};

#define STG_COMPONENTS_TASKS ((unsigned)STG_COMPONENTS_TASK_SUM + 1)

struct stg_components {
  struct stg_attn_object object;
  struct stg_components_form form;
  uint32_t sm;        /* of a device's architecture */
  int64_t *row_sizes; /* the caller's list, copied */
  struct stg_buckets row_buckets;
  struct stg_kernel_set *sets[STG_COMPONENTS_TASKS]; /* NULL: not declared */
  struct stg_strbuf back_text; /* signatures of the kernels of the way back, joined */
  size_t back_chars;           /* of it, without the architecture */
  pthread_mutex_t lock;
  struct stg_components_plans *plans; /* that were asked for: their text is borrowed */
};

/** What is declared. STG_E_INVALID names the field and the value. */
STG_NODISCARD stg_status stg_components_describe(const stg_components_desc *desc,
                                                 struct stg_components_form *ret_form,
                                                 stg_error *reterr);

/** What a call reads, checked; also on the way back, where bias is not looked at. STG_E_INVALID
 * with the value, STG_E_CAPACITY. */
STG_NODISCARD stg_status stg_components_check(const stg_components *components,
                                              const stg_components_tensors *tensors, bool backward,
                                              struct stg_components_inputs *ret_inputs,
                                              stg_error *reterr);
/** Where y goes, apart from such inputs: its stride, filled in where it is 0. */
STG_NODISCARD stg_status stg_components_check_y(const stg_components *components,
                                                const struct stg_components_inputs *inputs,
                                                const stg_components_tensors *tensors,
                                                int64_t *ret_stride, stg_error *reterr);
/** What goes with gradients of such inputs, apart from them and each other, strides filled in. */
STG_NODISCARD stg_status stg_components_check_grads(const stg_components *components,
                                                    const struct stg_components_inputs *inputs,
                                                    const stg_components_grads *grads,
                                                    stg_components_grads *ret_grads,
                                                    stg_error *reterr);
/** STG_E_INVALID for a number of rows that cannot be. */
STG_NODISCARD stg_status stg_components_check_rows(int64_t rows, stg_error *reterr);
/** Rows that have a row of the mask in common, as a call says it; `rows` of 0 count as one. */
STG_NODISCARD stg_status stg_components_share(int64_t rows, int64_t mask_share, int64_t *ret_share,
                                              stg_error *reterr);
/** Bytes of work memory of a call with such a share, which is 1 or more. */
size_t stg_components_bytes(const struct stg_components_geometry *geometry, int64_t rows,
                            int64_t share);

/** y on a device, of what was checked. */
STG_NODISCARD stg_status stg_components_launch(stg_components *components,
                                               const struct stg_components_inputs *inputs, void *y,
                                               int64_t y_stride, stg_stream stream,
                                               stg_error *reterr);
/** All gradients there that are wanted: by as many of the three kernels of the way back. */
STG_NODISCARD stg_status stg_components_launch_back(stg_components *components,
                                                    const struct stg_components_inputs *inputs,
                                                    const stg_components_grads *grads,
                                                    stg_stream stream, stg_error *reterr);

static inline const struct stg_kernel *stg_components_kernel_of(const stg_components *components,
                                                                enum stg_components_task task) {
  return &components->sets[task]->kernels[STG_TIER_DECLARED][0];
}

#endif
