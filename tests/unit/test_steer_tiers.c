/*
 * test_steer_tiers.c: what each compile mode waits for, what serves meanwhile, and the swap. On a
 * device of the host, whose compiler does what a test says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test_fork.h"
#include "tests/support/tier_bed.h"

static void block_compiles_both_tiles_side_by_side(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  open_bed(&bed, STG_COMPILE_BLOCK, 0, 0);
  stg_steer *steer = open_table(&bed, with_lean, 2);
  assert_int_equal(2, host_device_compiles()); /* and no general ones */
  assert_int_equal(0, stats_of(&bed).kernel_memory_hits);
  assert_in_range(host_device_compiles_here(), 1, 2);
  assert_in_range(stats_of(&bed).compile_threads, 0, 1);
  set_slot(&bed, steer, "lean");
  stg_frame *frame = open_frame(steer);
  step(frame);
  apply(&bed, frame, USER);
  assert_int_equal(1, plan_of(frame).tier);
  assert_int_equal(0, stats_of(&bed).kernel_swaps);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void block_returns_what_the_compiler_said(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  static const char *const refused[] = {"tile=decode", "tile=prefill"};
  for (size_t i = 0; i < 2; i++) {
    host_device_set_compiler(&(struct host_compiler){.missing = ALL, .refused = refused[i]});
    open_bed(&bed, STG_COMPILE_BLOCK, 0, 0);
    expect(STG_E_COMPILE, "NVRTC refuses it", try_table(&bed, NULL, 0, &steer, &error), &error);
    host_device_set_compiler(&(struct host_compiler){.missing = ALL});
    close_table(open_table(&bed, NULL, 0));
    /* this waits for its jobs: one that ends late keeps the other tile loaded, which the next round
     * must not find */
    close_bed(&bed);
  }
}

static void never_takes_what_a_cache_has(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  open_bed(&bed, STG_COMPILE_NEVER, 0, 0);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  expect(STG_E_NOT_WARM, SUBSET, try_table(&bed, only_add, 1, &steer, &error), &error);
  expect(STG_E_NOT_WARM, GENERAL, try_table(&bed, NULL, 0, &steer, &error), &error);

  host_device_set_compiler(
      &(struct host_compiler){.missing = SUBSET}); /* general kernels are there */
  steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  step(frame);
  apply(&bed, frame, GENERAL);
  assert_int_equal(0, plan_of(frame).tier);
  stg_frame_destroy(frame);
  close_table(steer);

  host_device_set_compiler(
      &(struct host_compiler){.missing = USER}); /* no general kernel runs it */
  expect(STG_E_NOT_WARM, USER, try_table(&bed, with_lean, 2, &steer, &error), &error);
  assert_int_equal(0, host_device_compiles());
  assert_int_equal(0, stats_of(&bed).compile_threads);
  close_bed(&bed);
}

static void background_compiles_on_no_thread_of_the_host(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  open_bed(&bed, STG_COMPILE_DEFAULT, 0, 0);
  stg_steer *all = open_table(&bed, NULL, 0);
  assert_in_range(host_device_compiles(), 1, 2); /* one is waited for */
  stg_steer *subset = open_table(&bed, only_add, 1);
  stg_steer *user = open_table(&bed, with_lean, 2);
  wait_for_swaps(&bed, 4);
  wait_for_rest(&bed);
  assert_int_equal(6, host_device_compiles()); /* the general ones once, for all of them */
  assert_int_equal(0, host_device_compiles_here());
  close_table(all);
  close_table(subset);
  close_table(user);
  close_bed(&bed);
}

