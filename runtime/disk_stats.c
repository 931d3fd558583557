/*
 * disk_stats.c: the sums of a cache folder: their file, and when a cache adds to it.
 *
 * No failure is anybody's: it costs a statistic. Must not know who asks for kernels.
 */
#include "runtime/disk_stats.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/base/file.h"
#include "runtime/clock.h"
#include "runtime/disk_cache_private.h"
#include "runtime/disk_lock.h"

#define FILE_NAME "stats" /* of its lock too */
#define VERSION 1u
#define SINCE_AT 16
#define SUMS_AT 24
#define FOOTER_AT (STG_DISK_STATS_BYTES - STG_KEY_BYTES)
#define MAX_FILE_BYTES 4096 /* of any version */

#define LOCK_WAIT_MS 100u
#define NS_BETWEEN_LOOKS UINT64_C(60000000000)

static const char magic[8] = {'S', 'T', 'G', 'S', 'T', 'A', 'T', 'S'};

#define COUNT_ONE(name) +1
_Static_assert(SUMS_AT + 8 * (0 STG_DISK_TOTALS_LIST(COUNT_ONE)) == FOOTER_AT,
               "another list of sums is another version");
#undef COUNT_ONE

void stg_disk_totals_add(struct stg_disk_totals *totals, const struct stg_disk_totals *more) {
#define ADD(name)                                                                                  \
  totals->name = more->name > UINT64_MAX - totals->name ? UINT64_MAX : totals->name + more->name;
  STG_DISK_TOTALS_LIST(ADD)
#undef ADD
}

static unsigned char *put(unsigned char *to, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) {
    to[i] = (unsigned char)(value >> (8 * i) & 0xffu);
  }
  return to + width;
}

void stg_disk_totals_encode(const struct stg_disk_totals *totals,
                            unsigned char ret_bytes[STG_DISK_STATS_BYTES]) {
  memcpy(ret_bytes, magic, sizeof magic);
  unsigned char *to = put(ret_bytes + sizeof magic, VERSION, 8);
  to = put(to, (uint64_t)totals->since_unix, 8);
#define PUT(name) to = put(to, totals->name, 8);
  STG_DISK_TOTALS_LIST(PUT)
#undef PUT
  stg_key_store(stg_key_of(ret_bytes, FOOTER_AT), to);
}

stg_status stg_disk_totals_decode(const void *bytes, size_t size, struct stg_disk_totals *ret,
                                  stg_error *reterr) {
  const unsigned char *from = bytes;
  if (size < SINCE_AT + STG_KEY_BYTES || memcmp(from, magic, sizeof magic) != 0) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no statistics: %zu bytes without their magic",
                         size);
  }
  if (!stg_key_equal(stg_key_load(from + size - STG_KEY_BYTES),
                     stg_key_of(from, size - STG_KEY_BYTES))) {
    return stg_error_set(reterr, STG_E_CORRUPT, "the checksum of the statistics is wrong");
  }
  const uint64_t version = stg_le_load(from + sizeof magic, 8); /* flags above it */
  if (version != VERSION) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "statistics of version %llu with flags %llu, this version reads %u",
                         (unsigned long long)(version & UINT32_MAX),
                         (unsigned long long)(version >> 32), VERSION);
  }
  if (size != STG_DISK_STATS_BYTES) {
    return stg_error_set(reterr, STG_E_CORRUPT, "statistics of %zu bytes, not %d", size,
                         STG_DISK_STATS_BYTES);
  }
  struct stg_disk_totals totals = {.since_unix = (int64_t)stg_le_load(from + SINCE_AT, 8)};
  from += SUMS_AT;
#define LOAD(name)                                                                                 \
  totals.name = stg_le_load(from, 8);                                                              \
  from += 8;
  STG_DISK_TOTALS_LIST(LOAD)
#undef LOAD
  *ret = totals;
  return STG_OK;
}

static stg_status read_file(const char *path, struct stg_disk_totals *ret, stg_error *reterr) {
  char *bytes = NULL;
  size_t size = 0;
  stg_status status = stg_file_read(path, MAX_FILE_BYTES, &bytes, &size, reterr);
  if (status == STG_E_INVALID) {
    return stg_error_set(reterr, STG_E_CORRUPT, "no statistics: over %d bytes", MAX_FILE_BYTES);
  }
  if (status == STG_OK) {
    status = stg_disk_totals_decode(bytes, size, ret, reterr);
  }
  stg_free(bytes);
  return status;
}

stg_status stg_disk_stats_read(const struct stg_disk_layer *layer, struct stg_disk_totals *ret,
                               stg_error *reterr) {
  char *path = stg_path_join(layer->root, "v1/" FILE_NAME);
  stg_status status = path != NULL ? read_file(path, ret, reterr)
                                   : stg_error_memory(reterr, "a path", strlen(layer->root));
  stg_free(path);
  return status;
}

static stg_status replace(const struct stg_disk_io *io, const struct stg_disk_layer *layer,
                          const struct stg_disk_totals *totals, stg_error *reterr) {
  unsigned char bytes[STG_DISK_STATS_BYTES];
  stg_disk_totals_encode(totals, bytes);
  return stg_disk_layer_replace(layer, io, FILE_NAME, bytes, sizeof bytes, reterr);
}

