/*
 * pins.c: see pins.h.
 */
#include "engine/pins.h"

#include <assert.h>
#include <time.h>

#include "runtime/base/alloc.h"

/* Both but the flag are written under the lock, and only while the flag is down. */
struct entry {
  struct stg_pin pin;
  const void *frame;
  uint64_t capture;
};

struct stg_pin_block {
  struct stg_pin_block *next;
  struct entry entries[STG_SPARE_PINS];
};

void stg_pins_init(struct stg_pins *pins, struct stg_device *device) {
  *pins = (struct stg_pins){.device = device};
  pthread_mutex_init(&pins->lock, NULL);
}

/* No graph can run any more, or none ever could. */
static bool are_over(const struct stg_pins *pins) {
  return pins->device == NULL || stg_pins_are_over(pins->device);
}

/* The entry after `entry`, or the first one of all for NULL; NULL at the end. */
static struct entry *next_entry(const struct stg_pins *pins, struct stg_pin_block **block,
                                struct entry *entry) {
  if (entry == NULL) {
    *block = pins->blocks;
  } else if (entry + 1 < (*block)->entries + STG_SPARE_PINS) {
    return entry + 1;
  } else {
    *block = (*block)->next;
  }
  return *block != NULL ? (*block)->entries : NULL;
}

static size_t held_in(const struct stg_pin_block *block) {
  size_t held = 0;
  for (size_t i = 0; i < STG_SPARE_PINS; i++) {
    held += stg_pin_is_held(&block->entries[i].pin) ? 1 : 0;
  }
  return held;
}

void stg_pins_finish(struct stg_pins *pins) {
  while (pins->blocks != NULL) {
    struct stg_pin_block *block = pins->blocks;
    pins->blocks = block->next;
    if (held_in(block) == 0) {
      stg_free(block);
    }
  }
  pthread_mutex_destroy(&pins->lock);
}

static size_t count_spares(const struct stg_pins *pins) {
  size_t spares = 0;
  for (const struct stg_pin_block *block = pins->blocks; block != NULL; block = block->next) {
    spares += STG_SPARE_PINS - held_in(block);
  }
  return spares;
}

stg_status stg_pins_refill(struct stg_pins *pins, stg_error *reterr) {
  if (atomic_load_explicit(&pins->spares, memory_order_relaxed) >= STG_SPARE_PINS) {
    return STG_OK;
  }
  pthread_mutex_lock(&pins->lock);
  const size_t spares = count_spares(pins);
  atomic_store(&pins->spares, spares);
  pthread_mutex_unlock(&pins->lock);
  if (spares >= STG_SPARE_PINS) {
    return STG_OK;
  }
  struct stg_pin_block *block = stg_calloc(1, sizeof *block);
  if (block == NULL) {
    return stg_error_memory(reterr, "pins for captures", sizeof *block);
  }
  pthread_mutex_lock(&pins->lock);
  block->next = pins->blocks;
  pins->blocks = block;
  atomic_fetch_add(&pins->spares, STG_SPARE_PINS);
  pthread_mutex_unlock(&pins->lock);
  return STG_OK;
}

/* The pin that the capture holds of the frame already, else one that nothing holds, else NULL. */
static struct entry *find(const struct stg_pins *pins, const void *frame, uint64_t capture) {
  struct entry *spare = NULL;
  struct stg_pin_block *block = NULL;
  for (struct entry *entry = next_entry(pins, &block, NULL); entry != NULL;
       entry = next_entry(pins, &block, entry)) {
    if (!stg_pin_is_held(&entry->pin)) {
      spare = spare != NULL ? spare : entry;
    } else if (entry->frame == frame && entry->capture == capture) {
      return entry;
    }
  }
  return spare;
}

static stg_status take(struct stg_pins *pins, struct entry *entry, const void *frame,
                       const struct stg_capture *capture, stg_error *reterr) {
  entry->frame = frame;
  entry->capture = capture->id;
  const size_t spares = atomic_load(&pins->spares);
  atomic_store(&pins->spares, spares > 0 ? spares - 1 : 0);
  return stg_pin_retain(pins->device, capture, &entry->pin, reterr);
}

