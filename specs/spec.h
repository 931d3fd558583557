/*
 * spec.h: a workload of any family, read by what its member "family" says.
 */
#ifndef STG_SPECS_SPEC_H
#define STG_SPECS_SPEC_H

#include "specs/attention_workload.h"
#include "specs/components_workload.h"
#include "specs/prover_workload.h"
#include "specs/spec_family.h"
#include "specs/workload.h"

struct stg_spec {
  enum stg_spec_kind kind;
  union {
    struct stg_workload steer;                 /* STG_SPEC_STEER */
    struct stg_prover_workload prover;         /* STG_SPEC_PROVER */
    struct stg_components_workload components; /* STG_SPEC_COMPONENTS */
    struct stg_attention_workload attention;   /* the others */
  } of;
};

/** Read a workload; statuses as stg_workload_load, and STG_E_UNSUPPORTED for an unknown family. */
STG_NODISCARD stg_status stg_spec_load(const char *path, const struct stg_workload_options *options,
                                       struct stg_spec *ret_spec, stg_error *reterr);
/** The same from text in memory, as stg_workload_parse. */
STG_NODISCARD stg_status stg_spec_parse(const char *path, const char *text, size_t len,
                                        const struct stg_workload_options *options,
                                        struct stg_spec *ret_spec, stg_error *reterr);
void stg_spec_finish(struct stg_spec *spec);

#endif
