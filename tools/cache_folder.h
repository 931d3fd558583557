/*
 * cache_folder.h: the cache folder that a subcommand works on: the one named, or the environment's.
 */
#ifndef STG_TOOLS_CACHE_FOLDER_H
#define STG_TOOLS_CACHE_FOLDER_H

#include <steergraph/cache.h>

/**
 * `given` when not NULL, otherwise what the environment says. STG_E_INVALID with the remedy when it
 * says nothing. The text lives as long as `given` or the process.
 */
STG_NODISCARD stg_status stg_cache_folder_find(const char *given, const char **ret_path,
                                               stg_error *reterr);
/** Whether it is one pack and no list: entries to look at, and nowhere to write to. */
bool stg_cache_folder_is_pack(const char *path_list);
/** STG_E_IO names the first folder of "RO:RO:RW" that is not there. */
STG_NODISCARD stg_status stg_cache_folder_check(const char *path_list, stg_error *reterr);
/** STG_E_INVALID when `path`, named by `option`, is a pack among the folders, which is read, or
 * what one has. */
STG_NODISCARD stg_status stg_cache_folder_check_output(const char *given, const char *option,
                                                       const char *path, stg_error *reterr);
/** Find and open. */
STG_NODISCARD stg_status stg_cache_folder_open(const char *given, stg_cache **ret_cache,
                                               stg_error *reterr);

#endif
