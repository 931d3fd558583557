/*
 * test_prover_faults.c: every call of the driver in the life of a prover fails in turn. What fails
 * says which call it was; asked again it is done; and nothing stays behind in the driver. Kernels
 * do nothing here, so that proofs are zeros.
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

/* The call by which the device asks whether its context was lost. */
#define IN_CONTEXT_LOSS "cuCtxGetId"
#define N 5
#define CAPACITY 2 /* three launches */
#define EMBED 2
#define HIDDEN 2

static const stg_atom facts[] = {{1, 1, 2}, {1, 2, 3}};
static const stg_atom queries[N] = {{1, 1, 2}, {1, 2, 1}, {1, 3, 1}, {1, 1, 3}, {1, 2, 3}};
static const float zeros[64];

/* One life. The pool is the host's: nothing reads it. */
struct life {
  struct stg_device *host; /* with a stream of its own */
  stg_stream_handle stream;
  stg_engine *engine;
  stg_prover *prover;
  stg_proof proofs[N];
  uint32_t n;
  size_t told;
};

static stg_status create_engine(struct life *life, stg_error *reterr) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_mode = STG_CACHE_OFF;
  options.pack_path = "";
  return stg_engine_create(&options, &life->engine, reterr);
}

static stg_status create_prover(struct life *life, stg_error *reterr) {
  const stg_prover_desc desc = {.struct_size = sizeof desc,
                                .predicates = 1,
                                .constants = 3,
                                .facts = facts,
                                .n_facts = sizeof facts / sizeof facts[0],
                                .embed = EMBED,
                                .hidden = HIDDEN,
                                .blocks = 1,
                                .capacity = CAPACITY};
  return stg_prover_create(life->engine, &desc, &life->prover, reterr);
}

static stg_status set_weights(struct life *life, stg_error *reterr) {
  const stg_prover_weights weights = {.struct_size = sizeof weights,
                                      .predicates = zeros,
                                      .entities = zeros,
                                      .in_weight = zeros,
                                      .in_bias = zeros,
                                      .in_gain = zeros,
                                      .in_shift = zeros,
                                      .block_weight = zeros,
                                      .block_bias = zeros,
                                      .block_gain = zeros,
                                      .block_shift = zeros,
                                      .head_weight = zeros,
                                      .head_bias = zeros,
                                      .out_weight = zeros,
                                      .out_bias = zeros};
  return stg_prover_set_weights(life->prover, &weights, reterr);
}

static void tell(void *user, size_t done, size_t n) {
  struct life *life = user;
  assert_int_equal(N, n);
  life->told = done;
}

static stg_status run(struct life *life, bool trace, bool progress, stg_error *reterr) {
  const stg_prover_run_desc desc = {.struct_size = sizeof desc,
                                    .queries = queries,
                                    .n = N,
                                    .trace = trace,
                                    .traced = 3,
                                    .progress = progress ? tell : NULL,
                                    .user = life};
  return stg_prover_run(life->prover, &desc, life->proofs, reterr);
}

static stg_status run_plainly(struct life *life, stg_error *reterr) {
  return run(life, false, false, reterr);
}

static stg_status run_with_all(struct life *life, stg_error *reterr) {
  const stg_status status = run(life, true, true, reterr);
  assert_true(status != STG_OK || life->told == N);
  return status;
}

static stg_status launch(struct life *life, stg_error *reterr) {
  const stg_prover_launch_desc desc = {
      .struct_size = sizeof desc, .queries = queries, .n = &life->n, .proofs = life->proofs};
  return stg_prover_launch(life->prover, &desc, life->stream, reterr);
}

static stg_status launch_captured(struct life *life, stg_error *reterr) {
  struct stg_graph *graph = NULL;
  stg_error error = STG_ERROR_INIT;
  size_t nodes = 0;
  stub.host(true);
  must_be_ok("capture", stg_capture_begin(life->host, life->stream, &error), &error);
  stub.host(false);
  const stg_status status = launch(life, reterr);
  stub.host(true);
  must_be_ok("end", stg_capture_end(life->host, life->stream, &graph, &nodes, &error), &error);
  stg_graph_destroy(life->host, graph);
  stub.host(false);
  assert_int_equal(status == STG_OK ? 1 : 0, nodes);
  return status;
}

