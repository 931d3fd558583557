/*
 * test_bench_attn.c: the beds of rope and attend on the CPU: each kind of work is launched, fetched
 * and agreed with by the oracle, which refuses what is wrong; and a loop over every length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tools/bench/attn_check.h"
#include "tools/bench/attn_loop.h"

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s", error->message);
  }
}

static stg_engine *open_engine(void) {
  stg_error error = STG_ERROR_INIT;
  stg_options options;
  stg_engine *engine = NULL;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  ok(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

static void close_engine(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_engine_destroy(engine, &error), &error);
}

#define STEP                                                                                       \
  .name = "x", .suite = "attend", .heads = 4, .kv_heads = 2, .dim = 16, .dtype = STG_BF16,         \
  .batch = 4, .rows_each = 1, .shortest = 9, .longest = 31, .capacity = 32
#define PROMPT                                                                                     \
  .name = "x", .suite = "rope", .heads = 4, .kv_heads = 2, .dim = 16, .dtype = STG_BF16,           \
  .batch = 2, .rows_each = 40, .shortest = 40, .longest = 40

static const struct stg_attn_case works[] = {
    {.work = STG_ATTN_ROPE, PROMPT},
    {.work = STG_ATTN_ROPE, PROMPT, .v_stays = true},
    {.work = STG_ATTN_ROPE, PROMPT, .capacity = 64},
    {.work = STG_ATTN_ROPE, PROMPT, .each_op = true},
    {.work = STG_ATTN_BACKWARD, PROMPT},
    {.work = STG_ATTN_ROPE, STEP},
    {.work = STG_ATTN_ATTEND, STEP},
    {.work = STG_ATTN_ATTEND, STEP, .block = 8},
    {.work = STG_ATTN_ATTEND, PROMPT, .capacity = 64},
    {.work = STG_ATTN_BLOCK, STEP},
    {.work = STG_ATTN_BLOCK, STEP, .block = 8},
    {.work = STG_ATTN_STEERED, STEP},
};
#define N_WORKS (sizeof works / sizeof works[0])

static void the_oracle_agrees_with_each_kind_of_work(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  for (size_t i = 0; i < N_WORKS; i++) {
    struct stg_attn_bed bed;
    struct stg_attn_result result;
    struct stg_attn_verdict verdict;
    stg_error error = STG_ERROR_INIT;
    ok(stg_attn_bed_init(engine, &works[i], 2, &bed, &error), &error);
    ok(stg_attn_check(&bed, &result, &verdict, &error), &error);
    assert_true(verdict.mae > 0 && verdict.mae < 0.02);
    assert_true(verdict.worst_ratio > 0 && verdict.worst_ratio <= 1);
    stg_attn_result_finish(&result);
    stg_attn_bed_finish(&bed);
  }
  close_engine(engine);
}

/* The sets hold the same, so they give the same; and a launch twice is as one. */
static void every_set_gives_the_same_result(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  for (size_t i = 0; i < N_WORKS; i++) {
    struct stg_attn_bed bed;
    stg_error error = STG_ERROR_INIT;
    ok(stg_attn_bed_init(engine, &works[i], 2, &bed, &error), &error);
    for (size_t launch = 0; launch < 4; launch++) {
      ok(stg_attn_bed_launch(&bed, NULL, launch, stg_mem_stream(engine), &error), &error);
    }
    const bool attends = stg_attn_has_attend(&works[i]);
    const char *area = works[i].work == STG_ATTN_BACKWARD ? bed.qkv : attends ? bed.out : bed.q;
    const int64_t elems = works[i].work == STG_ATTN_BACKWARD ? stg_attn_packed(&works[i])
                                                             : stg_attn_q_elems(&works[i]);
    const size_t bytes = (size_t)(stg_attn_rows(&works[i]) * elems) * 2;
    assert_memory_equal(area, area + stg_attn_bed_pitch(&bed, elems), bytes);
    stg_attn_bed_finish(&bed);
  }
  close_engine(engine);
}

