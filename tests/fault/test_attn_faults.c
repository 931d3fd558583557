/*
 * test_attn_faults.c: every call of the driver in the life of a cache, its rows, rope, attend and
 * block fails in turn. What fails says which call it was; asked again it is done; and nothing stays
 * behind in the driver. Kernels do nothing here.
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
#define LAYERS 2
#define BATCH 2
#define DIM 8

static const int32_t both[BATCH] = {1, 0};

/* One life. Tensors are the host's: nothing reads them. */
struct life {
  struct stg_device *host; /* with a stream of its own */
  stg_stream_handle stream;
  stg_engine *engine;
  stg_kv *kv;
  stg_rows *rows;
  stg_rope *rope;
  stg_attend *attend;
  stg_block *block;
  float tensor[BATCH * 8 * DIM];
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

static stg_status create_kv(struct life *life, stg_error *reterr) {
  const stg_kv_desc desc = {.struct_size = sizeof desc,
                            .layers = LAYERS,
                            .batch = BATCH,
                            .kv_heads = 2,
                            .dim = DIM,
                            .capacity = 64,
                            .dtype = STG_F32,
                            .block = 16,
                            .n_blocks = 8};
  return stg_kv_create(life->engine, &desc, &life->kv, reterr);
}

static stg_status create_rope(struct life *life, stg_error *reterr) {
  const stg_rope_desc desc = {
      .struct_size = sizeof desc, .heads = 4, .kv = life->kv, .backward = true, .transpose = true};
  return stg_rope_create(life->engine, &desc, &life->rope, reterr);
}

static stg_status create_attend(struct life *life, stg_error *reterr) {
  const stg_attend_desc desc = {.struct_size = sizeof desc, .heads = 4, .kv = life->kv};
  return stg_attend_create(life->engine, &desc, &life->attend, reterr);
}

static stg_status create_rows(struct life *life, stg_error *reterr) {
  const stg_rows_desc desc = {.struct_size = sizeof desc, .kv = life->kv, .max_rows = 4};
  return stg_rows_create(life->engine, &desc, &life->rows, reterr);
}

static stg_status create_block(struct life *life, stg_error *reterr) {
  const stg_block_desc desc = {
      .struct_size = sizeof desc, .rope = life->rope, .attend = life->attend, .advance = true};
  return stg_block_create(life->engine, &desc, &life->block, reterr);
}

static stg_status set_blocks(struct life *life, stg_error *reterr) {
  static const int32_t blocks[] = {3, 1};
  return stg_kv_set_blocks(life->kv, 1, 0, blocks, 2, life->stream, reterr);
}

static stg_status set_len(struct life *life, stg_error *reterr) {
  static const uint32_t seqs[] = {1, 0};
  static const int32_t lens[] = {5, 0};
  return stg_kv_set_len(life->kv, seqs, lens, 2, life->stream, reterr);
}

static stg_status step_rows(struct life *life, stg_error *reterr) {
  const stg_rows_step step = {.struct_size = sizeof step, .rows = BATCH, .seq = both};
  return stg_rows_step_set(life->rows, &step, life->stream, reterr);
}

static stg_status step_rows_on_device(struct life *life, stg_error *reterr) {
  const stg_rows_step step = {.struct_size = sizeof step,
                              .rows = BATCH,
                              .seq = (const int32_t *)(const void *)life->tensor,
                              .pos = life->tensor,
                              .on_device = true,
                              .longest = 1};
  return stg_rows_step_set(life->rows, &step, life->stream, reterr);
}

static stg_rope_tensors rope_tensors(struct life *life) {
  return (stg_rope_tensors){
      .struct_size = sizeof(stg_rope_tensors), .qkv = life->tensor, .q = life->tensor};
}

static stg_attend_tensors attend_tensors(struct life *life) {
  return (stg_attend_tensors){
      .struct_size = sizeof(stg_attend_tensors), .q = life->tensor, .out = life->tensor};
}

static stg_status rotate(struct life *life, stg_error *reterr) {
  const stg_rope_tensors tensors = rope_tensors(life);
  return stg_rope_apply(life->rope, life->rows, &tensors, life->stream, reterr);
}

static stg_status rotate_back(struct life *life, stg_error *reterr) {
  stg_rope_tensors tensors = rope_tensors(life);
  tensors.k = tensors.v = life->tensor;
  return stg_rope_backward(life->rope, life->rows, &tensors, life->stream, reterr);
}

static stg_status transpose(struct life *life, stg_error *reterr) {
  const stg_heads_tensors tensors = {.struct_size = sizeof tensors,
                                     .heads = 4,
                                     .rows = BATCH,
                                     .from = life->tensor,
                                     .to = life->tensor};
  return stg_heads_transpose(life->rope, &tensors, life->stream, reterr);
}

static stg_status attend(struct life *life, stg_error *reterr) {
  const stg_attend_tensors tensors = attend_tensors(life);
  return stg_attend_apply(life->attend, life->rows, &tensors, life->stream, reterr);
}

static stg_status advance(struct life *life, stg_error *reterr) {
  return stg_kv_advance(life->kv, life->rows, life->stream, reterr);
}

static stg_status step_block(struct life *life, stg_error *reterr) {
  return stg_block_step(life->block, life->rows, NULL, life->stream, reterr);
}

static stg_status apply_layer(struct life *life, uint32_t layer, stg_error *reterr) {
  const stg_rope_tensors rope = rope_tensors(life);
  const stg_attend_tensors keys = attend_tensors(life);
  const stg_block_tensors both_of = {
      .struct_size = sizeof both_of, .layer = layer, .rope = &rope, .attend = &keys};
  return stg_block_apply(life->block, &both_of, life->stream, reterr);
}

static stg_status apply_first(struct life *life, stg_error *reterr) {
  return apply_layer(life, 0, reterr);
}

static stg_status apply_last(struct life *life, stg_error *reterr) {
  return apply_layer(life, LAYERS - 1, reterr);
}

/* Refused, it adds nothing but what was launched before a launch that failed. */
static stg_status apply_captured(struct life *life, stg_error *reterr) {
  struct stg_graph *graph = NULL;
  stg_error error = STG_ERROR_INIT;
  size_t nodes = 0;
  stub.host(true);
  must_be_ok("capture", stg_capture_begin(life->host, life->stream, &error), &error);
  stub.host(false);
  const stg_status status = apply_last(life, reterr);
  stub.host(true);
  must_be_ok("end", stg_capture_end(life->host, life->stream, &graph, &nodes, &error), &error);
  stg_graph_destroy(life->host, graph);
  stub.host(false);
  assert_true(status == STG_OK ? nodes == 3 : nodes < 3);
  return status;
}

static stg_status read_status(struct life *life, stg_error *reterr) {
  return stg_kv_status(life->kv, life->stream, NULL, reterr);
}

struct act {
  const char *name;
  stg_status (*run)(struct life *life, stg_error *reterr);
};

static const struct act acts[] = {
    {"stg_engine_create", create_engine},
    {"stg_kv_create", create_kv},
    {"stg_rope_create", create_rope},
    {"stg_attend_create", create_attend},
    {"stg_rows_create", create_rows},
    {"stg_block_create", create_block},
    {"stg_kv_set_blocks", set_blocks},
    {"stg_kv_set_len", set_len},
    {"stg_rows_step_set", step_rows},
    {"stg_rope_apply", rotate},
    {"stg_attend_apply", attend},
    {"stg_kv_advance", advance},
    {"stg_rope_backward", rotate_back},
    {"stg_heads_transpose", transpose},
    {"stg_block_step", step_block},
    {"stg_block_apply", apply_first},
    {"stg_block_apply of the last layer", apply_last},
    {"stg_block_apply in a capture", apply_captured},
    {"stg_rows_step_set on the device", step_rows_on_device},
    {"stg_block_step of that", step_block},
    {"stg_block_apply of that", apply_last},
    {"stg_kv_status", read_status},
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
  stg_block_destroy(life->block);
  END(stg_rows_destroy(life->rows, &error));
  END(stg_attend_destroy(life->attend, &error));
  END(stg_rope_destroy(life->rope, &error));
  END(stg_kv_destroy(life->kv, &error));
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
    if (status != STG_OK && !lost && acts[i].run == apply_first) {
      must_be_ok(where, step_block(&life, &error), &error);
    }
    if (status != STG_OK && !lost) {
      must_be_ok(where, acts[i].run(&life, &error), &error);
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
