/*
 * test_peer_case.c: a case folder says what its batch is: read back by the reader of workloads, and
 * by the peers themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"
#include "specs/workload.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/peer_case.h"
#include "tools/bench/peer_run.h"

#define HIDDEN 64

static const uint32_t lengths[] = {3, 1, 4, 2, 5};
static const struct stg_bench_mix mix = {.name = "small",
                                         .hidden_size = HIDDEN,
                                         .n_requests = 5,
                                         .lengths = lengths,
                                         .n_ops = 3,
                                         .n_distinct = 2,
                                         .kind = STG_BENCH_MIXED};

static void write_case_of(void **state, const struct stg_bench_mix *of,
                          struct stg_bench_batch *batch) {
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_bench_batch_init(of, batch, &err));
  if (stg_peer_case_write(batch, temp_path(state, ""), &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
}

static void write_case(void **state, struct stg_bench_batch *batch) {
  write_case_of(state, &mix, batch);
}

static struct stg_workload read_case(void **state) {
  struct stg_workload workload;
  const struct stg_workload_options options = {0};
  stg_error err = STG_ERROR_INIT;
  if (stg_workload_load(temp_path(state, STG_PEER_WORKLOAD), &options, &workload, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return workload;
}

static void keeps_rows_and_vectors(void **state) {
  struct stg_bench_batch batch;
  write_case(state, &batch);
  struct stg_workload w = read_case(state);
  assert_int_equal(batch.rows, w.rows);
  assert_int_equal(STG_BF16, w.dtype);
  uint16_t *rows = stg_calloc((size_t)w.rows * HIDDEN, sizeof *rows);
  assert_int_equal(STG_OK, stg_workload_fill(&w, &w.hidden, rows, NULL));
  assert_memory_equal(batch.hidden, rows, stg_bench_batch_bytes(&batch));
  assert_int_equal(batch.n_vectors, w.n_vectors);
  for (size_t i = 0; i < w.n_vectors; i++) {
    float values[HIDDEN];
    bool normalize = true;
    assert_int_equal(STG_OK, stg_workload_read_vector(&w, i, 0, values, NULL));
    assert_int_equal(STG_OK, stg_workload_resolve_normalize(&w, i, &normalize, NULL));
    assert_false(normalize);
    for (size_t j = 0; j < HIDDEN; j++) {
      assert_int_equal(batch.vectors[i * HIDDEN + j], stg_bf16_from_f32(values[j]));
    }
  }
  stg_free(rows);
  stg_workload_finish(&w);
  stg_bench_batch_finish(&batch);
}

static float arg_of(const struct stg_spec_op_call *call, const char *name) {
  for (size_t i = 0; i < call->n_args; i++) {
    if (strcmp(call->args[i].name, name) == 0 && !call->args[i].is_vector) {
      return call->args[i].value;
    }
  }
  fail_msg("%s: no '%s'", call->where, name);
  return 0;
}

static void check_call(const struct stg_bench_op *op, const struct stg_spec_op_call *call) {
  static const char *const names[] = {"projection_cap", "add", "ablation"};
  assert_string_equal(names[op->kind], call->op);
  if (op->kind == STG_BENCH_CAP) {
    assert_true(op->a <= arg_of(call, "min") && op->a >= arg_of(call, "min"));
    assert_true(op->b <= arg_of(call, "max") && op->b >= arg_of(call, "max"));
  } else {
    assert_true(op->a <= arg_of(call, "scale") && op->a >= arg_of(call, "scale"));
  }
  bool found = false;
  for (size_t i = 0; i < call->n_args; i++) {
    found = found || (call->args[i].is_vector && call->args[i].vector == op->vector);
  }
  assert_true(found);
}

static void keeps_chains_and_lengths(void **state) {
  struct stg_bench_batch batch;
  write_case(state, &batch);
  struct stg_workload w = read_case(state);
  assert_int_equal(mix.n_requests, w.n_requests);
  for (uint32_t r = 0; r < mix.n_requests; r++) {
    const struct stg_spec_slot *slot = &w.slots[w.requests[r].slot];
    assert_int_equal(lengths[r], w.requests[r].rows);
    assert_int_equal(1, slot->n_chains);
    assert_int_equal(mix.n_ops, slot->chains[0].n_ops);
    for (uint32_t k = 0; k < mix.n_ops; k++) {
      check_call(&stg_bench_batch_chain(&batch, r)[k], &slot->chains[0].ops[k]);
    }
  }
  stg_workload_finish(&w);
  stg_bench_batch_finish(&batch);
}

static void keeps_the_epilogue_of_a_batch_in_which_nothing_is_steered(void **state) {
  struct stg_bench_mix norm = mix;
  norm.state = STG_BENCH_NORM;
  norm.unsteered = true;
  struct stg_bench_batch batch;
  write_case_of(state, &norm, &batch);
  struct stg_workload w = read_case(state);
  assert_true(w.pair && w.epilogue);
  assert_true(w.epsilon <= STG_BENCH_EPSILON && w.epsilon >= STG_BENCH_EPSILON);
  float weight[HIDDEN];
  assert_int_equal(STG_OK, stg_workload_read_weight(&w, weight, NULL));
  for (size_t j = 0; j < HIDDEN; j++) {
    assert_int_equal(batch.weight[j], stg_bf16_from_f32(weight[j]));
  }
  uint16_t *rows = stg_calloc((size_t)w.rows * HIDDEN, sizeof *rows);
  assert_int_equal(STG_OK, stg_workload_fill(&w, &w.residual, rows, NULL));
  assert_memory_equal(batch.residual, rows, stg_bench_batch_bytes(&batch));
  for (uint32_t r = 0; r < norm.n_requests; r++) {
    assert_int_equal(-1, w.requests[r].slot);
  }
  stg_free(rows);
  stg_workload_finish(&w);
  stg_bench_batch_finish(&batch);
}

/* Cases are read before torch is looked for, so that what is said next is of torch, or of the rows:
 * what is expected here is the input, which no peer gives. */
