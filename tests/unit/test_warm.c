/*
 * test_warm.c: stg_warm: what it makes, who makes it, where it ends, and what a first step then
 * finds. On a device of the host, whose compiler does what a test says; test_traffic.c and the
 * command have the CPU, test_warm_words.c what it says.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): pthread_setattr_default_np */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tier_bed.h"

#define MAX_SEEN 64

/* What the callback was told. */
struct seen {
  size_t calls, done[MAX_SEEN], total;
  double eta[MAX_SEEN];
  char current[MAX_SEEN][400];
  pthread_t thread;
  size_t stop_at; /* calls; 0: never */
};

static bool see(void *user, const stg_warm_progress *progress) {
  struct seen *seen = user;
  assert_int_equal(sizeof *progress, progress->struct_size);
  assert_true(seen->calls < MAX_SEEN);
  seen->done[seen->calls] = progress->done;
  seen->eta[seen->calls] = progress->eta_s;
  seen->total = progress->total;
  seen->thread = pthread_self();
  snprintf(seen->current[seen->calls], sizeof seen->current[0], "%s",
           progress->current != NULL ? progress->current : "");
  seen->calls++;
  return seen->stop_at == 0 || seen->calls < seen->stop_at;
}

static stg_warm_report warm_with(const struct bed *bed, const char *json,
                                 const stg_warm_desc *desc) {
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  ok(stg_warm(bed->engine, "m.json", json, strlen(json), desc, &report, &error), &error);
  assert_int_equal(report.total, report.done + report.failed + report.left);
  return report;
}

static stg_warm_report warm(const struct bed *bed, const char *json) {
  return warm_with(bed, json, NULL);
}

/* What a bed's traffic was, as text; stg_free. */
static char *traffic_of(const struct bed *bed, void *const *state) {
  const char *path = temp_path(state, "traffic.json");
  char *text = NULL;
  size_t size = 0;
  stg_error error = STG_ERROR_INIT;
  ok(stg_traffic_save(bed->engine, path, &error), &error);
  ok(stg_file_read(path, 1 << 20, &text, &size, &error), &error);
  return text;
}

/* The manifest of a service with two tables, one of which has a user op, and four signatures. */
static char *record(void *const *state) {
  struct bed bed;
  open_bed(&bed, STG_COMPILE_BLOCK, 0, 0);
  stg_steer *subset = open_table(&bed, only_add, 1), *user = open_table(&bed, with_lean, 2);
  stg_frame *frames[] = {open_frame(subset), open_frame(user)};
  static const int32_t map[ROWS];
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < 2; i++) {
    const stg_step narrow = {.struct_size = sizeof narrow, .rows = 1, .row_map = map, .longest = 1};
    step(frames[i]);
    step(frames[i]);
    ok(stg_steer_step(frames[i], &narrow, NULL, &error), &error);
  }
  char *json = traffic_of(&bed, state);
  stg_frame_destroy(frames[0]);
  stg_frame_destroy(frames[1]);
  close_table(subset);
  close_table(user);
  close_bed(&bed);
  return json;
}

/* The first step and apply of a table find all that they need. */
static void expect_first_step_makes_nothing(struct bed *bed, const char *const *ops, size_t n_ops,
                                            const char *op) {
  const size_t compiles = host_device_compiles();
  stg_steer *steer = open_table(bed, ops, n_ops);
  stg_frame *frame = open_frame(steer);
  stg_stream stream = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_stream_create(stg_mem_device(bed->engine), &stream, &error), &error);
  set_slot(bed, steer, op);
  const uint64_t graphs = stats_of(bed).graphs_created;
  const uint64_t plans = stats_of(bed).plans_live;
  step(frame);
  apply(bed, frame, "ops=");
  assert_int_equal(graphs, stats_of(bed).graphs_created);
  assert_int_equal(plans, stats_of(bed).plans_live);
  assert_int_equal(0, stats_of(bed).plain_launches);
  assert_int_equal(compiles, host_device_compiles());
  assert_int_equal(1, plan_of(frame).tier);
  stg_frame_destroy(frame);
  close_table(steer);
  stg_stream_destroy(stg_mem_device(bed->engine), stream);
}

