/*
 * disk_evict.h: what a cache folder holds, which of it is to go, and how it goes.
 *
 * Scanning reads names, sizes and stamps; choosing looks at nothing but those; removing looks once
 * more, so that what was used meanwhile stays. Locks, CACHEDIR.TAG, folders and files of other
 * names are nobody's to remove. Private to the disk cache and to `gc`.
 */
#ifndef STG_RUNTIME_DISK_EVICT_H
#define STG_RUNTIME_DISK_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/disk_io.h"
#include "runtime/disk_layer.h"

#define STG_DISK_NO_LIMIT UINT64_MAX
/* Of a folder for which nobody said another. An entry has about 110 KiB. */
#define STG_DISK_DEFAULT_BYTES (UINT64_C(2) << 30)
#define STG_DISK_DEFAULT_ENTRIES UINT64_C(32768)

/* How much may stay. */
struct stg_disk_limits {
  uint64_t bytes;       /* of all files together; STG_DISK_NO_LIMIT */
  uint64_t entries;     /* and their number; STG_DISK_NO_LIMIT */
  int64_t older_than_s; /* what was not used for so long goes anyway; negative: nothing does */
};

enum stg_disk_kind {
  STG_DISK_ENTRY,
  STG_DISK_RECIPE,     /* of a graph, in v1/graphs */
  STG_DISK_TEMPORARY,  /* what a writer has begun, or left when it was killed */
  STG_DISK_QUARANTINED /* what was bad */
};

/** Whether files of a kind are there to be used again; all others are leftovers. */
bool stg_disk_is_for_use(enum stg_disk_kind kind);

struct stg_disk_content_file {
  const char *path; /* in the content's arena */
  enum stg_disk_kind kind;
  uint64_t size_bytes;
  int64_t stamp_ns; /* mtime, in nanoseconds since 1970 */
  int64_t used_ns;  /* set by choose: the stamp, or now if that lies in the future */
  /* Set by choose: NULL when it stays, else "age", "count", "size", "kernel", "temporary",
   * "quarantine". */
  const char *why;
};

/* What a folder holds. {0} is a valid empty content; finish frees it. */
struct stg_disk_content {
  struct stg_disk_content_file *items;
  size_t count;
  size_t capacity;
  struct stg_disk_files left_out; /* folders that cannot be listed; text in the arena */
  struct stg_arena arena;
};
void stg_disk_content_finish(struct stg_disk_content *content);
/** Append a file, its path copied; false when out of memory. */
bool stg_disk_content_add(struct stg_disk_content *content,
                          const struct stg_disk_content_file *file);

/** Append what the layer's folder holds, in no order; one of its folders that cannot be listed, or
 * is a symbolic link, is left out. STG_E_IO; a folder that is not there is empty. */
STG_NODISCARD stg_status stg_disk_scan(const struct stg_disk_layer *layer,
                                       struct stg_disk_content *content, stg_error *reterr);

/**
 * Say of each file why it goes, and sort them, longest unused first, equals by path.
 *
 * Temporary files of an hour ago go, and quarantined ones of 30 days ago or beyond the newest 64 or
 * 64 MiB. Then entries and recipes that were not used for `older_than_s`. Then, as long as more
 * stay than the limits allow, in this order: the oldest quarantined files, the entries and recipes
 * that were unused longest; and with the last entry of a kernel, of all compilers, the recipes of
 * its graphs. A stamp in the future counts as now. Reads no disk.
 */
void stg_disk_choose(struct stg_disk_content *content, const struct stg_disk_limits *limits,
                     int64_t now_ns);

enum stg_disk_fate {
  STG_DISK_REMOVED,
  STG_DISK_GONE,   /* before us: nothing was done */
  STG_DISK_SPARED, /* its stamp is another than when it was scanned: it is in use */
  STG_DISK_HELD    /* it cannot be removed */
};
/** Remove one file, unless it was touched or replaced since the scan. `reterr` is filled for HELD.
 */
enum stg_disk_fate stg_disk_remove(const struct stg_disk_io *io,
                                   const struct stg_disk_content_file *file, stg_error *reterr);

/** Now, as stamps are: nanoseconds since 1970. */
int64_t stg_disk_now_ns(void);

#endif
