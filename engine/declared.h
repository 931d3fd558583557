/*
 * declared.h: what the command's declarations are inside: those of kernels that are launched
 * together, most often one.
 */
#ifndef STG_ENGINE_DECLARED_H
#define STG_ENGINE_DECLARED_H

#include "engine/family.h"
#include "engine/offline.h"

struct stg_declared {
  const struct stg_decl *parts[STG_PLAN_MAX_PARTS];
  unsigned n_parts;
  unsigned apart; /* bit i: part i is there too, but is not launched with the others */
};

static inline bool stg_declared_is_apart(const struct stg_declared *declared, unsigned part) {
  return (declared->apart >> part & 1) != 0;
}

/** Generate kernel `index` for `arch`, to be finished. STG_E_NOT_FOUND names the count. */
STG_NODISCARD stg_status stg_declared_kernel_text(const struct stg_engine *engine,
                                                  const struct stg_declared *declared, size_t index,
                                                  const char *arch,
                                                  struct stg_kernel_text *ret_text,
                                                  stg_error *reterr);

#endif
