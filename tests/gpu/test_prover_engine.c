/*
 * test_prover_engine.c: provers of an engine on a device, by the public calls: proofs, depths and
 * outcomes of the reference, the same bits and one compile for pools of any size, traces of the CPU
 * backend, pools on the device, and captures of a host.
 * STG_TEST_CASE names one case.
 */
#include <math.h>
#include <string.h>

#include <steergraph/warm.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/prover_objects.h"
#include "tests/support/quick.h"
#include "tests/support/temp_folder.h"

static const struct stg_prove_net usual = {
    .embed = 250, .hidden = 256, .blocks = 8, .epsilon = 1e-5f};

static struct prover_objects bed;
static stg_proof first[PROVE_POOL_MOST];

static stg_stats stats_now(void) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed.engine, &stats);
  return stats;
}

static void open_bed(enum stg_kb_kind kind, struct stg_prove_net net, size_t n, uint32_t capacity,
                     stg_arithmetic arithmetic) {
  prover_objects_open(&bed, STG_BACKEND_CUDA, kind, net, n);
  bed.desc.capacity = capacity;
  bed.desc.arithmetic = arithmetic;
  prover_objects_create(&bed);
}

/* ---- the reference ---- */

static void judge(enum stg_kb_kind kind, struct stg_prove_net net, size_t n,
                  stg_arithmetic arithmetic) {
  open_bed(kind, net, n, 0, arithmetic);
  for (int sample = 0; sample < 2; sample++) {
    bed.run.sample = sample == 1;
    bed.run.seed = 7;
    prover_objects_run(&bed);
    prover_objects_judge(&bed);
  }
  assert_int_equal(1, stats_now().kernel_compiles);
  prover_objects_close(&bed);
}

static void proofs_are_those_of_the_reference(void **state) {
  const size_t n = test_is_quick() ? 100 : PROVE_POOL_MOST;
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    judge((enum stg_kb_kind)kind, prover_small_net, n, STG_ARITHMETIC_F32);
  }
}

static void the_usual_policy_too(void **state) {
  (void)state;
  judge(STG_KB_COUNTRIES, usual, test_is_quick() ? 24 : PROVE_POOL_MOST, STG_ARITHMETIC_F32);
  judge(STG_KB_FAMILY, usual, test_is_quick() ? 12 : 100, STG_ARITHMETIC_F32);
  judge(STG_KB_FAMILY, usual, test_is_quick() ? 12 : 100, STG_ARITHMETIC_TF32X3);
}

/* One product of TF32 is coarser than the usual bounds; how much is printed. */
static void proofs_in_tf32_are_within_the_bounds_of_that(void **state) {
  const size_t n = test_is_quick() ? 24 : 100;
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    double most = 0, slack = 0;
    open_bed((enum stg_kb_kind)kind, usual, n, 0, STG_ARITHMETIC_TF32);
    prover_objects_run(&bed);
    for (size_t i = 0; i < n; i++) {
      struct stg_oracle_search search = {.kb = &bed.pool.kb,
                                         .net = &bed.pool.policy.net,
                                         .weights = &bed.pool.policy.weights,
                                         .limits = bed.pool.pool.limits};
      const stg_proof *proof = &bed.proofs[i];
      struct stg_oracle_proof wanted = {.wrong = 1};
      for (int tries = 0; wanted.wrong != 0 && tries < 20; tries++) {
        search.slack = 1e-4 * pow(1.5, tries);
        stg_oracle_prove(&search, bed.pool.candidates[i], i, proof->actions, proof->depth, &wanted);
        slack = fmax(slack, search.slack);
      }
      most = fmax(most, fabs(wanted.logp - (double)proof->logp));
      assert_int_equal(wanted.depth, proof->depth);
      assert_int_equal(wanted.outcome, proof->outcome);
    }
    print_message("%d queries: picks are within %.3g, logarithms within %.3g\n", (int)n, slack,
                  most);
    assert_true(slack <= STG_ORACLE_CLOSE_TF32 && most <= STG_ORACLE_LOGP_TF32);
    prover_objects_close(&bed);
  }
}

/* ---- pools ---- */

#define CAPACITY 1024
#define MANY 3000
#define OWN 256 /* of these, different */