static void a_warmed_start_compiles_nothing_and_makes_no_graph(void **state) {
  struct bed bed;
  char *json = record(state);
  open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
  const stg_warm_report report = warm(&bed, json);
  assert_int_equal(4, report.total);
  assert_int_equal(4, report.done);
  assert_int_equal(4, report.graphs);
  assert_int_equal(4, report.kernels_memory); /* the host's cache is that */
  assert_int_equal(0, report.kernels_compiled);
  assert_int_equal(4, stats_of(&bed).graphs_live);
  assert_int_equal(4, stats_of(&bed).plans_live);
  assert_int_equal(4, stats_of(&bed).graph_launches); /* over no rows */
  assert_int_equal(0, stats_of(&bed).traffic_shapes);
  assert_int_equal(0, host_device_compiles());
  expect_first_step_makes_nothing(&bed, only_add, 1, "add");
  expect_first_step_makes_nothing(&bed, with_lean, 2, "lean");
  assert_int_equal(4, stats_of(&bed).plans_live); /* they outlive the tables */
  assert_int_equal(0, host_device_compiles());
  stg_free(json);
  close_bed(&bed);
  assert_int_equal(0, host_device_graphs().live);
}

static void a_cold_one_compiles_all_on_the_engines_threads(void **state) {
  struct bed bed;
  struct seen seen = {0};
  char *json = record(state);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  const stg_warm_desc desc = {.struct_size = sizeof desc, .progress = see, .user = &seen};
  const stg_warm_report report = warm_with(&bed, json, &desc);
  assert_int_equal(4, report.done);
  assert_int_equal(4, report.kernels_compiled); /* and no general ones */
  assert_int_equal(4, host_device_compiles());
  assert_int_equal(0, host_device_compiles_here());
  assert_int_equal(0, stats_of(&bed).kernel_swaps); /* nothing served meanwhile */
  assert_true(report.ms > 0);
  assert_int_equal(5, seen.calls);
  assert_int_equal(4, seen.total);
  assert_true(pthread_equal(seen.thread, pthread_self()) != 0);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(i, seen.done[i]);
    assert_true(i == 4 || strstr(seen.current[i], " | batch<=8 seq<=1 rows<=") != NULL);
  }
  assert_true(seen.eta[0] < 0); /* unknown */
  assert_true(seen.eta[4] == 0);
  assert_string_equal("", seen.current[4]);
  expect_first_step_makes_nothing(&bed, with_lean, 2, "lean");
  const stg_warm_report again = warm(&bed, json);
  assert_int_equal(4, again.kernels_memory);
  assert_int_equal(0, again.kernels_compiled + again.graphs);
  stg_free(json);
  close_bed(&bed);
}

/* As the system does that has no room for a thread. */
static void allow_threads(bool allowed) {
  static size_t usual;
  pthread_attr_t attributes;
  assert_int_equal(0, pthread_getattr_default_np(&attributes));
  if (!allowed) {
    assert_int_equal(0, pthread_attr_getstacksize(&attributes, &usual));
  }
  assert_int_equal(0, pthread_attr_setstacksize(&attributes, allowed ? usual : (size_t)1 << 50));
  assert_int_equal(0, pthread_setattr_default_np(&attributes));
  pthread_attr_destroy(&attributes);
}

static void without_threads_the_caller_makes_all(void **state) {
  struct bed bed;
  char *json = record(state);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  allow_threads(false);
  const stg_warm_report report = warm(&bed, json);
  allow_threads(true);
  assert_int_equal(4, report.done);
  assert_int_equal(4, report.graphs);
  assert_int_equal(4, report.kernels_compiled);
  assert_int_equal(4, host_device_compiles_here());
  assert_int_equal(0, stats_of(&bed).compile_threads);
  stg_free(json);
  close_bed(&bed);
}

