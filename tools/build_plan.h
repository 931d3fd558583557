/*
 * build_plan.h: what `build` has to do: the kernels of workloads and manifests for architectures.
 */
#ifndef STG_TOOLS_BUILD_PLAN_H
#define STG_TOOLS_BUILD_PLAN_H

#include "engine/offline.h"
#include "tools/arch.h"
#include "tools/build_source.h"

/* One kernel to be had. */
struct stg_build_item {
  const struct stg_build_source *source;
  const struct stg_declared *declared; /* of the source */
  size_t kernel;                       /* of the declaration */
  const char *variant;
  const char *arch;
  const char *signature;
  char kernel_key[33];
  bool compiled;
  double compile_ms;
};

/* {0} is empty. */
struct stg_build_plan {
  struct stg_build_source *sources;
  size_t n_sources;
  struct stg_build_item *items; /* each kernel once, in the order of the words */
  size_t n_items;
  struct stg_arena arena; /* signatures */
};

/**
 * Open the files, and list the kernels of their declarations for each of `archs`, whose names are
 * borrowed, as `files` are. `plan` is {0}; whatever comes of it, stg_build_plan_finish ends it.
 * @return STG_E_INVALID where no file has a declaration, or what stg_build_source_open and
 * stg_explain_kernel give, with the file.
 */
STG_NODISCARD stg_status stg_build_plan_init(struct stg_build_plan *plan, char **files,
                                             size_t n_files, const struct stg_arch_list *archs,
                                             const struct stg_job_options *options,
                                             stg_error *reterr);
/**
 * Find an architecture that the compiler does not know before anything is written, by a trial,
 * elsewhere, of each that lacks a kernel in the folders of `cache_path` (NULL: the environment's).
 * @return STG_E_UNSUPPORTED with its name. Other failures of a trial are left to the build.
 */
STG_NODISCARD stg_status stg_build_plan_check_archs(const struct stg_build_plan *plan,
                                                    const struct stg_arch_list *archs,
                                                    const char *cache_path, stg_error *reterr);
void stg_build_plan_finish(struct stg_build_plan *plan);

#endif
