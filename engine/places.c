/*
 * places.c: see places.h. Two bits per place, walked a word at a time.
 */
#include "engine/places.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

#define WORD_BITS 64u

static size_t words_of(uint32_t capacity) {
  return stg_ceil_div(capacity, WORD_BITS);
}

bool stg_places_init(struct stg_places *places, uint32_t capacity) {
  const size_t words = words_of(capacity);
  *places = (struct stg_places){0};
  uint64_t *bits = stg_calloc(2 * words, sizeof *bits);
  if (bits == NULL) {
    return false;
  }
  *places = (struct stg_places){.capacity = capacity, .taken = bits, .waits = bits + words};
  return true;
}

void stg_places_finish(struct stg_places *places) {
  stg_free(places->taken);
  *places = (struct stg_places){0};
}

static uint64_t bit_of(uint32_t place) {
  return (uint64_t)1 << place % WORD_BITS;
}

/* The first place in [from, until) whose bit is `wanted`, or `until`. */
static uint32_t find_bit(const uint64_t *bits, uint32_t from, uint32_t until, bool wanted) {
  for (uint32_t at = from; at < until;) {
    const uint64_t word = wanted ? bits[at / WORD_BITS] : ~bits[at / WORD_BITS];
    const uint64_t left = word >> at % WORD_BITS;
    if (left != 0) {
      const uint32_t found = at + (uint32_t)__builtin_ctzll(left);
      return found < until ? found : until;
    }
    at += WORD_BITS - at % WORD_BITS;
  }
  return until;
}

bool stg_places_take(struct stg_places *places, uint32_t *ret_place) {
  if (places->used == places->capacity) {
    return false;
  }
  uint32_t place = find_bit(places->taken, places->next, places->capacity, false);
  if (place == places->capacity) {
    place = find_bit(places->taken, 0, places->capacity, false);
  }
  places->taken[place / WORD_BITS] |= bit_of(place);
  places->waits[place / WORD_BITS] |= bit_of(place);
  places->used++;
  places->unsent++;
  places->next = place + 1;
  *ret_place = place;
  return true;
}

void stg_places_give(struct stg_places *places, uint32_t place) {
  assert(place < places->capacity && (places->taken[place / WORD_BITS] & bit_of(place)) != 0);
  places->unsent -= stg_places_is_unsent(places, place);
  places->used--;
  places->taken[place / WORD_BITS] &= ~bit_of(place);
  places->waits[place / WORD_BITS] &= ~bit_of(place);
}

bool stg_places_is_unsent(const struct stg_places *places, uint32_t place) {
  return (places->waits[place / WORD_BITS] & bit_of(place)) != 0;
}

bool stg_places_find_unsent(const struct stg_places *places, uint32_t from,
                            struct stg_places_run *ret_run) {
  const uint32_t first = find_bit(places->waits, from, places->capacity, true);
  if (first >= places->capacity) {
    return false;
  }
  const uint32_t end = find_bit(places->waits, first, places->capacity, false);
  *ret_run = (struct stg_places_run){.first = first, .count = end - first};
  return true;
}

void stg_places_all_sent(struct stg_places *places) {
  if (places->unsent > 0) {
    memset(places->waits, 0, words_of(places->capacity) * sizeof *places->waits);
    places->unsent = 0;
  }
}
