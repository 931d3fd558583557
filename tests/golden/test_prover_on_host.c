/*
 * test_prover_on_host.c: the kernel of the proof search, its very text, run on the host:
 * derivations and counters are those of the CPU backend, picks and logarithms those of the
 * reference, and no bit depends on blocks, pools or tiles.
 */
#include "tests/support/prover_on_host.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/prover_args.h"
#include "codegen/prover_extents.h"
#include "codegen/prover_pack.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/prove_pool.h"
#include "tests/support/quick.h"

#define MOST_BLOCKS 8
#define NONE UINT64_MAX
#define BASES 40

static const struct stg_prove_net small = {
    .embed = 34, .hidden = 40, .blocks = 2, .epsilon = 1e-5f};
static const struct stg_prove_net usual = {
    .embed = 250, .hidden = 256, .blocks = 8, .epsilon = 1e-5f};

/* A pool, and what a kernel is given with it. */
struct bed {
  struct prove_pool pool;
  struct stg_prover_words words;
  struct stg_prove_step *steps; /* [depth] */
  float *layers;
  unsigned char *scratch;
  uint32_t n, done;
  struct stg_prover_args args;
  struct stg_prove_result results[PROVE_POOL_MOST];
};

static struct bed bed;

static uint64_t address(const void *at) {
  return (uint64_t)(uintptr_t)at;
}

/* For bed.pool, which is open. */
static void open_kernel(void) {
  const struct prove_pool *pool = &bed.pool;
  const struct stg_prove_net *net = &pool->policy.net;
  const struct stg_prove_limits *limits = &pool->pool.limits;
  const struct stg_prover_extents extents = stg_prover_extents_of(limits, net);
  bed.layers = stg_malloc_aligned(stg_prover_pack_floats(net) * sizeof *bed.layers);
  bed.scratch = stg_malloc_aligned(stg_prover_scratch_bytes(&extents, MOST_BLOCKS));
  bed.steps = stg_calloc(limits->depth, sizeof *bed.steps);
  assert_true(bed.layers != NULL && bed.scratch != NULL && bed.steps != NULL);
  memset(bed.scratch, 0xa5, stg_prover_scratch_bytes(&extents, MOST_BLOCKS));
  stg_prover_pack(net, &pool->policy.weights, bed.layers);
  bed.words = (struct stg_prover_words){0};
  bed.args = (struct stg_prover_args){.base = pool->tables.base,
                                      .predicates = address(pool->policy.weights.predicates),
                                      .arguments = address(pool->policy.weights.arguments),
                                      .layers = address(bed.layers),
                                      .queries = address(pool->queries),
                                      .results = address(bed.results),
                                      .n = address(&bed.n),
                                      .words = address(&bed.words),
                                      .scratch = address(bed.scratch),
                                      .trace = address(bed.steps),
                                      .done = address(&bed.done),
                                      .traced = NONE,
                                      .seed = pool->pool.seed,
                                      .capacity = PROVE_POOL_MOST,
                                      .depth = limits->depth,
                                      .epsilon = net->epsilon};
}

static void close_kernel(void) {
  stg_free(bed.layers);
  stg_free(bed.scratch);
  stg_free(bed.steps);
}

/* Run the pool; leaves the queue as it must be. */
static void run(void (*kernel)(const struct stg_prover_args *args, unsigned blocks),
                unsigned blocks) {
  bed.n = (uint32_t)bed.pool.pool.n;
  bed.args.flags = bed.pool.pool.sample ? STG_PROVER_SAMPLE : 0;
  memset(bed.results, 0xa5, sizeof bed.results);
  kernel(&bed.args, blocks);
  assert_int_equal(bed.words.taken, 0);
  assert_int_equal(bed.words.done, 0);
  assert_int_equal(bed.words.left, 0);
}

static bool has_same_way(const struct stg_prove_result *a, const struct stg_prove_result *b) {
  return a->depth == b->depth && a->outcome == b->outcome &&
         memcmp(a->actions, b->actions, sizeof a->actions) == 0;
}

static bool is_same(const struct stg_prove_result *a, const struct stg_prove_result *b) {
  return has_same_way(a, b) && a->close == b->close &&
         stg_f32_bits(a->logp) == stg_f32_bits(b->logp);
}

