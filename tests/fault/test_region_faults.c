/*
 * test_region_faults.c: every call of the driver in the life of regions fails in turn, those of the
 * host's own work among them. A run either is done, by whichever way, and right, or says which call
 * it was and is done when asked again; and nothing stays behind in the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/launch.h"
#include "tests/fault/driver_lives.h"

#define WORDS 16
#define BYTES (WORDS * sizeof(uint32_t))

/* One life. The stub's memory is heap, and its work is done at once. */
struct life {
  struct stg_device *host; /* with a stream of its own */
  stg_stream_handle stream;
  stg_engine *engine;
  uint32_t from[2][WORDS], to[2][WORDS];
  uint32_t last;       /* what was put into `from` */
  size_t tokens, told; /* of what was adopted */
  unsigned copies;     /* of a run's work */
};

static stg_status copy_all(void *user, stg_stream stream, void *const *pointers,
                           stg_error *reterr) {
  const struct life *life = user;
  stg_status status = STG_OK;
  for (unsigned i = 0; i < life->copies && status == STG_OK; i++) {
    status = stg_copy_on_device(life->host, (uint64_t)(uintptr_t)pointers[1],
                                (uint64_t)(uintptr_t)pointers[0], BYTES, stream, reterr);
  }
  return status;
}

static stg_status create_engine(struct life *life, stg_error *reterr) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.pack_path = "";
  return stg_engine_create(&options, &life->engine, reterr);
}

/* From and to tensors `from` and `to` of the life. */
static stg_status run(struct life *life, const char *signature, stg_region_moves in, int from,
                      stg_region_moves out, int to, stg_error *reterr) {
  const stg_region_pointer pointers[] = {{.address = life->from[from], .bytes = BYTES, .moves = in},
                                         {.address = life->to[to], .bytes = BYTES, .moves = out}};
  const stg_region_call call = {.struct_size = sizeof call,
                                .signature = signature,
                                .record = copy_all,
                                .user = life,
                                .pointers = pointers,
                                .n_pointers = 2};
  life->last++;
  for (size_t i = 0; i < WORDS; i++) {
    life->from[from][i] = life->last;
  }
  stg_status status = stg_region_run(life->engine, &call, life->stream, NULL, reterr);
  for (size_t i = 0; i < WORDS && status == STG_OK; i++) {
    assert_int_equal(life->last, life->to[to][i]);
  }
  return status;
}

static stg_status run_fixed(struct life *life, stg_error *reterr) {
  return run(life, "fixed", STG_REGION_FIXED, 0, STG_REGION_FIXED, 0, reterr);
}

static stg_status run_copied(struct life *life, stg_error *reterr) {
  return run(life, "copied", STG_REGION_IN, 0, STG_REGION_OUT, 1, reterr);
}

static stg_status run_copied_elsewhere(struct life *life, stg_error *reterr) {
  return run(life, "copied", STG_REGION_IN, 1, STG_REGION_OUT, 0, reterr);
}

static stg_status run_again(struct life *life, int from, stg_error *reterr) {
  return run(life, "again", STG_REGION_RECORD, from, STG_REGION_OUT, 0, reterr);
}

static stg_status run_first(struct life *life, stg_error *reterr) {
  return run_again(life, 0, reterr);
}

static stg_status run_updated(struct life *life, stg_error *reterr) {
  return run_again(life, 1, reterr);
}

/* Of more nodes: the update is refused. */
static stg_status run_remade(struct life *life, stg_error *reterr) {
  life->copies = 2;
  return run_again(life, 0, reterr);
}

static stg_status forget_copied(struct life *life, stg_error *reterr) {
  return stg_region_forget(life->engine, "copied", reterr);
}

/* What a host captured itself, by a copy of that. */
static stg_status launch_owned(void *user, stg_stream stream, stg_error *reterr) {
  struct life *life = user;
  return stg_copy_on_device(life->host, (uint64_t)(uintptr_t)life->to[0],
                            (uint64_t)(uintptr_t)life->from[0], BYTES, stream, reterr);
}

static stg_status adopt(struct life *life, stg_error *reterr) {
  const stg_region_owner owner = {.struct_size = sizeof owner,
                                  .signature = "owned",
                                  .launch = launch_owned,
                                  .user = life,
                                  .token = 1 + life->tokens};
  stg_status status = stg_region_adopt(life->engine, &owner, life->stream, reterr);
  life->tokens += status == STG_OK ? 1 : 0;
  return status;
}

