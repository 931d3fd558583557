/*
 * test_driver_faults.c: every call of the driver that a life of an engine makes fails in turn, with
 * each of several results, on the stubs of driver and compiler. Then the call of ours that made it
 * says so, what it was to change is as before, it works when it is asked again, and nothing is left
 * behind.
 *
 * STG_TEST_QUICK=1: each call with one of the results, which go round.
 *
 * A call of ours may also do without: a graph that cannot be had, an entry that the driver refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/launch.h"
#include "tests/fault/driver_bed.h"
#include "tests/support/quick.h"
#include "tests/support/temp_folder.h"

#define HIDDEN 8
#define ROWS 4
#define ELEMS ((size_t)ROWS * HIDDEN)
#define SCALE 2.0F
#define IN_CONTEXT_LOSS "cuCtxGetId" /* a context that does not answer is gone */

static const struct driver_fault faults[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY", false},
    {CUDA_ERROR_INVALID_VALUE, "INVALID_VALUE", false},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS", true},
    {CUDA_ERROR_NOT_FOUND, "NOT_FOUND", false},
    {CUDA_ERROR_INVALID_IMAGE, "INVALID_IMAGE", false},
    {CUDA_ERROR_DEINITIALIZED, "DEINITIALIZED", true},
};

static const struct driver_fault no_fault = {CUDA_SUCCESS, "SUCCESS", false};
#define N_FAULTS (sizeof faults / sizeof faults[0])
#define FEW_FAULTS ((size_t)3) /* the first: one call's, twice, and one for good */

/* How an engine is opened. */
struct way {
  const char *folder; /* NULL: no cache, so every life compiles */
  stg_launch_mode launch;
  stg_compile_mode compile;
};

/* One life of an engine. `scale` is what the slot's chain adds of ones. */
struct life {
  struct way way;
  struct stg_device *host; /* the host's, with a stream of its own */
  stg_stream_handle stream;
  stg_engine *engine;
  stg_vector ones;
  stg_steer *steer;
  stg_frame *frame;
  float scale;
  float *hidden;  /* [ROWS, HIDDEN] */
  float expected; /* of all of it */
  int32_t *device_map;
  bool lost;
  char where[160]; /* for messages: which call failed with what */
};

static stg_status create_engine(struct life *life, stg_error *reterr) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = life->way.compile;
  options.launch = life->way.launch;
  options.cache_path = life->way.folder;
  options.cache_mode = life->way.folder != NULL ? STG_CACHE_DEFAULT : STG_CACHE_OFF;
  options.pack_path = "";
  return stg_engine_create(&options, &life->engine, reterr);
}

static stg_status intern_vector(struct life *life, stg_error *reterr) {
  static const float ones[HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  return stg_vector_intern(life->engine, STG_F32, ones, HIDDEN, &life->ones, reterr);
}

static stg_status create_table(struct life *life, stg_error *reterr) {
  static const char *const ops[] = {"add"};
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = 16,
                               .max_slots = 4,
                               .ops = ops,
                               .n_ops = 1,
                               .counters = true};
  return stg_steer_create(life->engine, &desc, &life->steer, reterr);
}

static stg_status create_frame(struct life *life, stg_error *reterr) {
  return stg_frame_create(life->steer, &life->frame, reterr);
}

static stg_status set_slot(struct life *life, stg_error *reterr) {
  const stg_op_call add = {
      .op = "add", .vectors = {life->ones}, .params = {SCALE}, .params_given = 1};
  const stg_chain chain = {.ops = &add, .n_ops = 1};
  const stg_status status = stg_steer_slot_set(life->steer, 1, &chain, 1, reterr);
  life->scale = status == STG_OK ? SCALE : life->scale;
  return status;
}

static stg_status change_params(struct life *life, stg_error *reterr) {
  const float scale = life->scale + 1;
  const stg_status status = stg_steer_set_params(life->steer, 1, 0, 0, &scale, 1, reterr);
  life->scale = status == STG_OK ? scale : life->scale;
  return status;
}

