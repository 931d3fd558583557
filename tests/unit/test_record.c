/*
 * test_record.c: chains resolved into records: what a record holds, its device form, its digest,
 * and that a record that fails leaves nothing behind.
 */
#include "engine/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"
#include "tests/support/record_fixture.h"

static void chains_are_found_by_layer_in_any_order(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, false);
  const stg_op_call calls[] = {add_call(&f, 0, 2), gate_call(&f, 1, 0)};
  struct stg_record *record = record_of(&f,
                                        (const stg_chain[]){{.layer = 3, .ops = calls, .n_ops = 2},
                                                            {.layer = 0, .ops = calls, .n_ops = 1}},
                                        2);
  const struct stg_record_chain *last = stg_record_find(record, 3);
  const struct stg_record_chain *first = stg_record_find(record, 0);
  assert_non_null(first);
  assert_non_null(last);
  assert_null(stg_record_find(record, 1));
  assert_int_equal(1, first->n_ops);
  assert_int_equal(2, last->n_ops);
  assert_int_equal(3, last->n_vectors);
  /* moved with their chains: each runs its own program */
  assert_ptr_equal(&first->program, first->cpu.program);
  assert_ptr_equal(&last->program, last->cpu.program);
  assert_int_equal(3, last->program.n_vectors);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

static void parameters_left_out_take_their_defaults(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, false);
  const stg_op_call call = gate_call(&f, 0, 1);
  struct stg_record *record = record_of(&f, &(stg_chain){.ops = &call, .n_ops = 1}, 1);
  const float *params = stg_record_find(record, 0)->ops[0].params;
  assert_true(params[0] == 1 && params[1] == 0.5F && params[2] == 0);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

/* A chain's words, in the order in which the kernel reads them. */
static void expect_chain_words(const struct stg_record_chain *chain, const uint32_t *words) {
  const uint32_t ops_at = words[2] & 0xffffU, gram_at = words[2] >> 16;
  assert_int_equal(2U | 3U << 8, words[0]); /* ops, vectors, no norm */
  assert_int_equal(1U << 1, words[1]);      /* the gate's u alone is dotted */
  assert_int_equal(stg_record_chain_words(2, 3), words[3]);
  assert_int_equal(chain->rows[0], words[4]);
  assert_int_equal(chain->rows[1], words[5]);
  assert_int_equal(chain->rows[0], words[6]);
  assert_int_equal(8, ops_at);
  assert_int_equal(chain->ops[0].op->code, words[ops_at]);
  assert_int_equal(0, words[ops_at + 1]);
  assert_memory_equal(&(float){-3}, &words[ops_at + STG_RECORD_PARAM_WORD], 4);
  assert_int_equal(chain->ops[1].op->code, words[ops_at + STG_RECORD_OP_WORDS]);
  assert_int_equal(1, words[ops_at + STG_RECORD_OP_WORDS + 1]);
  assert_int_equal(ops_at + 2 * STG_RECORD_OP_WORDS, gram_at);
  assert_memory_equal(chain->gram, &words[gram_at], 9 * sizeof(float));
}

