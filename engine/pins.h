/*
 * pins.h: which frames of a table the graphs of a host still use.
 *
 * A capture takes one pin for each frame that it uses, whatever the layers: the graph, its copies
 * and its executables hold it (runtime/pin.h). Nothing may be allocated in a capture, so spare pins
 * are made before, by steps and new frames. A pin whose flag has fallen is a spare again; nobody is
 * told, so whoever asks looks. Knows no frame but as an address.
 *
 * The lock is a leaf, but for calls of the driver. Any thread.
 */
#ifndef STG_ENGINE_PINS_H
#define STG_ENGINE_PINS_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/pin.h"

/* Pairs of frame and capture that one table can take in between two steps. */
#define STG_SPARE_PINS 256

struct stg_pin_block;

struct stg_pins {
  struct stg_device *device; /* NULL on the CPU, where nothing is captured */
  pthread_mutex_t lock;
  struct stg_pin_block *blocks;
  atomic_size_t spares;  /* at least so many are not held */
  struct stg_pins *next; /* of the list */
};

/* Those of all tables of an engine. Its lock is taken before theirs. Any thread. */
struct stg_pins_list;

void stg_pins_init(struct stg_pins *pins, struct stg_device *device);
/** Where a graph of a lost device still holds pins, their memory is left to the driver. */
void stg_pins_finish(struct stg_pins *pins);

/** Make spares, where there are fewer than STG_SPARE_PINS. Allocates. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_pins_refill(struct stg_pins *pins, stg_error *reterr);
/**
 * Let the graph of a capture hold a pin of `frame`, unless it does. Allocates nothing.
 * STG_E_NOT_WARM when there is no spare.
 */
STG_NODISCARD stg_status stg_pins_take(struct stg_pins *pins, const void *frame,
                                       const struct stg_capture *capture, stg_error *reterr);
/** Whether a graph may still run that was captured with `frame`. */
bool stg_pins_hold(struct stg_pins *pins, const void *frame);
/** Captures of which something is alive. */
size_t stg_pins_graphs(struct stg_pins *pins);
/** The same, once it is 0 or `wait_ms` have passed: flags fall late. */
size_t stg_pins_wait(struct stg_pins *pins, uint32_t wait_ms);

STG_NODISCARD stg_status stg_pins_list_create(struct stg_pins_list **ret_list, stg_error *reterr);
/** Nothing may be listed. NULL is fine. */
void stg_pins_list_destroy(struct stg_pins_list *list);
/** List a table's pins, which stay where they are until they are removed. */
void stg_pins_list_add(struct stg_pins_list *list, struct stg_pins *pins);
void stg_pins_list_remove(struct stg_pins_list *list, struct stg_pins *pins);
/** The sum of stg_pins_graphs: a capture of two tables counts for each. */
size_t stg_pins_list_graphs(struct stg_pins_list *list);

#endif