static stg_status clear_other_slot(struct life *life, stg_error *reterr) {
  return stg_steer_slot_clear(life->steer, 2, reterr);
}

static stg_status step(struct life *life, stg_error *reterr) {
  static const int32_t map[ROWS] = {1, 1, 1, 1};
  const stg_step step = {.struct_size = sizeof step, .rows = ROWS, .row_map = map};
  return stg_steer_step(life->frame, &step, life->stream, reterr);
}

static stg_status step_on_device(struct life *life, stg_error *reterr) {
  const stg_step step = {.struct_size = sizeof step,
                         .rows = ROWS,
                         .row_map = life->device_map,
                         .on_device = true,
                         .requests = 1};
  return stg_steer_step(life->frame, &step, life->stream, reterr);
}

static stg_status apply_on(struct life *life, stg_stream stream, stg_error *reterr) {
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = life->hidden};
  const stg_status status = stg_steer_apply(life->frame, &apply, stream, reterr);
  life->expected += status == STG_OK ? life->scale : 0;
  return status;
}

static stg_status apply(struct life *life, stg_error *reterr) {
  return apply_on(life, life->stream, reterr);
}

/* A stream that the frame's graph is not of: a plain launch. */
static stg_status apply_elsewhere(struct life *life, stg_error *reterr) {
  return apply_on(life, NULL, reterr);
}

/* The host's part of a capture, of which no call is counted. Replays once what was captured. */
static void end_capture(const struct life *life, bool replay) {
  struct stg_graph *graph = NULL;
  stg_error error = STG_ERROR_INIT;
  size_t nodes = 0;
  stub.host(true);
  must_be_ok("end of capture", stg_capture_end(life->host, life->stream, &graph, &nodes, &error),
             &error);
  assert_int_equal(nodes, replay ? 1 : 0);
  if (replay) {
    must_be_ok("replay", stg_graph_launch(life->host, graph, life->stream, &error), &error);
  }
  stg_graph_destroy(life->host, graph);
  stub.host(false);
}

static stg_status apply_captured(struct life *life, stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  stub.host(true);
  must_be_ok("capture", stg_capture_begin(life->host, life->stream, &error), &error);
  stub.host(false);
  const stg_status status = apply(life, reterr);
  end_capture(life, status == STG_OK);
  return status;
}

static stg_status apply_once(struct life *life, stg_error *reterr) {
  static const int64_t lengths[] = {ROWS};
  const stg_op_call add = {
      .op = "add", .vectors = {life->ones}, .params = {SCALE}, .params_given = 1};
  const stg_chain chain = {.ops = &add, .n_ops = 1};
  const stg_once once = {.struct_size = sizeof once,
                         .apply = {.struct_size = sizeof once.apply, .hidden = life->hidden},
                         .rows = ROWS,
                         .n_requests = 1,
                         .lengths = lengths,
                         .chains = &chain};
  const stg_status status = stg_steer_once(life->steer, &once, life->stream, reterr);
  life->expected += status == STG_OK ? SCALE : 0;
  return status;
}

static stg_status read_counters(struct life *life, stg_error *reterr) {
  stg_slot_counters counters = {.struct_size = sizeof counters};
  return stg_steer_counters(life->steer, 1, 0, life->stream, &counters, reterr);
}

static stg_status read_report(struct life *life, stg_error *reterr) {
  stg_device_report report = {.struct_size = sizeof report};
  return stg_device_status(life->steer, life->stream, &report, reterr);
}

struct act {
  const char *name;
  stg_status (*run)(struct life *life, stg_error *reterr);
};