static void background_starts_nothing_where_a_cache_has_the_kernels(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
  host_device_set_compiler(&(struct host_compiler){.missing = GENERAL}); /* which nobody needs */
  stg_steer *steer = open_table(&bed, with_lean, 2);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "lean");
  step(frame);
  apply(&bed, frame, USER);
  assert_int_equal(1, plan_of(frame).tier);
  assert_int_equal(0, stats_of(&bed).compile_threads);
  assert_int_equal(0, host_device_compiles());
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void general_kernels_serve_until_a_step_swaps(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  for (int i = 0; i < 3; i++) {
    step(frame);
    apply(&bed, frame, GENERAL);
  }
  stg_plan_info plan = plan_of(frame);
  char key[33];
  memcpy(key, plan.kernel_key, sizeof key);
  assert_int_equal(0, plan.tier);
  assert_non_null(strstr(plan.signature, GENERAL));
  assert_int_equal(0, stats_of(&bed).kernel_swaps);

  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 2);
  apply(&bed, frame, GENERAL); /* what the step resolved */
  assert_int_equal(0, plan_of(frame).tier);
  step(frame);
  apply(&bed, frame, SUBSET);
  plan = plan_of(frame);
  assert_int_equal(1, plan.tier);
  assert_non_null(strstr(plan.signature, SUBSET));
  assert_string_not_equal(key, plan.kernel_key);
  assert_string_equal("compiled", plan.source);
  const stg_stats stats = stats_of(&bed);
  assert_int_equal(1, stats.graphs_created); /* the swap is an update */
  assert_int_equal(1, stats.plans_live);
  assert_int_equal(5, stats.graph_launches);
  assert_int_equal(0, host_device_compiles_here());
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void a_user_op_is_pending_until_its_kernels_are_there(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = USER});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  stg_steer *steer = open_table(&bed, with_lean, 2);
  stg_frame *frame = open_frame(steer);
  expect(STG_E_PENDING, "slot 0: op 'lean' needs kernel 'steer v1 | ops=add,user:",
         try_slot(&bed, steer, "lean", &error), &error);
  set_slot(&bed, steer, "add"); /* built-ins need not wait */
  step(frame);
  apply(&bed, frame, GENERAL);
  expect(STG_E_PENDING, "try again", try_slot(&bed, steer, "lean", &error), &error);
  apply(&bed, frame, GENERAL); /* the slot is as it was */
  expect(STG_E_NOT_WARM, "capture when no slot_set is pending", try_capture(&bed, frame, &error),
         &error);

  const int64_t lengths[] = {ROWS};
  const stg_op_call call = {.op = "lean", .vectors = {bed.ones}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const stg_once once = {.struct_size = sizeof once,
                         .apply = {.struct_size = sizeof once.apply, .hidden = bed.hidden},
                         .rows = ROWS,
                         .n_requests = 1,
                         .lengths = lengths,
                         .chains = &chain};
  expect(STG_E_PENDING, "request 0: op 'lean'", stg_steer_once(steer, &once, NULL, &error), &error);

  /* one tile is not enough */
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = "tile=prefill"});
  wait_for_swaps(&bed, 1);
  expect(STG_E_PENDING, "tile=prefill", try_slot(&bed, steer, "lean", &error), &error);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 2);
  set_slot(&bed, steer, "lean");
  step(frame);
  apply(&bed, frame, USER);
  assert_int_equal(1, plan_of(frame).tier);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void a_compile_that_fails_is_said_by_the_slot(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .refused = USER});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  stg_steer *steer = open_table(&bed, with_lean, 2);
  wait_for_rest(&bed);
  const size_t compiles = host_device_compiles();
  for (int i = 0; i < 3; i++) {
    stg_status status = try_slot(&bed, steer, "lean", &error);
    if (status == STG_E_PENDING && i == 0) { /* the job was over, but not yet known to be */
      i--;
      pause_a_bit();
      continue;
    }
    expect(STG_E_COMPILE, "slot 0: NVRTC refuses it", status, &error);
  }
  assert_int_equal(compiles, host_device_compiles()); /* it is not tried again by that */
  set_slot(&bed, steer, "add");
  stg_frame *frame = open_frame(steer);
  step(frame);
  apply(&bed, frame, GENERAL);
  expect(STG_E_COMPILE, "nothing can be captured", try_capture(&bed, frame, &error), &error);

  /* a new table tries again, for both */
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  stg_steer *other = open_table(&bed, with_lean, 2);
  wait_for_swaps(&bed, 2);
  set_slot(&bed, steer, "lean");
  set_slot(&bed, other, "lean");
  step(frame);
  apply(&bed, frame, USER);
  stg_frame_destroy(frame);
  close_table(steer);
  close_table(other);
  close_bed(&bed);
}

static void a_general_kernel_that_fails_is_said_by_create(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .refused = GENERAL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  expect(STG_E_COMPILE, "NVRTC refuses it", try_table(&bed, only_add, 1, &steer, &error), &error);
  expect(STG_E_COMPILE, "NVRTC refuses it", try_table(&bed, NULL, 0, &steer, &error), &error);
  assert_null(steer);
  close_bed(&bed);
}