static void is_read_by(void **state, const char *script, const struct stg_bench_mix *of) {
  struct stg_bench_batch batch;
  write_case_of(state, of, &batch);
  const struct stg_tensor_out expected[] = {
      {"hidden", STG_BF16, 2, {batch.rows, HIDDEN}, batch.hidden},
      {"residual", STG_BF16, 2, {batch.rows, HIDDEN}, batch.residual},
  };
  assert_int_equal(STG_OK, stg_safetensors_write(temp_path(state, STG_PEER_EXPECTED), expected,
                                                 batch.residual != NULL ? 2 : 1, NULL, 0, NULL));
  const struct stg_peer_arg arg = {"steer", "small", temp_path(state, "")};
  const struct stg_peer_call call = {.script = script,
                                     .cases = &arg,
                                     .n_cases = 1,
                                     .out = temp_path(state, "rows.json"),
                                     .limit_s = 100,
                                     .quick = true};
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_E_IO, stg_peer_run(&call, &report, &err));
  if (strstr(err.message, "cannot import torch") == NULL &&
      strstr(err.message, "finds no CUDA device") == NULL &&
      strstr(err.message, "case 'small': disagrees with steergraph") == NULL) {
    fail_msg("%s", err.message);
  }
  assert_int_equal(0, report.n_rows);
  stg_bench_report_finish(&report);
  stg_bench_batch_finish(&batch);
}

static void is_read_by_the_peers(void **state) {
  is_read_by(state, STG_PEERS_SOURCE "/loop.py", &mix);
}

static void with_an_epilogue_it_is_read_by_its_peer(void **state) {
  struct stg_bench_mix norm = mix;
  norm.state = STG_BENCH_NORM;
  norm.unsteered = true;
  is_read_by(state, STG_PEERS_SOURCE "/norm.py", &norm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(keeps_rows_and_vectors, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(keeps_chains_and_lengths, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(keeps_the_epilogue_of_a_batch_in_which_nothing_is_steered,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(is_read_by_the_peers, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(with_an_epilogue_it_is_read_by_its_peer, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
