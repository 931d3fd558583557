/*
 * test_pool.c: spans never overlap, come back, and the first gap that fits is taken.
 */
#include "engine/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/alloc.h"

static size_t take(struct stg_pool *pool, size_t bytes) {
  size_t offset = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_pool_take(pool, bytes, &offset, &error));
  return offset;
}

static void offset_zero_is_never_handed_out(void **state) {
  (void)state;
  struct stg_pool pool = {.bytes = 4096};
  assert_int_equal(STG_POOL_GRANULE, take(&pool, 1));
  stg_pool_finish(&pool);
}

static void sizes_are_rounded_to_granules(void **state) {
  (void)state;
  struct stg_pool pool = {.bytes = 4096};
  const size_t first = take(&pool, 1), second = take(&pool, STG_POOL_GRANULE),
               third = take(&pool, STG_POOL_GRANULE + 1), fourth = take(&pool, 4);
  assert_int_equal(first + STG_POOL_GRANULE, second);
  assert_int_equal(second + STG_POOL_GRANULE, third);
  assert_int_equal(third + (size_t)2 * STG_POOL_GRANULE, fourth);
  stg_pool_finish(&pool);
}

static void a_full_pool_is_a_status_and_room_comes_back(void **state) {
  (void)state;
  struct stg_pool pool = {.bytes = (size_t)4 * STG_POOL_GRANULE};
  size_t offset = 77;
  stg_error error = STG_ERROR_INIT;
  take(&pool, STG_POOL_GRANULE);
  const size_t middle = take(&pool, STG_POOL_GRANULE);
  take(&pool, STG_POOL_GRANULE);
  assert_int_equal(STG_E_CAPACITY, stg_pool_take(&pool, 1, &offset, &error));
  assert_string_equal("records: no room for 256 bytes in a pool of 1024", error.message);
  assert_int_equal(77, offset);
  stg_pool_give(&pool, middle);
  assert_int_equal(STG_E_CAPACITY, stg_pool_take(&pool, STG_POOL_GRANULE + 1, &offset, &error));
  assert_int_equal(middle, take(&pool, STG_POOL_GRANULE));
  stg_pool_finish(&pool);
}

static void neighbouring_spans_join_when_given_back(void **state) {
  (void)state;
  struct stg_pool pool = {.bytes = (size_t)5 * STG_POOL_GRANULE};
  size_t at[4];
  for (size_t k = 0; k < 4; k++) {
    at[k] = take(&pool, STG_POOL_GRANULE);
  }
  stg_pool_give(&pool, at[2]);
  stg_pool_give(&pool, at[1]);
  assert_int_equal(at[1], take(&pool, (size_t)2 * STG_POOL_GRANULE));
  stg_pool_finish(&pool);
}

static void a_request_beyond_the_pool_is_refused(void **state) {
  (void)state;
  struct stg_pool pool = {.bytes = 1024};
  size_t offset = 77;
  assert_int_equal(STG_E_CAPACITY, stg_pool_take(&pool, 1024, &offset, NULL));
  assert_int_equal(STG_E_CAPACITY, stg_pool_take(&pool, (size_t)1 << 40, &offset, NULL));
  assert_int_equal(77, offset);
  stg_pool_finish(&pool);
}

/* Random takes and gives, every byte's owner kept beside. */
static void spans_never_overlap(void **state) {
  (void)state;
  enum { GRANULES = 128, LIVE = 40 };
  struct stg_pool pool = {.bytes = (size_t)GRANULES * STG_POOL_GRANULE};
  unsigned char owner[GRANULES] = {1}; /* the first granule is nobody's */
  size_t offsets[LIVE] = {0}, granules[LIVE] = {0};
  uint32_t random = 12345;
  for (int k = 0; k < 20000; k++) {
    random = random * 1664525U + 1013904223U;
    const size_t i = (random >> 16) % LIVE, wanted = 1 + (random >> 8) % 9;
    if (offsets[i] != 0) {
      stg_pool_give(&pool, offsets[i]);
      memset(owner + offsets[i] / STG_POOL_GRANULE, 0, granules[i]);
      offsets[i] = 0;
    } else if (stg_pool_take(&pool, wanted * STG_POOL_GRANULE, &offsets[i], NULL) == STG_OK) {
      const size_t first = offsets[i] / STG_POOL_GRANULE;
      granules[i] = wanted;
      assert_true(first + wanted <= GRANULES);
      for (size_t g = first; g < first + wanted; g++) {
        assert_int_equal(0, owner[g]);
        owner[g] = 1;
      }
    }
  }
  stg_pool_finish(&pool);
}

static void a_lack_of_memory_changes_nothing(void **state) {
  (void)state;
  struct stg_pool pool = {.bytes = (size_t)200 * STG_POOL_GRANULE};
  size_t offset = 77;
  stg_error error = STG_ERROR_INIT;
  stg_alloc_fail_at(1);
  stg_status status = stg_pool_take(&pool, 1, &offset, &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  assert_int_equal(77, offset);
  assert_int_equal(0, pool.count);
  for (size_t k = 0; k < 199; k++) {
    assert_int_equal((k + 1) * STG_POOL_GRANULE, take(&pool, 1));
  }
  stg_pool_finish(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(offset_zero_is_never_handed_out),
      cmocka_unit_test(sizes_are_rounded_to_granules),
      cmocka_unit_test(a_full_pool_is_a_status_and_room_comes_back),
      cmocka_unit_test(neighbouring_spans_join_when_given_back),
      cmocka_unit_test(a_request_beyond_the_pool_is_refused),
      cmocka_unit_test(spans_never_overlap),
      cmocka_unit_test(a_lack_of_memory_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
