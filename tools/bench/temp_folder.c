/*
 * bench/temp_folder.c: see temp_folder.h.
 */
#include "tools/bench/temp_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/strbuf.h"

#define OPEN_FOLDERS 16

stg_status stg_bench_temp_folder_make(char **ret_path, stg_error *reterr) {
  const char *root = getenv("TMPDIR");
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, "%s/steergraph-bench-XXXXXX",
                    root != NULL && root[0] != '\0' ? root : "/tmp");
  char *path = stg_strbuf_take(&text);
  if (path == NULL) {
    return stg_error_memory(reterr, "the path of a temporary folder", 0);
  }
  if (mkdtemp(path) == NULL) {
    stg_status status = stg_error_io(reterr, errno, "make the temporary folder", path);
    stg_free(path);
    return status;
  }
  *ret_path = path;
  return STG_OK;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
  (void)info;
  (void)kind;
  (void)where;
  return remove(path);
}

stg_status stg_bench_temp_folder_remove(const char *path, stg_error *reterr) {
  return nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0
             ? STG_OK
             : stg_error_io(reterr, errno, "remove the temporary folder", path);
}
