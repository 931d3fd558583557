/*
 * test_prover_cuda.c: provers of an engine on CUDA, on a device of the host, whose kernel does what
 * the CPU backend does: pools in launches, what is held and counted, and what is left when
 * something fails. Pools on the device are test_prover_launch.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/prover_cuda.h"
#include "tests/support/temp_folder.h"

#define SIGNATURE                                                                                  \
  "prover v1 | atoms=6 children=120 | embed=34 width=40 blocks=2 arithmetic=f32 | sm_90 | "        \
  "batch<=1 seq<=1 rows<=16"

static void pools_have_the_results_of_the_reference(void **state) {
  (void)state;
  open_bed();
  for (uint32_t seed = 0; seed < 3; seed++) {
    host_device_eager(seed);
    bed.run.sample = seed > 0;
    bed.run.seed = (uint64_t)seed << 40 | 11;
    prover_objects_run(&bed);
    prover_objects_judge(&bed);
  }
  close_bed();
}

/* Of launches beyond the first the numbers go on, which samples depend on. */
static void pools_of_any_size_have_one_kernel_and_the_same_bits(void **state) {
  static const size_t sizes[] = {N, 0, 1, 7, 15, 16, 17, 31, 32, 33};
  (void)state;
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
  host_device_set_compiler(&(struct host_compiler){.missing = "prover v1"});
  open_bed();
  bed.run.sample = true;
  const stg_stats before = stats_now();
  size_t launches = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    stg_prover_counts counts = {.struct_size = sizeof counts};
    bed.run.n = sizes[i];
    memset(bed.proofs, 0xff, sizeof bed.proofs);
    prover_objects_run(&bed);
    memcpy(first, bed.proofs, i == 0 ? sizeof first : 0);
    assert_first(bed.proofs, sizes[i]);
    assert_int_equal(0xff, ((unsigned char *)&bed.proofs[sizes[i]])[0]);
    stg_prover_get_counts(bed.prover, &counts);
    assert_int_equal(sizes[i] == 0, counts.query_steps == 0);
    launches += (sizes[i] + CAPACITY - 1) / CAPACITY;
  }
  const stg_stats after = stats_now();
  assert_int_equal(launches, after.plain_launches - before.plain_launches);
  assert_int_equal(launches, after.tier0_launches - before.tier0_launches);
  assert_int_equal(1, after.kernel_compiles);
  assert_int_equal(1, after.plans_live);
  assert_int_equal(1, after.traffic_shapes);
  close_bed();
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
}

static void what_is_done_and_held_is_counted(void **state) {
  stg_prover_counts counts = {.struct_size = sizeof counts};
  stg_prover_memory memory = {.struct_size = sizeof memory};
  (void)state;
  open_bed();
  prover_objects_run(&bed);
  stg_prover_get_counts(bed.prover, &counts);
  stg_stats stats = stats_now();
  assert_int_equal(N, stats.prover_candidates);
  assert_int_equal(counts.query_steps, stats.prover_steps);
  assert_int_equal(counts.states, stats.prover_states);
  prover_objects_run(&bed);
  assert_int_equal(2 * counts.states, stats_now().prover_states);
  stg_prover_get_counts(bed.prover, &counts);
  assert_int_equal(stats.prover_states, counts.states); /* of the last run alone */
  stg_prover_get_memory(bed.prover, &memory);
  assert_int_equal(bed.pool.tables.bytes, memory.base_bytes);
  /* two blocks of eight slots on each of four multiprocessors, children and two rows each */
  const size_t slot = (size_t)120 * (4 + 8 * 12) + (size_t)2 * 256 * sizeof(float) + 32;
  assert_int_equal(2 * 4 * 8, memory.slots);
  assert_int_equal(slot * memory.slots, memory.states_bytes);
  assert_in_range(memory.pool_bytes, CAPACITY * (12 + 80), CAPACITY * (12 + 80) + 5 * 256);
  assert_true(memory.policy_bytes > (34 + (size_t)40 * 3) * 256 * sizeof(float));
  assert_int_equal(memory.base_bytes + memory.policy_bytes + memory.states_bytes +
                       memory.pool_bytes,
                   stats_now().prover_bytes);
  assert_true(stats_now().pinned_bytes > (uint64_t)CAPACITY * (12 + 80));
  const uint64_t before = stats_now().prover_bytes;
  bed.run.trace = true;
  prover_objects_run(&bed);
  const uint64_t with_trace = stats_now().prover_bytes;
  assert_true(with_trace > before);
  prover_objects_run(&bed);
  assert_int_equal(with_trace, stats_now().prover_bytes);
  memory.struct_size = 8;
  memory.pool_bytes = 77;
  stg_prover_get_memory(bed.prover, &memory);
  assert_int_equal(77, memory.pool_bytes);
  stg_error error = STG_ERROR_INIT;
  must(stg_prover_destroy(bed.prover, &error), &error);
  bed.prover = NULL;
  assert_int_equal(0, stats_now().prover_bytes);
  assert_int_equal(0, stats_now().pinned_bytes);
  close_bed();
}