/* Queries over and over: what becomes of one depends on itself alone where nothing is drawn. */
static void run_many(const stg_atom *queries, size_t n, stg_proof *proofs) {
  stg_prover_counts counts = {.struct_size = sizeof counts};
  stg_prover_run_desc run = bed.run;
  stg_error error = STG_ERROR_INIT;
  uint64_t steps = 0;
  run.queries = queries;
  run.n = n;
  check_ok(stg_prover_run(bed.prover, &run, proofs, &error), &error);
  for (size_t i = 0; i < n; i++) {
    if (!prover_is_same(&first[i % OWN], &proofs[i])) {
      fail_msg("%d queries: proof %d is another", (int)n, (int)i);
    }
    steps += proofs[i].depth;
  }
  stg_prover_get_counts(bed.prover, &counts);
  assert_int_equal(steps, counts.query_steps);
  assert_int_equal(steps, counts.slot_steps);
}

static void pools_of_any_size_have_the_same_bits_and_one_compile(void **state) {
  static const size_t sizes[] = {0, 1, 7, 63, 64, 65, 110, 512, 1024, CAPACITY + 1, MANY};
  stg_atom *queries = stg_calloc(MANY, sizeof *queries);
  stg_proof *proofs = stg_calloc(MANY, sizeof *proofs);
  (void)state;
  assert_true(queries != NULL && proofs != NULL);
  open_bed(STG_KB_FAMILY, usual, OWN, CAPACITY, STG_ARITHMETIC_F32);
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  for (size_t i = 0; i < MANY; i++) {
    queries[i] = bed.queries[i % OWN];
  }
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    run_many(queries, sizes[k], proofs);
  }
  const stg_stats stats = stats_now();
  assert_int_equal(1, stats.kernel_compiles);
  assert_int_equal(1, stats.plans_live);
  assert_int_equal(1, stats.traffic_shapes);
  prover_objects_close(&bed);
  stg_free(queries);
  stg_free(proofs);
}

/* A sample depends on a query's number and the seed, also where launches end in between. */
static void samples_are_of_a_querys_number(void **state) {
  int differ = 0;
  (void)state;
  open_bed(STG_KB_FAMILY, prover_small_net, PROVE_POOL_MOST, 50, STG_ARITHMETIC_F32);
  bed.run.sample = true;
  bed.run.seed = 3;
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  for (bed.run.n = 1; bed.run.n < PROVE_POOL_MOST; bed.run.n += 49) {
    prover_objects_run(&bed);
    for (size_t i = 0; i < bed.run.n; i++) {
      assert_true(prover_is_same(&first[i], &bed.proofs[i]));
    }
  }
  bed.run.n = PROVE_POOL_MOST;
  bed.run.seed = 4;
  prover_objects_run(&bed);
  for (size_t i = 0; i < PROVE_POOL_MOST; i++) {
    differ += !prover_is_same(&first[i], &bed.proofs[i]);
  }
  assert_true(differ > PROVE_POOL_MOST / 4);
  prover_objects_close(&bed);
}

struct told {
  size_t calls, last;
};

static void tell(void *user, size_t done, size_t n) {
  struct told *told = user;
  assert_true(done > told->last && done <= n);
  told->last = done;
  told->calls++;
}

static void progress_grows_to_the_end(void **state) {
  struct told told = {0};
  (void)state;
  open_bed(STG_KB_FAMILY, usual, PROVE_POOL_MOST, 100, STG_ARITHMETIC_F32);
  bed.run.progress = tell;
  bed.run.user = &told;
  prover_objects_run(&bed);
  assert_int_equal(PROVE_POOL_MOST, told.last);
  assert_in_range(told.calls, 4, PROVE_POOL_MOST);
  prover_objects_close(&bed);
}

/* ---- traces ---- */

static void assert_state(const stg_prover_state *a, const stg_prover_state *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->atoms, b->atoms, a->n * sizeof a->atoms[0]);
}