static const struct act acts[] = {
    {"stg_engine_create", create_engine},
    {"stg_vector_intern", intern_vector},
    {"stg_steer_create", create_table},
    {"stg_frame_create", create_frame},
    {"stg_steer_slot_set", set_slot},
    {"stg_steer_step", step},
    {"stg_steer_apply", apply},
    {"a second stg_steer_apply", apply},
    {"stg_steer_apply on another stream", apply_elsewhere},
    {"stg_steer_set_params", change_params},
    {"stg_steer_slot_clear", clear_other_slot},
    {"stg_steer_step with news", step},
    {"stg_steer_apply of news", apply},
    {"stg_steer_step of a map on the device", step_on_device},
    {"stg_steer_apply of a map on the device", apply},
    {"stg_steer_apply in a capture", apply_captured},
    {"stg_steer_once", apply_once},
    {"stg_steer_once again", apply_once},
    {"stg_steer_counters", read_counters},
    {"stg_device_status", read_report},
};
#define N_ACTS (sizeof acts / sizeof acts[0])

/* Of loading a kernel: the image is at fault. */
static bool speaks_of_image(const struct driver_fault *fault, const char *call) {
  return fault->result == CUDA_ERROR_INVALID_IMAGE &&
         (strcmp(call, "cuModuleLoadData") == 0 || strcmp(call, "cuModuleGetFunction") == 0 ||
          strncmp(call, "cuFunc", 6) == 0);
}

/* Of a graph that a plain launch can stand in for. */
static bool speaks_of_graph(const struct driver_fault *fault, const char *call) {
  static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode",
                                      "cuGraphInstantiateWithFlags", "cuGraphUpload",
                                      "cuGraphExecKernelNodeSetParams"};
  bool speaks = false;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    speaks = speaks || strcmp(call, calls[i]) == 0;
  }
  return speaks && !fault->sticky;
}

static stg_status wanted_status(const struct driver_fault *fault, const char *call) {
  if (strcmp(call, "cuDeviceGetCount") == 0) {
    return STG_E_NO_DEVICE;
  }
  if (fault->result == CUDA_ERROR_ILLEGAL_ADDRESS ||
      (strcmp(call, IN_CONTEXT_LOSS) == 0 && fault->result != CUDA_ERROR_DEINITIALIZED)) {
    return STG_E_DEVICE_LOST;
  }
  return fault->result == CUDA_ERROR_OUT_OF_MEMORY ? STG_E_NO_MEMORY : STG_E_CUDA;
}

/* What a failure says: which call it was, whatever failed after it. */
static void check_failure(const struct life *life, const struct act *act,
                          const struct driver_fault *fault, size_t nth, stg_status status,
                          const stg_error *error) {
  const char *call = stub.name(nth);
  const bool blames_image = speaks_of_image(fault, call);
  const bool has_cache = life->way.folder != NULL;
  /* an image that was compiled just now is not compiled again */
  const stg_status wanted = blames_image && !has_cache ? STG_E_CORRUPT : wanted_status(fault, call);
  if ((blames_image && has_cache) || speaks_of_graph(fault, call)) {
    fail_msg("%s: %s can do without, but is %s: %s", life->where, act->name,
             stg_status_name(status), error->message);
  }
  /* an engine that is being opened asks for the context's number for the first time */
  const bool opening = life->engine == NULL && strcmp(call, IN_CONTEXT_LOSS) == 0;
  if (status != wanted && !opening) {
    fail_msg("%s: %s: %s, not %s: %s", life->where, act->name, stg_status_name(status),
             stg_status_name(wanted), error->message);
  }
  /* what fails for good may be said by a later call, where the first did not matter */
  const char *named = fault->sticky ? fault->name : call;
  const char *reset = strstr(error->message, "context of device 0 was reset");
  const bool may_be_reset = strcmp(call, IN_CONTEXT_LOSS) == 0 && !fault->sticky;
  if (strstr(error->message, named) == NULL && (!may_be_reset || reset == NULL)) {
    fail_msg("%s: %s: the message names another call: %s", life->where, act->name, error->message);
  }
}

