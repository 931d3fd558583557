/*
 * disk_stats.h: what all processes did with a cache folder, summed up in its file v1/stats.
 *
 * 144 bytes, little-endian:
 *   0 magic STGSTATS | 8 version 1, flags 0, 4 bytes each | 16 since when, signed, seconds since
 *   1970 | 24 the sums of STG_DISK_TOTALS_LIST, 8 bytes each, in its order | 128 XXH3-128 of all
 *   before
 *
 * A cache adds what it counted when it is closed, and at a store when a minute has passed; never at
 * a hit. The file is replaced under the lock v1/lock/stats and not flushed to the device: what is
 * lost is a statistic. Private to the disk cache, but for reading.
 */
#ifndef STG_RUNTIME_DISK_STATS_H
#define STG_RUNTIME_DISK_STATS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "runtime/disk_layer.h"

struct stg_disk_cache;

#define STG_DISK_STATS_BYTES 144

/* One row per sum, in the order of the file: runs are caches that had something to add, disk hits
 * have those in packs among them, evictions are entries and evicted bytes those of all files. */
#define STG_DISK_TOTALS_LIST(X)                                                                    \
  X(runs)                                                                                          \
  X(memory_hits)                                                                                   \
  X(disk_hits)                                                                                     \
  X(pack_hits)                                                                                     \
  X(misses)                                                                                        \
  X(compiles)                                                                                      \
  X(compile_us)                                                                                    \
  X(load_us)                                                                                       \
  X(stores)                                                                                        \
  X(store_failures)                                                                                \
  X(evictions)                                                                                     \
  X(evicted_bytes)                                                                                 \
  X(quarantined)

struct stg_disk_totals {
  int64_t since_unix; /* the first addition */
#define STG_DISK_TOTALS_MEMBER(name) uint64_t name;
  STG_DISK_TOTALS_LIST(STG_DISK_TOTALS_MEMBER)
#undef STG_DISK_TOTALS_MEMBER
};

/** Add sums, each no further than UINT64_MAX; since when stays. */
void stg_disk_totals_add(struct stg_disk_totals *totals, const struct stg_disk_totals *more);
/** The file's bytes. */
void stg_disk_totals_encode(const struct stg_disk_totals *totals,
                            unsigned char ret_bytes[STG_DISK_STATS_BYTES]);
/** STG_E_CORRUPT; STG_E_UNSUPPORTED: another version wrote it. */
STG_NODISCARD stg_status stg_disk_totals_decode(const void *bytes, size_t size,
                                                struct stg_disk_totals *ret, stg_error *reterr);
/** Read a folder's file. As decode; STG_E_NOT_FOUND: there is none; STG_E_IO. */
STG_NODISCARD stg_status stg_disk_stats_read(const struct stg_disk_layer *layer,
                                             struct stg_disk_totals *ret, stg_error *reterr);

/* What a cache has written of its counters. */
struct stg_disk_stats {
  pthread_mutex_t lock;
  struct stg_disk_totals written;
  atomic_uint_least64_t looked_ns; /* stg_clock_ns of the last time that it was due */
  pid_t process;                   /* a child's counters are its parent's to write */
};
void stg_disk_stats_init(struct stg_disk_stats *stats);
void stg_disk_stats_finish(struct stg_disk_stats *stats);

/**
 * Add to the file of the folder that is written to; a bad file is set aside and begun anew. A
 * folder that is not there is not made for it. STG_E_UNSUPPORTED: none is written to, or another
 * version keeps the file; STG_E_BUSY: its lock is held for longer than 100 ms; or what the disk
 * says.
 */
STG_NODISCARD stg_status stg_disk_stats_add(struct stg_disk_cache *cache,
                                            const struct stg_disk_totals *more, stg_error *reterr);
/** Add what was counted since the last time; a failure is logged (debug) and tried again later. */
void stg_disk_stats_flush(struct stg_disk_cache *cache);
/** An entry was stored: flush, if a minute has passed since the last time. */
void stg_disk_stats_stored(struct stg_disk_cache *cache);

#endif