static void no_more_kernels_are_made_at_once_than_were_allowed(void **state) {
  struct bed bed;
  struct seen seen = {.stop_at = 1};
  char *json = record(state);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = ALL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 4, 0);
  stg_warm_desc desc = {.struct_size = sizeof desc, .deadline_ms = 50, .threads = 1};
  stg_warm_report report = warm_with(&bed, json, &desc);
  assert_int_equal(4, report.left);
  assert_int_equal(0, report.graphs + report.kernels_compiled);
  assert_in_range(report.ms, 50, 5000);
  host_device_wait_for_compiles(1);
  assert_int_equal(1, host_device_compiles());
  assert_int_equal(1, stats_of(&bed).compile_threads);

  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  desc = (stg_warm_desc){.struct_size = sizeof desc, .progress = see, .user = &seen};
  report = warm_with(&bed, json, &desc); /* the callback ends it before anything is done */
  assert_int_equal(4, report.left);
  assert_int_equal(1, seen.calls);
  wait_for_rest(&bed);
  assert_int_equal(1, host_device_compiles()); /* what had begun came to its end */
  report = warm(&bed, json);
  assert_int_equal(4, report.done);
  assert_int_equal(1, report.kernels_memory);
  assert_int_equal(3, report.kernels_compiled);
  stg_free(json);
  close_bed(&bed);
}

static void kernels_that_cannot_be_made_are_counted(void **state) {
  struct bed bed;
  char *json = record(state);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .refused = USER});
  open_bed(&bed, STG_COMPILE_BLOCK, 0, 0);
  stg_warm_report report = warm(&bed, json);
  assert_int_equal(2, report.done);
  assert_int_equal(2, report.failed);
  assert_int_equal(2, report.kernels_compiled);
  assert_int_equal(2, report.kernels_failed);
  assert_int_equal(2, report.graphs);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  report = warm(&bed, json); /* it is tried again */
  assert_int_equal(4, report.done);
  assert_int_equal(2, report.graphs);
  stg_free(json);
  close_bed(&bed);
}

static void never_takes_what_a_cache_has(void **state) {
  struct bed bed;
  char *json = record(state);
  host_device_set_compiler(&(struct host_compiler){.missing = USER});
  open_bed(&bed, STG_COMPILE_NEVER, 0, 0);
  const stg_warm_report report = warm(&bed, json);
  assert_int_equal(2, report.done);
  assert_int_equal(2, report.failed);
  assert_int_equal(0, host_device_compiles());
  expect_first_step_makes_nothing(&bed, only_add, 1, "add");
  stg_free(json);
  close_bed(&bed);
}

/* A graph that was made ahead is the first stream's; a second one gets its own. */
static void a_warmed_graph_goes_to_the_first_stream(void **state) {
  struct bed bed;
  char *json = record(state);
  stg_stream streams[2];
  stg_error error = STG_ERROR_INIT;
  static const int32_t map[ROWS];
  const stg_step args = {.struct_size = sizeof args, .rows = ROWS, .row_map = map, .longest = 1};
  open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
  (void)warm(&bed, json);
  stg_steer *steer = open_table(&bed, only_add, 1);
  set_slot(&bed, steer, "add");
  stg_frame *frames[] = {open_frame(steer), open_frame(steer)};
  const uint64_t made = stats_of(&bed).graphs_created;
  for (int i = 0; i < 2; i++) {
    const stg_apply layer = {.struct_size = sizeof layer, .hidden = bed.hidden};
    ok(stg_stream_create(stg_mem_device(bed.engine), &streams[i], &error), &error);
    ok(stg_steer_step(frames[i], &args, streams[i], &error), &error);
    ok(stg_steer_apply(frames[i], &layer, streams[i], &error), &error);
    ok(stg_stream_synchronize(stg_mem_device(bed.engine), streams[i], &error), &error);
    assert_int_equal(made + (uint64_t)i, stats_of(&bed).graphs_created);
  }
  assert_true(bed.hidden[0][0] == 2);
  assert_int_equal(0, stats_of(&bed).plain_launches);
  for (int i = 0; i < 2; i++) {
    stg_frame_destroy(frames[i]);
    stg_stream_destroy(stg_mem_device(bed.engine), streams[i]);
  }
  close_table(steer);
  stg_free(json);
  close_bed(&bed);
}

