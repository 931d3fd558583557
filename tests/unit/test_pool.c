/*
 * test_pool.c: rooms of records: never offset 0, never two records in one, and they come back.
 */
#include "engine/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

/* What stands for records here: a pool only remembers where they are. */
static const char marks[8];

static const struct stg_record *record(size_t i) {
  return (const struct stg_record *)(const void *)&marks[i];
}

static struct stg_pool pool_of(uint32_t capacity, size_t record_bytes) {
  struct stg_pool pool;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_pool_init(&pool, capacity, record_bytes, &error));
  return pool;
}

static size_t take(struct stg_pool *pool, size_t i) {
  size_t offset = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_pool_take(pool, record(i), &offset, &error));
  return offset;
}

static void offset_zero_is_never_handed_out(void **state) {
  (void)state;
  struct stg_pool pool = pool_of(4, 4);
  assert_int_equal(STG_POOL_GRANULE, take(&pool, 0));
  stg_pool_finish(&pool);
}

static void rooms_are_whole_granules_one_after_the_other(void **state) {
  (void)state;
  struct stg_pool pool = pool_of(4, STG_POOL_GRANULE + 1);
  const size_t first = take(&pool, 0), second = take(&pool, 1);
  assert_int_equal(first + (size_t)2 * STG_POOL_GRANULE, second);
  assert_int_equal(second, stg_pool_offset(&pool, 1));
  assert_ptr_equal(record(0), pool.records[0]);
  assert_ptr_equal(record(1), pool.records[1]);
  stg_pool_finish(&pool);
}

static void a_full_pool_is_a_status_and_room_comes_back(void **state) {
  (void)state;
  struct stg_pool pool = pool_of(3, 256);
  size_t offset = 77;
  stg_error error = STG_ERROR_INIT;
  take(&pool, 0);
  const size_t middle = take(&pool, 1);
  take(&pool, 2);
  assert_int_equal(STG_E_CAPACITY, stg_pool_take(&pool, record(3), &offset, &error));
  assert_string_equal("records: all 3 rooms of the pool are in use", error.message);
  assert_int_equal(77, offset);
  stg_pool_give(&pool, middle);
  assert_int_equal(middle, take(&pool, 4));
  assert_ptr_equal(record(4), pool.records[1]);
  assert_true(stg_places_is_unsent(&pool.places, 1));
  stg_pool_finish(&pool);
}

static void a_lack_of_memory_keeps_nothing(void **state) {
  (void)state;
  for (size_t nth = 1; nth <= 2; nth++) {
    struct stg_pool pool;
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = stg_pool_init(&pool, 8, 256, &error);
    stg_alloc_fail_at(0);
    assert_int_equal(STG_E_NO_MEMORY, status);
    assert_null(pool.records);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(offset_zero_is_never_handed_out),
      cmocka_unit_test(rooms_are_whole_granules_one_after_the_other),
      cmocka_unit_test(a_full_pool_is_a_status_and_room_comes_back),
      cmocka_unit_test(a_lack_of_memory_keeps_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
