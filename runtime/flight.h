/*
 * flight.h: single flight: threads that want the same key while it is being made wait for the one
 * thread that makes it, and share what it made, or its failure.
 *
 * Knows keys and opaque values; nothing of kernels or CUDA. Any thread.
 */
#ifndef STG_RUNTIME_FLIGHT_H
#define STG_RUNTIME_FLIGHT_H

#include <stdbool.h>

#include "runtime/base/key.h"

struct stg_flight_table;

/* What stg_flight_join found. */
enum stg_flight_role {
  STG_FLIGHT_HAVE, /* the value, with a reference */
  STG_FLIGHT_MAKE, /* nobody has it: make it, then call stg_flight_land, whatever happens */
  STG_FLIGHT_SLOW  /* another thread is in its slow part, and the caller does not wait for that */
};

STG_NODISCARD stg_status stg_flight_create(struct stg_flight_table **ret_table, stg_error *reterr);
/** Every reference must have been dropped. */
void stg_flight_destroy(struct stg_flight_table *table);

/**
 * Look `key` up; wait while another thread makes it. `patient` false: not through its slow part.
 * A failure of the other thread is returned as this call's own, except that a patient caller tries
 * by itself what an impatient one gave up (STG_E_NOT_WARM).
 * `*ret_value` is set for STG_FLIGHT_HAVE only.
 */
STG_NODISCARD stg_status stg_flight_join(struct stg_flight_table *table, struct stg_key key,
                                         bool patient, enum stg_flight_role *ret_role,
                                         void **ret_value, stg_error *reterr);
/** The maker says that its slow part begins. */
void stg_flight_slow(struct stg_flight_table *table, struct stg_key key);
/**
 * The maker is done. STG_OK: `value` (not NULL) is there for all, and the maker holds a reference.
 * Otherwise the waiters get `status` and `error`'s message, and the key is free again.
 */
void stg_flight_land(struct stg_flight_table *table, struct stg_key key, stg_status status,
                     void *value, const stg_error *error);
/** Drop a reference; returns the value when it was the last one (the caller frees it), or NULL. */
void *stg_flight_drop(struct stg_flight_table *table, struct stg_key key);

#endif
