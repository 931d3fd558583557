/*
 * cpu/components.h: the components family on the CPU, forward and backward.
 *
 * It rounds where codegen/components.h says. The bits are not the GPU's: the order within a part of
 * a sum is its own. Both are within the oracle's bound. A row of y or dx has the same bits in any
 * company.
 */
#ifndef STG_ENGINE_CPU_COMPONENTS_H
#define STG_ENGINE_CPU_COMPONENTS_H

#include <steergraph/status.h>

#include "codegen/components.h"

/* y of all rows. All borrowed; `y` overlaps no input. */
struct stg_cpu_components_batch {
  const struct stg_components_geometry *geometry;
  struct stg_components_inputs inputs;
  void *y; /* [rows, d_out] */
  int64_t y_stride;
};

/** Compute y; the batch has been checked. Padding is not read, and its y is zeros. STG_E_NO_MEMORY
 * for float32 copies of the matrices, before any write. */
STG_NODISCARD stg_status stg_cpu_components(const struct stg_cpu_components_batch *batch,
                                            stg_error *reterr);

/* Gradients of all inputs. All borrowed; no gradient overlaps an input or another. */
struct stg_cpu_components_gradient {
  const struct stg_components_geometry *geometry;
  struct stg_components_inputs inputs; /* the forward call's; bias is not read */
  const void *dy;                      /* [rows, d_out] */
  int64_t dy_stride;
  struct stg_components_gradients out; /* dm without a mask or of bytes: NULL */
};

/** Compute what is wanted; rows and statuses as above. x V is computed again. */
STG_NODISCARD stg_status stg_cpu_components_back(const struct stg_cpu_components_gradient *gradient,
                                                 stg_error *reterr);

#endif
