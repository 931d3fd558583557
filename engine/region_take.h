/*
 * region_take.h: a take: what there is of a host's work for one stream: recorded (region_record.c),
 * or captured by its host and adopted (region_adopt.c). region_take.c ends them.
 */
#ifndef STG_ENGINE_REGION_TAKE_H
#define STG_ENGINE_REGION_TAKE_H

#include "engine/region.h"

/* Of an exec, whose lock guards it; once retired, of a list of stg_regions. */
struct stg_region_take {
  struct stg_region_take *next; /* of those that are retired, or dropped */
  struct stg_event *event;      /* after the last launch; NULL where nothing waits for that */
  bool launched;
  uint64_t memory;     /* all buffers; 0: there are none */
  size_t memory_bytes; /* or, of what was adopted, what its host says */
  /* of what was adopted; else NULL and 0 */
  stg_region_launch launch;
  void *user;
  uint64_t token;
  size_t n_pointers;
  stg_region_pointer pointers[]; /* as recorded; then as many void *: what the work was given */
};

static inline size_t stg_region_take_bytes(size_t n_pointers) {
  return sizeof(struct stg_region_take) +
         n_pointers * (sizeof(stg_region_pointer) + sizeof(void *));
}

#endif
