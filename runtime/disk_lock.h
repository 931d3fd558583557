/*
 * disk_lock.h: a lock per key across processes, so that many that miss it at once compile it once.
 *
 * It only saves work: who does not get it in time, or where there is nothing to lock, goes on
 * without. The kernel gives the lock of a process that dies back. Must not know what a key is of.
 */
#ifndef STG_RUNTIME_DISK_LOCK_H
#define STG_RUNTIME_DISK_LOCK_H

#include <stdatomic.h>

#include "runtime/base/key.h"
#include "runtime/disk_cache.h"

/* {0} is a lock that is not held. */
struct stg_disk_lock {
  bool held;
  int fd;
};

/**
 * Take the lock of `key`, waiting for its holder, at most as long as the cache's options say.
 * False, with one line in the log at most: it is not held, compile anyway. Who was waited for in
 * vain is not waited for again for a minute. Keys with the same first two digits share a lock, so
 * nobody may take a second one while holding one. Ends its wait when another thread sets `cancel`
 * (may be NULL). Any thread.
 */
STG_NODISCARD bool stg_disk_lock_take(struct stg_disk_cache *cache, struct stg_key key,
                                      const atomic_bool *cancel, struct stg_disk_lock *ret_lock);
/**
 * Take the lock `name` of v1/lock, which is no key's, if nobody has it. STG_E_BUSY: somebody has;
 * any other failure: there is nothing to lock. Nothing is logged. Any thread.
 */
STG_NODISCARD stg_status stg_disk_lock_try(struct stg_disk_cache *cache, const char *name,
                                           struct stg_disk_lock *ret_lock, stg_error *reterr);
/** The same, but wait for its holder, at most so long. */
STG_NODISCARD stg_status stg_disk_lock_wait(struct stg_disk_cache *cache, const char *name,
                                            uint32_t wait_ms, struct stg_disk_lock *ret_lock,
                                            stg_error *reterr);
/** Give it back; nothing when it is not held. */
void stg_disk_lock_give(struct stg_disk_lock *lock);

#endif
