/*
 * test_vectors.c: interning by content, references, ids that go stale, threads.
 */
#include "engine/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

static int open_table(void **state) {
  struct stg_vector_table *table = NULL;
  stg_error error = STG_ERROR_INIT;
  *state = NULL;
  if (stg_vector_table_create(&table, &error) != STG_OK) {
    return -1;
  }
  *state = table;
  return 0;
}

static int close_table(void **state) {
  stg_vector_table_destroy(*state);
  return 0;
}

static stg_vector intern(struct stg_vector_table *table, stg_dtype dtype, const void *data,
                         size_t length) {
  stg_vector id = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_vector_table_intern(table, dtype, data, length, &id, &error));
  assert_true(id != 0);
  return id;
}

static void release(struct stg_vector_table *table, stg_vector id) {
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_vector_table_release(table, id, &error));
}

static struct stg_vector_counters counters_of(struct stg_vector_table *table) {
  struct stg_vector_counters counters;
  stg_vector_table_counters(table, &counters);
  return counters;
}

static void everything_equal_is_one_vector(void **state) {
  const float a[] = {1, 2, 3}, b[] = {1, 2, 3};
  stg_vector first = intern(*state, STG_F32, a, 3);
  assert_true(first == intern(*state, STG_F32, b, 3));
  assert_int_equal(1, counters_of(*state).live);
  assert_int_equal(12, counters_of(*state).bytes);
  assert_int_equal(1, counters_of(*state).hits);
  release(*state, first);
  assert_int_equal(1, counters_of(*state).live);
  release(*state, first);
  assert_int_equal(0, counters_of(*state).live);
  assert_int_equal(0, counters_of(*state).bytes);
}

static void equal_bytes_of_another_dtype_or_length_are_another_vector(void **state) {
  /* as f32: two elements; as bf16 or f16: four */
  const uint16_t words[] = {0x3c00, 0x3c00, 0x3c00, 0x3c00};
  const stg_vector ids[] = {intern(*state, STG_BF16, words, 4), intern(*state, STG_F16, words, 4),
                            intern(*state, STG_F32, words, 2), intern(*state, STG_BF16, words, 3)};
  for (size_t i = 0; i < 4; i++) {
    for (size_t j = 0; j < i; j++) {
      assert_true(ids[i] != ids[j]);
    }
  }
  assert_int_equal(4, counters_of(*state).live);
  assert_int_equal(0, counters_of(*state).hits);
}

static void a_last_bit_makes_another_vector(void **state) {
  float values[64], others[64];
  for (size_t k = 0; k < 64; k++) {
    values[k] = others[k] = (float)k;
  }
  others[63] = nextafterf(63, 64);
  assert_true(intern(*state, STG_F32, values, 64) != intern(*state, STG_F32, others, 64));
  others[63] = 63;
  others[0] = -0.0F; /* equal as a number, another vector as bytes */
  assert_true(intern(*state, STG_F32, values, 64) != intern(*state, STG_F32, others, 64));
}

/* Whichever element differs, and however many others differ from the same vector elsewhere. */
static void one_element_anywhere_makes_another_vector(void **state) {
  enum { N = 1000 };
  uint16_t values[N];
  stg_vector *ids = stg_calloc(N, sizeof *ids);
  assert_non_null(ids);
  for (size_t k = 0; k < N; k++) {
    values[k] = 0x3c00;
  }
  for (int round = 0; round < 2; round++) {
    for (size_t k = 0; k < N; k++) {
      values[k] ^= 1;
      const stg_vector id = intern(*state, STG_BF16, values, N);
      values[k] ^= 1;
      assert_true(round == 0 || id == ids[k]);
      ids[k] = id;
    }
    assert_int_equal(N, counters_of(*state).live);
  }
  for (size_t k = 0; k < N; k++) {
    for (size_t i = 0; i < k; i++) {
      assert_true(ids[i] != ids[k]);
    }
  }
  for (size_t k = 0; k < 2 * (size_t)N; k++) {
    release(*state, ids[k % N]);
  }
  assert_int_equal(0, counters_of(*state).live);
  stg_free(ids);
}

