/*
 * test_steer_tier_kinds.c: tables with windows, counters and probes have kernels of their own in
 * both tiers. On a device of the host, whose compiler does what a test says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/tier_bed.h"

#define PLAIN "windows=0 counters=0 probes=0"
#define KIND "windows=1 counters=1 probes=1"

static stg_status try_kind(struct bed *bed, stg_steer **ret_steer, stg_error *reterr) {
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .ops = only_add,
                               .n_ops = 1,
                               .windows = true,
                               .counters = true,
                               .probes = 3};
  return stg_steer_create(bed->engine, &desc, ret_steer, reterr);
}

/* A step and an apply, by a kernel of all `parts`. */
static void run(struct bed *bed, stg_frame *frame, const char *const *parts, size_t n_parts) {
  static const int32_t map[ROWS], positions[ROWS], prompt_lens[ROWS];
  float probes[ROWS][3];
  const stg_step step = {.struct_size = sizeof step,
                         .rows = ROWS,
                         .row_map = map,
                         .longest = 1,
                         .positions = positions,
                         .prompt_lens = prompt_lens};
  const stg_apply apply = {
      .struct_size = sizeof apply, .hidden = bed->hidden, .probes = &probes[0][0]};
  stg_error error = STG_ERROR_INIT;
  const float wanted = bed->hidden[0][0] + 1;
  ok(stg_steer_step(frame, &step, NULL, &error), &error);
  ok(stg_steer_apply(frame, &apply, NULL, &error), &error);
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), NULL, &error), &error);
  assert_memory_equal(&wanted, &bed->hidden[ROWS - 1][HIDDEN - 1], sizeof wanted);
  for (size_t i = 0; i < n_parts; i++) {
    assert_non_null(strstr(host_device_launched(), parts[i]));
    assert_non_null(strstr(plan_of(frame).signature, parts[i]));
  }
}

static void general_kernels_of_the_kind_serve_until_a_step_swaps(void **state) {
  static const char *const general[] = {GENERAL, ",probe,", KIND};
  static const char *const declared[] = {SUBSET, KIND};
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  host_device_windows(true);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  ok(try_kind(&bed, &steer, &error), &error);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  run(&bed, frame, general, 3);
  assert_int_equal(0, plan_of(frame).tier);

  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 2);
  run(&bed, frame, declared, 2);
  assert_int_equal(1, plan_of(frame).tier);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  host_device_windows(false);
}

/* Packs hold plain general kernels: they are no help to a table of another kind, which says so. */
static void plain_kernels_of_a_cache_serve_plain_tables_alone(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  open_bed(&bed, STG_COMPILE_NEVER, 0, 0);
  host_device_set_compiler(&(struct host_compiler){.missing = KIND});
  expect(STG_E_NOT_WARM, KIND, try_kind(&bed, &steer, &error), &error);
  assert_null(steer);

  host_device_set_compiler(&(struct host_compiler){.missing = SUBSET});
  steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  step(frame);
  apply(&bed, frame, PLAIN);
  assert_int_equal(0, plan_of(frame).tier);
  assert_null(strstr(host_device_launched(), "probe,")); /* it has nowhere to give to */
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

/* Where all that a table may have is declared, there is one tier, with or without a list. */
static void all_ops_of_the_kind_are_the_general_tier(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed, STG_COMPILE_BLOCK, 0, 0);
  stg_steer_desc desc = {
      .struct_size = sizeof desc, .hidden_size = HIDDEN, .dtype = STG_F32, .max_rows = ROWS};
  for (uint32_t probes = 0; probes < 2; probes++) {
    stg_steer *steer = NULL;
    desc.probes = probes;
    ok(stg_steer_create(bed.engine, &desc, &steer, &error), &error);
    stg_frame *frame = open_frame(steer);
    step(frame);
    assert_int_equal(0, plan_of(frame).tier);
    assert_int_equal(probes > 0, strstr(plan_of(frame).signature, "probe,") != NULL);
    stg_frame_destroy(frame);
    close_table(steer);
  }
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(general_kernels_of_the_kind_serve_until_a_step_swaps),
      cmocka_unit_test(plain_kernels_of_a_cache_serve_plain_tables_alone),
      cmocka_unit_test(all_ops_of_the_kind_are_the_general_tier),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
