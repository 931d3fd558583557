/*
 * test_arena.c: one owner, one finish, sticky failure.
 */
#include "runtime/base/arena.h"

#include <string.h>

#include "runtime/base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void gives_zeroed_aligned_memory_that_does_not_overlap(void **state) {
  (void)state;
  enum { COUNT = 500 };
  struct stg_arena arena = {0};
  unsigned char *blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    size_t size = i * 7 % 97 + 1;
    blocks[i] = stg_arena_alloc(&arena, size, 1);
    assert_non_null(blocks[i]);
    assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    for (size_t k = 0; k < size; k++) {
      assert_int_equal(blocks[i][k], 0);
    }
    memset(blocks[i], (int)(i & 0xff), size);
  }
  for (size_t i = 0; i < COUNT; i++) {
    for (size_t k = 0; k < i * 7 % 97 + 1; k++) {
      assert_int_equal(blocks[i][k], i & 0xff);
    }
  }
  assert_int_equal(stg_arena_status(&arena, NULL), STG_OK);
  stg_arena_finish(&arena);
}

static void gives_distinct_pointers_for_no_bytes(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  void *first = stg_arena_alloc(&arena, 0, 8);
  void *second = stg_arena_alloc(&arena, 8, 0);
  assert_non_null(first);
  assert_non_null(second);
  assert_ptr_not_equal(first, second);
  stg_arena_finish(&arena);
}

static void serves_requests_larger_than_a_block(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  unsigned char *large = stg_arena_alloc(&arena, 3, 1000000);
  unsigned char *small = stg_arena_alloc(&arena, 1, 1);
  assert_non_null(large);
  assert_non_null(small);
  assert_int_equal(large[2999999], 0);
  large[2999999] = 1;
  assert_int_equal(*small, 0);
  assert_true(arena.total_bytes >= 3000001);
  assert_true(arena.total_bytes < 3000001 + 600000);
  stg_arena_finish(&arena);
}

static void copies_text_and_bytes(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const unsigned char bytes[] = {1, 0, 2};
  assert_string_equal(stg_arena_strdup(&arena, "whole"), "whole");
  assert_string_equal(stg_arena_strndup(&arena, "partial", 4), "part");
  assert_string_equal(stg_arena_strndup(&arena, NULL, 0), "");
  assert_memory_equal(stg_arena_memdup(&arena, bytes, 3), bytes, 3);
  stg_arena_finish(&arena);
}

static void fails_for_good_after_one_overflow(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  stg_error err = STG_ERROR_INIT;
  assert_null(stg_arena_alloc(&arena, SIZE_MAX, 2));
  assert_null(stg_arena_alloc(&arena, 1, 1));
  assert_int_equal(stg_arena_status(&arena, &err), STG_E_NO_MEMORY);
  assert_string_equal(err.message, "out of memory: an arena of 0 bytes cannot grow");
  stg_arena_finish(&arena);
}

static void refuses_sizes_next_to_the_largest(void **state) {
  (void)state;
  for (size_t below = 0; below < 80; below++) {
    struct stg_arena arena = {0};
    assert_null(stg_arena_alloc(&arena, 1, SIZE_MAX - below));
    assert_true(arena.failed);
    stg_arena_finish(&arena);
  }
  struct stg_arena arena = {0};
  assert_null(stg_arena_strndup(&arena, "", SIZE_MAX));
  assert_true(arena.failed);
}

static void fails_when_the_heap_does_and_keeps_what_it_gave(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  char *kept = stg_arena_strdup(&arena, "kept");
  stg_alloc_fail_at(1);
  void *refused = stg_arena_alloc(&arena, 1, 1000000);
  stg_alloc_fail_at(0);
  assert_null(refused);
  assert_null(stg_arena_alloc(&arena, 1, 1));
  assert_string_equal(kept, "kept");
  assert_int_equal(stg_arena_status(&arena, NULL), STG_E_NO_MEMORY);
  stg_arena_finish(&arena);
}

static void is_empty_and_usable_after_finish(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  assert_null(stg_arena_alloc(&arena, SIZE_MAX, 2));
  stg_arena_finish(&arena);
  assert_int_equal(arena.total_bytes, 0);
  assert_string_equal(stg_arena_strdup(&arena, "again"), "again");
  stg_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_zeroed_aligned_memory_that_does_not_overlap),
      cmocka_unit_test(gives_distinct_pointers_for_no_bytes),
      cmocka_unit_test(serves_requests_larger_than_a_block),
      cmocka_unit_test(copies_text_and_bytes),
      cmocka_unit_test(fails_for_good_after_one_overflow),
      cmocka_unit_test(refuses_sizes_next_to_the_largest),
      cmocka_unit_test(fails_when_the_heap_does_and_keeps_what_it_gave),
      cmocka_unit_test(is_empty_and_usable_after_finish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
