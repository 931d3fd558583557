/*
 * test_region_applies.c: applies of ours within a region: recorded with the host's work, replayed
 * on tensors that move, and held in use by the record until it is forgotten.
 */
#include "tests/gpu/gpu_test.h"

#include <string.h>
#include <time.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "tests/support/steer_env.h"

#define WIDTH 16
#define ROWS 8
#define ELEMS ((size_t)ROWS * WIDTH)
#define BYTES (ELEMS * sizeof(uint16_t))
#define LIMIT_S 20 /* a thread of the driver's lets go of what a graph held */

/* Two layers of x V U, where x has one value, a power of 2, and V and U are ones: 65536 times that
 * value, without a rounding. */
struct model {
  stg_engine *engine;
  stg_components *components;
  void *ones, *between; /* on the device */
  size_t calls;
};

static uint16_t bf16_of(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void *new_tensor(const struct model *model, float value) {
  uint16_t host[(size_t)WIDTH * WIDTH];
  void *memory = NULL;
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) {
    host[i] = bf16_of(value);
  }
  check_ok(stg_mem_alloc(model->engine, sizeof host, &memory, &error), &error);
  check_ok(stg_mem_upload(model->engine, memory, host, sizeof host, &error), &error);
  return memory;
}

static void holds(const struct model *model, const void *tensor, float value) {
  uint16_t host[ELEMS];
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_mem_download(model->engine, host, tensor, BYTES, &error), &error);
  for (size_t i = 0; i < ELEMS; i++) {
    assert_int_equal(bf16_of(value), host[i]);
  }
}

static stg_status apply(const struct model *model, const void *x, void *y, stg_stream stream,
                        stg_error *reterr) {
  const stg_components_tensors tensors = {.struct_size = sizeof tensors,
                                          .rows = ROWS,
                                          .x = x,
                                          .v = model->ones,
                                          .u = model->ones,
                                          .y = y};
  return stg_components_apply(model->components, &tensors, stream, reterr);
}

static stg_status record(void *user, stg_stream stream, void *const *pointers, stg_error *reterr) {
  struct model *model = user;
  model->calls++;
  stg_status status = apply(model, pointers[0], model->between, stream, reterr);
  return status == STG_OK ? apply(model, model->between, pointers[1], stream, reterr) : status;
}

static void open_model(struct model *model, stg_engine *engine) {
  const stg_components_desc desc = {.struct_size = sizeof desc,
                                    .d_in = WIDTH,
                                    .d_out = WIDTH,
                                    .components = WIDTH,
                                    .dtype = STG_BF16,
                                    .mask = STG_MASK_ABSENT,
                                    .max_rows = ROWS};
  stg_error error = STG_ERROR_INIT;
  *model = (struct model){.engine = engine};
  model->ones = new_tensor(model, 1.0f);
  model->between = new_tensor(model, 0.0f);
  check_ok(stg_components_create(engine, &desc, &model->components, &error), &error);
}

static stg_region_facts run(struct model *model, void *x, void *y, stg_stream stream) {
  const stg_region_pointer pointers[] = {
      {.address = x, .bytes = BYTES, .moves = STG_REGION_IN},
      {.address = y, .bytes = BYTES, .moves = STG_REGION_OUT},
  };
  const stg_region_call call = {.struct_size = sizeof call,
                                .signature = "two layers",
                                .rows = ROWS,
                                .record = record,
                                .user = model,
                                .pointers = pointers,
                                .n_pointers = 2};
  stg_region_facts facts = {.struct_size = sizeof facts};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_region_run(model->engine, &call, stream, &facts, &error), &error);
  check_ok(stg_stream_synchronize(stg_mem_device(model->engine), stream, &error), &error);
  return facts;
}

static void destroy_when_let_go(struct model *model) {
  stg_error error = STG_ERROR_INIT;
  stg_status status = STG_E_BUSY;
  const time_t until = time(NULL) + LIMIT_S;
  while (status == STG_E_BUSY && time(NULL) < until) {
    status = stg_components_destroy(model->components, &error);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  check_ok(status, &error);
}

static void our_applies_are_recorded_replayed_and_held_until_they_are_forgotten(void **state) {
  const struct steer_env *env = *state;
  struct model model;
  stg_stream_handle stream = NULL;
  stg_error error = STG_ERROR_INIT;
  open_model(&model, env->engine);
  struct stg_device *device = stg_mem_device(env->engine);
  check_ok(stg_stream_create(device, &stream, &error), &error);
  for (int i = 0; i < 4; i++) {
    const float value = (float)(1 << i);
    void *x = new_tensor(&model, value), *y = new_tensor(&model, 0.0f);
    const stg_region_facts facts = run(&model, x, y, stream);
    assert_int_equal(i == 0, facts.recorded);
    assert_int_equal(i > 0, facts.replayed);
    assert_string_equal("", facts.why);
    holds(&model, y, value * 65536.0f);
    stg_mem_free(env->engine, x);
    stg_mem_free(env->engine, y);
  }
  assert_int_equal(1, model.calls);
  assert_int_equal(STG_E_BUSY, stg_components_destroy(model.components, &error));
  assert_non_null(strstr(error.message, "1 host graphs that were captured with the components"));
  check_ok(stg_region_forget(env->engine, "two layers", &error), &error);
  destroy_when_let_go(&model);
  stg_mem_free(env->engine, model.ones);
  stg_mem_free(env->engine, model.between);
  stg_stream_destroy(device, stream);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(our_applies_are_recorded_replayed_and_held_until_they_are_forgotten),
  };
  return cmocka_run_group_tests(tests, steer_env_cuda, steer_env_close);
}
