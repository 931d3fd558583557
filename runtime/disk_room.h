/*
 * disk_room.h: keep the folder that is written to under its limits, as entries are stored.
 *
 * A process counts what it stores itself, and looks at the folder when that may matter: at its
 * first store, when it counts more than the limit, and after every 32 stores or a sixteenth of the
 * limit, since others store too. Private to the disk cache.
 */
#ifndef STG_RUNTIME_DISK_ROOM_H
#define STG_RUNTIME_DISK_ROOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/disk_evict.h"

struct stg_disk_cache;

/* What a process believes of its folder. */
struct stg_disk_room {
  struct stg_disk_limits limits;
  pthread_mutex_t lock;          /* of what follows; not held while the disk is looked at */
  bool looked, looking;          /* once; a thread does now */
  bool failed;                   /* said once */
  uint64_t bytes, files;         /* at the last look, and what was stored since */
  uint64_t own_bytes, own_files; /* stored since the last look */
};

/** `max_bytes` and `max_entries`: 0 for the default. */
void stg_disk_room_init(struct stg_disk_room *room, uint64_t max_bytes, uint64_t max_entries);
void stg_disk_room_finish(struct stg_disk_room *room);

/**
 * An entry of so many bytes was stored in the layer that is written to: evict, down to nine tenths
 * of the limits, if they are passed, with one line in the log. Another process that does it
 * already is left to it. No failure is the caller's: it costs disk. Any thread.
 */
void stg_disk_room_stored(struct stg_disk_cache *cache, uint64_t bytes);

#endif