static void assert_counts(const struct stg_prove_counts *a, const struct stg_prove_counts *b) {
  assert_int_equal(a->slot_steps, b->slot_steps);
  assert_int_equal(a->query_steps, b->query_steps);
  assert_int_equal(a->children, b->children);
  assert_int_equal(a->states, b->states);
  assert_int_equal(a->pairs, b->pairs);
  assert_int_equal(a->proofs, b->proofs);
  assert_int_equal(a->close, b->close);
  assert_int_equal(a->cut, b->cut);
  assert_int_equal(a->rejected, b->rejected);
  assert_int_equal(a->seen, b->seen);
}

static void assert_state(const struct stg_prove_state *a, const struct stg_prove_state *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->atoms, b->atoms, a->n * sizeof a->atoms[0]);
}

/* The steps of query `traced`, those of the CPU backend and the kernel's. */
static void assert_steps(const struct stg_prove_step *steps, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    assert_state(&bed.steps[k].state, &steps[k].state);
    assert_int_equal(bed.steps[k].n_children, steps[k].n_children);
    assert_int_equal(bed.steps[k].action, steps[k].action);
    for (uint32_t i = 0; i < steps[k].n_children; i++) {
      assert_state(&bed.steps[k].children[i], &steps[k].children[i]);
      assert_true(fabsf(bed.steps[k].logits[i] - steps[k].logits[i]) < 1e-4f);
    }
  }
}

/* The ways of the CPU backend; its logarithms are near. */
static void assert_ways(int base) {
  for (size_t i = 0; i < bed.pool.pool.n; i++) {
    if (!has_same_way(&bed.results[i], &bed.pool.results[i])) {
      fail_msg("base %d: query %d went another way", base, (int)i);
    }
    assert_true(fabsf(bed.results[i].logp - bed.pool.results[i].logp) <= 1e-4f);
  }
}

/* Samples go ways that no policy would; counters say what children there were besides. */
static void random_bases_have_the_ways_and_counts_of_the_cpu(void **state) {
  static struct stg_prove_step steps[STG_PROVE_MAX_DEPTH];
  struct stg_prove_counts sum = {0};
  (void)state;
  for (uint64_t seed = 0; seed < BASES; seed++) {
    prove_pool_open_random(seed, &bed.pool);
    open_kernel();
    bed.pool.pool.steps = steps;
    bed.pool.pool.traced = (size_t)seed * 7 % bed.pool.pool.n;
    bed.args.traced = bed.pool.pool.traced;
    prove_pool_run(&bed.pool);
    run(prover_on_host_tiny, 1 + (unsigned)seed % MOST_BLOCKS);
    assert_ways((int)seed);
    assert_counts(&bed.words.counts, &bed.pool.counts);
    assert_steps(steps, bed.pool.results[bed.pool.pool.traced].depth);
    sum.proofs += bed.pool.counts.proofs;
    sum.cut += bed.pool.counts.cut;
    sum.rejected += bed.pool.counts.rejected;
    sum.seen += bed.pool.counts.seen;
    close_kernel();
    prove_pool_close(&bed.pool);
  }
  assert_true(sum.proofs > 0 && sum.cut > 0 && sum.rejected > 0 && sum.seen > 0);
}

/* Layers of zeros make all logits 0, in as many tiles as there are. */
static void of_equal_logits_the_first_is_picked(void **state) {
  static const uint8_t zeros[STG_PROVE_MAX_DEPTH];
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, 12, &bed.pool);
  open_kernel();
  memset(bed.layers, 0, stg_prover_pack_floats(&small) * sizeof *bed.layers);
  run(prover_on_host_small, 1);
  for (size_t i = 0; i < 12; i++) {
    assert_memory_equal(bed.results[i].actions, zeros, sizeof zeros);
    assert_in_range(bed.results[i].close, 1, bed.results[i].depth);
    assert_true(bed.results[i].logp < -0.6f);
  }
  close_kernel();
  prove_pool_close(&bed.pool);
}

/* Bit by bit, and nothing else was written. */
static void assert_same(const struct stg_prove_result *wanted, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!is_same(&bed.results[i], &wanted[i])) {
      fail_msg("of %d queries %d has another result", (int)n, (int)i);
    }
  }
  assert_int_equal(bed.results[n].depth, 0xa5a5a5a5);
}