static void the_vector_keeps_its_own_copy(void **state) {
  float values[] = {4, 5};
  struct stg_vector_view view;
  stg_error error = STG_ERROR_INIT;
  stg_vector id = intern(*state, STG_F32, values, 2);
  values[0] = 99;
  assert_int_equal(STG_OK, stg_vector_table_hold(*state, id, &view, &error));
  assert_int_equal(STG_F32, view.dtype);
  assert_int_equal(2, view.length);
  assert_true(((const float *)view.data)[0] == 4);
  release(*state, id);
  stg_vector_table_unhold(*state, id);
}

/* A host that releases too often is told so, and takes the vector from nobody who holds it. */
static void a_release_too_many_takes_nobodys_vector(void **state) {
  const float values[] = {4, 5};
  struct stg_vector_view view;
  stg_error error = STG_ERROR_INIT;
  stg_vector id = intern(*state, STG_F32, values, 2);
  assert_int_equal(STG_OK, stg_vector_table_hold(*state, id, &view, &error));
  release(*state, id);
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_release(*state, id, &error));
  assert_non_null(strstr(error.message, "is not interned, or was released"));
  assert_true(((const float *)view.data)[1] == 5);
  assert_true(id == intern(*state, STG_F32, values, 2)); /* still there to be found */
  stg_vector_table_unhold(*state, id);
  assert_int_equal(1, counters_of(*state).live);
  release(*state, id);
  assert_int_equal(0, counters_of(*state).live);
}

static void an_id_is_not_used_again(void **state) {
  const float a[] = {1}, b[] = {2};
  struct stg_vector_view view;
  stg_error error = STG_ERROR_INIT;
  stg_vector old = intern(*state, STG_F32, a, 1);
  release(*state, old);
  stg_vector other = intern(*state, STG_F32, b, 1); /* in the place of the old one */
  stg_vector again = intern(*state, STG_F32, a, 1);
  assert_true(other != old && again != old);
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_release(*state, old, &error));
  assert_non_null(strstr(error.message, "is not interned, or was released"));
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_hold(*state, old, &view, &error));
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_hold(*state, 0, &view, &error));
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_hold(*state, UINT64_MAX, &view, &error));
  float dot = 77;
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_gram(*state, old, other, &dot, &error));
  assert_int_equal(STG_E_NOT_FOUND, stg_vector_table_gram(*state, other, old, &dot, &error));
  assert_true(dot == 77);
  release(*state, other);
  release(*state, again);
}

static void what_is_no_direction_is_refused(void **state) {
  float values[] = {0, 0, -0.0F};
  stg_vector id = 77;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_INVALID, stg_vector_table_intern(*state, STG_F32, values, 0, &id, &error));
  assert_int_equal(STG_E_INVALID, stg_vector_table_intern(*state, STG_F32, NULL, 3, &id, &error));
  assert_int_equal(STG_E_INVALID,
                   stg_vector_table_intern(*state, STG_DTYPE_NONE, values, 3, &id, &error));
  assert_int_equal(STG_E_INVALID,
                   stg_vector_table_intern(*state, STG_F32, values, SIZE_MAX / 2, &id, &error));
  assert_int_equal(STG_E_INVALID, stg_vector_table_intern(*state, STG_F32, values, 3, &id, &error));
  assert_string_equal("vector: the norm of its 3 elements is 0; give a direction", error.message);
  values[1] = INFINITY;
  assert_int_equal(STG_E_NON_FINITE,
                   stg_vector_table_intern(*state, STG_F32, values, 3, &id, &error));
  assert_string_equal("vector: element 1 is inf; every element must be finite", error.message);
  const uint16_t nan_f16[] = {0x3c00, 0x7e00};
  assert_int_equal(STG_E_NON_FINITE,
                   stg_vector_table_intern(*state, STG_F16, nan_f16, 2, &id, &error));
  assert_int_equal(77, id);
  assert_int_equal(0, counters_of(*state).live);
}

