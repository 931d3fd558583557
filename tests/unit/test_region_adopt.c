/*
 * test_region_adopt.c: regions that their host captured itself, on a device of the host: replayed
 * by signature, sizes and stream, bounded and counted as those that are recorded, and told by their
 * token when the host may free them, not before their launches are over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/region_bed.h"

/* What a host captured: a copy of a tensor to another. */
struct owned {
  struct region_bed *bed;
  void *pointers[2];
  size_t launches;
  stg_stream stream; /* of the last launch */
  stg_status fails;  /* what a launch says; STG_OK: it is done */
  bool adopts, forgets, replays;
};

static stg_region_owner owner_of(struct owned *owned, const char *signature, uint64_t token);

static stg_status launch(void *user, stg_stream stream, stg_error *reterr) {
  struct owned *owned = user;
  owned->launches++;
  owned->stream = stream;
  if (owned->fails != STG_OK) {
    *reterr = (stg_error){.code = owned->fails, .message = "the host's launch failed"};
    return owned->fails;
  }
  if (owned->adopts) {
    const stg_region_owner again = owner_of(owned, "own", 99);
    return stg_region_adopt(owned->bed->engine, &again, stream, reterr);
  }
  if (owned->forgets) {
    return stg_region_forget(owned->bed->engine, "own", reterr);
  }
  if (owned->replays) {
    return stg_region_replay(owned->bed->engine, "own", 4, 0, 0, stream, reterr);
  }
  return bed_copy(owned->bed, owned->pointers, stream, reterr);
}

static stg_region_owner owner_of(struct owned *owned, const char *signature, uint64_t token) {
  return (stg_region_owner){.struct_size = sizeof(stg_region_owner),
                            .signature = signature,
                            .batch = 4,
                            .launch = launch,
                            .user = owned,
                            .token = token,
                            .bytes = 1000};
}

static struct owned new_owned(struct region_bed *bed) {
  return (struct owned){.bed = bed, .pointers = {bed_tensor(bed, 0), bed_tensor(bed, 0)}};
}

static void free_owned(const struct owned *owned) {
  bed_wait_for_all(owned->bed);
  stg_mem_free(owned->bed->engine, owned->pointers[0]);
  stg_mem_free(owned->bed->engine, owned->pointers[1]);
}

static void adopt(struct owned *owned, const char *signature, uint64_t token, stg_stream stream) {
  const stg_region_owner owner = owner_of(owned, signature, token);
  stg_error error = STG_ERROR_INIT;
  bed_ok(stg_region_adopt(owned->bed->engine, &owner, stream, &error), &error);
}

static stg_status replay(const struct region_bed *bed, const char *signature, stg_stream stream,
                         stg_error *reterr) {
  return stg_region_replay(bed->engine, signature, 4, 0, 0, stream, reterr);
}

static void replay_ok(const struct region_bed *bed, const char *signature, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  bed_ok(replay(bed, signature, stream, &error), &error);
}

static void replay_finds_nothing(const struct region_bed *bed, const char *signature,
                                 stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  char text[200];
  assert_int_equal(STG_E_NOT_FOUND, replay(bed, signature, stream, &error));
  snprintf(text, sizeof text,
           "region '%s' of batch 4, seq 0 and rows 0 has nothing adopted on this stream, or no "
           "longer; capture it and adopt that",
           signature);
  assert_string_equal(text, error.message);
}

/* The one token that is said, or 0. */
static uint64_t dropped(const struct region_bed *bed) {
  uint64_t tokens[4];
  size_t count = 9;
  stg_error error = STG_ERROR_INIT;
  bed_ok(stg_region_dropped(bed->engine, tokens, 4, &count, &error), &error);
  assert_true(count <= 1);
  return count == 1 ? tokens[0] : 0;
}

