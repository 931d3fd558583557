/*
 * test_region_threads.c: threads run regions beside each other, on streams of their own and on one
 * that they share, while others forget them: all results are right, one record serves all runs of a
 * stream, and each token of what was adopted is told once, when no launch of it can come any more.
 * On the stub of the driver, whose streams do at once what they are given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/launch.h"
#include "tests/fault/driver_bed.h"
#include "tests/support/quick.h"

#define THREADS 6
#define WORDS 8
#define BYTES (WORDS * sizeof(uint32_t))

/* All threads'. */
struct shared {
  struct stg_device *host;
  stg_engine *engine;
  atomic_uint wrong, failed, forgotten, adopted;
  struct owned *owned; /* by token; NULL: nothing is adopted */
  unsigned rounds;
  bool forget;
};

struct worker {
  struct shared *shared;
  pthread_t thread;
  stg_stream_handle stream;
  unsigned number;
};

static stg_status copy(void *user, stg_stream stream, void *const *pointers, stg_error *reterr) {
  const struct shared *shared = user;
  return stg_copy_on_device(shared->host, (uint64_t)(uintptr_t)pointers[1],
                            (uint64_t)(uintptr_t)pointers[0], BYTES, stream, reterr);
}

/* Tensors are the round's own: a record that was taken of others would show. */
static void run_once(const struct worker *worker, unsigned round) {
  static const char *const texts[] = {"a", "b", "c"};
  struct shared *shared = worker->shared;
  uint32_t from[WORDS], to[WORDS] = {0};
  for (uint32_t i = 0; i < WORDS; i++) {
    from[i] = 1000 * worker->number + round + i;
  }
  const stg_region_pointer pointers[] = {{from, BYTES, STG_REGION_IN}, {to, BYTES, STG_REGION_OUT}};
  const stg_region_call call = {.struct_size = sizeof call,
                                .signature = texts[round % 3],
                                .batch = 1 + round / 3 % 2,
                                .record = copy,
                                .user = shared,
                                .pointers = pointers,
                                .n_pointers = 2};
  if (stg_region_run(shared->engine, &call, worker->stream, NULL, NULL) != STG_OK) {
    atomic_fetch_add(&shared->failed, 1);
  } else if (memcmp(from, to, BYTES) != 0) {
    atomic_fetch_add(&shared->wrong, 1);
  }
  if (shared->forget && worker->number == 0 &&
      stg_region_forget(shared->engine, call.signature, NULL) == STG_OK) {
    atomic_fetch_add(&shared->forgotten, 1);
  }
}

/* What was adopted, by its token: whether it may be launched, and is freed once. */
struct owned {
  struct shared *shared;
  atomic_uint state; /* 0: never adopted, 1: adopted, 2: told */
};

static stg_status launch(void *user, stg_stream stream, stg_error *reterr) {
  struct owned *owned = user;
  (void)stream;
  (void)reterr;
  if (atomic_load(&owned->state) != 1) {
    atomic_fetch_add(&owned->shared->wrong, 1);
  }
  return STG_OK;
}

static void free_told(struct shared *shared) {
  uint64_t tokens[4];
  size_t count = 0;
  do {
    if (stg_region_dropped(shared->engine, tokens, 4, &count, NULL) != STG_OK) {
      atomic_fetch_add(&shared->failed, 1);
      return;
    }
    for (size_t i = 0; i < count; i++) {
      struct owned *owned = &shared->owned[tokens[i]];
      if (atomic_exchange(&owned->state, 2) != 1) {
        atomic_fetch_add(&shared->wrong, 1);
      }
    }
  } while (count > 0);
}

/* Replay, or adopt where there is nothing to replay. */
static void replay_once(const struct worker *worker, unsigned round) {
  static const char *const texts[] = {"a", "b", "c"};
  struct shared *shared = worker->shared;
  const char *text = texts[round % 3];
  stg_status status = stg_region_replay(shared->engine, text, 0, 0, 0, worker->stream, NULL);
  if (status == STG_E_NOT_FOUND) {
    const uint64_t token = (uint64_t)worker->number * shared->rounds + round;
    struct owned *owned = &shared->owned[token];
    const stg_region_owner owner = {.struct_size = sizeof owner,
                                    .signature = text,
                                    .launch = launch,
                                    .user = owned,
                                    .token = token,
                                    .bytes = 1};
    atomic_store(&owned->state, 1);
    status = stg_region_adopt(shared->engine, &owner, worker->stream, NULL);
    if (status == STG_E_BUSY) { /* another thread's launch on the stream */
      atomic_store(&owned->state, 0);
      return;
    }
    atomic_fetch_add(&shared->adopted, 1);
  }
  if (status != STG_OK) {
    atomic_fetch_add(&shared->failed, 1);
  }
  if (worker->number == 0 && stg_region_forget(shared->engine, text, NULL) == STG_OK) {
    atomic_fetch_add(&shared->forgotten, 1);
  }
  if (worker->number < 2) {
    free_told(shared);
  }
}

