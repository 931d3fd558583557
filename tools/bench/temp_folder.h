/*
 * bench/temp_folder.h: a folder of a measurement's own, for caches that must be empty.
 */
#ifndef STG_TOOLS_BENCH_TEMP_FOLDER_H
#define STG_TOOLS_BENCH_TEMP_FOLDER_H

#include "runtime/base/error.h"

/** Make an empty folder under TMPDIR, else /tmp; `*ret_path` is stg_free'd. STG_E_IO names it. */
STG_NODISCARD stg_status stg_bench_temp_folder_make(char **ret_path, stg_error *reterr);

/**
 * Remove a folder and all that is in it; symbolic links are removed and not followed. STG_E_IO
 * names what stayed.
 */
STG_NODISCARD stg_status stg_bench_temp_folder_remove(const char *path, stg_error *reterr);

#endif