stg_status stg_pins_take(struct stg_pins *pins, const void *frame,
                         const struct stg_capture *capture, stg_error *reterr) {
  stg_status status = STG_OK;
  pthread_mutex_lock(&pins->lock);
  struct entry *entry = find(pins, frame, capture->id);
  if (entry == NULL) {
    status = stg_error_set(reterr, STG_E_NOT_WARM,
                           "the table has no spare pin for this capture: %d are made ready by a "
                           "step; step a frame of the table before capturing more graphs",
                           STG_SPARE_PINS);
  } else if (!stg_pin_is_held(&entry->pin)) {
    status = take(pins, entry, frame, capture, reterr);
  }
  pthread_mutex_unlock(&pins->lock);
  return status;
}

bool stg_pins_hold(struct stg_pins *pins, const void *frame) {
  bool held = false;
  if (are_over(pins)) {
    return false;
  }
  pthread_mutex_lock(&pins->lock);
  struct stg_pin_block *block = NULL;
  for (struct entry *entry = next_entry(pins, &block, NULL); entry != NULL && !held;
       entry = next_entry(pins, &block, entry)) {
    held = entry->frame == frame && stg_pin_is_held(&entry->pin);
  }
  pthread_mutex_unlock(&pins->lock);
  return held;
}

/* Whether the entry is the first one that is held for its capture. */
static bool is_first(const struct stg_pins *pins, const struct entry *entry) {
  struct stg_pin_block *block = NULL;
  struct entry *other = next_entry(pins, &block, NULL);
  while (other != entry && (other->capture != entry->capture || !stg_pin_is_held(&other->pin))) {
    other = next_entry(pins, &block, other);
  }
  return other == entry;
}

size_t stg_pins_graphs(struct stg_pins *pins) {
  size_t graphs = 0;
  if (are_over(pins)) {
    return 0;
  }
  pthread_mutex_lock(&pins->lock);
  struct stg_pin_block *block = NULL;
  for (struct entry *entry = next_entry(pins, &block, NULL); entry != NULL;
       entry = next_entry(pins, &block, entry)) {
    graphs += stg_pin_is_held(&entry->pin) && is_first(pins, entry) ? 1 : 0;
  }
  pthread_mutex_unlock(&pins->lock);
  return graphs;
}

size_t stg_pins_wait(struct stg_pins *pins, uint32_t wait_ms) {
  const struct timespec pause = {.tv_nsec = 1000000};
  size_t graphs = stg_pins_graphs(pins);
  for (uint32_t ms = 0; graphs > 0 && ms < wait_ms; ms++) {
    nanosleep(&pause, NULL);
    graphs = stg_pins_graphs(pins);
  }
  return graphs;
}

struct stg_pins_list {
  pthread_mutex_t lock;
  struct stg_pins *first;
};

stg_status stg_pins_list_create(struct stg_pins_list **ret_list, stg_error *reterr) {
  struct stg_pins_list *list = stg_calloc(1, sizeof *list);
  if (list == NULL) {
    return stg_error_memory(reterr, "a list of pins", sizeof *list);
  }
  pthread_mutex_init(&list->lock, NULL);
  *ret_list = list;
  return STG_OK;
}

void stg_pins_list_destroy(struct stg_pins_list *list) {
  if (list != NULL) {
    assert(list->first == NULL);
    pthread_mutex_destroy(&list->lock);
    stg_free(list);
  }
}

void stg_pins_list_add(struct stg_pins_list *list, struct stg_pins *pins) {
  pthread_mutex_lock(&list->lock);
  pins->next = list->first;
  list->first = pins;
  pthread_mutex_unlock(&list->lock);
}

void stg_pins_list_remove(struct stg_pins_list *list, struct stg_pins *pins) {
  pthread_mutex_lock(&list->lock);
  struct stg_pins **link = &list->first;
  while (*link != pins) {
    link = &(*link)->next;
  }
  *link = pins->next;
  pthread_mutex_unlock(&list->lock);
}

size_t stg_pins_list_graphs(struct stg_pins_list *list) {
  size_t graphs = 0;
  pthread_mutex_lock(&list->lock);
  for (struct stg_pins *pins = list->first; pins != NULL; pins = pins->next) {
    graphs += stg_pins_graphs(pins);
  }
  pthread_mutex_unlock(&list->lock);
  return graphs;
}