/* A way that both go is written down alike. */
static void traces_are_those_of_the_cpu(void **state) {
  static struct prover_objects cpu;
  const stg_prover_step *steps[2] = {NULL, NULL};
  size_t n[2] = {0, 0}, compared = 0;
  (void)state;
  open_bed(STG_KB_FAMILY, prover_small_net, 60, 16, STG_ARITHMETIC_F32);
  prover_objects_open(&cpu, STG_BACKEND_CPU, STG_KB_FAMILY, prover_small_net, 60);
  prover_objects_create(&cpu);
  bed.run.trace = cpu.run.trace = true;
  for (size_t i = 0; i < 60; i += 7) {
    bed.run.traced = cpu.run.traced = i;
    prover_objects_run(&bed);
    prover_objects_run(&cpu);
    stg_prover_get_trace(bed.prover, &steps[0], &n[0]);
    stg_prover_get_trace(cpu.prover, &steps[1], &n[1]);
    assert_int_equal(bed.proofs[i].depth, n[0]);
    if (memcmp(bed.proofs[i].actions, cpu.proofs[i].actions, sizeof cpu.proofs[i].actions) != 0) {
      continue; /* a close pick */
    }
    assert_int_equal(n[1], n[0]);
    for (size_t k = 0; k < n[0]; k++) {
      assert_state(&steps[1][k].state, &steps[0][k].state);
      assert_int_equal(steps[1][k].n_children, steps[0][k].n_children);
      assert_int_equal(steps[1][k].action, steps[0][k].action);
      for (uint32_t c = 0; c < steps[0][k].n_children; c++) {
        assert_state(&steps[1][k].children[c], &steps[0][k].children[c]);
        assert_true(fabsf(steps[1][k].logits[c] - steps[0][k].logits[c]) < 1e-4f);
      }
      compared++;
    }
  }
  assert_true(compared > 20);
  prover_objects_close(&cpu);
  prover_objects_close(&bed);
}

/* ---- pools on the device ---- */

struct on_device {
  stg_atom *queries;
  uint32_t *n;
  stg_proof *proofs;
  stg_prover_launch_desc desc;
};

static void *device_memory(size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  check_ok(stg_mem_alloc(bed.engine, bytes, &memory, &error), &error);
  return memory;
}

static void open_pool(struct on_device *pool) {
  *pool = (struct on_device){.queries = device_memory(sizeof bed.queries),
                             .n = device_memory(sizeof(uint32_t)),
                             .proofs = device_memory(sizeof bed.proofs)};
  pool->desc = (stg_prover_launch_desc){.struct_size = sizeof pool->desc,
                                        .queries = pool->queries,
                                        .n = pool->n,
                                        .proofs = pool->proofs,
                                        .capacity = PROVE_POOL_MOST,
                                        .sample = true,
                                        .seed = 9};
}

static void close_pool(struct on_device *pool) {
  stg_mem_free(bed.engine, pool->queries);
  stg_mem_free(bed.engine, pool->n);
  stg_mem_free(bed.engine, pool->proofs);
}

/* The pool's first `n`, and proofs that nobody wrote. */
static void put_pool(struct on_device *pool, uint32_t n) {
  stg_error error = STG_ERROR_INIT;
  memset(bed.proofs, 0xff, sizeof bed.proofs);
  check_ok(stg_mem_upload(bed.engine, pool->queries, bed.queries, sizeof bed.queries, &error),
           &error);
  check_ok(stg_mem_upload(bed.engine, pool->n, &n, sizeof n, &error), &error);
  check_ok(stg_mem_upload(bed.engine, pool->proofs, bed.proofs, sizeof bed.proofs, &error), &error);
}

static void expect_first(struct on_device *pool, uint32_t n) {
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_mem_download(bed.engine, bed.proofs, pool->proofs, sizeof bed.proofs, &error),
           &error);
  for (size_t i = 0; i < PROVE_POOL_MOST; i++) {
    assert_true(i < n ? prover_is_same(&first[i], &bed.proofs[i])
                      : bed.proofs[i].depth == UINT32_MAX && bed.proofs[i].close == UINT32_MAX);
  }
}

static void run_for_first(void) {
  bed.run.sample = true;
  bed.run.seed = 9;
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
}

/* Of weights too: a replay reads those that are the prover's then. */
static void replays_prove_what_is_there_then(void **state) {
  static const uint32_t sizes[] = {320, 1, 0, 65, 100};
  struct on_device pool;
  struct stg_graph *graph = NULL;
  stg_stream_handle stream = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_bed(STG_KB_FAMILY, prover_small_net, PROVE_POOL_MOST, 64, STG_ARITHMETIC_F32);
  struct stg_device *device = stg_mem_device(bed.engine);
  run_for_first();
  open_pool(&pool);
  check_ok(stg_stream_create(device, &stream, &error), &error);
  check_ok(stg_capture_begin(device, stream, &error), &error);
  check_ok(stg_prover_launch(bed.prover, &pool.desc, stream, &error), &error);
  check_ok(stg_capture_end(device, stream, &graph, &nodes, &error), &error);
  assert_int_equal(1, nodes);
  for (size_t k = 0; k < 2 * sizeof sizes / sizeof sizes[0]; k++) {
    const uint32_t n = sizes[k / 2];
    put_pool(&pool, n);
    check_ok(k % 2 == 0 ? stg_graph_launch(device, graph, stream, &error)
                        : stg_prover_launch(bed.prover, &pool.desc, stream, &error),
             &error);
    check_ok(stg_stream_synchronize(device, stream, &error), &error);
    expect_first(&pool, n);
  }
  memset(bed.blocks[0], 0, (size_t)40 * 40 * sizeof(float));
  check_ok(stg_prover_set_weights(bed.prover, &bed.weights, &error), &error);
  run_for_first();
  put_pool(&pool, 200);
  check_ok(stg_graph_launch(device, graph, stream, &error), &error);
  check_ok(stg_stream_synchronize(device, stream, &error), &error);
  expect_first(&pool, 200);
  assert_int_equal(STG_E_BUSY, stg_prover_destroy(bed.prover, &error));
  stg_graph_destroy(device, graph);
  stg_stream_destroy(device, stream);
  close_pool(&pool);
  prover_objects_close(&bed);
}