static void the_device_form_is_what_the_kernel_reads(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  const stg_op_call calls[] = {add_call(&f, 4, -3), gate_call(&f, 1, 4)};
  struct stg_record *record = record_of(&f,
                                        (const stg_chain[]){{.layer = 2, .ops = calls, .n_ops = 1},
                                                            {.layer = 1, .ops = calls, .n_ops = 2}},
                                        2);
  assert_true(record->offset != 0 && record->offset % 16 == 0);
  assert_int_equal(record->words, (size_t)record->chain_words * f.decl.layers);
  assert_int_equal(0, record->chain_words % 4);
  uint32_t *words = stg_calloc(record->words, sizeof *words);
  assert_non_null(words);
  memset(words, 0xee, record->words * sizeof *words);
  stg_record_encode(record, words);
  assert_int_equal(0, words[0]); /* no chain at layer 0, nor at 3 */
  expect_chain_words(stg_record_find(record, 1), words + record->chain_words);
  assert_int_equal(1U | 1U << 8, words[(size_t)2 * record->chain_words]);
  assert_int_equal(0, words[(size_t)3 * record->chain_words]);
  stg_free(words);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

static void a_window_stands_ahead_of_the_chains(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  f.decl.windows = true;
  const stg_op_call call = add_call(&f, 4, -3);
  const stg_chain chain = {.layer = 1, .ops = &call, .n_ops = 1};
  const struct stg_window_rule rule = {.phases = STG_RECORD_GENERATION, .from = -7, .to = 12};
  const struct stg_record_source source = {&chain, 1, &rule, 3};
  struct stg_record *record = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_record_create(&f.store, &source, &record, &error));
  assert_int_equal(record->words,
                   STG_RECORD_HEAD_WORDS + (size_t)record->chain_words * f.decl.layers);
  uint32_t *words = stg_calloc(record->words, sizeof *words);
  assert_non_null(words);
  stg_record_encode(record, words);
  assert_int_equal(STG_RECORD_GENERATION, words[0]);
  assert_int_equal((uint32_t)-7, words[1]);
  assert_int_equal(12, words[2]);
  assert_int_equal(3, words[3]);
  assert_int_equal(0, words[STG_RECORD_HEAD_WORDS]); /* no chain at layer 0 */
  assert_int_equal(1U | 1U << 8, words[STG_RECORD_HEAD_WORDS + record->chain_words]);
  stg_free(words);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

static void a_norm_wants_every_dot(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  stg_op_call calls[] = {add_call(&f, 0, 1), add_call(&f, 1, 1)};
  calls[1].op = "add_keep_norm";
  struct stg_record *record = record_of(&f, &(stg_chain){.ops = calls, .n_ops = 2}, 1);
  uint32_t *words = stg_calloc(record->words, sizeof *words);
  assert_non_null(words);
  stg_record_encode(record, words);
  assert_int_equal(2U | 2U << 8 | 1U << 16, words[0]);
  assert_int_equal(3, words[1]);
  stg_free(words);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

static void no_chains_are_a_record_without_memory(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  struct stg_record *record = record_of(&f, NULL, 0);
  assert_int_equal(0, record->offset);
  assert_int_equal(0, record->words);
  stg_record_unref(&f.store, record);
  stg_record_unref(&f.store, NULL);
  close_fixture(&f);
}

static void the_digest_does_not_depend_on_the_order_of_layers(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, false);
  const stg_op_call a = add_call(&f, 0, 1), b = add_call(&f, 1, 1);
  const stg_chain chains[] = {{.layer = 0, .ops = &a, .n_ops = 1},
                              {.layer = 1, .ops = &b, .n_ops = 1},
                              {.layer = 0, .ops = &a, .n_ops = 1}};
  const stg_chain crossed[] = {{.layer = 1, .ops = &a, .n_ops = 1},
                               {.layer = 0, .ops = &b, .n_ops = 1}};
  struct stg_record *one = record_of(&f, chains, 2), *two = record_of(&f, chains + 1, 2);
  struct stg_record *other = record_of(&f, crossed, 2);
  struct stg_key digests[3];
  stg_error error = STG_ERROR_INIT;
  stg_alloc_fail_at(1);
  stg_status status = stg_record_digest(&f.store, one, &digests[0], &error);
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  assert_int_equal(STG_OK, stg_record_digest(&f.store, one, &digests[0], &error));
  assert_int_equal(STG_OK, stg_record_digest(&f.store, two, &digests[1], &error));
  assert_int_equal(STG_OK, stg_record_digest(&f.store, other, &digests[2], &error));
  assert_true(stg_key_equal(digests[0], digests[1]));
  assert_false(stg_key_equal(digests[0], digests[2]));
  stg_record_unref(&f.store, one);
  stg_record_unref(&f.store, two);
  stg_record_unref(&f.store, other);
  close_fixture(&f);
}

static void a_reference_keeps_a_record(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  const stg_op_call call = add_call(&f, 0, 1);
  struct stg_record *record = record_of(&f, &(stg_chain){.ops = &call, .n_ops = 1}, 1);
  record->refs++;
  stg_record_unref(&f.store, record);
  assert_int_equal(1, f.bank.places.used);
  assert_int_equal(1, f.pool.places.used);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

/* The last chain is at fault, after rows and memory were taken for those before. */
static void a_record_that_fails_gives_everything_back(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  struct stg_record *record = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_op_call calls[] = {add_call(&f, 0, 1), gate_call(&f, 1, 2)};
  calls[1].vectors[1] = 999;
  const stg_chain chains[] = {{.layer = 0, .ops = calls, .n_ops = 1},
                              {.layer = 1, .ops = calls, .n_ops = 2}};
  assert_int_equal(STG_E_NOT_FOUND,
                   stg_record_create(&f.store, &(struct stg_record_source){chains, 2, NULL, 0},
                                     &record, &error));
  assert_string_equal(
      "chains[1]: ops[1]: gated_add: vector 'v': vector: id 999 is not interned, or "
      "was released",
      error.message);
  assert_null(record);
  assert_int_equal(0, f.bank.places.used);
  assert_int_equal(0, f.pool.places.used);
  close_fixture(&f);
}

/* Said before the first is read or anything is taken: a count may be far beyond its array. */
static void more_chains_than_layers_are_refused_by_their_count(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, false);
  struct stg_record *record = NULL;
  stg_error error = STG_ERROR_INIT;
  const stg_op_call call = add_call(&f, 0, 1);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  assert_int_equal(STG_E_INVALID,
                   stg_record_create(&f.store,
                                     &(struct stg_record_source){&chain, SIZE_MAX, NULL, 0},
                                     &record, &error));
  assert_string_equal("18446744073709551615 chains, more than the 4 layers declared; give one per "
                      "layer",
                      error.message);
  assert_int_equal(STG_E_INVALID,
                   stg_record_create(&f.store, &(struct stg_record_source){&chain, 5, NULL, 0},
                                     &record, &error));
  assert_null(record);
  close_fixture(&f);
}

static void a_full_pool_is_a_status_and_gives_everything_back(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, true);
  struct stg_record *records[64], *record = NULL;
  size_t n = 0;
  stg_error error = STG_ERROR_INIT;
  const stg_op_call call = add_call(&f, 0, 1);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  while (stg_record_create(&f.store, &(struct stg_record_source){&chain, 1, NULL, 0}, &record,
                           &error) == STG_OK) {
    assert_true(n < 64);
    records[n++] = record;
    record = NULL;
  }
  assert_int_equal(STG_E_CAPACITY, error.code);
  assert_non_null(strstr(error.message, "records: all 9 rooms"));
  assert_int_equal(9, n); /* two for each of four slots, and one */
  assert_int_equal(n, f.bank.rows[0].refs);
  while (n > 0) {
    stg_record_unref(&f.store, records[--n]);
  }
  close_fixture(&f);
}