/* What stg_attn_check says of a work of which `spoil` changes what was made up. */
static void must_be_refused(const struct stg_attn_case *work, void (*spoil)(struct stg_attn_bed *),
                            const char *const *words, size_t n_words) {
  stg_engine *engine = open_engine();
  struct stg_attn_bed bed;
  struct stg_attn_result result;
  struct stg_attn_verdict verdict;
  stg_error error = STG_ERROR_INIT;
  ok(stg_attn_bed_init(engine, work, 1, &bed, &error), &error);
  spoil(&bed);
  assert_int_equal(STG_E_CORRUPT, stg_attn_check(&bed, &result, &verdict, &error));
  for (size_t i = 0; i < n_words; i++) {
    assert_non_null(strstr(error.message, words[i]));
  }
  stg_attn_result_finish(&result);
  stg_attn_bed_finish(&bed);
  close_engine(engine);
}

static void move_a_key(struct stg_attn_bed *bed) {
  uint16_t *keys = bed->cache.k;
  for (size_t d = 0; d < 16; d++) {
    keys[d] = stg_bf16_from_f32(stg_bf16_to_f32(keys[d]) + 0.5F);
  }
}

/* A key that is not the one of the formula shows: in the attention, or where it was appended. */
static void a_wrong_result_is_refused(void **state) {
  (void)state;
  static const char *const words[] = {"the oracle does not agree with our own result: out, row 0"};
  must_be_refused(&works[6], move_a_key, words, 1);
}

static void change_the_last_v(struct stg_attn_bed *bed) {
  assert_null(bed->v);
  uint16_t *last = (uint16_t *)bed->qkv + stg_attn_rows(bed->work) * stg_attn_packed(bed->work) - 1;
  *last ^= 1;
}

/* It has no tensor: a row that is looked at is that of the packed rows. */
static void a_v_that_did_not_stay_is_refused(void **state) {
  (void)state;
  static const char *const words[] = {"our own result: v, row 63"};
  must_be_refused(&works[1], change_the_last_v, words, 1);
}

/* What the check expects, and not what the table has. */
static void clear_a_vector(struct stg_attn_bed *bed) {
  for (size_t i = 0; i < 64; i++) {
    bed->batch.vectors[i] = 0;
  }
}

static void an_addition_that_is_not_there_is_refused(void **state) {
  (void)state;
  static const char *const words[] = {"row 0, element ", " steered, not "};
  must_be_refused(&works[N_WORKS - 1], clear_a_vector, words, 2);
}

static const struct stg_attn_case small_loop = {.suite = "attend",
                                                .name = "loop",
                                                .work = STG_ATTN_BLOCK,
                                                .heads = 4,
                                                .kv_heads = 2,
                                                .dim = 16,
                                                .dtype = STG_F32,
                                                .batch = 3,
                                                .rows_each = 1,
                                                .shortest = 1,
                                                .longest = 1,
                                                .capacity = 48,
                                                .advance = true};

static void a_loop_over_every_length_stays_near_float64(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  struct stg_attn_loop loop;
  stg_error error = STG_ERROR_INIT;
  void *out = NULL;
  double mae = 1;
  ok(stg_attn_loop_init(engine, &small_loop, &loop, &error), &error);
  ok(stg_attn_loop_pass(&loop, NULL, 0, NULL, &error), &error); /* again, from length 0 */
  ok(stg_attn_loop_fetch(&loop, &out, &error), &error);
  ok(stg_attn_loop_mae(&loop, out, &mae, &error), &error);
  assert_true(mae > 0 && mae < 1e-6);
  ((float *)out)[384] += 1; /* of the last step that is looked at */
  assert_int_equal(STG_E_CORRUPT, stg_attn_loop_mae(&loop, out, &mae, &error));
  assert_non_null(strstr(error.message, "results are 0.00"));
  assert_non_null(strstr(error.message, " from those of float64 on average, not below 1e-06"));
  stg_free(out);
  stg_attn_loop_finish(&loop);
  close_engine(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_oracle_agrees_with_each_kind_of_work),
      cmocka_unit_test(every_set_gives_the_same_result),
      cmocka_unit_test(a_wrong_result_is_refused),
      cmocka_unit_test(a_v_that_did_not_stay_is_refused),
      cmocka_unit_test(an_addition_that_is_not_there_is_refused),
      cmocka_unit_test(a_loop_over_every_length_stays_near_float64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
