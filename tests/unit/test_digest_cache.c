/*
 * test_digest_cache.c: places by digest, the least recently used goes first.
 */
#include "tools/bench/digest_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/alloc.h"

static struct stg_digest_cache *open_cache(uint32_t capacity) {
  struct stg_digest_cache *cache = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_digest_cache_create(capacity, &cache, &error));
  return cache;
}

/* Digest number n; `collide` puts all of them into one bucket. */
static bool take(struct stg_digest_cache *cache, uint32_t n, bool collide, uint32_t *ret_place) {
  unsigned char digest[STG_SHA256_BYTES] = {0};
  memcpy(digest + (collide ? 8 : 0), &n, sizeof n);
  return stg_digest_cache_take(cache, digest, ret_place);
}

static void a_digest_keeps_its_place(void **state) {
  for (int collide = 0; collide < 2; collide++) {
    struct stg_digest_cache *cache = open_cache(100);
    uint32_t place = 0, again = 0;
    for (uint32_t n = 0; n < 100; n++) {
      assert_false(take(cache, n, collide, &place));
      assert_int_equal(n, place);
    }
    for (uint32_t n = 100; n-- > 0;) {
      assert_true(take(cache, n, collide, &again));
      assert_int_equal(n, again);
    }
    stg_digest_cache_destroy(cache);
  }
  (void)state;
}

static void the_least_recently_used_makes_room(void **state) {
  for (int collide = 0; collide < 2; collide++) {
    struct stg_digest_cache *cache = open_cache(3);
    uint32_t place = 0;
    assert_false(take(cache, 10, collide, &place));
    assert_false(take(cache, 11, collide, &place));
    assert_false(take(cache, 12, collide, &place));
    assert_true(take(cache, 10, collide, &place)); /* 11 is the oldest now */
    assert_false(take(cache, 13, collide, &place));
    assert_int_equal(1, place);
    assert_true(take(cache, 10, collide, &place));
    assert_int_equal(0, place);
    assert_true(take(cache, 12, collide, &place));
    assert_int_equal(2, place);
    assert_false(take(cache, 11, collide, &place)); /* takes the place of 13 */
    assert_int_equal(1, place);
    assert_false(take(cache, 13, collide, &place)); /* and 13 that of 10 */
    assert_int_equal(0, place);
    stg_digest_cache_destroy(cache);
  }
  (void)state;
}

static void a_cache_of_one_holds_one(void **state) {
  struct stg_digest_cache *cache = open_cache(1);
  uint32_t place = 77;
  for (uint32_t n = 0; n < 5; n++) {
    assert_false(take(cache, n, false, &place));
    assert_int_equal(0, place);
    assert_true(take(cache, n, false, &place));
  }
  stg_digest_cache_destroy(cache);
  (void)state;
}

static void a_cleared_cache_knows_nothing(void **state) {
  struct stg_digest_cache *cache = open_cache(4);
  uint32_t place = 0;
  assert_false(take(cache, 1, false, &place));
  assert_false(take(cache, 2, false, &place));
  stg_digest_cache_clear(cache);
  assert_false(take(cache, 2, false, &place));
  assert_int_equal(0, place);
  assert_false(take(cache, 1, false, &place));
  assert_int_equal(1, place);
  stg_digest_cache_destroy(cache);
  (void)state;
}

static void a_lack_of_memory_is_said(void **state) {
  for (size_t nth = 1; nth <= 3; nth++) {
    struct stg_digest_cache *cache = NULL;
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    const stg_status status = stg_digest_cache_create(8, &cache, &error);
    stg_alloc_fail_at(0);
    assert_int_equal(STG_E_NO_MEMORY, status);
    assert_null(cache);
  }
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_digest_keeps_its_place),
      cmocka_unit_test(the_least_recently_used_makes_room),
      cmocka_unit_test(a_cache_of_one_holds_one),
      cmocka_unit_test(a_cleared_cache_knows_nothing),
      cmocka_unit_test(a_lack_of_memory_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
