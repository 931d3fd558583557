/*
 * places.h: the places of a table of equal items in device memory: which are taken, and which of
 * these the device has not been sent yet. Touches no device.
 *
 * Places are handed out in turn, each after the one before, and not the lowest free one: what is
 * taken together then lies together, and few copies send it. Not locked.
 */
#ifndef STG_ENGINE_PLACES_H
#define STG_ENGINE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

struct stg_places {
  uint32_t capacity;
  uint32_t used;
  uint32_t unsent; /* of those in use */
  uint32_t next;   /* where the search for a free place begins */
  uint64_t *taken; /* a bit per place */
  uint64_t *waits; /* a bit per place: taken, not sent */
};

/* Neighbouring places. */
struct stg_places_run {
  uint32_t first, count;
};

/** False where there is no memory; nothing is kept then. */
STG_NODISCARD bool stg_places_init(struct stg_places *places, uint32_t capacity);
/** {0} is fine. */
void stg_places_finish(struct stg_places *places);

/** Take a free place, not sent yet; false when all are taken. */
STG_NODISCARD bool stg_places_take(struct stg_places *places, uint32_t *ret_place);
/** Give a place back. It need not have been sent. */
void stg_places_give(struct stg_places *places, uint32_t place);

bool stg_places_is_unsent(const struct stg_places *places, uint32_t place);
/** The first run of unsent places at or after `from`, as long as it goes on; false: none. */
bool stg_places_find_unsent(const struct stg_places *places, uint32_t from,
                            struct stg_places_run *ret_run);
/** Everything that is taken now is on its way. */
void stg_places_all_sent(struct stg_places *places);

#endif
