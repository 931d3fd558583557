/*
 * test_region.c: regions on a device of the host: recorded once for each signature, size and
 * stream, replayed, bounded, forgotten; and what happens where nothing can be recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/region_bed.h"
#include "tests/support/temp_folder.h"

/* Fixed pointers from and to tensors that live as long as a case. */
struct pair {
  uint32_t *from, *to;
  stg_region_pointer pointers[2];
};

static struct pair new_pair(const struct region_bed *bed) {
  struct pair pair = {.from = bed_tensor(bed, 0), .to = bed_tensor(bed, 0)};
  pair.pointers[0] = (stg_region_pointer){.address = pair.from, .bytes = BED_BYTES};
  pair.pointers[1] = (stg_region_pointer){.address = pair.to, .bytes = BED_BYTES};
  return pair;
}

static void free_pair(const struct region_bed *bed, const struct pair *pair) {
  bed_wait_for_all(bed);
  stg_mem_free(bed->engine, pair->from);
  stg_mem_free(bed->engine, pair->to);
}

static void is_recorded_once_and_replayed_from_then_on(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  const stg_region_call call = bed_call(&work, "mlp hidden=8", pair.pointers);
  for (uint32_t i = 1; i <= 10; i++) {
    bed_fill(&bed, pair.from, i, bed.streams[0]);
    const stg_region_facts facts = bed_run(&work, &call, bed.streams[0]);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(pair.to, i);
    assert_int_equal(i == 1, facts.recorded);
    assert_int_equal(i > 1, facts.replayed);
    assert_false(facts.eager);
    assert_int_equal(STG_OK, facts.status);
    assert_string_equal("", facts.why);
  }
  assert_int_equal(1, work.calls);
  assert_int_equal(1, work.elsewhere);
  const stg_stats stats = bed_stats(&bed);
  assert_int_equal(1, stats.regions_recorded);
  assert_int_equal(9, stats.region_replays);
  assert_int_equal(0, stats.region_failures);
  assert_int_equal(0, stats.region_bytes);
  assert_int_equal(1, stats.plans_live);
  assert_int_equal(1, stats.graphs_live);
  assert_int_equal(1, stats.graphs_created);
  assert_int_equal(10, stats.graph_launches);
  assert_int_equal(1, stats.traffic_shapes);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void texts_sizes_and_streams_have_records_of_their_own(void **state) {
  (void)state;
  static const char *const texts[] = {"a", "b", "ab"};
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3 * 2 * 2 * 2 * BED_STREAMS; i++) {
      stg_region_call call = bed_call(&work, texts[i % 3], pair.pointers);
      call.batch = 1 + i / 3 % 2;
      call.seq = i / 6 % 2;
      call.rows = i / 12 % 2;
      const stg_region_facts facts = bed_run(&work, &call, bed.streams[i / 24]);
      assert_int_equal(round == 0, facts.recorded);
    }
  }
  assert_int_equal(24 * BED_STREAMS, bed_stats(&bed).regions_recorded);
  assert_int_equal(24 * BED_STREAMS, bed_stats(&bed).graphs_live);
  assert_int_equal(24, bed_stats(&bed).plans_live);
  assert_int_equal(24, bed_stats(&bed).traffic_shapes);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void a_thousand_random_batches_give_at_most_a_record_for_each_bucket(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
  enum { N = sizeof sizes / sizeof sizes[0] };
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  uint32_t random = 1;
  for (int i = 0; i < 1000; i++) {
    stg_error error = STG_ERROR_INIT;
    random = random * 1664525U + 1013904223U;
    stg_region_call call = bed_call(&work, "step", pair.pointers);
    bed_ok(stg_region_bucket(sizes, N, 1 + (int64_t)(random >> 16) % 64, &call.batch, &error),
           &error);
    bed_fill(&bed, pair.from, random, bed.streams[0]);
    bed_run(&work, &call, bed.streams[0]);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(pair.to, random);
  }
  assert_int_equal(N, bed_stats(&bed).regions_recorded);
  assert_int_equal(1000 - N, bed_stats(&bed).region_replays);
  assert_int_equal(N, work.calls);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void records_beyond_the_limit_go_longest_unused_first(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 2);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  static const char *const runs[] = {"a", "b", "a", "c", "a", "b"}; /* c takes the place of b */
  static const bool recorded[] = {true, true, false, true, false, true};
  for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
    const stg_region_call call = bed_call(&work, runs[i], pair.pointers);
    assert_int_equal(recorded[i], bed_run(&work, &call, bed.streams[0]).recorded);
  }
  const stg_stats stats = bed_stats(&bed);
  assert_int_equal(2, stats.plans_live);
  assert_int_equal(2, stats.graphs_live);
  assert_int_equal(2, stats.plan_evictions);
  assert_int_equal(2, host_device_graphs().live);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void a_region_that_is_forgotten_is_recorded_anew(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  stg_error error = STG_ERROR_INIT;
  stg_region_call own = bed_call(&work, "own", pair.pointers);
  const stg_region_call other = bed_call(&work, "own too", pair.pointers);
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error); /* there is none */
  bed_run(&work, &own, bed.streams[0]);
  bed_run(&work, &other, bed.streams[0]);
  own.rows = 7;
  bed_run(&work, &own, bed.streams[1]);
  const uint64_t bytes = bed_stats(&bed).plan_bytes;
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error);
  assert_int_equal(1, bed_stats(&bed).plans_live);
  assert_int_equal(1, bed_stats(&bed).graphs_live);
  assert_true(bed_stats(&bed).plan_bytes < bytes / 2);
  assert_true(bed_run(&work, &own, bed.streams[1]).recorded);
  assert_true(bed_run(&work, &other, bed.streams[0]).replayed);
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error);
  bed_ok(stg_region_forget(bed.engine, "own too", &error), &error);
  assert_int_equal(0, bed_stats(&bed).plan_bytes);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void expect_busy(enum bed_manner manner) {
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed, .manner = manner};
  const stg_region_call call = bed_call(&work, "own", pair.pointers);
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded); /* the callback asserts it */
  assert_true(bed_run(&work, &call, bed.streams[0]).replayed);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void a_region_that_is_being_run_is_not_forgotten(void **state) {
  (void)state;
  expect_busy(BED_FORGETS);
}