static void the_plan_is_the_provers(void **state) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_error error = STG_ERROR_INIT;
  char size[100];
  (void)state;
  open_bed();
  must(stg_prover_plan(bed.prover, &info, &error), &error);
  assert_string_equal(SIGNATURE, info.signature);
  assert_int_equal(16, info.row_bucket);
  assert_int_equal(256, info.threads);
  assert_int_equal(8, info.tile_rows);
  assert_true(info.shared_bytes > 80000);
  assert_int_equal(0, info.tier);
  info.struct_size = 8;
  snprintf(size, sizeof size, "stg_prover_plan: prover is NULL, or struct_size is not %zu",
           sizeof info);
  must_say(STG_E_INVALID, size, stg_prover_plan(bed.prover, &info, &error), &error);
  info.struct_size = sizeof info;
  must_say(STG_E_INVALID, size, stg_prover_plan(NULL, &info, &error), &error);
  close_bed();
}

/* In whichever launch the query is. */
static void a_trace_is_of_its_query(void **state) {
  static const size_t traced[] = {0, 15, 16, 41, N - 1};
  (void)state;
  open_bed();
  bed.run.trace = bed.run.sample = true;
  for (size_t i = 0; i < sizeof traced / sizeof traced[0]; i++) {
    const stg_prover_step *steps = NULL;
    size_t n = 0;
    bed.run.traced = traced[i];
    prover_objects_run(&bed);
    const stg_proof *proof = &bed.proofs[traced[i]];
    stg_prover_get_trace(bed.prover, &steps, &n);
    assert_int_equal(proof->depth, n);
    assert_int_equal(1, steps[0].state.n);
    assert_memory_equal(&bed.queries[traced[i]], &steps[0].state.atoms[0], sizeof(stg_atom));
    for (size_t k = 0; k < n; k++) {
      assert_int_equal(proof->actions[k], steps[k].action);
      assert_in_range(steps[k].action, 0, steps[k].n_children - 1);
    }
  }
  close_bed();
}

struct told {
  size_t calls, last;
};

static void tell(void *user, size_t done, size_t n) {
  struct told *told = user;
  assert_int_equal(N, n);
  assert_true(done > told->last);
  told->last = done;
  told->calls++;
}

static void progress_grows_to_the_end(void **state) {
  struct told told = {0};
  (void)state;
  open_bed();
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  host_device_eager(5);
  bed.run.progress = tell;
  bed.run.user = &told;
  prover_objects_run(&bed);
  assert_int_equal(N, told.last);
  assert_in_range(told.calls, 4, N); /* each launch at least */
  assert_first(bed.proofs, N);
  close_bed();
}

/* ---- what fails ---- */

