/*
 * cache_folder.c: which cache folder. What is in it is the library's to say.
 */
#include "tools/cache_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <steergraph/engine.h>

#include "engine/offline.h"
#include "runtime/base/error.h"
#include "runtime/base/strbuf.h"
#include "tools/run_output.h"

stg_status stg_cache_folder_find(const char *given, const char **ret_path, stg_error *reterr) {
  if (given != NULL) {
    *ret_path = given;
    return STG_OK;
  }
  stg_options options;
  stg_status status = stg_options_for_command(&options, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (options.cache_path == NULL || options.cache_path[0] == '\0') {
    return stg_error_set(reterr, STG_E_INVALID,
                         "no cache folder; set STEERGRAPH_CACHE_DIR or give --cache DIR");
  }
  *ret_path = options.cache_path;
  return STG_OK;
}

bool stg_cache_folder_is_pack(const char *path_list) {
  struct stat facts;
  return strchr(path_list, ':') == NULL && stat(path_list, &facts) == 0 && S_ISREG(facts.st_mode);
}

stg_status stg_cache_folder_check(const char *path_list, stg_error *reterr) {
  for (const char *piece = path_list; piece != NULL;) {
    const char *colon = strchr(piece, ':');
    size_t len = colon == NULL ? strlen(piece) : (size_t)(colon - piece);
    struct stg_strbuf folder = {0};
    stg_strbuf_mem(&folder, piece, len);
    struct stat facts;
    stg_status status = stg_strbuf_status(&folder, reterr);
    if (status == STG_OK && len > 0 && stat(stg_strbuf_text(&folder), &facts) != 0) {
      status = stg_error_io(reterr, errno, "open the cache folder", stg_strbuf_text(&folder));
    }
    stg_strbuf_finish(&folder);
    if (status != STG_OK) {
      return status;
    }
    piece = colon == NULL ? NULL : colon + 1;
  }
  return STG_OK;
}

stg_status stg_cache_folder_open(const char *given, stg_cache **ret_cache, stg_error *reterr) {
  const char *path = NULL;
  stg_status status = stg_cache_folder_find(given, &path, reterr);
  return status == STG_OK ? stg_cache_open(path, ret_cache, reterr) : status;
}

stg_status stg_cache_folder_check_output(const char *given, const char *option, const char *path,
                                         stg_error *reterr) {
  const char *list = NULL;
  stg_status status = stg_cache_folder_find(given, &list, reterr);
  return status == STG_OK ? stg_run_output_check_cache(list, option, path, reterr) : status;
}