static void is_launched_by_signature_sizes_and_stream(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  replay_finds_nothing(&bed, "own", bed.streams[0]);
  adopt(&owned, "own", 7, bed.streams[0]);
  assert_int_equal(0, owned.launches);
  for (uint32_t i = 1; i <= 5; i++) {
    bed_fill(&bed, owned.pointers[0], i, bed.streams[0]);
    replay_ok(&bed, "own", bed.streams[0]);
    bed_wait(&bed, bed.streams[0]);
    bed_holds(owned.pointers[1], i);
    assert_ptr_equal(bed.streams[0], owned.stream);
  }
  replay_finds_nothing(&bed, "own", bed.streams[1]);
  replay_finds_nothing(&bed, "other", bed.streams[0]);
  assert_int_equal(STG_E_NOT_FOUND,
                   stg_region_replay(bed.engine, "own", 4, 1, 0, bed.streams[0], &error));
  const stg_stats stats = bed_stats(&bed);
  assert_int_equal(5, owned.launches);
  assert_int_equal(1, stats.regions_recorded);
  assert_int_equal(5, stats.region_replays);
  assert_int_equal(1000, stats.region_bytes);
  assert_int_equal(1, stats.plans_live);
  assert_int_equal(1, stats.graphs_live);
  assert_int_equal(5, stats.graph_launches);
  assert_int_equal(1, stats.traffic_shapes);
  assert_int_equal(0, dropped(&bed));
  free_owned(&owned);
  bed_close(&bed);
}

/* With room for two plans. */
static void those_beyond_the_limit_go_longest_unused_first_and_are_told(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 2);
  struct owned owned = new_owned(&bed);
  adopt(&owned, "a", 1, bed.streams[0]);
  adopt(&owned, "b", 2, bed.streams[0]);
  replay_ok(&bed, "a", bed.streams[0]);
  assert_int_equal(0, dropped(&bed));
  adopt(&owned, "c", 3, bed.streams[0]); /* in the place of b, which was never launched */
  assert_int_equal(2, dropped(&bed));
  assert_int_equal(0, dropped(&bed));
  replay_finds_nothing(&bed, "b", bed.streams[0]);
  replay_ok(&bed, "c", bed.streams[0]);
  const stg_stats stats = bed_stats(&bed);
  assert_int_equal(2, stats.plans_live);
  assert_int_equal(1, stats.plan_evictions);
  assert_int_equal(2000, stats.region_bytes);
  free_owned(&owned);
  bed_close(&bed);
}

static void what_is_in_flight_is_told_when_it_is_over(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  adopt(&owned, "own", 8, bed.streams[0]);
  replay_ok(&bed, "own", bed.streams[0]);
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error);
  replay_finds_nothing(&bed, "own", bed.streams[0]);
  assert_int_equal(0, dropped(&bed)); /* nothing has run */
  assert_int_equal(1000, bed_stats(&bed).region_bytes);
  bed_wait(&bed, bed.streams[0]);
  assert_int_equal(1000, bed_stats(&bed).region_bytes); /* the host's, which knows nothing yet */
  assert_int_equal(8, dropped(&bed));
  assert_int_equal(0, bed_stats(&bed).region_bytes);
  assert_int_equal(0, bed_stats(&bed).plan_bytes);
  free_owned(&owned);
  bed_close(&bed);
}

static void another_takes_the_place_of_one(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct owned first = new_owned(&bed), second = new_owned(&bed);
  adopt(&first, "own", 1, bed.streams[0]);
  const uint64_t bytes = bed_stats(&bed).plan_bytes;
  adopt(&second, "own", 2, bed.streams[0]);
  assert_int_equal(1, dropped(&bed));
  replay_ok(&bed, "own", bed.streams[0]);
  assert_int_equal(0, first.launches);
  assert_int_equal(1, second.launches);
  assert_int_equal(bytes, bed_stats(&bed).plan_bytes);
  assert_int_equal(1, bed_stats(&bed).graphs_live);
  assert_int_equal(2, bed_stats(&bed).regions_recorded);
  free_owned(&first);
  free_owned(&second);
  bed_close(&bed);
}

