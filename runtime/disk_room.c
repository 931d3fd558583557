/*
 * disk_room.c: notice when the folder that is written to holds too much, and evict.
 *
 * The lock v1/lock/gc only saves work: two processes that evict at once choose the same files. Must
 * not know how files are chosen or removed; that is disk_evict.c.
 */
#include "runtime/disk_room.h"

#include "runtime/disk_cache_private.h"
#include "runtime/disk_lock.h"

#define STORES_BETWEEN_LOOKS 32
#define SHARE_BETWEEN_LOOKS 16 /* of the limit */
#define SPARE_SHARE 10 /* of the limit, free after an eviction, so that not every store evicts */

void stg_disk_room_init(struct stg_disk_room *room, uint64_t max_bytes, uint64_t max_entries) {
  room->limits = (struct stg_disk_limits){
      .bytes = max_bytes != 0 ? max_bytes : STG_DISK_DEFAULT_BYTES,
      .entries = max_entries != 0 ? max_entries : STG_DISK_DEFAULT_ENTRIES,
      .older_than_s = -1,
  };
  pthread_mutex_init(&room->lock, NULL);
}

void stg_disk_room_finish(struct stg_disk_room *room) {
  pthread_mutex_destroy(&room->lock);
}

static bool is_over(const struct stg_disk_room *room, uint64_t bytes, uint64_t files) {
  return bytes > room->limits.bytes || files > room->limits.entries;
}

/* Count a store of our own; whether this thread is to look at the folder now. */
static bool count_store(struct stg_disk_room *room, uint64_t bytes) {
  pthread_mutex_lock(&room->lock);
  room->bytes += bytes;
  room->own_bytes += bytes;
  room->files++;
  room->own_files++;
  bool due = !room->looked || room->own_files >= STORES_BETWEEN_LOOKS ||
             room->own_files > room->limits.entries / SHARE_BETWEEN_LOOKS ||
             room->own_bytes > room->limits.bytes / SHARE_BETWEEN_LOOKS ||
             is_over(room, room->bytes, room->files);
  due = due && !room->looking;
  room->looking = room->looking || due;
  pthread_mutex_unlock(&room->lock);
  return due;
}

/* Sums of a content: what stays, and what was removed. */
struct tally {
  uint64_t bytes, entries, files;                /* stay; entries and recipes are of the files */
  uint64_t gone_bytes, gone_entries, gone_files; /* were removed by us */
};

static void count_file(struct tally *tally, const struct stg_disk_content_file *file, bool gone) {
  const bool is_entry = stg_disk_is_for_use(file->kind);
  *(gone ? &tally->gone_bytes : &tally->bytes) += file->size_bytes;
  *(gone ? &tally->gone_files : &tally->files) += 1;
  *(gone ? &tally->gone_entries : &tally->entries) += is_entry;
}

/* Say once what stands in the way; the folder then grows. */
static void log_failure(struct stg_disk_cache *cache, const char *why) {
  pthread_mutex_lock(&cache->room.lock);
  bool again = cache->room.failed;
  cache->room.failed = true;
  pthread_mutex_unlock(&cache->room.lock);
  stg_log_printf(&cache->log, again ? STG_LOG_DEBUG : STG_LOG_INFO,
                 "the cache folder is not kept under its limits: %s", why);
}

static void remove_chosen(struct stg_disk_cache *cache, const struct stg_disk_content *content,
                          struct tally *tally) {
  for (size_t i = 0; i < content->count; i++) {
    const struct stg_disk_content_file *file = &content->items[i];
    stg_error error = STG_ERROR_INIT;
    enum stg_disk_fate fate =
        file->why != NULL ? stg_disk_remove(&cache->io, file, &error) : STG_DISK_SPARED;
    if (fate == STG_DISK_HELD) {
      log_failure(cache, error.message);
    }
    if (fate != STG_DISK_GONE) {
      count_file(tally, file, fate == STG_DISK_REMOVED);
    }
  }
}

static void log_eviction(const struct stg_disk_cache *cache, const char *folder,
                         const struct tally *tally) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "evicted %llu entries", (unsigned long long)tally->gone_entries);
  if (tally->gone_files > tally->gone_entries) {
    stg_strbuf_printf(&line, " and %llu other files",
                      (unsigned long long)(tally->gone_files - tally->gone_entries));
  }
  stg_strbuf_str(&line, ", ");
  stg_strbuf_bytes(&line, tally->gone_bytes);
  stg_strbuf_printf(&line, ", of '%s'; %llu entries, ", folder, (unsigned long long)tally->entries);
  stg_strbuf_bytes(&line, tally->bytes);
  stg_strbuf_str(&line, " stay");
  stg_log_printf(&cache->log, STG_LOG_INFO, "%s", stg_strbuf_text(&line));
  stg_strbuf_finish(&line);
}

/* Choose and remove, unless another process is at it. The content was read just now. */
static void evict(struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                  const struct stg_disk_content *content, struct tally *ret_tally) {
  struct stg_disk_lock lock = {0};
  struct tally tally = {0};
  stg_error error = STG_ERROR_INIT;
  if (stg_disk_lock_try(cache, "gc", &lock, &error) == STG_E_BUSY) {
    return;
  }
  remove_chosen(cache, content, &tally);
  stg_disk_lock_give(&lock);
  if (tally.gone_files > 0) {
    atomic_fetch_add(&cache->evictions, tally.gone_entries);
    atomic_fetch_add(&cache->evicted_bytes, tally.gone_bytes);
    log_eviction(cache, layer->root, &tally);
  }
  *ret_tally = tally;
}

/* Read the folder, evict if that is needed; what is there afterwards. */
static void look(struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                 struct tally *ret_tally) {
  struct stg_disk_content content = {0};
  struct stg_disk_limits limits = cache->room.limits;
  stg_error error = STG_ERROR_INIT;
  if (stg_disk_scan(layer, &content, &error) != STG_OK) {
    log_failure(cache, error.message);
    stg_disk_content_finish(&content);
    return;
  }
  for (size_t i = 0; i < content.left_out.count; i++) {
    log_failure(cache, content.left_out.items[i].problem);
  }
  for (size_t i = 0; i < content.count; i++) {
    count_file(ret_tally, &content.items[i], false);
  }
  if (is_over(&cache->room, ret_tally->bytes, ret_tally->files)) {
    limits.bytes -= limits.bytes / SPARE_SHARE;
    limits.entries -= limits.entries / SPARE_SHARE;
  }
  bool any = false;
  stg_disk_choose(&content, &limits, stg_disk_now_ns());
  for (size_t i = 0; i < content.count && !any; i++) {
    any = content.items[i].why != NULL;
  }
  if (any) {
    evict(cache, layer, &content, ret_tally);
  }
  stg_disk_content_finish(&content);
}

void stg_disk_room_stored(struct stg_disk_cache *cache, uint64_t bytes) {
  struct stg_disk_room *room = &cache->room;
  struct tally tally = {0};
  if (!count_store(room, bytes)) {
    return;
  }
  look(cache, &cache->layers[cache->n_layers - 1], &tally);
  pthread_mutex_lock(&room->lock);
  room->looked = true;
  room->looking = false;
  room->bytes = tally.bytes;
  room->files = tally.files;
  room->own_bytes = 0;
  room->own_files = 0;
  pthread_mutex_unlock(&room->lock);
}