static void plain_launches_and_refused_graphs_are_warmed_too(void **state) {
  struct bed bed;
  char *json = record(state);
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.launch = STG_LAUNCH_PLAIN;
  open_bed_with(&bed, &options);
  stg_warm_report report = warm(&bed, json);
  assert_int_equal(4, report.done);
  assert_int_equal(0, report.graphs);
  assert_int_equal(4, stats_of(&bed).plain_launches);
  close_bed(&bed);

  host_device_refuse_graphs(true, true);
  open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
  report = warm(&bed, json);
  assert_int_equal(4, report.done);
  assert_int_equal(0, report.graphs);
  assert_int_equal(4, stats_of(&bed).graph_fallbacks);
  close_bed(&bed);
  host_device_refuse_graphs(false, false);
  stg_free(json);
}

static void as_many_plans_are_made_as_are_kept(void **state) {
  struct bed bed;
  char *json = record(state);
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.max_plans = 3;
  open_bed_with(&bed, &options);
  const stg_warm_report report = warm(&bed, json);
  assert_int_equal(4, report.done);
  assert_int_equal(3, report.graphs);
  assert_int_equal(3, stats_of(&bed).plans_live);
  assert_int_equal(0, stats_of(&bed).plan_evictions);
  stg_free(json);
  close_bed(&bed);
}

static void a_lost_device_is_an_error(void **state) {
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  char *json = record(state);
  open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
  host_device_lose(true);
  expect(STG_E_DEVICE_LOST, "", stg_warm(bed.engine, NULL, json, strlen(json), NULL, NULL, &error),
         &error);
  host_device_lose(false);
  stg_free(json);
  close_bed(&bed);
}

/* Every allocation of this thread in turn fails, and those after it: an error or a graph less, and
 * nothing is left behind. */
static void memory_that_is_missing_is_an_error(void **state) {
  struct bed bed;
  char *json = record(state);
  size_t graphs = 0;
  for (size_t nth = 1; graphs < 4; nth++) {
    stg_warm_report report = {.struct_size = sizeof report};
    open_bed(&bed, STG_COMPILE_BACKGROUND, 0, 0);
    stg_alloc_fail_at(nth);
    stg_status status = stg_warm(bed.engine, "m.json", json, strlen(json), NULL, &report, NULL);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    graphs = status == STG_OK ? report.graphs : 0;
    close_bed(&bed);
    assert_int_equal(0, host_device_graphs().live);
  }
  stg_free(json);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_warmed_start_compiles_nothing_and_makes_no_graph),
      IN_FOLDER(a_cold_one_compiles_all_on_the_engines_threads),
      IN_FOLDER(without_threads_the_caller_makes_all),
      IN_FOLDER(no_more_kernels_are_made_at_once_than_were_allowed),
      IN_FOLDER(kernels_that_cannot_be_made_are_counted),
      IN_FOLDER(never_takes_what_a_cache_has),
      IN_FOLDER(a_warmed_graph_goes_to_the_first_stream),
      IN_FOLDER(plain_launches_and_refused_graphs_are_warmed_too),
      IN_FOLDER(as_many_plans_are_made_as_are_kept),
      IN_FOLDER(a_lost_device_is_an_error),
      IN_FOLDER(memory_that_is_missing_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