static void expect_rows(const struct life *life, const char *when) {
  for (size_t i = 0; i < ELEMS; i++) {
    if (life->hidden[i] != life->expected) {
      fail_msg("%s: after %s: element %zu is %g, not %g", life->where, when, i,
               (double)life->hidden[i], (double)life->expected);
    }
  }
}

/* The thread's context and capture mode are as before, unless the very call that gives them back
 * did not work, or the driver has shut down. */
static void expect_balance(const struct life *life, const struct driver_fault *fault, size_t nth,
                           const char *when) {
  const char *call = stub.name(nth);
  const bool has_ended = fault->result == CUDA_ERROR_DEINITIALIZED;
  if (!stub.is_balanced() && !has_ended && strcmp(call, "cuCtxPopCurrent") != 0 &&
      strcmp(call, "cuThreadExchangeStreamCaptureMode") != 0) {
    fail_msg("%s: %s changed the thread's context or capture mode", life->where, when);
  }
}

static void begin_life(struct life *life) {
  stg_error error = STG_ERROR_INIT;
  stub.reset(); /* what a test that failed left behind */
  life->hidden = calloc(ELEMS, sizeof *life->hidden);
  life->device_map = calloc(ROWS, sizeof *life->device_map);
  if (life->hidden == NULL || life->device_map == NULL) {
    fail_msg("no memory");
    return;
  }
  for (size_t r = 0; r < ROWS; r++) {
    life->device_map[r] = 1;
  }
  stub.host(true);
  must_be_ok("host", stg_device_open(0, &life->host, &error), &error);
  must_be_ok("host", stg_stream_create(life->host, &life->stream, &error), &error);
  stub.host(false);
}

/* Nothing that was made stays, and nothing hinders that. Returns what was set aside. */
static uint64_t end_life(struct life *life) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_error error = STG_ERROR_INIT;
  stg_frame_destroy(life->frame);
  stg_status status = stg_steer_destroy(life->steer, &error);
  if (status != STG_OK) {
    status = stg_steer_destroy(life->steer, &error); /* the fault was in here */
  }
  must_be_ok(life->where, status, &error);
  if (life->engine != NULL) {
    stg_engine_stats(life->engine, &stats);
  }
  must_be_ok(life->where, stg_engine_destroy(life->engine, &error), &error);
  stub.host(true);
  stg_stream_destroy(life->host, life->stream);
  stg_device_close(life->host);
  stub.host(false);
  free(life->hidden);
  free(life->device_map);
  return stats.cache_quarantined;
}

/* What may be left in the driver: what could not be freed (a graph is two things), or all, with a
 * device that is lost. */
static void check_end(const struct life *life, const struct driver_fault *fault, size_t nth,
                      uint64_t quarantined) {
  const char *call = stub.name(nth);
  const bool lost = life->lost || strcmp(call, IN_CONTEXT_LOSS) == 0;
  const bool barred = strcmp(call, "cuCtxPushCurrent") == 0 ||
                      strcmp(call, "cuThreadExchangeStreamCaptureMode") == 0;
  if (!lost && stub.live() > (barred ? 2 : 0)) {
    fail_msg("call %zu, %s: %zu things are left in the driver", nth, call, stub.live());
  }
  const bool set_aside = life->way.folder != NULL && speaks_of_image(fault, call);
  if (quarantined != (set_aside ? 1 : 0)) {
    fail_msg("call %zu, %s: %llu entries were set aside", nth, call,
             (unsigned long long)quarantined);
  }
  if (stub.misuses() != 0) {
    fail_msg("call %zu, %s: %zu misuses, the first is %s", nth, call, stub.misuses(),
             stub.misuse());
  }
}

