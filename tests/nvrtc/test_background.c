/*
 * test_background.c: an engine that compiles in the background, with the real compiler and cache
 * folders, on a device of the host: no call into NVRTC is made by the thread that serves. Needs no
 * GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "runtime/base/thread.h"
#include "runtime/clock.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/nvrtc_line.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tier_bed.h"

#define MAX_LINES 64

/* What the log said of calls into NVRTC since the test's main looked for it. */
static struct {
  pthread_mutex_t lock;
  uint64_t since_ns;
  size_t count;
  struct nvrtc_line lines[MAX_LINES];
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_line(void *user, stg_log_level level, const char *message) {
  struct nvrtc_line line;
  (void)user;
  (void)level;
  if (nvrtc_line_parse(message, &line) && line.from_ns >= said.since_ns) {
    pthread_mutex_lock(&said.lock);
    assert_true(said.count < MAX_LINES);
    said.lines[said.count++] = line;
    pthread_mutex_unlock(&said.lock);
  }
}

/* Calls into NVRTC since the engine was opened; none may be of this thread. */
static size_t calls_elsewhere(void) {
  pthread_mutex_lock(&said.lock);
  const size_t count = said.count;
  for (size_t i = 0; i < count; i++) {
    assert_true(said.lines[i].from_ns < said.lines[i].to_ns);
    assert_int_not_equal(stg_thread_id(), said.lines[i].thread);
  }
  pthread_mutex_unlock(&said.lock);
  return count;
}

static void open_engine(struct bed *bed, const char *folder, stg_compile_mode mode) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = mode;
  options.cache_path = folder;
  options.compile_threads = 2;
  options.log = keep_line;
  options.log_level = STG_LOG_INFO;
  said.count = 0;
  open_bed_with(bed, &options);
}

static void the_thread_that_serves_never_compiles(void **state) {
  struct bed bed;
  open_engine(&bed, *state, STG_COMPILE_BACKGROUND);
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame(steer);
  set_slot(&bed, steer, "add");
  while (stats_of(&bed).kernel_swaps < 2) {
    step(frame);
    apply(&bed, frame, "");
    pause_a_bit();
  }
  step(frame);
  apply(&bed, frame, "");
  assert_int_equal(1, plan_of(frame).tier);
  assert_string_equal("compiled", plan_of(frame).source);
  wait_for_rest(&bed);
  assert_int_equal(4, calls_elsewhere()); /* two tiers of two tiles */
  assert_int_equal(4, stats_of(&bed).kernel_compiles);
  assert_int_equal(4, stats_of(&bed).cache_misses);
  assert_int_equal(4, stats_of(&bed).kernels_live);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(0, host_device_modules());

  /* the next engine finds all of it, and asks no compiler */
  static const stg_compile_mode modes[] = {STG_COMPILE_BACKGROUND, STG_COMPILE_NEVER,
                                           STG_COMPILE_BLOCK};
  for (int i = 0; i < 3; i++) {
    open_engine(&bed, *state, modes[i]);
    steer = open_table(&bed, only_add, 1);
    stg_steer *all = open_table(&bed, NULL, 0); /* whose kernels were the general ones */
    frame = open_frame(steer);
    step(frame);
    assert_int_equal(1, plan_of(frame).tier);
    assert_string_equal("disk", plan_of(frame).source);
    assert_int_equal(0, calls_elsewhere());
    assert_int_equal(0, stats_of(&bed).compile_threads);
    assert_int_equal(4, stats_of(&bed).kernel_disk_hits);
    assert_int_equal(0, stats_of(&bed).cache_misses);
    stg_frame_destroy(frame);
    close_table(all);
    close_table(steer);
    close_bed(&bed);
  }
}

static void a_user_op_becomes_ready(void **state) {
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  open_engine(&bed, *state, STG_COMPILE_BACKGROUND);
  stg_steer *steer = open_table(&bed, with_lean, 2);
  stg_status status = try_slot(&bed, steer, "lean", &error);
  while (status == STG_E_PENDING) {
    pause_a_bit();
    status = try_slot(&bed, steer, "lean", &error);
  }
  ok(status, &error);
  stg_frame *frame = open_frame(steer);
  step(frame);
  apply(&bed, frame, "");
  assert_int_equal(1, plan_of(frame).tier);
  wait_for_rest(&bed);
  assert_int_equal(4, calls_elsewhere());
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

/* Whatever is queued or on its way then; what was stopped left nothing behind. */
static void an_engine_may_close_at_any_time(void **state) {
  for (int i = 0; i < 6; i++) {
    struct bed bed;
    open_engine(&bed, i % 2 == 0 ? *state : NULL, STG_COMPILE_BACKGROUND);
    stg_steer *steer = open_table(&bed, i % 3 == 0 ? with_lean : only_add, i % 3 == 0 ? 2 : 1);
    for (int k = 0; k < i * 20; k++) {
      pause_a_bit();
    }
    close_table(steer);
    close_bed(&bed);
    (void)calls_elsewhere();
    assert_int_equal(0, host_device_modules());
  }
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  said.since_ns = stg_clock_ns();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_thread_that_serves_never_compiles, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_user_op_becomes_ready, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(an_engine_may_close_at_any_time, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