/* Each allocation of a record fails in turn. */
static void expect_clean_failures(bool device) {
  struct fixture f;
  open_fixture(&f, device);
  const stg_op_call calls[] = {add_call(&f, 0, 1), gate_call(&f, 1, 2)};
  const stg_chain chain = {.ops = calls, .n_ops = 2};
  struct stg_record *record = NULL;
  size_t failures = 0;
  for (size_t nth = 1; record == NULL; nth++) {
    stg_error error = STG_ERROR_INIT;
    assert_true(nth < 200);
    stg_alloc_fail_at(nth);
    stg_status status = stg_record_create(&f.store, &(struct stg_record_source){&chain, 1, NULL, 0},
                                          &record, &error);
    stg_alloc_fail_at(0);
    if (status != STG_OK) {
      failures++;
      assert_int_equal(STG_E_NO_MEMORY, status);
      assert_true(error.message[0] != '\0');
      assert_null(record);
      assert_int_equal(0, f.bank.places.used);
      assert_int_equal(0, f.pool.places.used);
    }
  }
  assert_true(failures >= 2);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

static void a_lack_of_memory_gives_everything_back(void **state) {
  (void)state;
  expect_clean_failures(false);
  expect_clean_failures(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_are_found_by_layer_in_any_order),
      cmocka_unit_test(parameters_left_out_take_their_defaults),
      cmocka_unit_test(the_device_form_is_what_the_kernel_reads),
      cmocka_unit_test(a_window_stands_ahead_of_the_chains),
      cmocka_unit_test(a_norm_wants_every_dot),
      cmocka_unit_test(no_chains_are_a_record_without_memory),
      cmocka_unit_test(the_digest_does_not_depend_on_the_order_of_layers),
      cmocka_unit_test(a_reference_keeps_a_record),
      cmocka_unit_test(a_record_that_fails_gives_everything_back),
      cmocka_unit_test(more_chains_than_layers_are_refused_by_their_count),
      cmocka_unit_test(a_full_pool_is_a_status_and_gives_everything_back),
      cmocka_unit_test(a_lack_of_memory_gives_everything_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
