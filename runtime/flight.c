/*
 * flight.c: the table of keys that are being made or are there, under one lock.
 *
 * The lock is never held while anything is made. A failed flight stays until its last waiter has
 * read the failure, out of the table, so that the key can be tried again meanwhile.
 */
#include "runtime/flight.h"

#include <assert.h>
#include <pthread.h>

#include "runtime/base/alloc.h"

#define N_BUCKETS 4096 /* a pointer each: two or three of 10 000 kernels meet in one */

enum flight_state { FLYING, FLYING_SLOW, LANDED, FAILED };

struct flight {
  struct flight *next;
  struct stg_key key;
  enum flight_state state;
  size_t refs; /* of a landed value */
  size_t waiters;
  void *value;
  stg_status status;
  stg_error error;
};

struct stg_flight_table {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct flight *buckets[N_BUCKETS];
};

stg_status stg_flight_create(struct stg_flight_table **ret_table, stg_error *reterr) {
  struct stg_flight_table *table = stg_calloc(1, sizeof *table);
  if (table == NULL) {
    return stg_error_memory(reterr, "a table of kernels", sizeof *table);
  }
  if (pthread_mutex_init(&table->lock, NULL) != 0) {
    stg_free(table);
    return stg_error_set(reterr, STG_E_NO_MEMORY, "cannot make a lock for a table of kernels");
  }
  if (pthread_cond_init(&table->changed, NULL) != 0) {
    pthread_mutex_destroy(&table->lock);
    stg_free(table);
    return stg_error_set(reterr, STG_E_NO_MEMORY, "cannot make a lock for a table of kernels");
  }
  *ret_table = table;
  return STG_OK;
}

void stg_flight_destroy(struct stg_flight_table *table) {
  if (table == NULL) {
    return;
  }
  for (size_t i = 0; i < N_BUCKETS; i++) {
    assert(table->buckets[i] == NULL);
  }
  pthread_cond_destroy(&table->changed);
  pthread_mutex_destroy(&table->lock);
  stg_free(table);
}

/* The link that points to the key's flight, or to the NULL where it would go. */
static struct flight **find_link(struct stg_flight_table *table, struct stg_key key) {
  struct flight **link = &table->buckets[key.low % N_BUCKETS];
  while (*link != NULL && !stg_key_equal((*link)->key, key)) {
    link = &(*link)->next;
  }
  return link;
}

static stg_status start_flight(struct flight **link, struct stg_key key, stg_error *reterr) {
  struct flight *flight = stg_calloc(1, sizeof *flight);
  if (flight == NULL) {
    return stg_error_memory(reterr, "a kernel's place", sizeof *flight);
  }
  flight->key = key;
  flight->state = FLYING;
  *link = flight;
  return STG_OK;
}

/* Wait until it has landed, failed, or got slower than the caller bears. Under the lock. */
static enum flight_state wait_for(struct stg_flight_table *table, struct flight *flight,
                                  bool patient) {
  flight->waiters++;
  while (flight->state == FLYING || (flight->state == FLYING_SLOW && patient)) {
    pthread_cond_wait(&table->changed, &table->lock);
  }
  flight->waiters--;
  return flight->state;
}

/* Take over a failure; the last one to do so frees it. Under the lock. */
static stg_status read_failure(struct flight *flight, stg_error *reterr) {
  stg_status status = stg_error_set(reterr, flight->status, "%s", flight->error.message);
  if (flight->waiters == 0) {
    stg_free(flight);
  }
  return status;
}

/* One look: `*ret_again` when an impatient maker gave up what a patient caller will do. */
static stg_status join_once(struct stg_flight_table *table, struct stg_key key, bool patient,
                            enum stg_flight_role *ret_role, void **ret_value, bool *ret_again,
                            stg_error *reterr) {
  struct flight **link = find_link(table, key);
  struct flight *flight = *link;
  *ret_again = false;
  if (flight == NULL) {
    *ret_role = STG_FLIGHT_MAKE;
    return start_flight(link, key, reterr);
  }
  switch (wait_for(table, flight, patient)) {
  case LANDED:
    flight->refs++;
    *ret_role = STG_FLIGHT_HAVE;
    *ret_value = flight->value;
    return STG_OK;
  case FAILED:
    *ret_again = patient && flight->status == STG_E_NOT_WARM;
    return read_failure(flight, *ret_again ? NULL : reterr);
  case FLYING_SLOW:
  case FLYING:
    break;
  }
  *ret_role = STG_FLIGHT_SLOW;
  return STG_OK;
}

stg_status stg_flight_join(struct stg_flight_table *table, struct stg_key key, bool patient,
                           enum stg_flight_role *ret_role, void **ret_value, stg_error *reterr) {
  bool again = false;
  stg_status status = STG_OK;
  pthread_mutex_lock(&table->lock);
  do {
    status = join_once(table, key, patient, ret_role, ret_value, &again, reterr);
  } while (again);
  pthread_mutex_unlock(&table->lock);
  return status;
}

void stg_flight_slow(struct stg_flight_table *table, struct stg_key key) {
  pthread_mutex_lock(&table->lock);
  struct flight *flight = *find_link(table, key);
  assert(flight != NULL && flight->state == FLYING);
  flight->state = FLYING_SLOW;
  pthread_cond_broadcast(&table->changed);
  pthread_mutex_unlock(&table->lock);
}

void stg_flight_land(struct stg_flight_table *table, struct stg_key key, stg_status status,
                     void *value, const stg_error *error) {
  pthread_mutex_lock(&table->lock);
  struct flight **link = find_link(table, key);
  struct flight *flight = *link;
  assert(flight != NULL && flight->state != LANDED);
  if (status == STG_OK) {
    flight->state = LANDED;
    flight->value = value;
    flight->refs = 1;
  } else {
    *link = flight->next;
    flight->state = FAILED;
    flight->status = status;
    flight->error = *error;
    if (flight->waiters == 0) {
      stg_free(flight);
    }
  }
  pthread_cond_broadcast(&table->changed);
  pthread_mutex_unlock(&table->lock);
}

void *stg_flight_drop(struct stg_flight_table *table, struct stg_key key) {
  void *last = NULL;
  pthread_mutex_lock(&table->lock);
  struct flight **link = find_link(table, key);
  struct flight *flight = *link;
  assert(flight != NULL && flight->state == LANDED && flight->refs > 0);
  flight->refs--;
  /* a thread that has been woken and not yet run holds no reference, but will take one */
  if (flight->refs == 0 && flight->waiters == 0) {
    last = flight->value;
    *link = flight->next;
    stg_free(flight);
  }
  pthread_mutex_unlock(&table->lock);
  return last;
}
