/*
 * disk_lock.c: flock on v1/lock/<first two hex digits of the key> of the writable layer.
 *
 * At most 256 files, made on demand and never removed: a lock on a file that another process
 * unlinks and makes anew would keep nobody out. Polled, because a wait for flock cannot be bounded
 * without signals. Must not know what is compiled.
 */
#include "runtime/disk_lock.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/clock.h"
#include "runtime/disk_cache_private.h"

#define DEFAULT_WAIT_MS 30000u
#define POLL_NS 10000000
#define NS_PER_MS UINT64_C(1000000)

/* Open the lock's file, making its folder. STG_E_IO, or what stg_disk_layer_check says. */
static stg_status open_lock(const struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                            const char *folder, const char *path, int *ret_fd, stg_error *reterr) {
  stg_status status = stg_disk_layer_check(layer, reterr);
  if (status != STG_OK && status != STG_E_NOT_FOUND) {
    return status;
  }
  int errnum = cache->io.make_folder(cache->io.user, folder);
  if (errnum != 0) {
    return stg_error_io(reterr, errnum, "make folder", folder);
  }
  /* only now: what was not there before may be somebody else's by now */
  status = stg_disk_layer_check(layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  errnum = cache->io.open_lock(cache->io.user, path, ret_fd);
  return errnum == 0 ? STG_OK : stg_error_io(reterr, errnum, "open lock", path);
}

/* STG_E_BUSY: somebody holds it for longer than we wait; STG_E_CANCELLED. */
static stg_status wait_for(const struct stg_disk_cache *cache, int fd, const char *path,
                           const atomic_bool *cancel, stg_error *reterr) {
  const struct timespec pause = {.tv_nsec = POLL_NS};
  uint32_t wait_ms = cache->lock_wait_ms != 0 ? cache->lock_wait_ms : DEFAULT_WAIT_MS;
  uint64_t start_ns = stg_clock_ns();
  int errnum = cache->io.try_lock(cache->io.user, fd);
  while (errnum == EWOULDBLOCK || errnum == EINTR) {
    if (cancel != NULL && atomic_load(cancel)) {
      return stg_error_set(reterr, STG_E_CANCELLED, "the wait for lock '%s' was given up", path);
    }
    if (stg_clock_ns() - start_ns >= wait_ms * NS_PER_MS) {
      return stg_error_set(reterr, STG_E_BUSY, "lock '%s' is held by another process since %u ms",
                           path, (unsigned)wait_ms);
    }
    nanosleep(&pause, NULL);
    errnum = cache->io.try_lock(cache->io.user, fd);
  }
  return errnum == 0 ? STG_OK : stg_error_io(reterr, errnum, "lock", path);
}

/* A holder that hangs is worth a warning; that there is nothing to lock is said by the first store
 * that fails, or matters to nobody. */
static void log_failure(struct stg_disk_cache *cache, const stg_error *error) {
  bool busy = error->code == STG_E_BUSY;
  if (error->code == STG_E_CANCELLED) {
    return; /* nothing will be compiled */
  }
  if (busy || !atomic_exchange(&cache->lock_failed, true)) {
    stg_log_printf(&cache->log, busy ? STG_LOG_WARN : STG_LOG_DEBUG, "compiling without a lock: %s",
                   error->message);
  }
}

bool stg_disk_lock_take(struct stg_disk_cache *cache, struct stg_key key, const atomic_bool *cancel,
                        struct stg_disk_lock *ret_lock) {
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_error error = STG_ERROR_INIT;
  int fd = -1;
  /* who refreshes compiles whatever others do */
  if (cache->n_layers == 0 || cache->mode != STG_DISK_READ_WRITE) {
    return false;
  }
  const struct stg_disk_layer *layer = &cache->layers[cache->n_layers - 1];
  if (!layer->writable) { /* a pack alone: there is nothing to store in */
    return false;
  }
  stg_key_hex(key, hex);
  hex[STG_DISK_SHARD_CHARS] = '\0';
  char *folder = stg_path_join(layer->root, "v1/lock");
  char *path = folder == NULL ? NULL : stg_path_join(folder, hex);
  stg_status status = path == NULL ? stg_error_memory(&error, "a lock's path", strlen(layer->root))
                                   : open_lock(cache, layer, folder, path, &fd, &error);
  if (status == STG_OK) {
    status = wait_for(cache, fd, path, cancel, &error);
  }
  if (status == STG_OK) {
    *ret_lock = (struct stg_disk_lock){.held = true, .fd = fd};
  } else {
    if (fd >= 0) {
      close(fd);
    }
    log_failure(cache, &error);
  }
  stg_free(path);
  stg_free(folder);
  return status == STG_OK;
}

/* Unlocked by name: a child that was forked meanwhile shares the lock and may live on. */
void stg_disk_lock_give(struct stg_disk_lock *lock) {
  if (lock->held) {
    (void)flock(lock->fd, LOCK_UN);
    close(lock->fd);
    *lock = (struct stg_disk_lock){0};
  }
}
