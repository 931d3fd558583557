/*
 * steer_windows.c: slots that act in a phase or at some positions of their sequence alone.
 *
 * Which rows those are is written down by hand here, or asked of the oracle's own reading of the
 * rule; steered rows are held against the oracle, others must have the bytes that they had.
 */
#include <math.h>
#include <string.h>

#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define HIDDEN 256
#define SLOTS 8
#define PROMPT 64

static const stg_window in_prompt = {.phase = STG_PHASE_PROMPT};
static const stg_window in_generation = {.phase = STG_PHASE_GENERATION};

static stg_window window_of(int64_t from, int64_t to) {
  return (stg_window){.from = from, .to = to, .has_from = true, .has_to = true};
}

static stg_steer_desc desc_of(void) {
  return (stg_steer_desc){.hidden_size = HIDDEN,
                          .dtype = STG_BF16,
                          .layers = 2,
                          .max_rows = 192,
                          .max_slots = SLOTS,
                          .windows = true};
}

static struct steer_bed *bed_of(void **state) {
  const stg_steer_desc desc = desc_of();
  return steer_bed_create(*state, &desc);
}

/* An add that no row survives unchanged, in a window. */
static void set_add(struct steer_bed *bed, uint32_t slot, const stg_window *window) {
  const stg_op_call call = steer_add(steer_bed_direction(bed, 11 + slot, 1), 40);
  steer_bed_set_window(bed, slot, &call, 1, window);
}

/* Run, check against the oracle, and hold the steered rows against one character a row: '+' is
 * steered, '.' is not. */
static void expect_rows(struct steer_batch *batch, const char *rows) {
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; rows[r] != '\0'; r++) {
    if (steer_batch_unchanged(batch, r) != (rows[r] == '.')) {
      fail_msg("row %lld of '%s' is %s", (long long)r, rows,
               rows[r] == '.' ? "steered" : "not steered");
    }
  }
}

static void rows_outside_of_the_phase_are_not_steered(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_window both = {.phase = STG_PHASE_BOTH};
  set_add(bed, 0, &in_prompt);
  set_add(bed, 1, &in_generation);
  set_add(bed, 2, &both);
  struct steer_batch *batch = steer_batch_of(bed, 8, 0);
  steer_batch_place(batch, 0, 8, 4, 7);
  expect_rows(batch, "+++.....");
  steer_batch_map(batch, 0, 8, 1);
  expect_rows(batch, "...+++++");
  steer_batch_map(batch, 0, 8, 2);
  expect_rows(batch, "++++++++");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void bounds_are_positions_or_count_from_the_end_of_the_prompt(void **state) {
  static const struct {
    int64_t from, to;
    const char *rows; /* positions 0 to 11, a prompt of 8 */
  } cases[] = {
      {0, 3, "+++........."},     {2, 100, "..++++++++++"},  {-3, 10, ".....+++++.."},
      {-3, -1, ".....++....."},   {-100, 2, "++.........."}, {0, -7, "+..........."},
      {0, -8, "............"},    {0, -100, "............"}, {9, -1, "............"},
      {-100, -6, "++.........."}, {7, 8, ".......+...."},    {INT32_MIN, INT32_MAX, "++++++++++++"},
  };
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = steer_batch_of(bed, 12, 0);
  steer_batch_place(batch, 0, 12, 0, 8);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    const stg_window window = window_of(cases[k].from, cases[k].to);
    set_add(bed, 0, &window);
    expect_rows(batch, cases[k].rows);
  }
  const stg_window from = {.from = 5, .has_from = true, .to = 1};
  const stg_window to = {.from = 5, .to = -2, .has_to = true, .phase = STG_PHASE_PROMPT};
  set_add(bed, 0, &from);
  expect_rows(batch, ".....+++++++");
  set_add(bed, 0, &to);
  expect_rows(batch, "++++++......");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* The same bound is another position for every prompt; a bound before a prompt is its first row. */
static void every_row_goes_by_its_own_prompt(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_window last_three = {.phase = STG_PHASE_PROMPT, .from = -3, .has_from = true};
  set_add(bed, 0, &last_three);
  struct steer_batch *batch = steer_batch_of(bed, 16, 0);
  steer_batch_place(batch, 0, 8, 0, 8);
  steer_batch_place(batch, 8, 10, 0, 2);
  steer_batch_place(batch, 10, 13, 98, 100);
  steer_batch_place(batch, 13, 16, 5, 0); /* no prompt at all */
  expect_rows(batch, ".....+++"
                     "++"
                     "++."
                     "...");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* Rows [first, end) of a prompt as one call brings them, over the same numbers. */
static void run_chunk(struct steer_batch *chunk, const struct steer_batch *whole, int64_t first,
                      int64_t end) {
  for (int64_t r = first; r < end; r++) {
    memcpy(steer_batch_row(chunk, chunk->hidden, r - first),
           steer_batch_row(whole, whole->hidden, r), whole->row_bytes);
  }
  steer_batch_place(chunk, 0, end - first, (int32_t)first, PROMPT);
  steer_batch_expect_ok(chunk);
  for (int64_t r = first; r < end; r++) {
    assert_true(steer_batch_same(whole, r, chunk, r - first));
  }
}

static void a_prompt_in_chunks_is_steered_as_a_whole_one(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_window windows[] = {in_prompt, in_generation, window_of(-9, -1), window_of(3, -2),
                                window_of(10, 63)};
  static const int64_t cuts[] = {63, 1, 32, 10};
  for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
    set_add(bed, 0, &windows[k]);
    struct steer_batch *whole = steer_batch_of(bed, PROMPT, 0);
    steer_batch_place(whole, 0, PROMPT, 0, PROMPT);
    steer_batch_expect_ok(whole);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
      struct steer_batch *head = steer_batch_of(bed, cuts[c], 0);
      struct steer_batch *tail = steer_batch_of(bed, PROMPT - cuts[c], 0);
      run_chunk(head, whole, 0, cuts[c]);
      run_chunk(tail, whole, cuts[c], PROMPT);
      steer_batch_destroy(head);
      steer_batch_destroy(tail);
    }
    steer_batch_destroy(whole);
  }
  steer_bed_destroy(bed);
}