static stg_status replay(struct life *life, stg_error *reterr) {
  life->from[0][0] = ++life->last;
  stg_status status = stg_region_replay(life->engine, "owned", 0, 0, 0, life->stream, reterr);
  assert_true(status != STG_OK || life->to[0][0] == life->last);
  return status;
}

/* All that was adopted but for the one that is there. */
static stg_status ask_for_tokens(struct life *life, stg_error *reterr) {
  uint64_t tokens[8];
  size_t count = 0;
  stg_status status = stg_region_dropped(life->engine, tokens, 8, &count, reterr);
  life->told += count;
  return status;
}

static stg_status forget_owned(struct life *life, stg_error *reterr) {
  return stg_region_forget(life->engine, "owned", reterr);
}

struct act {
  const char *name;
  stg_status (*run)(struct life *life, stg_error *reterr);
};
static const struct act acts[] = {
    {"stg_engine_create", create_engine},
    {"first run", run_fixed},
    {"second run", run_fixed},
    {"first run with copies", run_copied},
    {"second run with copies", run_copied_elsewhere},
    {"run of what is recorded again", run_first},
    {"run with an update", run_updated},
    {"run with an update that is refused", run_remade},
    {"stg_region_forget", forget_copied},
    {"run of what was forgotten", run_copied},
    {"stg_region_adopt", adopt},
    {"stg_region_replay", replay},
    {"stg_region_adopt in its place", adopt},
    {"replay of that", replay},
    {"stg_region_dropped", ask_for_tokens},
    {"stg_region_forget of that", forget_owned},
    {"stg_region_dropped of that", ask_for_tokens},
};
#define N_ACTS (sizeof acts / sizeof acts[0])

static void begin_life(struct life *life) {
  stg_error error = STG_ERROR_INIT;
  stub.reset(); /* what a test that failed left behind */
  stub.host(true);
  must_be_ok("host", stg_device_open(0, &life->host, &error), &error);
  must_be_ok("host", stg_stream_create(life->host, &life->stream, &error), &error);
  stub.host(false);
}

static void end_life(struct life *life, const char *where) {
  stg_error error = STG_ERROR_INIT;
  must_be_ok(where, stg_engine_destroy(life->engine, &error), &error);
  stub.host(true);
  stg_stream_destroy(life->host, life->stream);
  stg_device_close(life->host);
  stub.host(false);
}

/* Of a failure: a status of the driver's, and the name of the call or of the error. */
static void check_failure(const char *where, const char *act, const struct driver_fault *fault,
                          size_t nth, stg_status status, const stg_error *error) {
  const bool is_status = status == STG_E_CUDA || status == STG_E_NO_MEMORY ||
                         status == STG_E_DEVICE_LOST || status == STG_E_NO_DEVICE;
  const bool names = strstr(error->message, stub.name(nth)) != NULL ||
                     strstr(error->message, fault->name) != NULL ||
                     strstr(error->message, "context of device 0") != NULL;
  if (!is_status || !names) {
    fail_msg("%s: %s: %s: %s", where, act, stg_status_name(status), error->message);
  }
}

/* Live, with the nth call failing; 0: with none. Returns how many calls there were. */
static size_t live(size_t nth, const struct driver_fault *fault) {
  struct life life = {.copies = 1};
  char where[160] = "";
  bool lost = false;
  begin_life(&life);
  stub.fail_at(nth, (int)fault->result, fault->sticky);
  for (size_t i = 0; i < N_ACTS && !lost; i++) {
    stg_error error = STG_ERROR_INIT;
    stg_status status = acts[i].run(&life, &error);
    snprintf(where, sizeof where, "call %zu, %s, answers %s", nth, stub.name(nth), fault->name);
    if (status != STG_OK) {
      check_failure(where, acts[i].name, fault, nth, status, &error);
      lost = fault->sticky || status == STG_E_DEVICE_LOST;
    }
    if (status != STG_OK && !lost) {
      must_be_ok(where, acts[i].run(&life, &error), &error);
    }
  }
  if (!lost && life.told != life.tokens) {
    fail_msg("%s: of %zu adopted %zu are told", where, life.tokens, life.told);
  }
  end_life(&life, where);
  const char *call = stub.name(nth);
  /* what could not be freed is left, or with a device that counts as lost all */
  const bool barred = strcmp(call, "cuCtxPushCurrent") == 0 ||
                      strcmp(call, "cuThreadExchangeStreamCaptureMode") == 0;
  lost = lost || fault->sticky || strcmp(call, "cuCtxGetId") == 0;
  if (!lost && stub.live() > (barred ? 2 : 0)) {
    fail_msg("%s: %zu things are left in the driver", where, stub.live());
  }
  return end_calls(where);
}

