/*
 * cache_work.c: open the cache folders of a subcommand, do its job, print what it says.
 *
 * Must not know what any job does.
 */
#include "tools/cache_work.h"

#include "runtime/base/alloc.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/report.h"

stg_status stg_cache_read_all(stg_cache *cache, stg_cache_entry **ret_entries, size_t *ret_count,
                              stg_error *reterr) {
  size_t count = stg_cache_count(cache);
  stg_cache_entry *entries = stg_calloc(count, sizeof *entries);
  if (entries == NULL) {
    return stg_error_memory(reterr, "the list of entries", count * sizeof *entries);
  }
  for (size_t i = 0; i < count; i++) {
    stg_status status = stg_cache_get(cache, i, &entries[i], reterr);
    if (status != STG_OK) {
      stg_free(entries);
      return status;
    }
  }
  *ret_entries = entries;
  *ret_count = count;
  return STG_OK;
}

int stg_cache_work(const char *folder, stg_cache_job job, void *user) {
  stg_cache *cache = NULL;
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  bool good = true;
  /* the environment's folder is made on the first store; one that is named is meant to be there */
  stg_status status = folder != NULL ? stg_cache_folder_check(folder, &err) : STG_OK;
  if (status == STG_OK) {
    status = stg_cache_folder_open(folder, &cache, &err);
  }
  if (status == STG_OK) {
    status = job(cache, user, &good, &text, &err);
  }
  stg_cache_close(cache);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code == STG_EXIT_DONE && !good ? STG_EXIT_FAILED : code;
}