/* It would wait for itself, and enqueued instead it would call itself without an end. */
static void a_region_is_not_run_by_its_own_callback(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed, .manner = BED_RETURNS, .caller = bed.streams[0]};
  stg_error error = STG_ERROR_INIT;
  const stg_region_call call = bed_call(&work, "own", pair.pointers);
  assert_int_equal(STG_E_BUSY, stg_region_run(bed.engine, &call, bed.streams[0], NULL, &error));
  assert_string_equal("region 'own' is being run on this stream by its own callback; let that "
                      "enqueue the work itself",
                      error.message);
  assert_int_equal(1, work.calls);
  assert_int_equal(0, bed.n_said);
  work.manner = BED_COPIES;
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  assert_true(bed_run(&work, &call, bed.streams[0]).replayed);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void an_engine_is_not_destroyed_while_a_region_is_being_run(void **state) {
  (void)state;
  expect_busy(BED_DESTROYS);
}

/* Runs of work that cannot be recorded, `status` and `why` as the facts have them. */
static void expect_eager(enum bed_manner manner, stg_status status, const char *why) {
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed, .manner = manner};
  const bool copies = manner != BED_DOES_NOTHING;
  stg_error error = STG_ERROR_INIT;
  const stg_region_call call = bed_call(&work, "odd", pair.pointers);
  for (uint32_t i = 1; i <= 3; i++) {
    bed_fill(&bed, pair.from, i, bed.streams[0]);
    const stg_region_facts facts = bed_run(&work, &call, bed.streams[0]);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(pair.to, copies ? i : 0);
    assert_true(facts.eager);
    assert_false(facts.recorded);
    assert_false(facts.replayed);
    assert_int_equal(status, facts.status);
    assert_string_equal(why, facts.why);
    assert_ptr_equal(pair.from, work.given[0]);
    assert_int_equal(1, work.elsewhere); /* tried once */
    assert_int_equal(1 + i, work.calls);
    assert_int_equal(1, bed.n_said);
    assert_int_equal(0, bed_stats(&bed).graphs_live);
  }
  assert_non_null(strstr(bed.said, "region 'odd' is not recorded ("));
  assert_non_null(strstr(bed.said, why));
  assert_int_equal(1, bed_stats(&bed).region_failures);
  assert_int_equal(0, bed_stats(&bed).regions_recorded);
  work.manner = BED_COPIES;
  host_device_refuse_graphs(false, false);
  assert_true(bed_run(&work, &call, bed.streams[0]).eager);
  bed_ok(stg_region_forget(bed.engine, "odd", &error), &error);
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void work_that_fails_in_records_is_enqueued_each_time_and_said_once(void **state) {
  (void)state;
  expect_eager(BED_FAILS_IN_RECORDS, STG_E_CAPTURE,
               "the callback failed: STG_E_UNSUPPORTED: no such layer");
}

