/*
 * test_prover_kernel.c: the proof search on a device: derivations and counters of the CPU backend,
 * picks and logarithms of the reference, the same bits in every pool.
 * STG_TEST_TIME=1: print what pools take as well.
 */
#include "tests/gpu/prover_bed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/quick.h"

#define LARGE 16384
#define REPEATS 3
#define FLOP_OF_A_STATE 1.436e6 /* of 250, 256 and 8 */

static const struct stg_prove_net small = {
    .embed = 34, .hidden = 40, .blocks = 2, .epsilon = 1e-5f};
static const struct stg_prove_net usual = {
    .embed = 250, .hidden = 256, .blocks = 8, .epsilon = 1e-5f};

static struct prove_pool pool;

static void run(struct prover_bed *bed, const struct stg_prove_atom *queries, size_t n) {
  prover_bed_put(bed, queries, n);
  prover_bed_launch(bed);
  prover_bed_fetch(bed);
}

static bool has_same_way(const struct stg_prove_result *a, const struct stg_prove_result *b) {
  return a->depth == b->depth && a->outcome == b->outcome &&
         memcmp(a->actions, b->actions, sizeof a->actions) == 0;
}

static bool is_same(const struct stg_prove_result *a, const struct stg_prove_result *b) {
  return has_same_way(a, b) && a->close == b->close &&
         stg_f32_bits(a->logp) == stg_f32_bits(b->logp);
}

static void assert_state(const struct stg_prove_state *a, const struct stg_prove_state *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->atoms, b->atoms, a->n * sizeof a->atoms[0]);
}

static void assert_steps(const struct prover_bed *bed, const struct stg_prove_step *steps,
                         uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    assert_state(&bed->steps[k].state, &steps[k].state);
    assert_int_equal(bed->steps[k].n_children, steps[k].n_children);
    assert_int_equal(bed->steps[k].action, steps[k].action);
    for (uint32_t i = 0; i < steps[k].n_children; i++) {
      assert_state(&bed->steps[k].children[i], &steps[k].children[i]);
      assert_true(fabsf(bed->steps[k].logits[i] - steps[k].logits[i]) < 1e-4f);
    }
  }
}

static void assert_ways(const struct prover_bed *bed, int base) {
  for (size_t i = 0; i < pool.pool.n; i++) {
    if (!has_same_way(&bed->results[i], &pool.results[i])) {
      fail_msg("base %d: query %d went another way", base, (int)i);
    }
    assert_true(fabsf(bed->results[i].logp - pool.results[i].logp) <= 1e-4f);
  }
}

static void random_bases_have_the_ways_and_counts_of_the_cpu(void **state) {
  static struct stg_prove_step steps[STG_PROVE_MAX_DEPTH];
  struct prover_bed *bed = *state;
  for (uint64_t seed = 0; seed < (test_is_quick() ? 20 : 200); seed++) {
    prove_pool_open_random(seed, &pool);
    prover_bed_open(bed, &pool, 64);
    pool.pool.steps = steps;
    pool.pool.traced = bed->args.traced = seed * 7 % pool.pool.n;
    bed->blocks = 1 + (uint32_t)seed % 9;
    prove_pool_run(&pool);
    run(bed, pool.queries, pool.pool.n);
    assert_ways(bed, (int)seed);
    assert_memory_equal(&bed->words->counts, &pool.counts, sizeof pool.counts);
    assert_steps(bed, steps, pool.results[pool.pool.traced].depth);
    prover_bed_close(bed);
    prove_pool_close(&pool);
  }
}

static void judge(struct prover_bed *bed, enum stg_kb_kind kind, struct stg_prove_net net, size_t n,
                  bool sample) {
  prove_pool_open(kind, net, n, &pool);
  pool.pool.sample = sample;
  prover_bed_open(bed, &pool, PROVE_POOL_MOST);
  run(bed, pool.queries, n);
  memcpy(pool.results, bed->results, n * sizeof pool.results[0]);
  const struct prove_verdict verdict = prove_pool_judge(&pool);
  const struct stg_prove_counts counts = prove_pool_recount(&pool);
  print_message("%d queries: %d wrong, %d off, by %.3g, %d close, of %d steps\n", (int)n,
                (int)verdict.wrong, (int)verdict.off, verdict.most, (int)counts.close,
                (int)counts.query_steps);
  assert_int_equal(verdict.wrong, 0);
  assert_int_equal(verdict.off, 0);
  assert_memory_equal(&bed->words->counts, &counts, sizeof counts);
  assert_int_equal(*bed->done, n);
  prover_bed_close(bed);
  prove_pool_close(&pool);
}

