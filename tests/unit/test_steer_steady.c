/*
 * test_steer_steady.c: what an apply does once its table is in use: it hashes nothing and allocates
 * nothing, and only the first behind a step waits for all that is ahead of it. On a device of the
 * host; calls of stg_key_of, the one hash of the project, come here by the linker (--wrap).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/key.h"
#include "tests/support/tier_bed.h"

static size_t hashes;

/* names that the linker makes */
struct stg_key __real_stg_key_of(const void *data, size_t len); /* NOLINT */
struct stg_key __wrap_stg_key_of(const void *data, size_t len); /* NOLINT */

struct stg_key __wrap_stg_key_of(const void *data, size_t len) { /* NOLINT */
  hashes++;
  return __real_stg_key_of(data, len);
}

static void open_launching(struct bed *bed, stg_launch_mode launch) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.compile = STG_COMPILE_BLOCK;
  options.launch = launch;
  open_bed_with(bed, &options);
}

static void apply_once(struct bed *bed, stg_frame *frame) {
  stg_error error = STG_ERROR_INIT;
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->hidden};
  ok(stg_steer_apply(frame, &args, NULL, &error), &error);
}

static void an_apply_hashes_and_allocates_nothing(void **state) {
  (void)state;
  static const stg_launch_mode modes[] = {STG_LAUNCH_PLAIN, STG_LAUNCH_GRAPH};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct bed bed;
    open_launching(&bed, modes[i]);
    stg_steer *steer = open_table(&bed, NULL, 0);
    stg_frame *frame = open_frame(steer);
    set_slot(&bed, steer, "add");
    hashes = 0;
    step(frame);
    assert_true(hashes > 0); /* a step looks for its plan: the count counts */
    apply_once(&bed, frame);
    hashes = 0;
    stg_alloc_fail_at(1);
    for (int k = 0; k < 100; k++) {
      apply_once(&bed, frame);
      stg_alloc_fail_at(0);
      ok(stg_stream_synchronize(stg_mem_device(bed.engine), NULL, NULL), NULL);
      stg_alloc_fail_at(1);
    }
    stg_alloc_fail_at(0);
    assert_int_equal(0, hashes);
    assert_true(bed.hidden[0][0] > 100.5F && bed.hidden[0][0] < 101.5F);
    stg_frame_destroy(frame);
    close_table(steer);
    close_bed(&bed);
  }
}

/* The step's copies are ahead of the first, which must not begin before they have ended. */
static void all_applies_but_the_first_behind_a_step_begin_early(void **state) {
  (void)state;
  struct bed bed;
  open_launching(&bed, STG_LAUNCH_PLAIN);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  for (int round = 0; round < 3; round++) {
    host_device_reset_calls();
    step(frame);
    apply_once(&bed, frame);
    assert_int_equal(1, host_device_calls().launches);
    assert_int_equal(0, host_device_calls().early);
    apply_once(&bed, frame);
    apply_once(&bed, frame);
    assert_int_equal(3, host_device_calls().launches);
    assert_int_equal(2, host_device_calls().early);
  }
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void all_applies_of_a_capture_begin_early(void **state) {
  (void)state;
  struct bed bed;
  open_launching(&bed, STG_LAUNCH_DEFAULT);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  step(frame);
  host_device_reset_calls();
  const uint64_t graph = host_device_begin_capture();
  apply_once(&bed, frame);
  apply_once(&bed, frame);
  host_device_end_capture();
  assert_int_equal(2, host_device_calls().early);
  assert_int_equal(2, host_device_replay(graph, NULL));
  host_device_drop_graph(graph);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_apply_hashes_and_allocates_nothing),
      cmocka_unit_test(all_applies_but_the_first_behind_a_step_begin_early),
      cmocka_unit_test(all_applies_of_a_capture_begin_early),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
