/*
 * test_places.c: places are taken once and in turn, and what was not sent is found in runs.
 */
#include "engine/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

static struct stg_places places_of(uint32_t capacity) {
  struct stg_places places;
  assert_true(stg_places_init(&places, capacity));
  return places;
}

static uint32_t take(struct stg_places *places) {
  uint32_t place = UINT32_MAX;
  assert_true(stg_places_take(places, &place));
  assert_true(place < places->capacity);
  return place;
}

static void expect_run(const struct stg_places *places, uint32_t from, uint32_t first,
                       uint32_t count) {
  struct stg_places_run run = {0};
  assert_true(stg_places_find_unsent(places, from, &run));
  assert_int_equal(first, run.first);
  assert_int_equal(count, run.count);
}

static void expect_nothing_unsent(const struct stg_places *places, uint32_t from) {
  struct stg_places_run run = {77, 78};
  assert_false(stg_places_find_unsent(places, from, &run));
  assert_int_equal(77, run.first);
  assert_int_equal(78, run.count);
}

static void places_are_taken_in_turn_around_the_end(void **state) {
  (void)state;
  struct stg_places places = places_of(130);
  for (uint32_t k = 0; k < 130; k++) {
    assert_int_equal(k, take(&places));
  }
  stg_places_give(&places, 5);
  stg_places_give(&places, 100);
  stg_places_give(&places, 101);
  assert_int_equal(5, take(&places));
  stg_places_give(&places, 5);
  /* after the one taken last, though a lower one is free */
  assert_int_equal(100, take(&places));
  assert_int_equal(101, take(&places));
  assert_int_equal(5, take(&places));
  stg_places_finish(&places);
}

static void nothing_is_handed_out_when_all_are_taken(void **state) {
  (void)state;
  struct stg_places places = places_of(64);
  uint32_t place = 77;
  for (uint32_t k = 0; k < 64; k++) {
    take(&places);
  }
  assert_false(stg_places_take(&places, &place));
  assert_int_equal(77, place);
  assert_int_equal(64, places.used);
  stg_places_give(&places, 63);
  assert_int_equal(63, take(&places));
  stg_places_finish(&places);
}

static void what_is_taken_together_is_one_run(void **state) {
  (void)state;
  struct stg_places places = places_of(200);
  expect_nothing_unsent(&places, 0);
  for (uint32_t k = 0; k < 150; k++) {
    take(&places);
  }
  expect_run(&places, 0, 0, 150);
  expect_run(&places, 70, 70, 80);
  expect_nothing_unsent(&places, 150);
  expect_nothing_unsent(&places, 200);
  stg_places_all_sent(&places);
  assert_int_equal(0, places.unsent);
  expect_nothing_unsent(&places, 0);
  take(&places);
  assert_true(stg_places_is_unsent(&places, 150));
  assert_false(stg_places_is_unsent(&places, 149));
  expect_run(&places, 0, 150, 1);
  stg_places_finish(&places);
}

static void what_is_given_back_unsent_is_not_sent(void **state) {
  (void)state;
  struct stg_places places = places_of(8);
  for (uint32_t k = 0; k < 5; k++) {
    take(&places);
  }
  stg_places_give(&places, 2);
  assert_int_equal(4, places.unsent);
  expect_run(&places, 0, 0, 2);
  expect_run(&places, 2, 3, 2);
  stg_places_all_sent(&places);
  /* and a place in new hands is unsent again */
  stg_places_give(&places, 0);
  assert_int_equal(0, places.unsent);
  while (take(&places) != 0) {
  }
  assert_true(stg_places_is_unsent(&places, 0));
  stg_places_finish(&places);
}

/* Against an array that says the same the long way. */
static void any_history_is_remembered(void **state) {
  (void)state;
  enum { PLACES = 150 };
  struct stg_places places = places_of(PLACES);
  unsigned char taken[PLACES] = {0}, unsent[PLACES] = {0};
  uint32_t random = 4242, used = 0;
  for (int k = 0; k < 20000; k++) {
    random = random * 1664525U + 1013904223U;
    const uint32_t i = (random >> 16) % PLACES;
    if (k % 97 == 0) {
      stg_places_all_sent(&places);
      for (uint32_t p = 0; p < PLACES; p++) {
        unsent[p] = 0;
      }
    } else if (taken[i]) {
      stg_places_give(&places, i);
      taken[i] = unsent[i] = 0;
      used--;
    } else {
      const uint32_t place = take(&places);
      assert_false(taken[place]);
      taken[place] = unsent[place] = 1;
      used++;
    }
    assert_int_equal(used, places.used);
    uint32_t count = 0;
    struct stg_places_run run = {0};
    while (stg_places_find_unsent(&places, run.first + run.count, &run)) {
      for (uint32_t p = run.first; p < run.first + run.count; p++, count++) {
        assert_true(unsent[p]);
      }
    }
    assert_int_equal(count, places.unsent);
    for (uint32_t p = 0; p < PLACES; p++) {
      count -= unsent[p];
    }
    assert_int_equal(0, count);
  }
  stg_places_finish(&places);
}

static void a_lack_of_memory_keeps_nothing(void **state) {
  (void)state;
  struct stg_places places;
  stg_alloc_fail_at(1);
  const bool done = stg_places_init(&places, 100);
  stg_alloc_fail_at(0);
  assert_false(done);
  stg_places_finish(&places);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(places_are_taken_in_turn_around_the_end),
      cmocka_unit_test(nothing_is_handed_out_when_all_are_taken),
      cmocka_unit_test(what_is_taken_together_is_one_run),
      cmocka_unit_test(what_is_given_back_unsent_is_not_sent),
      cmocka_unit_test(any_history_is_remembered),
      cmocka_unit_test(a_lack_of_memory_keeps_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