static void without_a_kernel_there_is_no_prover(void **state) {
  static const struct host_compiler refusing = {.missing = "prover v1", .refused = "prover v1"};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = NULL;
  stg_prover *prover = NULL;
  (void)state;
  open_bed();
  must(stg_prover_destroy(bed.prover, &error), &error);
  bed.prover = NULL;
  host_device_set_compiler(&refusing);
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.compile = STG_COMPILE_NEVER;
  must(stg_engine_create(&options, &engine, &error), &error);
  must_say(STG_E_NOT_WARM,
           "kernel 'prover v1 | atoms=6 children=120 | embed=34 width=40 blocks=2 arithmetic=f32 | "
           "sm_90' is in no cache",
           stg_prover_create(engine, &bed.desc, &prover, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
  options.compile = STG_COMPILE_BACKGROUND;
  must(stg_engine_create(&options, &engine, &error), &error);
  must_say(STG_E_COMPILE, "NVRTC refuses it: a test said so",
           stg_prover_create(engine, &bed.desc, &prover, &error), &error);
  host_device_set_compiler(&(struct host_compiler){.missing = "prover v1"});
  must(stg_prover_create(engine, &bed.desc, &prover, &error),
       &error); /* compiled, and waited for */
  must(stg_prover_destroy(prover, &error), &error);
  must(stg_engine_destroy(engine, &error), &error);
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
  close_bed();
}

static void a_copy_that_fails_leaves_no_half_of_it(void **state) {
  static const char said[] = "cuMemcpyHtoDAsync failed: a test said so";
  stg_prover *other = NULL;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_bed();
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  host_device_fail_copies(1);
  must_say(STG_E_CUDA, said, stg_prover_create(bed.engine, &bed.desc, &other, &error), &error);
  host_device_fail_copies(3); /* the third launch's */
  memset(bed.proofs, 0xff, sizeof bed.proofs);
  must_say(STG_E_CUDA, said, stg_prover_run(bed.prover, &bed.run, bed.proofs, &error), &error);
  for (size_t i = 0; i < N; i++) {
    assert_true(is_untouched(&bed.proofs[i]));
  }
  host_device_fail_copies(0);
  prover_objects_run(&bed);
  assert_first(bed.proofs, N);
  host_device_fail_copies(1);
  must_say(STG_E_CUDA, said, stg_prover_set_weights(bed.prover, &bed.weights, &error), &error);
  host_device_fail_copies(0);
  must_say(STG_E_INVALID, "stg_prover_run: there are no weights; call stg_prover_set_weights",
           stg_prover_run(bed.prover, &bed.run, bed.proofs, &error), &error);
  must(stg_prover_set_weights(bed.prover, &bed.weights, &error), &error);
  prover_objects_run(&bed);
  assert_first(bed.proofs, N);
  close_bed();
}

static void weights_that_are_refused_change_nothing(void **state) {
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_bed();
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  stg_prover_weights weights = bed.weights;
  weights.out_bias = NULL;
  must_say(STG_E_INVALID, "stg_prover_set_weights: out_bias is NULL",
           stg_prover_set_weights(bed.prover, &weights, &error), &error);
  for (size_t nth = 1; nth <= 2; nth++) { /* blocks, all of them packed */
    stg_alloc_fail_at(nth);
    assert_int_equal(STG_E_NO_MEMORY, stg_prover_set_weights(bed.prover, &bed.weights, &error));
    stg_alloc_fail_at(0);
  }
  prover_objects_run(&bed);
  assert_first(bed.proofs, N);
  close_bed();
}

/* Each allocation of a call fails once; then the call succeeds. */
static void without_memory_calls_fail(void **state) {
  stg_prover *prover = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  open_bed();
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  while (status == STG_E_NO_MEMORY) {
    stg_alloc_fail_at(++nth);
    status = stg_prover_create(bed.engine, &bed.desc, &prover, &error);
    stg_alloc_fail_at(0);
  }
  must(status, &error);
  assert_true(nth > 6); /* the prover, its copies and tables, kernels, the plan, pins */
  must(stg_prover_destroy(prover, &error), &error);
  bed.run.trace = true;
  for (nth = 1; nth <= 6; nth++) { /* queries, results, steps; the trace's three */
    stg_alloc_fail_at(nth);
    assert_int_equal(STG_E_NO_MEMORY, stg_prover_run(bed.prover, &bed.run, bed.proofs, &error));
    stg_alloc_fail_at(0);
  }
  prover_objects_run(&bed);
  assert_first(bed.proofs, N);
  close_bed();
}

/* ---- traffic ---- */

static void what_was_run_warms(void **state) {
  char *json = NULL;
  size_t size = 0;
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  const char *path = temp_path(state, "traffic.json");
  open_bed();
  prover_objects_run(&bed); /* four launches */
  must(stg_traffic_save(bed.engine, path, &error), &error);
  close_bed();
  must(stg_file_read(path, 1 << 20, &json, &size, &error), &error);
  assert_non_null(strstr(json, "prover v1 | atoms=6 children=120 | embed=34 width=40 blocks=2 "
                               "arithmetic=f32 | batch<=1 seq<=1 rows<=16"));
  assert_non_null(strstr(json, "\"count\": 4"));
  stg_engine *engine = prover_engine(STG_BACKEND_CUDA);
  must(stg_warm(engine, path, json, size, NULL, &report, &error), &error);
  assert_int_equal(1, report.total);
  assert_int_equal(1, report.done);
  must(stg_engine_destroy(engine, &error), &error);
  stg_free(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pools_have_the_results_of_the_reference),
      cmocka_unit_test(pools_of_any_size_have_one_kernel_and_the_same_bits),
      cmocka_unit_test(what_is_done_and_held_is_counted),
      cmocka_unit_test(the_plan_is_the_provers),
      cmocka_unit_test(a_trace_is_of_its_query),
      cmocka_unit_test(progress_grows_to_the_end),
      cmocka_unit_test(without_a_kernel_there_is_no_prover),
      cmocka_unit_test(a_copy_that_fails_leaves_no_half_of_it),
      cmocka_unit_test(weights_that_are_refused_change_nothing),
      cmocka_unit_test(without_memory_calls_fail),
      cmocka_unit_test_setup_teardown(what_was_run_warms, temp_folder_setup, temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