/* ---- the plan ---- */

static void the_plan_says_what_serves(void **state) {
  stg_plan_info info = {.struct_size = sizeof info};
  stg_prover_memory memory = {.struct_size = sizeof memory};
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_bed(STG_KB_COUNTRIES, usual, 10, 0, STG_ARITHMETIC_F32);
  check_ok(stg_prover_plan(bed.prover, &info, &error), &error);
  stg_prover_get_memory(bed.prover, &memory);
  print_message("%s\n%u registers, %u local, %u shared bytes; compiled in %.0f ms\n",
                info.signature, info.registers, info.local_bytes, info.shared_bytes,
                info.compile_ms);
  print_message("base %d, policy %d, states %d, pool %d bytes\n", (int)memory.base_bytes,
                (int)memory.policy_bytes, (int)memory.states_bytes, (int)memory.pool_bytes);
  assert_non_null(strstr(info.signature, "prover v1 | atoms=6 children=120 | embed=250 width=256 "
                                         "blocks=8 arithmetic=f32 | sm_"));
  assert_non_null(strstr(info.signature, " | batch<=1 seq<=1 rows<=16384"));
  assert_string_equal("compiled", info.source);
  assert_true(info.compile_ms > 0 && info.registers > 32);
  assert_int_equal(memory.base_bytes + memory.policy_bytes + memory.states_bytes +
                       memory.pool_bytes,
                   stats_now().prover_bytes);
  prover_objects_close(&bed);
}

/* The warm-up launches the kernel over no queries, in memory that other families share. */
static void what_was_run_warms(void **state) {
  char *json = NULL;
  size_t size = 0;
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  const char *path = temp_path(state, "traffic.json");
  open_bed(STG_KB_COUNTRIES, prover_small_net, 40, 16, STG_ARITHMETIC_F32);
  prover_objects_run(&bed);
  memcpy(first, bed.proofs, sizeof first);
  check_ok(stg_traffic_save(bed.engine, path, &error), &error);
  check_ok(stg_file_read(path, 1 << 20, &json, &size, &error), &error);
  check_ok(stg_prover_destroy(bed.prover, &error), &error);
  check_ok(stg_engine_destroy(bed.engine, &error), &error);
  bed.engine = prover_engine(STG_BACKEND_CUDA);
  for (int i = 0; i < 3; i++) {
    check_ok(stg_warm(bed.engine, path, json, size, NULL, &report, &error), &error);
    assert_int_equal(1, report.done);
  }
  assert_int_equal(1, stats_now().kernel_compiles);
  prover_objects_create(&bed);
  prover_objects_run(&bed);
  for (size_t i = 0; i < 40; i++) {
    assert_true(prover_is_same(&first[i], &bed.proofs[i]));
  }
  assert_int_equal(1, stats_now().kernel_compiles);
  prover_objects_close(&bed);
  stg_free(json);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(proofs_are_those_of_the_reference),
      cmocka_unit_test(the_usual_policy_too),
      cmocka_unit_test(proofs_in_tf32_are_within_the_bounds_of_that),
      cmocka_unit_test(pools_of_any_size_have_the_same_bits_and_one_compile),
      cmocka_unit_test(samples_are_of_a_querys_number),
      cmocka_unit_test(progress_grows_to_the_end),
      cmocka_unit_test(traces_are_those_of_the_cpu),
      cmocka_unit_test(replays_prove_what_is_there_then),
      cmocka_unit_test(the_plan_says_what_serves),
      cmocka_unit_test_setup_teardown(what_was_run_warms, temp_folder_setup, temp_folder_teardown),
  };
  const char *only = getenv("STG_TEST_CASE"); /* NOLINT(concurrency-mt-unsafe): one thread */
  if (only != NULL) {
    cmocka_set_test_filter(only);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