/* The largest finite value, then the next bits up: an infinity, of either sign. */
static void only_the_largest_finite_values_pass_at_every_place(void **state) {
  static const struct {
    stg_dtype dtype;
    uint32_t largest, sign;
  } rows[] = {
      {STG_BF16, 0x7f7f, 0x8000}, {STG_F16, 0x7bff, 0x8000}, {STG_F32, 0x7f7fffff, 1u << 31}};
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    const size_t unit = stg_dtype_bytes(rows[r].dtype);
    for (size_t length = 1; length <= 9; length++) { /* the last word whole, and with any tail */
      for (size_t at = 0; at < 2 * length; at++) {
        unsigned char bytes[9 * sizeof(float)] = {0};
        const uint32_t sign = at < length ? 0 : rows[r].sign;
        const uint32_t finite = sign | rows[r].largest, infinite = sign | (rows[r].largest + 1);
        stg_vector id = 0;
        stg_error error = STG_ERROR_INIT;
        memcpy(bytes + at % length * unit, &finite, unit);
        release(*state, intern(*state, rows[r].dtype, bytes, length));
        memcpy(bytes + at % length * unit, &infinite, unit);
        assert_int_equal(STG_E_NON_FINITE, stg_vector_table_intern(*state, rows[r].dtype, bytes,
                                                                   length, &id, &error));
      }
    }
  }
}

/* In each dtype: zeros of both signs are no direction, one bit beside them is. */
static void the_least_bit_at_every_place_is_a_direction(void **state) {
  static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  for (size_t d = 0; d < 3; d++) {
    const size_t unit = stg_dtype_bytes(dtypes[d]);
    for (size_t at = 0; at < 9; at++) {
      unsigned char bytes[9 * sizeof(float)] = {0};
      stg_vector id = 0;
      stg_error error = STG_ERROR_INIT;
      bytes[(at + 1) * unit - 1] = 0x80;
      assert_int_equal(STG_E_INVALID,
                       stg_vector_table_intern(*state, dtypes[d], bytes, 9, &id, &error));
      bytes[at * unit] |= 1;
      release(*state, intern(*state, dtypes[d], bytes, 9));
    }
  }
}

static void the_smallest_subnormal_is_a_direction(void **state) {
  const float tiny[] = {0, 0x1p-149F};
  release(*state, intern(*state, STG_F32, tiny, 2));
}

static void thousands_of_vectors_are_found_again(void **state) {
  enum { N = 3000 };
  stg_vector *ids = stg_calloc(N, sizeof *ids);
  assert_non_null(ids);
  for (int round = 0; round < 3; round++) {
    for (uint32_t k = 0; k < N; k++) {
      const float values[] = {1, (float)k};
      ids[k] = intern(*state, STG_F32, values, 2);
    }
    for (uint32_t k = 0; k < N; k += 2) { /* holes, filled in the next round */
      release(*state, ids[k]);
    }
  }
  /* the odd ones once a round; the even ones not at all */
  assert_int_equal(N / 2, counters_of(*state).live);
  for (uint32_t k = 1; k < N; k += 2) {
    const float values[] = {1, (float)k};
    assert_true(ids[k] == intern(*state, STG_F32, values, 2));
  }
  stg_free(ids);
}

static void dots_are_memoised_until_a_side_goes(void **state) {
  const float a[] = {1, 2}, b[] = {3, -4};
  stg_error error = STG_ERROR_INIT;
  float dot = 0;
  stg_vector first = intern(*state, STG_F32, a, 2), second = intern(*state, STG_F32, b, 2);
  assert_int_equal(STG_OK, stg_vector_table_gram(*state, first, second, &dot, &error));
  assert_true(dot == -5);
  assert_int_equal(1, counters_of(*state).gram_pairs);
  assert_int_equal(0, counters_of(*state).gram_hits);
  assert_int_equal(STG_OK, stg_vector_table_gram(*state, second, first, &dot, &error));
  assert_true(dot == -5);
  assert_int_equal(1, counters_of(*state).gram_pairs);
  assert_int_equal(1, counters_of(*state).gram_hits);
  release(*state, second);
  assert_int_equal(0, counters_of(*state).gram_pairs);
}

