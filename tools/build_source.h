/*
 * build_source.h: what `build` is given: a workload or a manifest, as declarations whose kernels
 * are to be had.
 */
#ifndef STG_TOOLS_BUILD_SOURCE_H
#define STG_TOOLS_BUILD_SOURCE_H

#include "engine/offline.h"
#include "tools/job_kind.h"

/* {0} is closed. */
struct stg_build_source {
  const char *file;                           /* as it was given */
  stg_engine *engine;                         /* has the user ops that the declarations name */
  const struct stg_declared *const *declared; /* one of a workload, any number of a manifest */
  size_t n_declared;
  struct stg_any_job job; /* of a workload */
  const struct stg_declared *of_job;
  struct stg_arena arena; /* of declarations */
};

/** Read the file and open an engine for it. Messages carry the file and the place. */
STG_NODISCARD stg_status stg_build_source_open(const char *file,
                                               const struct stg_job_options *options,
                                               struct stg_build_source *ret_source,
                                               stg_error *reterr);
/** STG_E_INVALID when `path`, which `option` names, is a file that the source was read from. */
STG_NODISCARD stg_status stg_build_source_check_output(const struct stg_build_source *source,
                                                       const char *option, const char *path,
                                                       stg_error *reterr);
void stg_build_source_close(struct stg_build_source *source);

#endif
