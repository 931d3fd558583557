/*
 * run_files.h: the files that a run leaves: whole or not at all, also where it is interrupted.
 */
#ifndef STG_TOOLS_RUN_FILES_H
#define STG_TOOLS_RUN_FILES_H

#include <steergraph/engine.h>

#include "specs/vector_file.h"

/** A safetensors file of a run's results, with the signature that made them. */
STG_NODISCARD stg_status stg_run_write_tensors(const char *path,
                                               const struct stg_tensor_out *tensors, size_t count,
                                               const char *signature, stg_error *reterr);
/** The manifest of what an engine did. */
STG_NODISCARD stg_status stg_run_save_traffic(stg_engine *engine, const char *path,
                                              stg_error *reterr);

#endif
