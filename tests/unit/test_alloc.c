/*
 * test_alloc.c: the heap door and its failure hook.
 */
#include "runtime/base/alloc.h"

#include <pthread.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void gives_zeroed_memory(void **state) {
  (void)state;
  unsigned char zeros[300] = {0};
  unsigned char *ptr = stg_calloc(100, 3);
  assert_non_null(ptr);
  assert_memory_equal(ptr, zeros, sizeof zeros);
  stg_free(ptr);
}

static void gives_a_pointer_for_no_bytes(void **state) {
  (void)state;
  void *ptrs[] = {stg_calloc(0, 8), stg_calloc(8, 0), stg_malloc(0), stg_malloc_aligned(0),
                  stg_realloc(NULL, 0)};
  for (size_t i = 0; i < sizeof ptrs / sizeof ptrs[0]; i++) {
    assert_non_null(ptrs[i]);
    stg_free(ptrs[i]);
  }
}

static void refuses_a_product_that_wraps(void **state) {
  (void)state;
  assert_null(stg_calloc(SIZE_MAX / 2 + 1, 2));
  assert_null(stg_calloc(SIZE_MAX, SIZE_MAX));
}

static void keeps_bytes_when_it_grows(void **state) {
  (void)state;
  char *text = stg_strdup("steer");
  assert_string_equal(text, "steer");
  text = stg_realloc(text, 100000);
  assert_non_null(text);
  assert_string_equal(text, "steer");
  stg_free(text);
}

static void aligns_to_a_cache_line(void **state) {
  (void)state;
  for (size_t size = 1; size < 300; size += 13) {
    unsigned char *ptr = stg_malloc_aligned(size);
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % 64, 0);
    memset(ptr, 0xa5, size);
    stg_free(ptr);
  }
}

static void accepts_freeing_nothing(void **state) {
  (void)state;
  stg_free(NULL);
}

static void fails_at_the_nth_allocation_and_after_it(void **state) {
  (void)state;
  stg_alloc_fail_at(3);
  void *first = stg_malloc(1);
  void *second = stg_calloc(1, 1);
  void *third = stg_malloc_aligned(1);
  void *fourth = stg_realloc(NULL, 1);
  char *fifth = stg_strdup("x");
  stg_alloc_fail_at(0);
  void *sixth = stg_malloc(1);
  assert_non_null(first);
  assert_non_null(second);
  assert_null(third);
  assert_null(fourth);
  assert_null(fifth);
  assert_non_null(sixth);
  stg_free(first);
  stg_free(second);
  stg_free(sixth);
}

static void leaves_the_old_block_when_growing_fails(void **state) {
  (void)state;
  char *text = stg_strdup("kept");
  stg_alloc_fail_at(1);
  void *grown = stg_realloc(text, 1000);
  stg_alloc_fail_at(0);
  assert_null(grown);
  assert_string_equal(text, "kept");
  stg_free(text);
}

static void *allocate_once(void *unused) {
  (void)unused;
  return stg_malloc(1);
}

static void fails_only_on_the_thread_that_asked(void **state) {
  (void)state;
  pthread_t other;
  void *theirs = NULL;
  stg_alloc_fail_at(1);
  int started = pthread_create(&other, NULL, allocate_once, NULL);
  int joined = pthread_join(other, &theirs);
  void *ours = stg_malloc(1);
  stg_alloc_fail_at(0);
  assert_int_equal(started, 0);
  assert_int_equal(joined, 0);
  assert_non_null(theirs);
  assert_null(ours);
  stg_free(theirs);
}

static void names_what_did_not_fit(void **state) {
  (void)state;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_error_memory(&err, "the vector bank", 4096), STG_E_NO_MEMORY);
  assert_string_equal(err.message, "out of memory: 4096 bytes for the vector bank");
}

static void adds_up_what_the_thread_asked_for(void **state) {
  (void)state;
  stg_alloc_asked_bytes(true);
  void *ptr = stg_calloc(10, 10);
  ptr = stg_realloc(ptr, 50);
  stg_free(ptr);
  assert_null(stg_malloc(SIZE_MAX / 2 + 1));
  assert_int_equal(stg_alloc_asked_bytes(false), SIZE_MAX / 2 + 1 + 150);
  assert_null(stg_malloc(SIZE_MAX));
  assert_int_equal(stg_alloc_asked_bytes(true), SIZE_MAX);
  assert_int_equal(stg_alloc_asked_bytes(true), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_zeroed_memory),
      cmocka_unit_test(adds_up_what_the_thread_asked_for),
      cmocka_unit_test(gives_a_pointer_for_no_bytes),
      cmocka_unit_test(refuses_a_product_that_wraps),
      cmocka_unit_test(keeps_bytes_when_it_grows),
      cmocka_unit_test(aligns_to_a_cache_line),
      cmocka_unit_test(accepts_freeing_nothing),
      cmocka_unit_test(fails_at_the_nth_allocation_and_after_it),
      cmocka_unit_test(leaves_the_old_block_when_growing_fails),
      cmocka_unit_test(fails_only_on_the_thread_that_asked),
      cmocka_unit_test(names_what_did_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
