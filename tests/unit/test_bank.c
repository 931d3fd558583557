/*
 * test_bank.c: each vector once, by references, in as many rows as were declared.
 */
#include "engine/bank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/alloc.h"

/* A bank without a device, over a table with some vectors. */
struct fixture {
  struct stg_vector_table *table;
  struct stg_bank bank;
  stg_vector vectors[64];
};

static void open_fixture(struct fixture *f, uint32_t capacity) {
  stg_error error = STG_ERROR_INIT;
  *f = (struct fixture){0};
  assert_int_equal(STG_OK, stg_vector_table_create(&f->table, &error));
  assert_int_equal(STG_OK, stg_bank_init(&f->bank, f->table, NULL, capacity, 16, &error));
  for (size_t k = 0; k < 64; k++) {
    const float values[] = {1, (float)k};
    assert_int_equal(STG_OK,
                     stg_vector_table_intern(f->table, STG_F32, values, 2, &f->vectors[k], &error));
  }
}

/* Every reference but the fixture's own must be gone. */
static void close_fixture(struct fixture *f) {
  struct stg_vector_counters counters;
  assert_int_equal(0, f->bank.places.used);
  stg_bank_finish(&f->bank);
  for (size_t k = 0; k < 64; k++) {
    assert_int_equal(STG_OK, stg_vector_table_release(f->table, f->vectors[k], NULL));
  }
  stg_vector_table_counters(f->table, &counters);
  assert_int_equal(0, counters.live);
  stg_vector_table_destroy(f->table);
}

static uint32_t acquire(struct fixture *f, size_t vector) {
  uint32_t row = UINT32_MAX;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_bank_acquire(&f->bank, f->vectors[vector], &row, &error));
  assert_true(row < f->bank.places.capacity);
  return row;
}

static void a_vector_has_one_row_however_often_it_is_used(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, 4);
  const uint32_t first = acquire(&f, 0), second = acquire(&f, 1);
  assert_true(first != second);
  assert_int_equal(first, acquire(&f, 0));
  assert_int_equal(2, f.bank.places.used);
  const struct stg_vector_view *view = stg_bank_view(&f.bank, second);
  assert_int_equal(2, view->length);
  assert_true(((const float *)view->data)[1] == 1);
  stg_bank_release(&f.bank, first);
  assert_int_equal(2, f.bank.places.used);
  stg_bank_release(&f.bank, first);
  assert_int_equal(1, f.bank.places.used);
  stg_bank_release(&f.bank, second);
  close_fixture(&f);
}

static void the_bank_keeps_a_vector_that_its_host_released(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, 4);
  const float values[] = {5, 6};
  stg_vector id = 0;
  uint32_t row = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_vector_table_intern(f.table, STG_F32, values, 2, &id, &error));
  assert_int_equal(STG_OK, stg_bank_acquire(&f.bank, id, &row, &error));
  assert_int_equal(STG_OK, stg_vector_table_release(f.table, id, &error));
  assert_true(((const float *)stg_bank_view(&f.bank, row)->data)[1] == 6);
  stg_bank_release(&f.bank, row);
  assert_int_equal(STG_E_NOT_FOUND, stg_bank_acquire(&f.bank, id, &row, &error));
  assert_non_null(strstr(error.message, "is not interned, or was released"));
  close_fixture(&f);
}

static void one_vector_too_many_is_a_status(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, 3);
  uint32_t rows[3], row = 77;
  stg_error error = STG_ERROR_INIT;
  for (size_t k = 0; k < 3; k++) {
    rows[k] = acquire(&f, k);
  }
  assert_int_equal(STG_E_CAPACITY, stg_bank_acquire(&f.bank, f.vectors[3], &row, &error));
  assert_string_equal("vectors: all 3 of max_vectors are in use; declare more or clear a slot",
                      error.message);
  assert_int_equal(77, row);
  assert_int_equal(rows[1], acquire(&f, 1)); /* one that is there needs no row */
  stg_bank_release(&f.bank, rows[1]);
  stg_bank_release(&f.bank, rows[1]);
  assert_int_equal(rows[1], acquire(&f, 3));
  for (size_t k = 0; k < 3; k++) {
    stg_bank_release(&f.bank, rows[k]);
  }
  close_fixture(&f);
}

/* A row that is given to another vector must be sent to the device again. */
static void a_row_in_new_hands_is_not_sent_yet(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, 1);
  const uint32_t row = acquire(&f, 0);
  assert_true(stg_places_is_unsent(&f.bank.places, row));
  stg_places_all_sent(&f.bank.places);
  stg_bank_release(&f.bank, row);
  assert_int_equal(row, acquire(&f, 1));
  assert_true(stg_places_is_unsent(&f.bank.places, row));
  stg_bank_release(&f.bank, row);
  close_fixture(&f);
}

static void a_row_is_written_with_zeros_after_its_last_element(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, 4);
  const float expected[4] = {1, 7};
  float bytes[5] = {9, 9, 9, 9, 9};
  const uint32_t row = acquire(&f, 7);
  stg_bank_encode(&f.bank, row, bytes);
  assert_memory_equal(expected, bytes, sizeof expected);
  assert_true(bytes[4] == 9);
  stg_bank_release(&f.bank, row);
  close_fixture(&f);
}

/* Random acquires and releases; the index finds what is there and nothing else. */
static void rows_are_found_after_any_history(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, 48);
  uint32_t rows[64];
  unsigned refs[64] = {0}, random = 99, distinct = 0;
  for (int k = 0; k < 20000; k++) {
    random = random * 1664525U + 1013904223U;
    const size_t v = (random >> 16) % 64;
    if ((random >> 24) % 2 == 0 && refs[v] > 0) {
      stg_bank_release(&f.bank, rows[v]);
      refs[v]--;
      distinct -= refs[v] == 0;
    } else if (refs[v] > 0 || distinct < 48) {
      const uint32_t row = acquire(&f, v);
      assert_true(refs[v] == 0 || row == rows[v]);
      distinct += refs[v] == 0;
      rows[v] = row;
      refs[v]++;
    }
    assert_int_equal(distinct, f.bank.places.used);
  }
  for (size_t v = 0; v < 64; v++) {
    for (; refs[v] > 0; refs[v]--) {
      assert_true(f.bank.rows[rows[v]].vector == f.vectors[v]);
      stg_bank_release(&f.bank, rows[v]);
    }
  }
  close_fixture(&f);
}

static void a_bank_without_memory_is_a_status(void **state) {
  (void)state;
  struct stg_bank bank;
  stg_error error = STG_ERROR_INIT;
  for (size_t nth = 1; nth <= 3; nth++) {
    stg_alloc_fail_at(nth);
    stg_status status = stg_bank_init(&bank, NULL, NULL, 8, 16, &error);
    stg_alloc_fail_at(0);
    assert_int_equal(STG_E_NO_MEMORY, status);
    assert_non_null(strstr(error.message, "the vector bank"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_vector_has_one_row_however_often_it_is_used),
      cmocka_unit_test(the_bank_keeps_a_vector_that_its_host_released),
      cmocka_unit_test(one_vector_too_many_is_a_status),
      cmocka_unit_test(a_row_in_new_hands_is_not_sent_yet),
      cmocka_unit_test(a_row_is_written_with_zeros_after_its_last_element),
      cmocka_unit_test(rows_are_found_after_any_history),
      cmocka_unit_test(a_bank_without_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