/* In tiles of 16, 32 and 64, alone, and behind other queries. */
static void no_bit_depends_on_blocks_or_pools(void **state) {
  static struct stg_prove_result first[PROVE_POOL_MOST];
  static const struct {
    size_t n;
    unsigned blocks;
  } runs[] = {{0, 1}, {1, 1}, {2, 2}, {7, 1}, {24, 1}, {24, 3}, {23, MOST_BLOCKS}};
  (void)state;
  prove_pool_open(STG_KB_FAMILY, small, 24, &bed.pool);
  bed.pool.pool.sample = true;
  open_kernel();
  run(prover_on_host_small, 2);
  memcpy(first, bed.results, sizeof first);
  for (size_t k = 0; k < sizeof runs / sizeof runs[0]; k++) {
    bed.pool.pool.n = runs[k].n;
    run(prover_on_host_small, runs[k].blocks);
    assert_same(first, runs[k].n);
  }
  close_kernel();
  prove_pool_close(&bed.pool);
}

static void a_pool_may_come_in_parts_and_is_cut_where_there_is_no_room(void **state) {
  static struct stg_prove_result first[PROVE_POOL_MOST];
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, small, 24, &bed.pool);
  bed.pool.pool.sample = true;
  open_kernel();
  run(prover_on_host_small, 2);
  memcpy(first, bed.results, sizeof first);
  bed.args.first = 10;
  bed.args.queries = address(bed.pool.queries + 10);
  bed.pool.pool.n = 14;
  run(prover_on_host_small, 2);
  assert_same(first + 10, 14);
  bed.args.capacity = 3;
  run(prover_on_host_small, 2);
  assert_same(first + 10, 3);
  close_kernel();
  prove_pool_close(&bed.pool);
}

/* Results and counters of the pool; the pool ends with it. */
static void judge(void (*kernel)(const struct stg_prover_args *args, unsigned blocks),
                  unsigned blocks) {
  open_kernel();
  run(kernel, blocks);
  memcpy(bed.pool.results, bed.results, sizeof bed.results);
  const struct prove_verdict verdict = prove_pool_judge(&bed.pool);
  const struct stg_prove_counts counts = prove_pool_recount(&bed.pool);
  print_message("%d wrong, %d off, by %.3g\n", (int)verdict.wrong, (int)verdict.off, verdict.most);
  assert_int_equal(verdict.wrong, 0);
  assert_int_equal(verdict.off, 0);
  assert_counts(&bed.words.counts, &counts);
  assert_int_equal(bed.done, bed.pool.pool.n);
  close_kernel();
  prove_pool_close(&bed.pool);
}

/* Children of many rounds of lanes, and of many tiles. */
static void generated_bases_satisfy_the_reference(void **state) {
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    for (int sample = 0; sample < 2; sample++) {
      prove_pool_open((enum stg_kb_kind)kind, small, test_is_quick() ? 20 : 60, &bed.pool);
      bed.pool.pool.sample = sample == 1;
      judge(prover_on_host_small, 2);
    }
  }
}

static void three_products_of_tf32_satisfy_the_reference(void **state) {
  (void)state;
  for (int kind = 0; kind < STG_KB_KINDS; kind++) {
    prove_pool_open((enum stg_kb_kind)kind, small, 20, &bed.pool);
    judge(prover_on_host_small_tf32x3, 2);
  }
}

static void the_usual_net_satisfies_the_reference(void **state) {
  (void)state;
  prove_pool_open(STG_KB_COUNTRIES, usual, test_is_quick() ? 2 : 8, &bed.pool);
  judge(prover_on_host_usual, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_bases_have_the_ways_and_counts_of_the_cpu),
      cmocka_unit_test(generated_bases_satisfy_the_reference),
      cmocka_unit_test(of_equal_logits_the_first_is_picked),
      cmocka_unit_test(no_bit_depends_on_blocks_or_pools),
      cmocka_unit_test(a_pool_may_come_in_parts_and_is_cut_where_there_is_no_room),
      cmocka_unit_test(three_products_of_tf32_satisfy_the_reference),
      cmocka_unit_test(the_usual_net_satisfies_the_reference),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