/* Of one length at least, and not of all vectors that ever were. */
static void memory_of_a_vector_that_is_gone_serves_the_next(void **state) {
  stg_error error = STG_ERROR_INIT;
  const float values[] = {1, 2, 3}, others[] = {4, 5, 6}, longer[] = {7, 8, 9, 10};
  stg_vector id = 0;
  release(*state, intern(*state, STG_F32, values, 3));
  stg_alloc_fail_at(1);
  stg_status status = stg_vector_table_intern(*state, STG_F32, others, 3, &id, &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_OK, status);
  assert_int_equal(12, counters_of(*state).bytes);
  release(*state, id);
  stg_alloc_fail_at(1);
  status = stg_vector_table_intern(*state, STG_F32, longer, 4, &id, &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  release(*state, intern(*state, STG_F32, longer, 4));
  /* more than is kept */
  enum { LARGE = (size_t)2 * 1024 * 1024 / sizeof(float) };
  float *large = calloc(LARGE, sizeof *large);
  assert_non_null(large);
  large[LARGE - 1] = 1;
  release(*state, intern(*state, STG_F32, large, LARGE));
  stg_alloc_fail_at(1);
  status = stg_vector_table_intern(*state, STG_F32, large, LARGE, &id, &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  free(large);
}

/* Every allocation of an intern fails in turn: a status, no vector, and then it works. */
static void a_lack_of_memory_leaves_the_table_as_it_was(void **state) {
  stg_error error = STG_ERROR_INIT;
  const float values[] = {1, 2, 3};
  stg_vector id = 0;
  for (size_t nth = 1; id == 0; nth++) {
    assert_true(nth < 20);
    stg_alloc_fail_at(nth);
    stg_status status = stg_vector_table_intern(*state, STG_F32, values, 3, &id, &error);
    stg_alloc_fail_at(0);
    if (status != STG_OK) {
      assert_int_equal(STG_E_NO_MEMORY, status);
      assert_int_equal(0, id);
      assert_int_equal(0, counters_of(*state).live);
    }
  }
  release(*state, id);
}

struct worker {
  struct stg_vector_table *table;
  unsigned first;
  stg_status status;
};

/* Intern and release vectors that the other threads intern too. */
static void *intern_and_release(void *user) {
  struct worker *worker = user;
  for (unsigned k = 0; k < 3000 && worker->status == STG_OK; k++) {
    const float values[] = {1, (float)((worker->first + k) % 50)};
    stg_vector id = 0;
    worker->status = stg_vector_table_intern(worker->table, STG_F32, values, 2, &id, NULL);
    if (worker->status == STG_OK) {
      worker->status = stg_vector_table_release(worker->table, id, NULL);
    }
  }
  return NULL;
}

static void threads_share_a_table(void **state) {
  pthread_t threads[4];
  struct worker workers[4];
  for (unsigned i = 0; i < 4; i++) {
    workers[i] = (struct worker){.table = *state, .first = i * 13};
    assert_int_equal(0, pthread_create(&threads[i], NULL, intern_and_release, &workers[i]));
  }
  for (unsigned i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
  }
  for (unsigned i = 0; i < 4; i++) {
    assert_int_equal(STG_OK, workers[i].status);
  }
  assert_int_equal(0, counters_of(*state).live);
  assert_int_equal(0, counters_of(*state).bytes);
}

#define TABLE_TEST(test) cmocka_unit_test_setup_teardown(test, open_table, close_table)

int main(void) {
  const struct CMUnitTest tests[] = {
      TABLE_TEST(everything_equal_is_one_vector),
      TABLE_TEST(equal_bytes_of_another_dtype_or_length_are_another_vector),
      TABLE_TEST(a_last_bit_makes_another_vector),
      TABLE_TEST(one_element_anywhere_makes_another_vector),
      TABLE_TEST(the_vector_keeps_its_own_copy),
      TABLE_TEST(a_release_too_many_takes_nobodys_vector),
      TABLE_TEST(an_id_is_not_used_again),
      TABLE_TEST(what_is_no_direction_is_refused),
      TABLE_TEST(only_the_largest_finite_values_pass_at_every_place),
      TABLE_TEST(the_least_bit_at_every_place_is_a_direction),
      TABLE_TEST(the_smallest_subnormal_is_a_direction),
      TABLE_TEST(thousands_of_vectors_are_found_again),
      TABLE_TEST(dots_are_memoised_until_a_side_goes),
      TABLE_TEST(memory_of_a_vector_that_is_gone_serves_the_next),
      TABLE_TEST(a_lack_of_memory_leaves_the_table_as_it_was),
      TABLE_TEST(threads_share_a_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
