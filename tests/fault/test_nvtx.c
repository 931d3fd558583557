/*
 * test_nvtx.c: a profiler that listens gets a range for each call that it should, well nested, and
 * without one there is none. The profiler is nvtx_injection.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <steergraph/steergraph.h>

#include "runtime/compile.h"
#include "runtime/nvtx.h"
#include "tests/fault/nvtx_injection.h"
#include "tests/support/test_fork.h"

#define HIDDEN 4
#define INJECTION "NVTX_INJECTION64_PATH"

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static stg_engine *open_engine(void) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  ok(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

static struct stg_injection *injection(void) {
  void *library = dlopen(STG_TEST_INJECTION, RTLD_NOW | RTLD_NOLOAD);
  void *symbol = library != NULL ? dlsym(library, "stg_injection_seen") : NULL;
  struct stg_injection *(*seen)(void) = NULL;
  assert_non_null(symbol); /* NULL: nobody loaded it */
  memcpy(&seen, &symbol, sizeof symbol);
  return seen();
}

/* Two layers, one slot; a step, an apply of each layer, a failing apply. */
static void serve(stg_engine *engine) {
  static const float values[HIDDEN] = {1};
  static const int32_t row_map[] = {0, 0};
  float hidden[2][HIDDEN] = {{0}};
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  stg_frame *frame = NULL;
  stg_vector v = 0;
  const stg_steer_desc desc = {
      .struct_size = sizeof desc, .hidden_size = HIDDEN, .layers = 2, .dtype = STG_F32};
  ok(stg_steer_create(engine, &desc, &steer, &error), &error);
  ok(stg_frame_create(steer, &frame, &error), &error);
  ok(stg_vector_intern(engine, STG_F32, values, HIDDEN, &v, &error), &error);
  const stg_op_call call = {.op = "add", .vectors = {v}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set(steer, 0, &chain, 1, &error), &error);
  ok(stg_steer_set_params(steer, 0, 0, 0, (const float[]){2}, 1, &error), &error);
  const stg_step step = {.struct_size = sizeof step, .rows = 2, .row_map = row_map};
  ok(stg_steer_step(frame, &step, NULL, &error), &error);
  for (uint32_t layer = 0; layer < 2; layer++) {
    const stg_apply apply = {.struct_size = sizeof apply, .layer = layer, .hidden = hidden};
    ok(stg_steer_apply(frame, &apply, NULL, &error), &error);
  }
  const stg_step refused = {.struct_size = sizeof refused, .rows = -1};
  assert_int_equal(STG_E_INVALID, stg_steer_step(frame, &refused, NULL, &error));
  stg_frame_destroy(frame);
  ok(stg_steer_destroy(steer, &error), &error);
  ok(stg_vector_release(engine, v, &error), &error);
}

static void calls_are_ranges_by_name_and_layer(void **state) {
  (void)state;
  static const char *const expected[] = {"slot_set", "set_params", "step",
                                         "apply L0", "apply L1",   "step"};
  const size_t n = sizeof expected / sizeof expected[0];
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = open_engine();
  assert_true(stg_nvtx_is_on());
  struct stg_injection *seen = injection();
  assert_string_equal("steergraph", seen->domain);
  assert_int_equal(0, seen->pushes);
  serve(engine);
  assert_int_equal(n, seen->pushes);
  assert_int_equal(n, seen->pops);
  assert_int_equal(0, seen->depth);
  assert_int_equal(1, seen->deepest);
  for (size_t i = 0; i < n; i++) {
    assert_string_equal(expected[i], seen->names[i]);
  }
  ok(stg_engine_destroy(engine, &error), &error);
}

static void runs_of_provers_are_ranges_too(void **state) {
  static const stg_atom fact = {1, 1, 2}, query = {1, 2, 1};
  static const float zeros[64];
  const stg_prover_desc desc = {.struct_size = sizeof desc,
                                .predicates = 1,
                                .constants = 2,
                                .facts = &fact,
                                .n_facts = 1,
                                .embed = 2,
                                .hidden = 2,
                                .blocks = 1};
  const stg_prover_weights weights = {sizeof weights, zeros, zeros, zeros, zeros,
                                      zeros,          zeros, zeros, zeros, zeros,
                                      zeros,          zeros, zeros, zeros, zeros};
  const stg_prover_run_desc run = {.struct_size = sizeof run, .queries = &query, .n = 1};
  stg_prover *prover = NULL;
  stg_proof proof;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  stg_engine *engine = open_engine();
  struct stg_injection *seen = injection();
  ok(stg_prover_create(engine, &desc, &prover, &error), &error);
  ok(stg_prover_set_weights(prover, &weights, &error), &error);
  seen->pushes = seen->pops = 0;
  ok(stg_prover_run(prover, &run, &proof, &error), &error);
  assert_int_equal(1, seen->pushes);
  assert_int_equal(1, seen->pops);
  assert_string_equal("prove", seen->names[0]);
  ok(stg_prover_destroy(prover, &error), &error);
  ok(stg_engine_destroy(engine, &error), &error);
}