static void tokens_are_told_as_many_as_there_is_room_for(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  for (int i = 0; i < BED_STREAMS; i++) {
    adopt(&owned, "own", 10 + (uint64_t)i, bed.streams[i]);
  }
  assert_int_equal(1, bed_stats(&bed).plans_live);
  assert_int_equal(BED_STREAMS, bed_stats(&bed).graphs_live);
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error);
  bool seen[BED_STREAMS] = {false};
  for (size_t left = BED_STREAMS; left > 0;) {
    uint64_t tokens[2] = {0};
    size_t count = 0;
    bed_ok(stg_region_dropped(bed.engine, tokens, 2, &count, &error), &error);
    assert_int_equal(left < 2 ? left : 2, count);
    for (size_t i = 0; i < count; i++) {
      assert_in_range(tokens[i], 10, 9 + BED_STREAMS);
      assert_false(seen[tokens[i] - 10]);
      seen[tokens[i] - 10] = true;
    }
    left -= count;
  }
  assert_int_equal(0, dropped(&bed));
  free_owned(&owned);
  bed_close(&bed);
}

static void a_launch_that_fails_is_the_callers_error(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  adopt(&owned, "own", 1, bed.streams[0]);
  owned.fails = STG_E_UNSUPPORTED;
  assert_int_equal(STG_E_UNSUPPORTED, replay(&bed, "own", bed.streams[0], &error));
  assert_string_equal("the host's launch failed", error.message);
  assert_int_equal(0, bed_stats(&bed).region_replays);
  owned.fails = STG_OK;
  replay_ok(&bed, "own", bed.streams[0]);
  assert_int_equal(1, bed_stats(&bed).region_replays);
  free_owned(&owned);
  bed_close(&bed);
}

static void one_that_is_being_launched_is_not_replaced_forgotten_or_launched(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  adopt(&owned, "own", 1, bed.streams[0]);
  owned.adopts = true;
  assert_int_equal(STG_E_BUSY, replay(&bed, "own", bed.streams[0], &error));
  assert_string_equal("region 'own' is being run; adopt it when that has returned", error.message);
  owned.adopts = false;
  owned.forgets = true;
  assert_int_equal(STG_E_BUSY, replay(&bed, "own", bed.streams[0], &error));
  assert_string_equal("region 'own' is being run; forget it when that has returned", error.message);
  owned.forgets = false;
  owned.replays = true;
  assert_int_equal(STG_E_BUSY, replay(&bed, "own", bed.streams[0], &error));
  assert_string_equal("region 'own' is being launched on this stream by its own callback; let that "
                      "launch what was captured",
                      error.message);
  owned.replays = false;
  replay_ok(&bed, "own", bed.streams[0]);
  assert_int_equal(1000, bed_stats(&bed).region_bytes);
  assert_int_equal(0, dropped(&bed));
  free_owned(&owned);
  bed_close(&bed);
}

static void records_and_what_was_adopted_are_told_apart(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  struct bed_work work = {.bed = &bed};
  const stg_region_pointer pointers[2] = {{.address = owned.pointers[0]},
                                          {.address = owned.pointers[1]}};
  stg_region_call call = bed_call(&work, "own", pointers);
  call.batch = 4;
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  assert_int_equal(STG_E_INVALID, replay(&bed, "own", bed.streams[0], &error));
  assert_string_equal("region 'own' was recorded by stg_region_run, which launches it",
                      error.message);
  adopt(&owned, "own", 1, bed.streams[0]); /* in its place */
  assert_int_equal(1, bed_stats(&bed).graphs_live);
  assert_int_equal(0, host_device_graphs().live);
  assert_int_equal(STG_E_INVALID, stg_region_run(bed.engine, &call, bed.streams[0], NULL, &error));
  assert_string_equal("region 'own' was adopted on this stream; stg_region_replay launches it",
                      error.message);
  assert_int_equal(1, work.calls);
  assert_int_equal(0, bed_stats(&bed).region_failures);
  replay_ok(&bed, "own", bed.streams[0]);
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error);
  assert_true(bed_run(&work, &call, bed.streams[0]).recorded);
  free_owned(&owned);
  bed_close(&bed);
}

static void a_stream_that_captures_is_refused(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  adopt(&owned, "own", 1, bed.streams[0]);
  host_device_say_capturing(true);
  assert_int_equal(STG_E_CAPTURING, replay(&bed, "own", bed.streams[0], &error));
  host_device_say_capturing(false);
  assert_string_equal(
      "stg_region_replay: the stream captures; let it have the work of region 'own' itself",
      error.message);
  assert_int_equal(0, owned.launches);
  free_owned(&owned);
  bed_close(&bed);
}