struct act {
  const char *name;
  stg_status (*run)(struct life *life, stg_error *reterr);
};

static const struct act acts[] = {
    {"stg_engine_create", create_engine},
    {"stg_prover_create", create_prover},
    {"stg_prover_set_weights", set_weights},
    {"stg_prover_run", run_plainly},
    {"stg_prover_run with trace and progress", run_with_all},
    {"stg_prover_launch", launch},
    {"stg_prover_launch in a capture", launch_captured},
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

/* What a destroy needs may be what fails: then it is asked again. */
#define END(call)                                                                                  \
  do {                                                                                             \
    stg_error error = STG_ERROR_INIT;                                                              \
    stg_status status = call;                                                                      \
    if (status != STG_OK) {                                                                        \
      status = call;                                                                               \
    }                                                                                              \
    must_be_ok(where, status, &error);                                                             \
  } while (0)

static void end_life(struct life *life, const char *where) {
  END(stg_prover_destroy(life->prover, &error));
  END(stg_engine_destroy(life->engine, &error));
  stub.host(true);
  stg_stream_destroy(life->host, life->stream);
  stg_device_close(life->host);
  stub.host(false);
}

/* Of a failure: a status of the driver's, and the name of the call or of the error. */
static void check_failure(const char *where, const struct act *act,
                          const struct driver_fault *fault, size_t nth, stg_status status,
                          const stg_error *error) {
  const bool is_status = status == STG_E_CUDA || status == STG_E_NO_MEMORY ||
                         status == STG_E_DEVICE_LOST || status == STG_E_NO_DEVICE;
  const bool names = strstr(error->message, stub.name(nth)) != NULL ||
                     strstr(error->message, fault->name) != NULL ||
                     strstr(error->message, "context of device 0") != NULL;
  if (!is_status || !names) {
    fail_msg("%s: %s: %s: %s", where, act->name, stg_status_name(status), error->message);
  }
}

/* Weights that did not arrive are given again. */
static stg_status again(struct life *life, const struct act *act, stg_error *reterr) {
  stg_status status = act->run(life, reterr);
  if (status == STG_E_INVALID) {
    status = set_weights(life, reterr);
    status = status == STG_OK ? act->run(life, reterr) : status;
  }
  return status;
}

/* Live, with the nth call failing; 0: with none. Returns how many calls there were. */
static size_t live(size_t nth, const struct driver_fault *fault) {
  struct life life = {.engine = NULL};
  char where[160] = "";
  bool lost = false;
  begin_life(&life);
  stub.fail_at(nth, (int)fault->result, fault->sticky);
  for (size_t i = 0; i < N_ACTS && !lost; i++) {
    stg_error error = STG_ERROR_INIT;
    stg_status status = acts[i].run(&life, &error);
    snprintf(where, sizeof where, "call %zu, %s, answers %s", nth, stub.name(nth), fault->name);
    if (status != STG_OK) {
      check_failure(where, &acts[i], fault, nth, status, &error);
      lost = fault->sticky || status == STG_E_DEVICE_LOST;
    }
    if (status != STG_OK && !lost) {
      must_be_ok(where, again(&life, &acts[i], &error), &error);
    }
  }
  end_life(&life, where);
  const char *call = stub.name(nth);
  /* what could not be freed is left, or with a device that counts as lost all */
  const bool barred = strcmp(call, "cuCtxPushCurrent") == 0 ||
                      strcmp(call, "cuThreadExchangeStreamCaptureMode") == 0;
  lost = lost || fault->sticky || strcmp(call, IN_CONTEXT_LOSS) == 0;
  if (!lost && stub.live() > (barred ? 2 : 0)) {
    fail_msg("%s: %s: %zu things are left in the driver", where, call, stub.live());
  }
  return end_calls(where);
}

static void each_call_of_the_driver_may_fail(void **state) {
  (void)state;
  fail_each_call(live);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_of_the_driver_may_fail)};
  return cmocka_run_group_tests(tests, open_stubs, NULL);
}