static void calls_of_components_are_ranges_too(void **state) {
  static const float x[2] = {1, 2}, v[2] = {1, 1}, u[1] = {3}, mask[1] = {1};
  const stg_components_desc desc = {.struct_size = sizeof desc,
                                    .d_in = 2,
                                    .d_out = 1,
                                    .components = 1,
                                    .dtype = STG_F32,
                                    .backward = true};
  float y[1], dx[2];
  const stg_components_tensors tensors = {
      .struct_size = sizeof tensors, .rows = 1, .x = x, .v = v, .u = u, .mask = mask, .y = y};
  const stg_components_grads grads = {.struct_size = sizeof grads, .dy = u, .dx = dx};
  stg_components *components = NULL;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  stg_engine *engine = open_engine();
  struct stg_injection *seen = injection();
  ok(stg_components_create(engine, &desc, &components, &error), &error);
  seen->pushes = seen->pops = 0;
  ok(stg_components_apply(components, &tensors, NULL, &error), &error);
  ok(stg_components_back(components, &tensors, &grads, NULL, &error), &error);
  assert_int_equal(2, seen->pushes);
  assert_int_equal(2, seen->pops);
  assert_string_equal("components", seen->names[0]);
  assert_string_equal("components back", seen->names[1]);
  ok(stg_components_destroy(components, &error), &error);
  ok(stg_engine_destroy(engine, &error), &error);
}

/* Work of a host that fails, or not. */
static stg_status enqueue(void *user, stg_stream stream, void *const *pointers, stg_error *reterr) {
  (void)stream;
  (void)pointers;
  (void)reterr;
  return *(const stg_status *)user;
}

static void runs_of_regions_are_ranges_too(void **state) {
  stg_status outcome = STG_OK;
  const stg_region_call call = {.struct_size = sizeof call,
                                .signature = "work of a host",
                                .record = enqueue,
                                .user = &outcome};
  stg_error error = STG_ERROR_INIT;
  (void)state;
  stg_engine *engine = open_engine();
  struct stg_injection *seen = injection();
  seen->pushes = seen->pops = 0;
  ok(stg_region_run(engine, &call, NULL, NULL, &error), &error);
  outcome = STG_E_INVALID;
  assert_int_equal(STG_E_INVALID, stg_region_run(engine, &call, NULL, NULL, &error));
  assert_int_equal(2, seen->pushes);
  assert_int_equal(2, seen->pops);
  assert_string_equal("region", seen->names[0]);
  ok(stg_engine_destroy(engine, &error), &error);
}

static void compiles_are_ranges_too(void **state) {
  (void)state;
  const struct stg_kernel_request request = {
      .signature = "test: nothing",
      .name = "test_nothing",
      .prelude = "",
      .source = "extern \"C\" __global__ void test_nothing(void) {\n}\n",
      .arch = "sm_80",
      .threads = 32,
      .rows_per_block = 1,
  };
  const struct stg_log log = {0};
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = open_engine();
  struct stg_injection *seen = injection();
  seen->pushes = seen->pops = 0;
  const stg_status status = stg_compile(&request, &log, &image, &error);
  /* without NVRTC it fails, in the same range */
  assert_true(status == STG_OK || status == STG_E_NO_DEVICE);
  stg_kernel_image_finish(&image);
  assert_int_equal(1, seen->pushes);
  assert_int_equal(1, seen->pops);
  assert_string_equal("compile", seen->names[0]);
  ok(stg_engine_destroy(engine, &error), &error);
}

static void a_process_asks_for_its_profiler_once(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  stg_engine *one = open_engine(), *other = open_engine();
  assert_int_equal(1, injection()->domains);
  ok(stg_engine_destroy(one, &error), &error);
  ok(stg_engine_destroy(other, &error), &error);
}

/* In a process of its own, since NVTX looks once: 0 when all calls work and none is a range. */
static int serve_without_profiler(void) {
  unsetenv(INJECTION);
  const pid_t child = test_fork();
  if (child == 0) {
    stg_error error = STG_ERROR_INIT;
    stg_engine *engine = open_engine();
    serve(engine);
    const bool closed = stg_engine_destroy(engine, &error) == STG_OK;
    void *loaded = dlopen(STG_TEST_INJECTION, RTLD_NOW | RTLD_NOLOAD);
    _exit(closed && loaded == NULL && !stg_nvtx_is_on() ? 0 : 1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void without_a_profiler_nothing_is_a_range(void **state) {
  assert_int_equal(0, *(const int *)*state);
}

int main(void) {
  static int without;
  without = serve_without_profiler();
  setenv(INJECTION, STG_TEST_INJECTION, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(without_a_profiler_nothing_is_a_range, &without),
      cmocka_unit_test(calls_are_ranges_by_name_and_layer),
      cmocka_unit_test(runs_of_provers_are_ranges_too),
      cmocka_unit_test(calls_of_components_are_ranges_too),
      cmocka_unit_test(runs_of_regions_are_ranges_too),
      cmocka_unit_test(compiles_are_ranges_too),
      cmocka_unit_test(a_process_asks_for_its_profiler_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
