/*
 * components/tensors.h: the tensors of a run on both sides: what there is of each, as it was and as
 * it is now.
 */
#ifndef STG_TOOLS_COMPONENTS_TENSORS_H
#define STG_TOOLS_COMPONENTS_TENSORS_H

#include "engine/oracle/components.h"
#include "runtime/base/key.h"
#include "tools/components/job.h"

/* Inputs in the order of a workload's, y, gradients in the order of the oracle's. */
enum {
  STG_COMPONENTS_Y = STG_SPEC_COMPONENTS_INPUTS,
  STG_COMPONENTS_GRADIENT, /* the first */
  STG_COMPONENTS_VALID = STG_COMPONENTS_GRADIENT + STG_ORACLE_COMPONENTS_GRADIENTS,
  STG_COMPONENTS_TENSORS
};

/* bytes 0: there is none. `after` is what was fetched last. Packed. */
struct stg_components_tensor {
  int64_t shape[2]; /* the second is 0 where there is one */
  size_t bytes;
  unsigned char *before, *after;
  void *device;
};

/* {0} is empty. */
struct stg_components_all {
  struct stg_components_tensor of[STG_COMPONENTS_TENSORS];
  void *work;
  size_t work_bytes;
};

/** The word of a tensor: "x", "y", "dv", "valid". */
const char *stg_components_tensor_name(unsigned tensor);

/** Whether the machine has the memory that the workload asks for: a spec of a few bytes may ask for
 * terabytes. */
STG_NODISCARD stg_status stg_components_tensors_check(const struct stg_components_job *job,
                                                      stg_error *reterr);
/** Allocate all, fill them with what the workload gives, and bring them to the engine's side. What
 * is to be written has NaN, as rows of padding have. Finish also after a failure. */
STG_NODISCARD stg_status stg_components_tensors_init(const struct stg_components_job *job,
                                                     const stg_components *components,
                                                     struct stg_components_all *all,
                                                     stg_error *reterr);
void stg_components_tensors_finish(const struct stg_components_job *job,
                                   struct stg_components_all *all);
/** Fetch all of them into `after`. */
STG_NODISCARD stg_status stg_components_tensors_fetch(const struct stg_components_job *job,
                                                      const struct stg_components_all *all,
                                                      stg_error *reterr);

/** What a call is given. */
stg_components_tensors stg_components_call_of(const struct stg_components_job *job,
                                              const struct stg_components_all *all);
stg_components_grads stg_components_grads_of(const struct stg_components_all *all);

/* output.c */

/** XXH3-128 of y, and of the gradients in their order. */
STG_NODISCARD stg_status stg_components_tensors_key(const struct stg_components_all *all,
                                                    struct stg_key *ret_key, stg_error *reterr);
/** Write y and the gradients as safetensors. */
STG_NODISCARD stg_status stg_components_tensors_write(const struct stg_components_job *job,
                                                      const struct stg_components_all *all,
                                                      const char *path, const char *signature,
                                                      stg_error *reterr);

#endif