static void a_broken_record_is_enqueued_each_time(void **state) {
  (void)state;
  expect_eager(BED_WAITS, STG_E_CAPTURE, "the recording is broken");
}

static void an_empty_record_is_not_replayed(void **state) {
  (void)state;
  expect_eager(BED_DOES_NOTHING, STG_E_CAPTURE, "the recording is empty");
}

static void a_graph_that_is_refused_is_enqueued_each_time(void **state) {
  (void)state;
  host_device_refuse_graphs(true, false);
  expect_eager(BED_COPIES, STG_E_CUDA, "cuGraphInstantiateWithFlags failed: a test said so");
}

static void work_that_fails_everywhere_is_the_callers_error(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed, .manner = BED_FAILS};
  stg_error error = STG_ERROR_INIT;
  stg_region_facts facts = {.struct_size = sizeof facts, .replayed = true};
  const stg_region_call call = bed_call(&work, "bad", pair.pointers);
  assert_int_equal(STG_E_UNSUPPORTED,
                   stg_region_run(bed.engine, &call, bed.streams[0], &facts, &error));
  assert_string_equal("no such layer", error.message);
  assert_true(facts.replayed); /* untouched */
  assert_int_equal(0, bed.n_said);
  assert_int_equal(0, bed_stats(&bed).traffic_shapes);
  work.manner = BED_COPIES;
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void a_stream_that_captures_gets_the_work_itself(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  const stg_region_call call = bed_call(&work, "step", pair.pointers);
  host_device_say_capturing(true);
  for (int i = 0; i < 2; i++) {
    const stg_region_facts facts = bed_run(&work, &call, bed.streams[0]);
    assert_false(facts.recorded || facts.replayed || facts.eager);
    assert_string_equal("the stream captures, and has the work itself", facts.why);
  }
  host_device_say_capturing(false);
  assert_int_equal(2, work.calls);
  assert_int_equal(0, work.elsewhere);
  assert_int_equal(0, bed_stats(&bed).regions_recorded);
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void a_region_within_a_region_is_part_of_its_record(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed, .manner = BED_NESTS};
  const stg_region_call call = bed_call(&work, "outer", pair.pointers);
  for (uint32_t i = 1; i <= 3; i++) {
    bed_fill(&bed, pair.from, i, bed.streams[0]);
    assert_int_equal(i == 1, bed_run(&work, &call, bed.streams[0]).recorded);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(pair.to, i);
  }
  assert_int_equal(1, bed_stats(&bed).regions_recorded);
  assert_int_equal(1, bed_stats(&bed).graphs_live);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void with_plain_launches_and_on_the_cpu_the_work_is_enqueued_each_time(void **state) {
  (void)state;
  static const char *const why[] = {"launch is plain", "on the CPU nothing is recorded"};
  for (int cpu = 0; cpu < 2; cpu++) {
    struct region_bed bed;
    stg_options options;
    stg_options_init(&options);
    options.backend = cpu ? STG_BACKEND_CPU : STG_BACKEND_CUDA;
    options.launch = STG_LAUNCH_PLAIN;
    bed_open_as(&bed, &options);
    struct pair pair = new_pair(&bed);
    struct bed_work work = {.bed = &bed};
    const stg_region_call call = bed_call(&work, "step", pair.pointers);
    for (size_t i = 1; i <= 3; i++) {
      pair.from[5] = (uint32_t)i;
      const stg_region_facts facts = bed_run(&work, &call, bed.streams[0]);
      if (!cpu) {
        bed_wait(&bed, bed.streams[0]);
      }
      assert_false(facts.recorded || facts.replayed || facts.eager);
      assert_string_equal(why[cpu], facts.why);
      assert_int_equal(i, work.calls);
      assert_int_equal(i, pair.to[5]);
    }
    assert_int_equal(1, bed_stats(&bed).plans_live);
    assert_int_equal(0, bed_stats(&bed).graphs_live);
    assert_int_equal(1, bed_stats(&bed).traffic_shapes);
    free_pair(&bed, &pair);
    bed_close(&bed);
  }
}

/* The text names what could be a user op, which nobody registered. */
static void runs_are_traffic_that_warming_passes_over(void **state) {
  static const char signature[] = "mlp user:0123456789abcdef0123456789abcdef";
  struct region_bed bed;
  char *text = NULL;
  size_t bytes = 0;
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  stg_region_call call = bed_call(&work, signature, pair.pointers);
  call.batch = 8;
  call.rows = 64;
  for (int i = 0; i < 3; i++) {
    bed_run(&work, &call, bed.streams[0]);
  }
  const char *path = temp_path(state, "traffic.json");
  bed_ok(stg_traffic_save(bed.engine, path, &error), &error);
  bed_ok(stg_file_read(path, 1 << 20, &text, &bytes, &error), &error);
  assert_non_null(strstr(text, "\"region v1 | mlp user:0123456789abcdef0123456789abcdef | batch<=8 "
                               "seq<=0 rows<=64\""));
  assert_non_null(strstr(text, "\"count\": 3"));
  bed_ok(stg_warm(bed.engine, path, text, bytes, NULL, &report, &error), &error);
  assert_int_equal(1, report.regions);
  assert_int_equal(0, report.total);
  stg_free(text);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

static void a_lost_device_is_said_and_ends_it(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct pair pair = new_pair(&bed);
  struct bed_work work = {.bed = &bed};
  stg_error error = STG_ERROR_INIT;
  const stg_region_call call = bed_call(&work, "step", pair.pointers);
  bed_run(&work, &call, bed.streams[0]);
  bed_wait(&bed, bed.streams[0]);
  host_device_lose(true);
  assert_int_equal(STG_E_DEVICE_LOST,
                   stg_region_run(bed.engine, &call, bed.streams[0], NULL, &error));
  assert_non_null(strstr(error.message, "device 0 is lost"));
  host_device_lose(false);
  assert_int_equal(1, work.calls);
  free_pair(&bed, &pair);
  bed_close(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_recorded_once_and_replayed_from_then_on),
      cmocka_unit_test(texts_sizes_and_streams_have_records_of_their_own),
      cmocka_unit_test(a_thousand_random_batches_give_at_most_a_record_for_each_bucket),
      cmocka_unit_test(records_beyond_the_limit_go_longest_unused_first),
      cmocka_unit_test(a_region_that_is_forgotten_is_recorded_anew),
      cmocka_unit_test(a_region_that_is_being_run_is_not_forgotten),
      cmocka_unit_test(a_region_is_not_run_by_its_own_callback),
      cmocka_unit_test(an_engine_is_not_destroyed_while_a_region_is_being_run),
      cmocka_unit_test(work_that_fails_in_records_is_enqueued_each_time_and_said_once),
      cmocka_unit_test(a_broken_record_is_enqueued_each_time),
      cmocka_unit_test(an_empty_record_is_not_replayed),
      cmocka_unit_test(a_graph_that_is_refused_is_enqueued_each_time),
      cmocka_unit_test(work_that_fails_everywhere_is_the_callers_error),
      cmocka_unit_test(a_stream_that_captures_gets_the_work_itself),
      cmocka_unit_test(a_region_within_a_region_is_part_of_its_record),
      cmocka_unit_test(with_plain_launches_and_on_the_cpu_the_work_is_enqueued_each_time),
      cmocka_unit_test_setup_teardown(runs_are_traffic_that_warming_passes_over, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(a_lost_device_is_said_and_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
