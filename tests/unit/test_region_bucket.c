/*
 * test_region_bucket.c: padded sizes of regions, and larger sizes in chunks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/steergraph.h>

static const int64_t sizes[] = {4, 16, 64};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void must_say(stg_status wanted, const char *message, stg_status status,
                     const stg_error *error) {
  assert_int_equal(wanted, status);
  assert_string_equal(message, error->message);
}

static int64_t bucket(const int64_t *list, size_t n, int64_t size) {
  stg_error error = STG_ERROR_INIT;
  int64_t padded = -1;
  ok(stg_region_bucket(list, n, size, &padded, &error), &error);
  return padded;
}

static void a_size_is_padded_to_the_smallest_that_holds_it(void **state) {
  (void)state;
  static const int64_t pairs[][2] = {{0, 4}, {1, 4}, {4, 4}, {5, 16}, {16, 16}, {17, 64}, {64, 64}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    assert_int_equal(pairs[i][1], bucket(sizes, 3, pairs[i][0]));
  }
  static const int64_t series[][2] = {
      {1, 1},     {3, 4},     {9, 16},      {65, 80},
      {130, 160}, {257, 512}, {5000, 8192}, {INT64_C(1) << 62, INT64_C(1) << 62}};
  for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
    assert_int_equal(series[i][1], bucket(NULL, 0, series[i][0]));
  }
}

static void what_cannot_be_padded_is_said(void **state) {
  (void)state;
  static const int64_t equal[] = {4, 8, 8}, zero[] = {0, 8};
  stg_error error = STG_ERROR_INIT;
  int64_t padded = -1;
  must_say(
      STG_E_CAPACITY,
      "stg_region_bucket: size 65 is more than the largest bucket 64; cut it by stg_region_chunks",
      stg_region_bucket(sizes, 3, 65, &padded, &error), &error);
  must_say(STG_E_CAPACITY,
           "stg_region_bucket: size 4611686018427387905 is more than the largest bucket "
           "4611686018427387904; cut it by stg_region_chunks",
           stg_region_bucket(NULL, 0, (INT64_C(1) << 62) + 1, &padded, &error), &error);
  must_say(STG_E_INVALID, "stg_region_bucket: size -1 is negative",
           stg_region_bucket(sizes, 3, -1, &padded, &error), &error);
  must_say(STG_E_INVALID, "stg_region_bucket: sizes is NULL, and n_sizes 3",
           stg_region_bucket(NULL, 3, 1, &padded, &error), &error);
  must_say(STG_E_INVALID, "stg_region_bucket: sizes[2] is 8, which is not above 8",
           stg_region_bucket(equal, 3, 1, &padded, &error), &error);
  must_say(STG_E_INVALID, "stg_region_bucket: sizes[0] is 0, which is not above 0",
           stg_region_bucket(zero, 2, 1, &padded, &error), &error);
  must_say(STG_E_INVALID, "stg_region_bucket: ret_padded is NULL",
           stg_region_bucket(sizes, 3, 1, NULL, &error), &error);
  assert_int_equal(-1, padded);
}

static void chunks_cover_a_size_once(void **state) {
  (void)state;
  for (int64_t size = 0; size <= 200; size++) {
    stg_error error = STG_ERROR_INIT;
    stg_region_chunk chunks[4];
    size_t n = 99, counted = 99;
    int64_t next = 0;
    ok(stg_region_chunks(sizes, 3, size, NULL, 0, &counted, &error), &error);
    ok(stg_region_chunks(sizes, 3, size, chunks, 4, &n, &error), &error);
    assert_int_equal((size + 63) / 64, n);
    assert_int_equal(n, counted);
    for (size_t i = 0; i < n; i++) {
      assert_int_equal(next, chunks[i].first);
      assert_true(chunks[i].size > 0);
      assert_int_equal(bucket(sizes, 3, chunks[i].size), chunks[i].padded);
      assert_true(i + 1 == n || chunks[i].size == 64);
      next += chunks[i].size;
    }
    assert_int_equal(size, next);
  }
}

static void chunks_without_room_are_counted_and_refused(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  stg_region_chunk chunks[2] = {{.first = 7}, {.first = 7}};
  size_t n = 0;
  must_say(STG_E_CAPACITY,
           "stg_region_chunks: 129 is 3 chunks of at most 64, and there is room for 2",
           stg_region_chunks(sizes, 3, 129, chunks, 2, &n, &error), &error);
  assert_int_equal(3, n);
  assert_int_equal(7, chunks[0].first);
  must_say(STG_E_INVALID, "stg_region_chunks: size -5 is negative",
           stg_region_chunks(sizes, 3, -5, chunks, 2, &n, &error), &error);
  const char *missing = "stg_region_chunks: ret_n_chunks is NULL, or ret_chunks with a capacity";
  must_say(STG_E_INVALID, missing, stg_region_chunks(sizes, 3, 5, chunks, 2, NULL, &error), &error);
  must_say(STG_E_INVALID, missing, stg_region_chunks(sizes, 3, 5, NULL, 2, &n, &error), &error);
  assert_int_equal(3, n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_size_is_padded_to_the_smallest_that_holds_it),
      cmocka_unit_test(what_cannot_be_padded_is_said),
      cmocka_unit_test(chunks_cover_a_size_once),
      cmocka_unit_test(chunks_without_room_are_counted_and_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