static void generated_bases_satisfy_the_reference(void **state) {
  const size_t n = test_is_quick() ? 100 : PROVE_POOL_MOST;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    judge(*state, (enum stg_kb_kind)kind, small, n, false);
    judge(*state, (enum stg_kb_kind)kind, small, n, true);
  }
}

/* The sums of such products are not rounded as others are, so this is what tells. */
static void three_products_of_tf32_satisfy_the_reference(void **state) {
  struct prover_bed *bed = *state;
  bed->arithmetic = STG_PROVER_TF32X3;
  judge(bed, STG_KB_COUNTRIES, usual, test_is_quick() ? 24 : PROVE_POOL_MOST, false);
  judge(bed, STG_KB_FAMILY, usual, test_is_quick() ? 12 : 100, false);
  judge(bed, STG_KB_FAMILY, small, 100, true);
  bed->arithmetic = STG_PROVER_F32;
}

static void the_usual_net_satisfies_the_reference(void **state) {
  judge(*state, STG_KB_COUNTRIES, usual, test_is_quick() ? 24 : PROVE_POOL_MOST, false);
  judge(*state, STG_KB_FAMILY, usual, test_is_quick() ? 12 : 100, false);
}

/* Queries over and over; which one it is, is all that a result depends on where nothing is drawn.
 */
static struct stg_prove_atom *many_queries(size_t n) {
  struct stg_prove_atom *queries = stg_calloc(n, sizeof *queries);
  assert_non_null(queries);
  for (size_t i = 0; i < n; i++) {
    queries[i] = pool.queries[i % pool.pool.n];
  }
  return queries;
}

/* Bit by bit, `wanted` over and over. */
static void assert_same(const struct prover_bed *bed, const struct stg_prove_result *wanted,
                        size_t n_wanted, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!is_same(&bed->results[i], &wanted[i % n_wanted])) {
      fail_msg("%d queries: result %d is another", (int)n, (int)i);
    }
  }
}

static void check_pools(struct prover_bed *bed) {
  static const size_t sizes[] = {0, 1, 7, 63, 64, 65, 110, 512, 1024, 4096};
  static const uint32_t blocks[] = {1, 3, 100, 264};
  prove_pool_open(STG_KB_FAMILY, usual, 256, &pool);
  prover_bed_open(bed, &pool, 4096);
  struct stg_prove_atom *queries = many_queries(4096);
  struct stg_prove_result *first = stg_calloc(256, sizeof *first);
  assert_non_null(first);
  run(bed, queries, 256);
  memcpy(first, bed->results, 256 * sizeof *first);
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    for (size_t b = 0; b < (sizes[k] <= 512 ? 4 : 1); b++) {
      bed->blocks = sizes[k] <= 512 ? blocks[b] : 0;
      run(bed, queries, sizes[k]);
      assert_same(bed, first, 256, sizes[k]);
      assert_int_equal(bed->words->counts.slot_steps, bed->words->counts.query_steps);
      assert_int_equal(*bed->done, sizes[k]);
    }
  }
  stg_free(first);
  stg_free(queries);
  prover_bed_close(bed);
  prove_pool_close(&pool);
}

static void no_bit_depends_on_the_pool(void **state) {
  struct prover_bed *bed = *state;
  for (int arithmetic = STG_PROVER_F32; arithmetic <= STG_PROVER_TF32; arithmetic++) {
    bed->arithmetic = (enum stg_prover_arithmetic)arithmetic;
    check_pools(bed);
  }
  bed->arithmetic = STG_PROVER_F32;
}

/* Launch after launch, and from a graph, with nothing put in order between them. */
static void launches_follow_each_other_and_are_captured_as_one_node(void **state) {
  struct prover_bed *bed = *state;
  const struct gpu *gpu = bed->gpu;
  struct stg_graph *graph = NULL;
  struct stg_prove_result first[40];
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  prove_pool_open(STG_KB_COUNTRIES, small, 40, &pool);
  pool.pool.sample = true;
  prover_bed_open(bed, &pool, 64);
  run(bed, pool.queries, 40);
  memcpy(first, bed->results, sizeof first);
  const struct stg_prove_counts once = bed->words->counts;
  prover_bed_put(bed, pool.queries, 40);
  prover_bed_launch(bed);
  prover_bed_launch(bed);
  check_ok(stg_capture_begin(gpu->device, gpu->stream, &error), &error);
  prover_bed_launch(bed);
  check_ok(stg_capture_end(gpu->device, gpu->stream, &graph, &nodes, &error), &error);
  assert_int_equal(nodes, 1);
  check_ok(stg_graph_launch(gpu->device, graph, gpu->stream, &error), &error);
  prover_bed_fetch(bed);
  assert_same(bed, first, 40, 40);
  assert_int_equal(bed->words->counts.states, 3 * once.states);
  stg_graph_destroy(gpu->device, graph);
  /* the rest of a pool, by number; and queries that there is no room for */
  bed->args.first = 30;
  run(bed, pool.queries + 30, 10);
  assert_same(bed, first + 30, 10, 10);
  bed->args.first = 0;
  bed->args.capacity = 5;
  prover_bed_put(bed, pool.queries, 40);
  prover_bed_launch(bed);
  *bed->n = 5;
  prover_bed_fetch(bed);
  assert_same(bed, first, 40, 5);
  prover_bed_close(bed);
  prove_pool_close(&pool);
}