/* With the lock held: read, or begin anew, add, write. */
static stg_status add_locked(struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                             const struct stg_disk_totals *more, stg_error *reterr) {
  struct stg_disk_totals totals = {.since_unix = (int64_t)time(NULL)};
  stg_error error = STG_ERROR_INIT;
  char *path = stg_path_join(layer->root, "v1/" FILE_NAME);
  if (path == NULL) {
    return stg_error_memory(reterr, "a path", strlen(layer->root));
  }
  stg_status status = read_file(path, &totals, &error);
  if (status == STG_E_CORRUPT) {
    stg_log_printf(&cache->log, STG_LOG_INFO, "'%s' is begun anew: %s", path, error.message);
    status = stg_disk_layer_quarantine(layer, &cache->io, path, &error);
  }
  if (status == STG_OK || status == STG_E_NOT_FOUND) {
    stg_disk_totals_add(&totals, more);
    status = replace(&cache->io, layer, &totals, reterr);
  } else {
    status = stg_error_set(reterr, status, "%s", error.message);
  }
  stg_free(path);
  return status;
}

stg_status stg_disk_stats_add(struct stg_disk_cache *cache, const struct stg_disk_totals *more,
                              stg_error *reterr) {
  struct stg_disk_lock lock = {0};
  const struct stg_disk_layer *layer =
      cache->n_layers > 0 ? &cache->layers[cache->n_layers - 1] : NULL;
  if (layer == NULL || !layer->writable) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "no cache folder is written to");
  }
  stg_status status = stg_disk_layer_check(layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_disk_lock_wait(cache, FILE_NAME, LOCK_WAIT_MS, &lock, reterr);
  if (status == STG_OK) {
    status = add_locked(cache, layer, more, reterr);
    stg_disk_lock_give(&lock);
  }
  return status;
}

void stg_disk_stats_init(struct stg_disk_stats *stats) {
  pthread_mutex_init(&stats->lock, NULL);
  atomic_init(&stats->looked_ns, stg_clock_ns());
  stats->process = getpid();
}

void stg_disk_stats_finish(struct stg_disk_stats *stats) {
  pthread_mutex_destroy(&stats->lock);
}

static struct stg_disk_totals count(const struct stg_disk_cache *cache) {
  struct stg_disk_counters own;
  stg_disk_cache_counters(cache, &own);
  return (struct stg_disk_totals){.memory_hits = atomic_load(&cache->memory_hits),
                                  .disk_hits = own.hits,
                                  .pack_hits = own.pack_hits,
                                  .misses = own.misses,
                                  .compiles = atomic_load(&cache->compiles),
                                  .compile_us = atomic_load(&cache->compile_us),
                                  .load_us = atomic_load(&cache->load_us),
                                  .stores = own.stores,
                                  .store_failures = own.store_failures,
                                  .evictions = own.evictions,
                                  .evicted_bytes = own.evicted_bytes,
                                  .quarantined = own.quarantined};
}

/* What was counted and not written; false: nothing. */
static bool find_rest(const struct stg_disk_totals *counted, const struct stg_disk_totals *written,
                      struct stg_disk_totals *ret_rest) {
  uint64_t any = 0;
#define SUBTRACT(name)                                                                             \
  ret_rest->name = counted->name - written->name;                                                  \
  any |= ret_rest->name;
  STG_DISK_TOTALS_LIST(SUBTRACT)
#undef SUBTRACT
  return any != 0;
}

void stg_disk_stats_flush(struct stg_disk_cache *cache) {
  struct stg_disk_stats *stats = &cache->stats;
  struct stg_disk_totals rest = {0};
  stg_error error = STG_ERROR_INIT;
  if (stats->process != getpid() || pthread_mutex_trylock(&stats->lock) != 0) {
    return; /* another thread is at it */
  }
  struct stg_disk_totals counted = count(cache);
  counted.runs = stats->written.runs;
  if (find_rest(&counted, &stats->written, &rest)) {
    counted.runs = 1;
    rest.runs = counted.runs - stats->written.runs;
    stg_status status = stg_disk_stats_add(cache, &rest, &error);
    if (status == STG_OK) {
      stats->written = counted;
    } else if (status != STG_E_UNSUPPORTED && status != STG_E_NOT_FOUND) {
      stg_log_printf(&cache->log, STG_LOG_DEBUG, "the statistics of the cache are not kept: %s",
                     error.message);
    }
  }
  pthread_mutex_unlock(&stats->lock);
}

void stg_disk_stats_stored(struct stg_disk_cache *cache) {
  uint64_t looked_ns = atomic_load(&cache->stats.looked_ns); /* first: it is no later than now */
  const uint64_t now_ns = stg_clock_ns();
  if (now_ns - looked_ns >= NS_BETWEEN_LOOKS &&
      atomic_compare_exchange_strong(&cache->stats.looked_ns, &looked_ns, now_ns)) {
    stg_disk_stats_flush(cache);
  }
}
