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
#define HUNG_NS UINT64_C(60000000000) /* how long it is remembered that a wait was in vain */

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

/* STG_E_BUSY: somebody holds it for longer than `wait_ms`; STG_E_CANCELLED. */
static stg_status wait_for(const struct stg_disk_cache *cache, int fd, const char *path,
                           uint32_t wait_ms, const atomic_bool *cancel, stg_error *reterr) {
  const struct timespec pause = {.tv_nsec = POLL_NS};
  uint64_t start_ns = stg_clock_ns();
  int errnum = cache->io.try_lock(cache->io.user, fd);
  while (errnum == EWOULDBLOCK || errnum == EINTR) {
    if (cancel != NULL && atomic_load(cancel)) {
      return stg_error_set(reterr, STG_E_CANCELLED, "the wait for lock '%s' was given up", path);
    }
    if (errnum == EWOULDBLOCK && stg_clock_ns() - start_ns >= wait_ms * NS_PER_MS) {
      return wait_ms != 0
                 ? stg_error_set(reterr, STG_E_BUSY,
                                 "lock '%s' is held by another process, after %u ms of waiting",
                                 path, (unsigned)wait_ms)
                 : stg_error_set(reterr, STG_E_BUSY, "lock '%s' is held by another", path);
    }
    if (wait_ms != 0) {
      nanosleep(&pause, NULL);
    }
    errnum = cache->io.try_lock(cache->io.user, fd);
  }
  return errnum == 0 ? STG_OK : stg_error_io(reterr, errnum, "lock", path);
}

/* A holder that hangs is worth a warning, once a minute; that there is nothing to lock is said
 * once. */
static void log_failure(struct stg_disk_cache *cache, const stg_error *error, bool patient) {
  bool busy = error->code == STG_E_BUSY;
  stg_log_level level = !busy ? STG_LOG_INFO : patient ? STG_LOG_WARN : STG_LOG_DEBUG;
  if (error->code == STG_E_CANCELLED) {
    return; /* nothing will be compiled */
  }
  if (busy || !atomic_exchange(&cache->lock_failed, true)) {
    stg_log_printf(&cache->log, level, "compiling without a lock: %s", error->message);
  }
}

/* Open the lock `name` of the layer that is written to, and wait for it. */
static stg_status take_named(struct stg_disk_cache *cache, const char *name, uint32_t wait_ms,
                             const atomic_bool *cancel, struct stg_disk_lock *ret_lock,
                             stg_error *reterr) {
  const struct stg_disk_layer *layer = &cache->layers[cache->n_layers - 1];
  int fd = -1;
  char *folder = stg_path_join(layer->root, "v1/lock");
  char *path = folder == NULL ? NULL : stg_path_join(folder, name);
  stg_status status = path == NULL ? stg_error_memory(reterr, "a lock's path", strlen(layer->root))
                                   : open_lock(cache, layer, folder, path, &fd, reterr);
  if (status == STG_OK) {
    status = wait_for(cache, fd, path, wait_ms, cancel, reterr);
  }
  if (status == STG_OK) {
    *ret_lock = (struct stg_disk_lock){.held = true, .fd = fd};
  } else if (fd >= 0) {
    close(fd);
  }
  stg_free(path);
  stg_free(folder);
  return status;
}

stg_status stg_disk_lock_try(struct stg_disk_cache *cache, const char *name,
                             struct stg_disk_lock *ret_lock, stg_error *reterr) {
  return take_named(cache, name, 0, NULL, ret_lock, reterr);
}

stg_status stg_disk_lock_wait(struct stg_disk_cache *cache, const char *name, uint32_t wait_ms,
                              struct stg_disk_lock *ret_lock, stg_error *reterr) {
  return take_named(cache, name, wait_ms, NULL, ret_lock, reterr);
}

bool stg_disk_lock_take(struct stg_disk_cache *cache, struct stg_key key, const atomic_bool *cancel,
                        struct stg_disk_lock *ret_lock) {
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_error error = STG_ERROR_INIT;
  /* who refreshes compiles whatever others do; a pack alone: there is nothing to store in */
  if (cache->n_layers == 0 || cache->mode != STG_DISK_READ_WRITE ||
      !cache->layers[cache->n_layers - 1].writable) {
    return false;
  }
  stg_key_hex(key, hex);
  hex[STG_DISK_SHARD_CHARS] = '\0';
  atomic_uint_least64_t *hung_until_ns = &cache->hung_until_ns[key.high >> 56];
  const bool patient = stg_clock_ns() >= atomic_load(hung_until_ns);
  const uint32_t limit_ms = cache->lock_wait_ms != 0 ? cache->lock_wait_ms : DEFAULT_WAIT_MS;
  stg_status status = take_named(cache, hex, patient ? limit_ms : 0, cancel, ret_lock, &error);
  if (status == STG_OK) {
    atomic_store(hung_until_ns, 0);
    return true;
  }
  if (status == STG_E_BUSY && patient) {
    atomic_store(hung_until_ns, stg_clock_ns() + HUNG_NS);
  }
  log_failure(cache, &error, patient);
  return false;
}

/* Unlocked by name: a child that was forked meanwhile shares the lock and may live on. */
void stg_disk_lock_give(struct stg_disk_lock *lock) {
  if (lock->held) {
    (void)flock(lock->fd, LOCK_UN);
    close(lock->fd);
    *lock = (struct stg_disk_lock){0};
  }
}