static void each_call_of_the_driver_may_fail(void **state) {
  (void)state;
  fail_each_call(live);
}

/* Of one kind of call all fail: what a region then is, and why. */
static void expect_when_refused(const char *call, bool eager, stg_status status, const char *why) {
  struct life life = {.copies = 1};
  stg_error error = STG_ERROR_INIT;
  begin_life(&life);
  stub.fail_at(0, 0, false);
  must_be_ok("engine", create_engine(&life, &error), &error);
  must_be_ok("first", run_first(&life, &error), &error);
  stub.refuse(call);
  const stg_region_pointer pointers[] = {
      {.address = life.from[1], .bytes = BYTES, .moves = STG_REGION_RECORD},
      {.address = life.to[0], .bytes = BYTES, .moves = STG_REGION_OUT}};
  const stg_region_call again = {.struct_size = sizeof again,
                                 .signature = "again",
                                 .record = copy_all,
                                 .user = &life,
                                 .pointers = pointers,
                                 .n_pointers = 2};
  stg_region_facts facts = {.struct_size = sizeof facts};
  must_be_ok(call, stg_region_run(life.engine, &again, life.stream, &facts, &error), &error);
  assert_memory_equal(life.from[1], life.to[0], BYTES);
  assert_int_equal(eager, facts.eager);
  assert_int_equal(!eager, facts.recorded);
  assert_int_equal(status, facts.status);
  assert_non_null(strstr(facts.why, why));
  stub.refuse(NULL);
  end_life(&life, call);
  assert_int_equal(0, stub.live());
  assert_int_equal(0, stub.misuses());
}

static void a_call_that_is_refused_is_named_in_the_facts(void **state) {
  (void)state;
  expect_when_refused("cuGraphExecUpdate", false, STG_OK, "");
  expect_when_refused("cuStreamBeginCapture", true, STG_E_CAPTURE,
                      "cuStreamBeginCapture failed: CUDA_ERROR_INVALID_VALUE");
  expect_when_refused("cuStreamEndCapture", true, STG_E_CAPTURE,
                      "cuStreamEndCapture failed: CUDA_ERROR_INVALID_VALUE");
  expect_when_refused("cuGraphGetNodes", true, STG_E_CAPTURE,
                      "cuGraphGetNodes failed: CUDA_ERROR_INVALID_VALUE");
  expect_when_refused("cuStreamCreate", true, STG_E_CUDA,
                      "cuStreamCreate failed: CUDA_ERROR_INVALID_VALUE");
}

static void what_the_driver_says_of_the_adopted_is_the_callers_error(void **state) {
  (void)state;
  struct life life = {.copies = 1};
  stg_error error = STG_ERROR_INIT;
  begin_life(&life);
  must_be_ok("engine", create_engine(&life, &error), &error);
  stub.refuse("cuEventCreate");
  assert_int_equal(STG_E_CUDA, adopt(&life, &error));
  assert_string_equal("cuEventCreate failed: CUDA_ERROR_INVALID_VALUE (invalid argument)",
                      error.message);
  assert_int_equal(STG_E_NOT_FOUND, replay(&life, &error));
  stub.refuse(NULL);
  must_be_ok("adopt", adopt(&life, &error), &error);
  stub.refuse("cuEventRecord");
  assert_int_equal(STG_E_CUDA, replay(&life, &error));
  assert_string_equal("cuEventRecord failed: CUDA_ERROR_INVALID_VALUE (invalid argument)",
                      error.message);
  stub.refuse("cuStreamIsCapturing");
  assert_int_equal(STG_E_CUDA, replay(&life, &error));
  assert_string_equal("cuStreamIsCapturing failed: CUDA_ERROR_INVALID_VALUE (invalid argument)",
                      error.message);
  stub.refuse(NULL);
  must_be_ok("replay", replay(&life, &error), &error);
  end_life(&life, "adopted");
  assert_int_equal(0, stub.live());
  assert_int_equal(0, stub.misuses());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_of_the_driver_may_fail),
      cmocka_unit_test(a_call_that_is_refused_is_named_in_the_facts),
      cmocka_unit_test(what_the_driver_says_of_the_adopted_is_the_callers_error),
  };
  return cmocka_run_group_tests(tests, open_stubs, NULL);
}