/* ---- times ---- */

static double time_of(struct prover_bed *bed) {
  const struct gpu *gpu = bed->gpu;
  struct stg_event *from = NULL;
  struct stg_event *to = NULL;
  double best = HUGE_VAL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_event_create(gpu->device, true, &from, &error), &error);
  check_ok(stg_event_create(gpu->device, true, &to, &error), &error);
  for (int i = 0; i <= REPEATS; i++) {
    double us = 0;
    check_ok(stg_event_record(gpu->device, from, gpu->stream, &error), &error);
    prover_bed_launch(bed);
    check_ok(stg_event_record(gpu->device, to, gpu->stream, &error), &error);
    check_ok(stg_event_synchronize(gpu->device, to, &error), &error);
    check_ok(stg_event_elapsed_us(gpu->device, from, to, &us, &error), &error);
    best = i > 0 && us < best ? us : best;
  }
  stg_event_destroy(gpu->device, from);
  stg_event_destroy(gpu->device, to);
  return best;
}

static void print_times(struct prover_bed *bed, enum stg_kb_kind kind, uint32_t per_processor) {
  static const size_t sizes[] = {64, 110, 256, 512, 1024, 2048, 4096, 8192, LARGE};
  prove_pool_open(kind, usual, PROVE_POOL_MOST, &pool);
  prover_bed_open(bed, &pool, LARGE);
  bed->blocks = per_processor * (uint32_t)stg_device_get_info(bed->gpu->device)->multiprocessors;
  bed->args.done = 0;
  struct stg_prove_atom *queries = many_queries(LARGE);
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    prover_bed_put(bed, queries, sizes[k]);
    const double us = time_of(bed);
    prover_bed_fetch(bed);
    const double states = (double)bed->words->counts.states / (REPEATS + 1);
    print_message("%-6s %-9s %u blocks: %5d queries %9.1f us %8.3f us each, %6.1f states each, "
                  "%5.2f TFLOP/s\n",
                  stg_prover_arithmetic_name(bed->arithmetic),
                  kind == STG_KB_FAMILY ? "family" : "countries", per_processor, (int)sizes[k], us,
                  us / (double)sizes[k], states / (double)sizes[k],
                  states * FLOP_OF_A_STATE / us * 1e-6);
  }
  stg_free(queries);
  prover_bed_close(bed);
  prove_pool_close(&pool);
}

static void prints_times_where_asked_to(void **state) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
  if (getenv("STG_TEST_TIME") == NULL) {
    skip();
  }
  struct prover_bed *bed = *state;
  for (int arithmetic = STG_PROVER_F32; arithmetic <= STG_PROVER_TF32; arithmetic++) {
    bed->arithmetic = (enum stg_prover_arithmetic)arithmetic;
    print_times(bed, STG_KB_FAMILY, 2);
    print_times(bed, STG_KB_FAMILY, 1);
    print_times(bed, STG_KB_COUNTRIES, 2);
  }
  bed->arithmetic = STG_PROVER_F32;
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_bases_have_the_ways_and_counts_of_the_cpu),
      cmocka_unit_test(generated_bases_satisfy_the_reference),
      cmocka_unit_test(three_products_of_tf32_satisfy_the_reference),
      cmocka_unit_test(the_usual_net_satisfies_the_reference),
      cmocka_unit_test(no_bit_depends_on_the_pool),
      cmocka_unit_test(launches_follow_each_other_and_are_captured_as_one_node),
      cmocka_unit_test(prints_times_where_asked_to),
  };
  const char *only = getenv("STG_TEST_CASE"); /* NOLINT(concurrency-mt-unsafe): one thread */
  if (only != NULL) {
    cmocka_set_test_filter(only);
  }
  return cmocka_run_group_tests(tests, prover_bed_setup, prover_bed_teardown);
}
