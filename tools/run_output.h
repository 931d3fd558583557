/*
 * run_output.h: where a command may write a file: not over one that it reads.
 */
#ifndef STG_TOOLS_RUN_OUTPUT_H
#define STG_TOOLS_RUN_OUTPUT_H

#include "specs/workload.h"

/** STG_E_INVALID for '-', which elsewhere means standard output. The checks below ask it too. */
STG_NODISCARD stg_status stg_run_output_check_name(const char *option, const char *path,
                                                   stg_error *reterr);
/** STG_E_INVALID when `path` is the workload's file or one that it reads, by whatever name. */
STG_NODISCARD stg_status stg_run_output_check(const struct stg_workload *workload,
                                              const char *option, const char *path,
                                              stg_error *reterr);
/** The same of one source of the workload `file`. */
STG_NODISCARD stg_status stg_run_output_check_source(const char *file,
                                                     const struct stg_spec_vector_source *source,
                                                     const char *option, const char *path,
                                                     stg_error *reterr);
/** The same for a command that reads one file, `input`, which need not be there. */
STG_NODISCARD stg_status stg_run_output_check_file(const char *input, const char *option,
                                                   const char *path, stg_error *reterr);
/** The same for one that reads a cache: no pack of the list, and nothing that a folder of it has.
 */
STG_NODISCARD stg_status stg_run_output_check_cache(const char *path_list, const char *option,
                                                    const char *path, stg_error *reterr);
/* A file that is written, and the option that names it; no path: it is not. */
struct stg_run_output {
  const char *option, *path;
};
/** STG_E_INVALID when two files that are written are one, by whatever names; `reader` is the
 * workload's. */
STG_NODISCARD stg_status stg_run_output_check_pair(const char *reader,
                                                   const struct stg_run_output pair[2],
                                                   stg_error *reterr);

#endif