/* Live, with the nth call failing; 0: with none. Returns how many calls there were. */
static size_t live(const struct way *way, size_t nth, const struct driver_fault *fault) {
  struct life life = {.way = *way};
  begin_life(&life);
  stub.fail_at(nth, (int)fault->result, fault->sticky);
  bool failed = false;
  for (size_t i = 0; i < N_ACTS && !life.lost; i++) {
    stg_error error = STG_ERROR_INIT;
    stg_status status = acts[i].run(&life, &error);
    if (nth != 0 && stub.calls() >= nth) {
      snprintf(life.where, sizeof life.where, "call %zu, %s, answers %s", nth, stub.name(nth),
               fault->name);
    }
    expect_balance(&life, fault, nth, acts[i].name);
    if (status != STG_OK) {
      life.lost = failed || fault->sticky || status == STG_E_DEVICE_LOST;
      check_failure(&life, &acts[i], fault, nth, status, &error);
      failed = true;
    }
    if (!life.lost) {
      expect_rows(&life, acts[i].name);
    }
    if (status != STG_OK && !life.lost) {
      status = acts[i].run(&life, &error);
      must_be_ok(life.where, status, &error);
      expect_rows(&life, "asking again");
    }
  }
  life.lost = life.lost || fault->sticky;
  const uint64_t quarantined = end_life(&life);
  check_end(&life, fault, nth, quarantined);
  stub.reset();
  return stub.calls();
}

static void each_call_fails(const struct way *way, size_t n_faults) {
  live(way, 0, &no_fault); /* compiles */
  const size_t calls = live(way, 0, &no_fault);
  assert_true(calls > 100);
  const bool quick = test_is_quick();
  for (size_t f = 0; f < n_faults; f++) {
    for (size_t nth = quick ? f + 1 : 1; nth <= calls; nth += quick ? n_faults : 1) {
      live(way, nth, &faults[f]);
    }
    live(way, 0, &no_fault);
  }
}

static void each_call_fails_where_graphs_launch(void **state) {
  each_call_fails(&(struct way){temp_path(state, "graphs"), STG_LAUNCH_GRAPH, STG_COMPILE_BLOCK},
                  N_FAULTS);
}

/* A graph is then made anew for each launch, and those calls fail. */
static void each_call_fails_where_no_graph_can_be_changed(void **state) {
  stub.refuse("cuGraphExecKernelNodeSetParams");
  each_call_fails(&(struct way){temp_path(state, "changes"), STG_LAUNCH_GRAPH, STG_COMPILE_BLOCK},
                  FEW_FAULTS);
}

static void each_call_fails_where_no_graph_can_be_had(void **state) {
  stub.refuse("cuGraphInstantiateWithFlags");
  each_call_fails(&(struct way){temp_path(state, "none"), STG_LAUNCH_GRAPH, STG_COMPILE_BLOCK},
                  FEW_FAULTS);
}

static void each_call_fails_where_launches_are_plain(void **state) {
  each_call_fails(&(struct way){temp_path(state, "plain"), STG_LAUNCH_PLAIN, STG_COMPILE_BLOCK},
                  FEW_FAULTS);
}

/* Kernels are loaded by threads of the engine, so which call is the nth differs a little. */
static void each_call_fails_where_kernels_are_compiled(void **state) {
  (void)state;
  each_call_fails(&(struct way){NULL, STG_LAUNCH_GRAPH, STG_COMPILE_BACKGROUND}, N_FAULTS);
}

static int refuse_nothing(void **state) {
  stub.refuse(NULL);
  return temp_folder_teardown(state);
}

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, temp_folder_setup, refuse_nothing)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(each_call_fails_where_kernels_are_compiled),
      IN_FOLDER(each_call_fails_where_graphs_launch),
      IN_FOLDER(each_call_fails_where_no_graph_can_be_changed),
      IN_FOLDER(each_call_fails_where_no_graph_can_be_had),
      IN_FOLDER(each_call_fails_where_launches_are_plain),
  };
  return cmocka_run_group_tests(tests, open_stubs, NULL);
}
