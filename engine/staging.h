/*
 * staging.h: a ring of pinned buffers, so that uploads may be issued ahead of the device.
 *
 * Not locked: its owner's rules cover it. A buffer is free again when the event recorded after its
 * copies has passed; what it holds on to (records that a step replaced) is let go then.
 */
#ifndef STG_ENGINE_STAGING_H
#define STG_ENGINE_STAGING_H

#include "engine/record.h"
#include "runtime/device.h"

#define STG_STAGING_BUFFERS 4

struct stg_staging_buffer {
  void *host;
  struct stg_event *event;
  bool in_flight;
  struct stg_record **held; /* [held_capacity] */
  size_t n_held;
};

struct stg_staging {
  struct stg_device *device; /* NULL: nothing to stage, the CPU */
  void *memory;              /* of all buffers */
  size_t bytes;              /* of each buffer */
  size_t held_capacity;
  struct stg_staging_buffer buffers[STG_STAGING_BUFFERS];
  unsigned next;
};

/** Allocate the buffers; `held_capacity` records may be attached to each. */
STG_NODISCARD stg_status stg_staging_init(struct stg_staging *staging, struct stg_device *device,
                                          size_t bytes, size_t held_capacity, stg_error *reterr);
/** Waits for buffers in flight, lets go of what they hold and frees them. {0} is fine. */
void stg_staging_finish(struct stg_staging *staging, struct stg_record_store *store);

/** Pinned bytes of all buffers. */
size_t stg_staging_bytes(const struct stg_staging *staging);

/** The next buffer, waiting until its last use has passed. */
STG_NODISCARD stg_status stg_staging_acquire(struct stg_staging *staging,
                                             struct stg_record_store *store,
                                             struct stg_staging_buffer **ret_buffer,
                                             stg_error *reterr);
/** Mark the buffer as in flight until `stream` has passed this point. */
STG_NODISCARD stg_status stg_staging_commit(struct stg_staging *staging,
                                            struct stg_staging_buffer *buffer,
                                            stg_stream_handle stream, stg_error *reterr);
/** Let go of what finished buffers hold; with `wait`, of what any buffer holds. */
void stg_staging_reclaim(struct stg_staging *staging, struct stg_record_store *store, bool wait);

#endif