static void tables_of_one_declaration_compile_once(void **state) {
  (void)state;
  struct bed bed;
  stg_steer *tables[5];
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  for (int i = 0; i < 5; i++) {
    tables[i] = open_table(&bed, only_add, 1);
  }
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 2);
  wait_for_rest(&bed);
  assert_int_equal(4, host_device_compiles());
  close_table(open_table(&bed, only_add, 1));
  assert_true(stats_of(&bed).kernel_memory_hits >= 2);
  for (int i = 0; i < 5; i++) {
    close_table(tables[i]);
  }
  close_bed(&bed);
}

/* More declarations than the queue has room for: none is forgotten. */
static void what_finds_the_queue_full_is_asked_for_again(void **state) {
  (void)state;
  static const char *const sets[][2] = {
      {"add", "swap"}, {"add", "ablation"}, {"add", "scale_norm"}, {"add", "gated_add"}};
  struct bed bed;
  stg_steer *tables[4];
  stg_frame *frames[4];
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = ALL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 2);
  host_device_set_compiler(&(struct host_compiler){.missing = "ops=a", .held = NULL});
  stg_steer *all = open_table(&bed, NULL, 0);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = ALL});
  for (int i = 0; i < 4; i++) {
    tables[i] = open_table(&bed, sets[i], 2);
    frames[i] = open_frame(tables[i]);
    set_slot(&bed, tables[i], "add");
    step(frames[i]);
    apply(&bed, frames[i], GENERAL);
  }
  assert_true(stats_of(&bed).compiles_refused > 0);
  assert_in_range(stats_of(&bed).compiles_queued, 0, 2);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  for (int i = 0; i < 4; i++) {
    while (step(frames[i]), plan_of(frames[i]).tier != 1) {
      pause_a_bit();
    }
    apply(&bed, frames[i], "ops=a");
  }
  assert_int_equal(1, stats_of(&bed).compile_threads);
  for (int i = 0; i < 4; i++) {
    stg_frame_destroy(frames[i]);
    close_table(tables[i]);
  }
  close_table(all);
  close_bed(&bed);
}

static void closing_stops_what_compiles_and_calls_off_what_waits(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = "ops=add"});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  stg_steer *first = open_table(&bed, only_add, 1);
  host_device_wait_for_compiles(1); /* of the declared ones: the general ones are there */
  stg_steer *second = open_table(&bed, with_lean, 2);
  assert_int_equal(3, stats_of(&bed).compiles_queued);
  close_table(first);
  close_table(second);
  const size_t compiles = host_device_compiles();
  close_bed(&bed);               /* would wait for ever */
  assert_int_equal(3, compiles); /* two general ones, and the one that was stopped */
}

static void a_table_that_is_gone_is_not_compiled_for(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = "tile=decode"});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  stg_steer *steer = open_table(&bed, only_add, 1);
  host_device_wait_for_compiles(1);
  close_table(steer);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_rest(&bed);
  assert_int_equal(3, host_device_compiles()); /* not the second tile */
  close_bed(&bed);
}

static void a_forked_child_closes_without_its_parents_threads(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  stg_steer *steer = open_table(&bed, only_add, 1);
  host_device_wait_for_compiles(1);
  close_table(steer);
  const pid_t child = test_fork();
  if (child == 0) {
    _exit(stg_engine_destroy(bed.engine, NULL) == STG_OK ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(child, waitpid(child, &status, 0));
  assert_int_equal(0, status);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(block_compiles_both_tiles_side_by_side),
      cmocka_unit_test(block_returns_what_the_compiler_said),
      cmocka_unit_test(never_takes_what_a_cache_has),
      cmocka_unit_test(background_compiles_on_no_thread_of_the_host),
      cmocka_unit_test(background_starts_nothing_where_a_cache_has_the_kernels),
      cmocka_unit_test(general_kernels_serve_until_a_step_swaps),
      cmocka_unit_test(a_user_op_is_pending_until_its_kernels_are_there),
      cmocka_unit_test(a_compile_that_fails_is_said_by_the_slot),
      cmocka_unit_test(a_general_kernel_that_fails_is_said_by_create),
      cmocka_unit_test(tables_of_one_declaration_compile_once),
      cmocka_unit_test(what_finds_the_queue_full_is_asked_for_again),
      cmocka_unit_test(closing_stops_what_compiles_and_calls_off_what_waits),
      cmocka_unit_test(a_table_that_is_gone_is_not_compiled_for),
      cmocka_unit_test(a_forked_child_closes_without_its_parents_threads),
  };
  return cmocka_run_group_tests_name("steer tiers", tests, NULL, NULL);
}