static void a_prompt_chunk_of_one_row_is_not_generation(void **state) {
  struct steer_bed *bed = bed_of(state);
  set_add(bed, 0, &in_generation);
  set_add(bed, 1, &in_prompt);
  struct steer_batch *batch = steer_batch_of(bed, 1, 0);
  steer_batch_place(batch, 0, 1, PROMPT - 1, PROMPT);
  expect_rows(batch, ".");
  steer_batch_place(batch, 0, 1, PROMPT, PROMPT);
  expect_rows(batch, "+");
  steer_batch_map(batch, 0, 1, 1);
  expect_rows(batch, ".");
  steer_batch_place(batch, 0, 1, PROMPT - 1, PROMPT);
  expect_rows(batch, "+");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* Four rows a request, as a draft model proposes them: the window may begin or end between them. */
static void speculative_rows_meet_the_edge_of_a_window(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_window windows[] = {window_of(0, 70), window_of(66, 68), in_prompt};
  for (uint32_t slot = 0; slot < 3; slot++) {
    set_add(bed, slot, &windows[slot]);
  }
  struct steer_batch *batch = steer_batch_of(bed, 12, 0);
  for (int32_t request = 0; request < 3; request++) {
    steer_batch_map(batch, (int64_t)request * 4, (int64_t)request * 4 + 4, request);
  }
  steer_batch_place(batch, 0, 4, 68, PROMPT);
  steer_batch_place(batch, 4, 8, 65, PROMPT);
  steer_batch_place(batch, 8, 12, 62, PROMPT);
  expect_rows(batch, "++.."
                     ".++."
                     "++..");
  /* two were taken, and the next four begin behind them */
  steer_batch_place(batch, 0, 4, 70, PROMPT);
  steer_batch_place(batch, 4, 8, 67, PROMPT);
  steer_batch_place(batch, 8, 12, 64, PROMPT);
  expect_rows(batch, "...."
                     "+..."
                     "....");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* What a float32 sum, or a product with 1, would not keep. */
static void put_odd_values(struct steer_batch *batch) {
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    steer_batch_put(batch, batch->hidden, r, r % 4, -0.0F);
    steer_batch_put(batch, batch->hidden, r, 5, r % 2 == 0 ? NAN : -INFINITY);
  }
}

static void excluded_rows_keep_their_bytes_in_place_and_out_of_place(void **state) {
  struct steer_bed *bed = bed_of(state);
  set_add(bed, 0, &in_generation);
  for (int variant = 0; variant < 4; variant++) {
    struct steer_batch *batch =
        steer_batch_create(bed, &(struct steer_layout){.rows = 24,
                                                       .spare_rows = 2,
                                                       .row_stride = variant >= 2 ? HIDDEN + 3 : 0,
                                                       .shift = variant >= 2 ? 1 : 0,
                                                       .out_of_place = variant % 2 != 0});
    steer_batch_fill(batch, 31, 1);
    put_odd_values(batch);
    steer_batch_map(batch, 0, 24, 0);
    steer_batch_map(batch, 20, 22, STG_ROW_PADDING);
    steer_batch_place(batch, 0, 24, 0, 16);
    for (batch->longest = 1; batch->longest <= 2; batch->longest++) {
      expect_rows(batch, "................++++");
    }
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

/* Behind the epilogue an excluded row has the bits that it has where nothing is steered. */
static void excluded_rows_are_normalised_as_if_nothing_were_steered(void **state) {
  stg_steer_desc desc = desc_of();
  desc.state = STG_STATE_HIDDEN_PLUS_RESIDUAL;
  desc.epilogue = STG_EPILOGUE_ADD_RMSNORM;
  desc.epsilon = 1e-6F;
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  set_add(bed, 0, &in_prompt);
  struct steer_batch *plain = steer_batch_of(bed, 12, STG_ROW_UNSTEERED);
  struct steer_batch *batch = steer_batch_of(bed, 12, 0);
  steer_batch_place(batch, 0, 12, 0, 7);
  steer_batch_expect_ok(plain);
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < 12; r++) {
    assert_int_equal(r >= 7, steer_batch_same(plain, r, batch, r));
  }
  steer_batch_destroy(plain);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_window_stays_with_its_slot(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 41, 1), 40);
  set_add(bed, 0, &in_prompt);
  struct steer_batch *batch = steer_batch_of(bed, 8, 0);
  steer_batch_place(batch, 0, 8, 4, 7);
  steer_bed_params(bed, 0, 0, 0, (const float[]){-30}, 1);
  expect_rows(batch, "+++.....");
  steer_bed_set(bed, 0, &call, 1); /* without a window */
  expect_rows(batch, "++++++++");
  set_add(bed, 0, &in_generation);
  expect_rows(batch, "...+++++");
  steer_bed_clear(bed, 0);
  expect_rows(batch, "........");
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void all_layers_of_a_slot_share_its_window(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 51, 1), 40);
  const stg_chain chains[] = {{.layer = 0, .ops = &call, .n_ops = 1},
                              {.layer = 1, .ops = &call, .n_ops = 1}};
  stg_window window = window_of(2, 5);
  stg_error error = STG_ERROR_INIT;
  steer_bed_set_layers(bed, 0, chains, 2);
  window.struct_size = sizeof window;
  expect_status(STG_OK, stg_steer_slot_set_windowed(bed->steer, 0, chains, 2, &window, &error),
                &error);
  bed->window[0] = window;
  for (uint32_t layer = 0; layer < 2; layer++) {
    struct steer_batch *batch = steer_batch_of(bed, 8, 0);
    batch->layer = layer;
    steer_batch_place(batch, 0, 8, 0, 8);
    expect_rows(batch, "..+++...");
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

/* A frame that had more rows: positions of then are not those of now. */
static void fewer_rows_follow_the_positions_of_their_own_step(void **state) {
  static const int64_t sizes[] = {192, 144, 1, 0, 191, 192};
  struct steer_bed *bed = bed_of(state);
  const stg_window window = {.from = -40, .has_from = true};
  set_add(bed, 0, &window);
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    struct steer_batch *batch = steer_batch_of(bed, sizes[k], 0);
    steer_batch_place(batch, 0, sizes[k], (int32_t)k * 7, 100 + (int32_t)k);
    steer_batch_expect_ok(batch);
    for (int64_t r = 0; r < sizes[k]; r++) {
      assert_int_equal(batch->positions[r] < 60 + (int32_t)k, steer_batch_unchanged(batch, r));
    }
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static stg_window random_window(struct steer_draws *draws) {
  const int64_t from = (int64_t)steer_draw_below(draws, 40) - 20;
  const int64_t to = from < 0 ? -(int64_t)steer_draw_below(draws, (uint32_t)-from)
                              : from + 1 + steer_draw_below(draws, 20);
  return (stg_window){.phase = (stg_phase)steer_draw_below(draws, 3),
                      .from = from,
                      .to = to,
                      .has_from = steer_draw_below(draws, 2) == 0,
                      .has_to = to != 0 && steer_draw_below(draws, 2) == 0};
}

/* Rows in runs, each a sequence somewhere about the end of its prompt. */
static void random_rows(struct steer_draws *draws, struct steer_batch *batch) {
  for (int64_t r = 0; r < batch->layout.rows;) {
    int64_t end = r + 1 + steer_draw_below(draws, 9);
    end = end < batch->layout.rows ? end : batch->layout.rows;
    steer_batch_map(batch, r, end, (int32_t)steer_draw_below(draws, SLOTS + 2) - 2);
    steer_batch_place(batch, r, end, (int32_t)steer_draw_below(draws, 30),
                      (int32_t)steer_draw_below(draws, 40));
    r = end;
  }
}

static void sweep(struct steer_env *env, const stg_steer_desc *desc, uint32_t seed) {
  struct steer_draws draws = {.seed = seed};
  struct steer_bed *bed = steer_bed_create(env, desc);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    const stg_vector v = steer_bed_direction(bed, seed + slot, 1);
    const stg_op_call calls[] = {steer_keep_norm(v, 3), steer_cap_max(v, 0.5F)};
    const stg_window window = random_window(&draws);
    steer_bed_set_window(bed, slot, calls, 1 + slot % 2, &window);
  }
  for (unsigned variant = 0; variant < 4; variant++) {
    struct steer_batch *batch = steer_batch_create(
        bed, &(struct steer_layout){.rows = 90, .out_of_place = variant % 2 != 0});
    batch->longest = variant < 2 ? 1 : 9;
    steer_batch_fill(batch, seed + variant, 1);
    random_rows(&draws, batch);
    steer_batch_expect_ok(batch);
    for (int64_t r = 0; r < 90 && !bed->norm; r++) {
      assert_true(steer_batch_is_steered(batch, r) || steer_batch_unchanged(batch, r) ||
                  (variant % 2 != 0 && batch->row_map[r] == STG_ROW_PADDING));
    }
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void every_kind_of_table_has_windows(void **state) {
  static const int64_t sizes[] = {1, 100, 512, 4097};
  for (uint32_t k = 0; k < 12; k++) {
    stg_steer_desc desc = desc_of();
    desc.hidden_size = sizes[k % 4];
    desc.dtype = k % 3 == 0 ? STG_BF16 : k % 3 == 1 ? STG_F16 : STG_F32;
    desc.state = k >= 4 ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN;
    desc.epilogue = k >= 8 ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE;
    desc.epsilon = k >= 8 ? 1e-5F : 0;
    sweep(*state, &desc, 700 + k);
  }
}

static void one_shot_calls_have_no_window(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 61, 1), 40);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const int64_t length = 8;
  struct steer_batch *batch = steer_batch_of(bed, 8, STG_ROW_UNSTEERED);
  stg_error error = STG_ERROR_INIT;
  steer_batch_send(batch);
  const stg_once once = {.struct_size = sizeof once,
                         .apply = steer_batch_args(batch),
                         .rows = 8,
                         .n_requests = 1,
                         .lengths = &length,
                         .chains = &chain};
  expect_status(STG_OK, stg_steer_once(bed->steer, &once, batch->stream, &error), &error);
  steer_batch_fetch(batch);
  for (int64_t r = 0; r < 8; r++) {
    assert_false(steer_batch_unchanged(batch, r));
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void read_digest(struct steer_bed *bed, uint32_t slot, unsigned char ret[16]) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_steer_digest(bed->steer, slot, ret, &error), &error);
}

static void the_digest_tells_windows_apart(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_window windows[] = {{0}, in_prompt, in_generation, window_of(0, 9), window_of(-1, 9)};
  const stg_op_call call = steer_add(steer_bed_direction(bed, 71, 1), 2);
  unsigned char digests[5][16], other[16];
  for (uint32_t k = 0; k < 5; k++) {
    steer_bed_set_window(bed, 0, &call, 1, &windows[k]);
    read_digest(bed, 0, digests[k]);
    for (uint32_t j = 0; j < k; j++) {
      assert_memory_not_equal(digests[j], digests[k], 16);
    }
    steer_bed_set_window(bed, 1, &call, 1, &windows[k]);
    read_digest(bed, 1, other);
    assert_memory_equal(digests[k], other, 16);
  }
  /* a window that is everywhere is none */
  steer_bed_set(bed, 0, &call, 1);
  read_digest(bed, 0, other);
  assert_memory_equal(digests[0], other, 16);
  steer_bed_destroy(bed);
}

int steer_windows_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_outside_of_the_phase_are_not_steered),
      cmocka_unit_test(bounds_are_positions_or_count_from_the_end_of_the_prompt),
      cmocka_unit_test(every_row_goes_by_its_own_prompt),
      cmocka_unit_test(a_prompt_in_chunks_is_steered_as_a_whole_one),
      cmocka_unit_test(a_prompt_chunk_of_one_row_is_not_generation),
      cmocka_unit_test(speculative_rows_meet_the_edge_of_a_window),
      cmocka_unit_test(excluded_rows_keep_their_bytes_in_place_and_out_of_place),
      cmocka_unit_test(excluded_rows_are_normalised_as_if_nothing_were_steered),
      cmocka_unit_test(a_window_stays_with_its_slot),
      cmocka_unit_test(all_layers_of_a_slot_share_its_window),
      cmocka_unit_test(fewer_rows_follow_the_positions_of_their_own_step),
      cmocka_unit_test(every_kind_of_table_has_windows),
      cmocka_unit_test(one_shot_calls_have_no_window),
      cmocka_unit_test(the_digest_tells_windows_apart),
  };
  return cmocka_run_group_tests_name("steer windows", tests, open, steer_env_close);
}
