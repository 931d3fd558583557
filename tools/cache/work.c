/*
 * cache/work.c: open the cache folders of a subcommand, do its job, print what it says, and how far
 * it has come.
 *
 * Must not know what any job does.
 */
#include "tools/cache/work.h"

#include <errno.h>
#include <sys/stat.h>

#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/report.h"

#define PROGRESS_NS 100000000 /* between two lines on a terminal */

bool stg_cache_is_gone(const stg_cache_entry *entry) {
  struct stat facts;
  return !entry->ok && stat(entry->path, &facts) != 0 && errno == ENOENT;
}

void stg_cache_progress_begin(struct stg_cache_progress *progress, const char *what) {
  *progress = (struct stg_cache_progress){.what = what};
  clock_gettime(CLOCK_MONOTONIC, &progress->said);
}

void stg_cache_progress_say(void *progress, size_t done, size_t total) {
  struct stg_cache_progress *work = progress;
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t passed =
      (int64_t)(now.tv_sec - work->said.tv_sec) * 1000000000 + (now.tv_nsec - work->said.tv_nsec);
  if (passed >= PROGRESS_NS && stg_report_is_live()) {
    stg_report_live("%zu of %zu %s", done, total, work->what);
    work->said = now;
  }
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
