/*
 * disk_cache_private.h: what the files of the disk cache share, and the door for tests that inject
 * faults. Nobody else includes it.
 */
#ifndef STG_RUNTIME_DISK_CACHE_PRIVATE_H
#define STG_RUNTIME_DISK_CACHE_PRIVATE_H

#include <stdatomic.h>

#include "runtime/disk_cache.h"
#include "runtime/disk_io.h"
#include "runtime/disk_layer.h"
#include "runtime/disk_room.h"
#include "runtime/disk_stats.h"

#define STG_DISK_SHARDS 256

/* Immutable after open but for the counters, the room, the statistics and what is remembered of
 * locks. */
struct stg_disk_cache {
  struct stg_disk_layer *layers; /* the last one is written to, if it is writable */
  size_t n_layers;
  enum stg_disk_mode mode;
  struct stg_log log;
  struct stg_disk_io io;
  uint32_t lock_wait_ms; /* 0: the default */
  struct stg_disk_room room;
  struct stg_disk_stats stats;
  /* By shard: until when (stg_clock_ns) its lock is tried but not waited for, since its holder was
   * waited for in vain. */
  atomic_uint_least64_t hung_until_ns[STG_DISK_SHARDS];
  atomic_bool lock_failed;   /* said once */
  atomic_bool read_failed;   /* the first failure is a warning, later ones are not */
  atomic_bool store_failed;  /* likewise */
  atomic_bool recipe_failed; /* said once */
  atomic_uint_least64_t hits, misses, stores, store_failures, quarantined, pack_hits;
  atomic_uint_least64_t evictions, evicted_bytes;
  atomic_uint_least64_t memory_hits, compiles, compile_us, load_us; /* noted by others */
};

/** stg_disk_cache_open with other steps. */
STG_NODISCARD stg_status stg_disk_cache_open_with(const struct stg_disk_options *options,
                                                  const struct stg_disk_io *io,
                                                  struct stg_disk_cache **ret_cache,
                                                  stg_error *reterr);

/** The layer that a path of its lies in, the innermost where one lies in another; or NULL. */
const struct stg_disk_layer *stg_disk_layer_of(const struct stg_disk_cache *cache,
                                               const char *path);

/** STG_E_CORRUPT when the file's name is not that of an entry with this key and compiler. */
STG_NODISCARD stg_status stg_disk_check_name(const char *path, struct stg_key key,
                                             const char *compiler, stg_error *reterr);

/** The layer that is written to. STG_E_UNSUPPORTED: there is none. */
STG_NODISCARD stg_status stg_disk_writable_layer(const struct stg_disk_cache *cache,
                                                 const struct stg_disk_layer **ret_layer,
                                                 stg_error *reterr);

/** Stamp a file that is in use, at most hourly. One that cannot be stamped is evicted early. */
void stg_disk_stamp(const struct stg_disk_cache *cache, const char *path, int64_t mtime_unix);

/** Visit files in path order, but those that are gone; stops at the first failure of `visit`. */
STG_NODISCARD stg_status stg_disk_visit_files(struct stg_disk_files *files, stg_disk_visit visit,
                                              void *user, stg_error *reterr);

/** Move a bad entry out of the way, if its layer may be written, with one warning that says why. */
void stg_disk_set_aside(struct stg_disk_cache *cache, const char *path, const char *why);

#endif
