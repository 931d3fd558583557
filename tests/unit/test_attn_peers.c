/*
 * test_attn_peers.c: which peers of rope and attend are wanted, that each has a case with a row of
 * ours, and the files of a case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/attn_peer_case.h"
#include "tools/bench/attn_peer_list.h"

static const char *const both[] = {"rope", "attend"};
static const char *const others[] = {"steer", "warmup"};

static void suites_are_wanted_by_their_names(void **state) {
  (void)state;
  assert_true(stg_attn_peers_wanted(both, 1));
  assert_true(stg_attn_peers_wanted(both + 1, 1));
  assert_false(stg_attn_peers_wanted(others, 2));
  assert_false(stg_attn_peers_wanted(NULL, 0));
}

static void each_peer_has_a_case_and_its_script_is_there(void **state) {
  (void)state;
  for (size_t i = 0; i < STG_ATTN_PEERS; i++) {
    const struct stg_attn_peer *peer = &stg_attn_peer_list[i];
    char path[512];
    bool exists = false;
    unsigned found = 0;
    for (size_t k = 0; k < STG_ATTN_PEER_CASES; k++) {
      found += (stg_attn_peer_cases[k].peers & (unsigned)peer->flag) != 0;
    }
    assert_true(found > 0);
    snprintf(path, sizeof path, "%s/%s", STG_PEERS_SOURCE, peer->script);
    FILE *file = fopen(path, "r");
    exists = file != NULL;
    if (exists) {
      fclose(file);
    }
    assert_true(exists);
  }
}

static void add_rows(struct stg_bench_report *report, const char *but) {
  for (size_t i = 0; i < STG_ATTN_PEER_CASES; i++) {
    const struct stg_attn_case *work = stg_attn_peer_cases[i].work;
    const struct stg_bench_row row = {
        .suite = work->suite, .name = work->name, .series = STG_BENCH_OURS};
    if (but == NULL || strcmp(but, work->name) != 0) {
      assert_int_equal(STG_OK, stg_bench_report_add(report, &row, NULL));
    }
  }
}

static void a_case_without_a_row_of_ours_is_named(void **state) {
  (void)state;
  struct stg_bench_report whole = {0}, lacking = {0};
  stg_error error = STG_ERROR_INIT;
  add_rows(&whole, NULL);
  add_rows(&lacking, "2048, 32/8 heads of 128");
  assert_int_equal(STG_OK, stg_attn_peer_check_names(both, 2, &whole, &error));
  assert_int_equal(STG_OK, stg_attn_peer_check_names(both + 1, 1, &lacking, &error));
  assert_int_equal(STG_E_NOT_FOUND, stg_attn_peer_check_names(both, 2, &lacking, &error));
  assert_string_equal("bench --peers: suite 'rope' has no row '2048, 32/8 heads of 128' of ours",
                      error.message);
  stg_bench_report_finish(&whole);
  stg_bench_report_finish(&lacking);
}

static const struct stg_attn_case small = {.suite = "rope",
                                           .name = "small",
                                           .heads = 2,
                                           .kv_heads = 1,
                                           .dim = 4,
                                           .dtype = STG_BF16,
                                           .batch = 1,
                                           .rows_each = 3,
                                           .shortest = 3,
                                           .longest = 3};

static void a_case_is_written_with_what_was_made(void **state) {
  uint16_t q[3 * 2 * 4] = {1, 2, 3}, k[3 * 4] = {4};
  const struct stg_attn_expected expected = {.q = q, .k = k};
  const struct stg_tensor_info *found = NULL;
  struct stg_tensor_file file = {0};
  stg_error error = STG_ERROR_INIT;
  char *text = NULL;
  size_t size = 0;
  assert_int_equal(STG_OK,
                   stg_attn_peer_case_write(&small, &expected, temp_path(state, "."), &error));
  assert_int_equal(
      STG_OK, stg_file_read(temp_path(state, STG_ATTN_PEER_CASE), 1 << 20, &text, &size, &error));
  assert_non_null(strstr(text, "\"work\": \"rope\""));
  stg_free(text);
  assert_int_equal(
      STG_OK, stg_tensor_file_open(temp_path(state, STG_ATTN_PEER_EXPECTED), NULL, &file, &error));
  assert_int_equal(2, file.n_tensors);
  assert_int_equal(STG_OK, stg_tensor_find(&file, "q", &found, &error));
  assert_int_equal(3, found->n_dims);
  assert_int_equal(2, found->shape[1]);
  assert_int_equal(STG_OK, stg_tensor_find(&file, "k", &found, &error));
  assert_int_equal(1, found->shape[1]);
  stg_tensor_file_close(&file);
}

static void a_loop_is_written_step_by_step(void **state) {
  struct stg_attn_case loop = small;
  uint16_t out[2 * 1 * 2 * 4] = {1};
  const struct stg_attn_expected expected = {.out = out};
  const struct stg_tensor_info *found = NULL;
  struct stg_tensor_file file = {0};
  stg_error error = STG_ERROR_INIT;
  loop.advance = true;
  loop.capacity = (int64_t)2 * STG_ATTN_LOOP_STRIDE;
  assert_int_equal(STG_OK,
                   stg_attn_peer_case_write(&loop, &expected, temp_path(state, "."), &error));
  assert_int_equal(
      STG_OK, stg_tensor_file_open(temp_path(state, STG_ATTN_PEER_EXPECTED), NULL, &file, &error));
  assert_int_equal(STG_OK, stg_tensor_find(&file, "out", &found, &error));
  assert_int_equal(4, found->n_dims);
  assert_int_equal(2, found->shape[0]);
  assert_int_equal(1, found->shape[1]);
  stg_tensor_file_close(&file);
}

static void a_folder_that_is_not_there_is_said(void **state) {
  uint16_t q[3 * 2 * 4] = {0};
  const struct stg_attn_expected expected = {.q = q};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_IO,
                   stg_attn_peer_case_write(&small, &expected, temp_path(state, "none"), &error));
  assert_non_null(strstr(error.message, "none"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(suites_are_wanted_by_their_names),
      cmocka_unit_test(each_peer_has_a_case_and_its_script_is_there),
      cmocka_unit_test(a_case_without_a_row_of_ours_is_named),
      cmocka_unit_test_setup_teardown(a_case_is_written_with_what_was_made, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_loop_is_written_step_by_step, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_said, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
