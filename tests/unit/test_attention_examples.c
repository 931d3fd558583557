/*
 * test_attention_examples.c: the examples of rope, decode and step load, have the shape their names
 * promise, and their numbers can be read.
 */
#include "specs/spec.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

static struct stg_spec load(const char *name, enum stg_spec_kind kind) {
  struct stg_spec spec = {0};
  struct stg_strbuf path = {0};
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_printf(&path, "%s/%s.json", STG_SPECS_DIR, name);
  if (stg_spec_load(stg_strbuf_text(&path), NULL, &spec, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  assert_int_equal(spec.kind, kind);
  stg_strbuf_finish(&path);
  return spec;
}

/* The first elements of an array are numbers. */
static void assert_reads(const struct stg_attention_workload *w, bool has,
                         const struct stg_spec_array *array) {
  float elems[16];
  if (!has) {
    return;
  }
  assert_int_equal(stg_attention_read(w, array, 0, 16, STG_F32, elems, NULL), STG_OK);
  for (size_t i = 0; i < 16; i++) {
    assert_true(isfinite(elems[i]) && elems[i] != 0);
  }
}

static void assert_all_reads(const struct stg_attention_workload *w) {
  assert_reads(w, w->has_qkv, &w->qkv);
  assert_reads(w, w->has_q, &w->q);
  assert_reads(w, w->has_k, &w->k);
  assert_reads(w, w->has_v, &w->v);
}

static void rope_llama3_turns_grouped_heads_at_far_positions(void **state) {
  (void)state;
  struct stg_spec spec = load("rope_llama3", STG_SPEC_ROPE);
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_true(w->kv_heads < w->heads);
  assert_int_equal(w->rope.scaling, STG_SPEC_SCALING_LLAMA3);
  assert_true(w->rope.base == 500000);
  assert_false(w->cache.exists);
  assert_int_equal(w->stretches[w->n_stretches - 1].positions[2], 131071);
  assert_all_reads(w);
  stg_spec_finish(&spec);
}

static void kv_decode_has_a_row_for_each_length(void **state) {
  (void)state;
  struct stg_spec spec = load("kv_decode", STG_SPEC_DECODE);
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_int_equal(w->positions, STG_SPEC_POSITIONS_LEN);
  assert_int_equal(w->rows, w->batch);
  assert_int_equal(w->cache.block, 0);
  for (uint32_t i = 0; i < w->batch; i++) {
    assert_in_range(w->cache.lengths[i], 64, 900);
    assert_true(i == 0 || w->cache.lengths[i] != w->cache.lengths[i - 1]);
  }
  assert_all_reads(w);
  stg_spec_finish(&spec);
}

static void kv_decode_paged_has_blocks_for_all_that_it_reads(void **state) {
  (void)state;
  struct stg_spec spec = load("kv_decode_paged", STG_SPEC_DECODE);
  const struct stg_attention_workload *w = &spec.of.attention;
  const int64_t row = stg_attention_table_row(w);
  int32_t table[6 * 32];
  assert_int_equal(w->batch * row, 6 * 32);
  assert_true(w->attend.window > 0);
  assert_int_equal(w->rows, w->batch + 1); /* and one of padding */
  stg_attention_fill_table(w, table);
  for (uint32_t seq = 0; seq < w->batch; seq++) {
    for (int64_t j = 0; j < row; j++) {
      const bool filled = j * w->cache.block < w->cache.filled[seq];
      assert_int_equal(table[seq * row + j] >= 0, filled);
    }
  }
  assert_all_reads(w);
  stg_spec_finish(&spec);
}

static void toto_timewise_has_its_xpos(void **state) {
  (void)state;
  struct stg_spec spec = load("toto_timewise", STG_SPEC_STEP);
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_int_equal(w->heads, 12);
  assert_int_equal(w->kv_heads, 12);
  assert_int_equal(w->dim, 64);
  assert_int_equal(w->batch, 8);
  assert_int_equal(w->cache.capacity, 1024);
  assert_int_equal(w->rope.layout, STG_SPEC_LAYOUT_INTERLEAVED);
  assert_int_equal(w->rope.pairs, STG_SPEC_PAIRS_INTERLEAVED);
  assert_int_equal(w->rope.xpos, STG_SPEC_XPOS_HALVES);
  assert_true(w->advance && !w->steered);
  assert_all_reads(w);
  stg_spec_finish(&spec);
}

static void step_llama_block_is_steered(void **state) {
  (void)state;
  struct stg_spec spec = load("step_llama_block", STG_SPEC_STEP);
  const struct stg_attention_workload *w = &spec.of.attention;
  float values[4096];
  assert_true(w->steered && w->advance);
  assert_int_equal(w->layer, w->layers - 1);
  assert_int_equal(w->steer.hidden_size, 4096);
  assert_int_equal(w->steer.n_slots, 2);
  assert_int_equal(stg_workload_read_vector(&w->steer, 0, 0, values, NULL), STG_OK);
  assert_true(isfinite(values[4095]));
  assert_all_reads(w);
  stg_spec_finish(&spec);
}

static void token_window_masks_keys_and_has_short_windows(void **state) {
  (void)state;
  struct stg_spec spec = load("token_window", STG_SPEC_DECODE);
  const struct stg_attention_workload *w = &spec.of.attention;
  size_t masked = 0;
  assert_true(w->cache.tokens && w->cache.one_mask);
  assert_int_equal(w->rows, w->batch * w->cache.capacity);
  assert_int_equal(w->cache.lengths[2], 1);
  for (int64_t i = 0; i < w->cache.capacity; i++) {
    masked += w->cache.key_mask[i] == 0;
  }
  assert_true(masked > 0);
  assert_all_reads(w);
  stg_spec_finish(&spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rope_llama3_turns_grouped_heads_at_far_positions),
      cmocka_unit_test(kv_decode_has_a_row_for_each_length),
      cmocka_unit_test(kv_decode_paged_has_blocks_for_all_that_it_reads),
      cmocka_unit_test(toto_timewise_has_its_xpos),
      cmocka_unit_test(step_llama_block_is_steered),
      cmocka_unit_test(token_window_masks_keys_and_has_short_windows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