static void nothing_is_kept_where_nothing_is_replayed(void **state) {
  (void)state;
  static const char *const why[] = {"launch is plain", "the engine is on the CPU"};
  for (int cpu = 0; cpu < 2; cpu++) {
    struct region_bed bed;
    stg_options options;
    stg_error error = STG_ERROR_INIT;
    char text[120];
    stg_options_init(&options);
    options.backend = cpu ? STG_BACKEND_CPU : STG_BACKEND_CUDA;
    options.launch = STG_LAUNCH_PLAIN;
    bed_open_as(&bed, &options);
    struct owned owned = {.bed = &bed};
    const stg_region_owner owner = owner_of(&owned, "own", 1);
    assert_int_equal(STG_E_UNSUPPORTED,
                     stg_region_adopt(bed.engine, &owner, bed.streams[0], &error));
    snprintf(text, sizeof text, "stg_region_adopt: %s; let the work be done as it is each time",
             why[cpu]);
    assert_string_equal(text, error.message);
    replay_finds_nothing(&bed, "own", bed.streams[0]);
    assert_int_equal(0, dropped(&bed));
    assert_int_equal(0, bed_stats(&bed).plans_live);
    bed_close(&bed);
  }
}

static void without_memory_it_stays_the_hosts(void **state) {
  (void)state;
  struct region_bed bed;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  const stg_region_owner owner = owner_of(&owned, "own", 1);
  size_t failures = 0;
  stg_status status = STG_E_NO_MEMORY;
  while (status != STG_OK) {
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(failures + 1);
    status = stg_region_adopt(bed.engine, &owner, bed.streams[0], &error);
    stg_alloc_fail_at(0);
    if (status != STG_OK) {
      assert_int_equal(STG_E_NO_MEMORY, status);
      assert_non_null(strstr(error.message, "out of memory: "));
      assert_int_equal(0, bed_stats(&bed).region_bytes);
      assert_int_equal(0, bed_stats(&bed).graphs_live);
      assert_int_equal(0, dropped(&bed));
      failures++;
    }
  }
  assert_in_range(failures, 4, 20); /* the take, its event, the plan and its text, the exec */
  replay_ok(&bed, "own", bed.streams[0]);
  free_owned(&owned);
  bed_close(&bed);
}

static void a_lost_device_gives_all_back(void **state) {
  (void)state;
  struct region_bed bed;
  stg_error error = STG_ERROR_INIT;
  bed_open(&bed, 0);
  struct owned owned = new_owned(&bed);
  adopt(&owned, "own", 5, bed.streams[0]);
  replay_ok(&bed, "own", bed.streams[0]);
  host_device_lose(true);
  assert_int_equal(STG_E_DEVICE_LOST, replay(&bed, "own", bed.streams[0], &error));
  assert_non_null(strstr(error.message, "device 0 is lost"));
  bed_ok(stg_region_forget(bed.engine, "own", &error), &error);
  assert_int_equal(5, dropped(&bed));
  host_device_lose(false);
  free_owned(&owned);
  bed_close(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_launched_by_signature_sizes_and_stream),
      cmocka_unit_test(those_beyond_the_limit_go_longest_unused_first_and_are_told),
      cmocka_unit_test(what_is_in_flight_is_told_when_it_is_over),
      cmocka_unit_test(another_takes_the_place_of_one),
      cmocka_unit_test(tokens_are_told_as_many_as_there_is_room_for),
      cmocka_unit_test(a_launch_that_fails_is_the_callers_error),
      cmocka_unit_test(one_that_is_being_launched_is_not_replaced_forgotten_or_launched),
      cmocka_unit_test(records_and_what_was_adopted_are_told_apart),
      cmocka_unit_test(a_stream_that_captures_is_refused),
      cmocka_unit_test(nothing_is_kept_where_nothing_is_replayed),
      cmocka_unit_test(without_memory_it_stays_the_hosts),
      cmocka_unit_test(a_lost_device_gives_all_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
