/*
 * components/check.h: what a run left against the float64 reference, and what it has to do.
 */
#ifndef STG_TOOLS_COMPONENTS_CHECK_H
#define STG_TOOLS_COMPONENTS_CHECK_H

#include "tools/components/tensors.h"

struct stg_components_check {
  struct stg_oracle_components_report y;
  /* Of each gradient that there is. */
  bool has[STG_ORACLE_COMPONENTS_GRADIENTS];
  struct stg_oracle_components_report gradients[STG_ORACLE_COMPONENTS_GRADIENTS];
  uint64_t rows, rows_padding;
  uint64_t violations; /* of all */
  bool ok;             /* there is none */
};

/**
 * Judge y and the gradients, all fetched.
 * @return STG_E_CORRUPT when what is only read was written; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_components_check_all(const struct stg_components_job *job,
                                                  const struct stg_components_all *all,
                                                  struct stg_components_check *ret_check,
                                                  stg_error *reterr);

/* What the work has to do: each input read once by each direction, each result written once, and
 * the products of both with x V computed once by each. */
struct stg_components_cost {
  uint64_t bytes;
  double flop;
};
struct stg_components_cost stg_components_cost_of(const struct stg_components_job *job,
                                                  const struct stg_components_all *all);

#endif
