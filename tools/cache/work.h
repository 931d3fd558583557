/*
 * cache/work.h: what every `steergraph cache` subcommand does around its own job: the option for
 * the folders, opening them, printing what the job says or its error.
 */
#ifndef STG_TOOLS_CACHE_WORK_H
#define STG_TOOLS_CACHE_WORK_H

#include <stdbool.h>
#include <time.h>

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"

/* The row of a `struct stg_option` table; `ret_folder` is NULL before, and after where the
 * environment's folders are meant. */
#define STG_CACHE_OPTION(ret_folder)                                                               \
  { "--cache", "FOLDERS", "cache folders, RO:RO:RW", ret_folder, NULL }

/**
 * The work of a subcommand on an open cache: append what is to be printed to `ret_text`. `user` is
 * the subcommand's own. `*ret_good` is true before; false makes the command fail although all was
 * printed. On an error nothing but the error is printed.
 */
typedef stg_status (*stg_cache_job)(stg_cache *cache, void *user, bool *ret_good,
                                    struct stg_strbuf *ret_text, stg_error *reterr);

/** Whether what is not ok is not there any more: removed since the cache was opened, and not bad.
 */
bool stg_cache_is_gone(const stg_cache_entry *entry);

/* How far a long work has come. */
struct stg_cache_progress {
  const char *what; /* borrowed; "entries verified" */
  struct timespec said;
};
void stg_cache_progress_begin(struct stg_cache_progress *progress, const char *what);
/** Say "DONE of TOTAL WHAT" where stderr is a terminal, ten times a second, so that short work says
 * nothing. `progress` is a struct stg_cache_progress. stg_report_live_end ends the line. */
void stg_cache_progress_say(void *progress, size_t done, size_t total);

/** Open `folder` (NULL: the environment's), do the job, print. Returns an exit status. */
int stg_cache_work(const char *folder, stg_cache_job job, void *user);

#endif