static void *work(void *user) {
  const struct worker *worker = user;
  for (unsigned round = 0; round < worker->shared->rounds; round++) {
    if (worker->shared->owned != NULL) {
      replay_once(worker, round);
    } else {
      run_once(worker, round);
    }
  }
  return NULL;
}

/* Let all threads do their rounds on an engine; what it counted. */
static stg_stats run_threads(struct shared *shared, bool one_stream, uint32_t max_plans) {
  struct worker workers[THREADS];
  stg_error error = STG_ERROR_INIT;
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.pack_path = "";
  options.max_plans = max_plans;
  must_be_ok("host", stg_device_open(0, &shared->host, &error), &error);
  must_be_ok("engine", stg_engine_create(&options, &shared->engine, &error), &error);
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){.shared = shared, .number = i};
    if (i == 0 || !one_stream) {
      must_be_ok("stream", stg_stream_create(shared->host, &workers[i].stream, &error), &error);
    } else {
      workers[i].stream = workers[0].stream;
    }
  }
  for (unsigned i = 0; i < THREADS; i++) {
    assert_int_equal(0, pthread_create(&workers[i].thread, NULL, work, &workers[i]));
  }
  for (unsigned i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
  }
  assert_int_equal(0, atomic_load(&shared->failed));
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(shared->engine, &stats);
  for (unsigned i = 0; i < (one_stream ? 1 : THREADS); i++) {
    stg_stream_destroy(shared->host, workers[i].stream);
  }
  return stats;
}

static void end(struct shared *shared) {
  stg_error error = STG_ERROR_INIT;
  must_be_ok("destroy", stg_engine_destroy(shared->engine, &error), &error);
  stg_device_close(shared->host);
  assert_int_equal(0, atomic_load(&shared->wrong));
  assert_int_equal(0, stub.live());
  assert_int_equal(0, stub.misuses());
}

/* `records`: how many there are to be; 0: any number. */
static void run_all(bool one_stream, bool forget, uint32_t max_plans, uint64_t records) {
  struct shared shared = {.forget = forget, .rounds = test_is_quick() ? 60 : 300};
  const stg_stats stats = run_threads(&shared, one_stream, max_plans);
  assert_int_equal(0, stats.region_failures);
  assert_int_equal((uint64_t)THREADS * shared.rounds,
                   stats.regions_recorded + stats.region_replays);
  assert_true(records == 0 || stats.regions_recorded == records);
  assert_true(!forget || atomic_load(&shared.forgotten) > 0);
  end(&shared);
}

static void adopt_all(bool one_stream, uint32_t max_plans) {
  struct shared shared = {.rounds = test_is_quick() ? 60 : 300};
  stg_error error = STG_ERROR_INIT;
  static const char *const texts[] = {"a", "b", "c"};
  shared.owned = calloc((size_t)THREADS * shared.rounds, sizeof *shared.owned);
  assert_non_null(shared.owned);
  for (size_t i = 0; i < (size_t)THREADS * shared.rounds; i++) {
    shared.owned[i].shared = &shared;
  }
  const stg_stats stats = run_threads(&shared, one_stream, max_plans);
  assert_int_equal(atomic_load(&shared.adopted), stats.regions_recorded);
  assert_true(atomic_load(&shared.forgotten) > 0);
  for (int i = 0; i < 3; i++) {
    must_be_ok("forget", stg_region_forget(shared.engine, texts[i], &error), &error);
  }
  free_told(&shared);
  uint64_t told = 0;
  for (size_t i = 0; i < (size_t)THREADS * shared.rounds; i++) {
    const unsigned now = atomic_load(&shared.owned[i].state);
    assert_int_not_equal(1, now);
    told += now == 2 ? 1 : 0;
  }
  assert_int_equal(stats.regions_recorded, told);
  free(shared.owned);
  end(&shared);
}

static void threads_record_once_for_each_stream(void **state) {
  (void)state;
  run_all(false, false, 0, (uint64_t)6 * THREADS);
}

static void threads_share_the_records_of_a_stream(void **state) {
  (void)state;
  run_all(true, false, 0, 6);
}

static void records_come_and_go_beside_runs(void **state) {
  (void)state;
  run_all(false, true, 0, 0);
  run_all(true, true, 2, 0);
  run_all(false, false, 3, 0);
}

static void what_is_adopted_is_told_once_and_not_launched_after(void **state) {
  (void)state;
  adopt_all(false, 0);
  adopt_all(true, 0);
  adopt_all(false, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_record_once_for_each_stream),
      cmocka_unit_test(threads_share_the_records_of_a_stream),
      cmocka_unit_test(records_come_and_go_beside_runs),
      cmocka_unit_test(what_is_adopted_is_told_once_and_not_launched_after),
  };
  return cmocka_run_group_tests(tests, open_stubs, NULL);
}
