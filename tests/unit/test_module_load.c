/*
 * test_module_load.c: which answers of the driver blame a cubin, and which touch no cache entry.
 *
 * The driver is a table of this test's own functions: no GPU, no libcuda.
 */
#include "runtime/launch.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/context.h"

enum { LOAD, GET_FUNCTION, LOAD_FUNCTION, SET_LIMIT };

/* The call that does not succeed, and what it answers; modules that are loaded. */
static struct {
  int call;
  CUresult answer;
  int loaded;
} failing;

static CUresult answer_of(int call) {
  return failing.call == call ? failing.answer : CUDA_SUCCESS;
}

static CUresult module_load_data(CUmodule *ret_module, const void *image) {
  (void)image;
  *ret_module = NULL;
  failing.loaded += answer_of(LOAD) == CUDA_SUCCESS;
  return answer_of(LOAD);
}

static CUresult module_unload(CUmodule module) {
  (void)module;
  failing.loaded--;
  return CUDA_SUCCESS;
}

static CUresult module_get_function(CUfunction *ret_function, CUmodule module, const char *name) {
  (void)module;
  (void)name;
  *ret_function = NULL;
  return answer_of(GET_FUNCTION);
}

static CUresult func_load(CUfunction function) {
  (void)function;
  return answer_of(LOAD_FUNCTION);
}

static CUresult func_get_attribute(int *ret_value, CUfunction_attribute attribute,
                                   CUfunction function) {
  (void)attribute;
  (void)function;
  *ret_value = 0;
  return CUDA_SUCCESS;
}

static CUresult func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
  (void)function;
  (void)attribute;
  (void)value;
  return answer_of(SET_LIMIT);
}

static CUresult ctx_get_id(CUcontext context, unsigned long long *ret_id) {
  (void)context;
  *ret_id = 0;
  return CUDA_SUCCESS;
}

static CUresult ctx_get_current(CUcontext *ret_context) {
  *ret_context = NULL;
  return CUDA_SUCCESS;
}

static CUresult exchange_capture_mode(CUstreamCaptureMode *mode) {
  (void)mode;
  return CUDA_SUCCESS;
}

static CUresult get_error_text(CUresult result, const char **ret_text) {
  (void)result;
  *ret_text = "TEST_ERROR";
  return CUDA_SUCCESS;
}

static const struct stg_driver driver = {
    .get_error_name = get_error_text,
    .get_error_string = get_error_text,
    .ctx_get_id = ctx_get_id,
    .ctx_get_current = ctx_get_current,
    .exchange_capture_mode = exchange_capture_mode,
    .module_load_data = module_load_data,
    .module_unload = module_unload,
    .module_get_function = module_get_function,
    .func_load = func_load,
    .func_get_attribute = func_get_attribute,
    .func_set_attribute = func_set_attribute,
};

/* What comes of loading when `call` answers so. Nothing stays loaded that was not asked for. */
static stg_status load(int call, CUresult answer, stg_error *err) {
  struct stg_device device = {.driver = &driver, .shared_optin = 1 << 16};
  struct stg_module *module = NULL;
  failing.call = call;
  failing.answer = answer;
  failing.loaded = 0;
  *err = (stg_error)STG_ERROR_INIT;
  snprintf(device.info.arch, sizeof device.info.arch, "sm_90");
  const stg_status status = stg_module_load(&device, "cubin", "stg_steer", &module, err);
  assert_true((module != NULL) == (status == STG_OK));
  assert_int_equal(failing.loaded, status == STG_OK);
  stg_module_unload(&device, module);
  return status;
}

static void loads_what_the_driver_takes(void **state) {
  (void)state;
  stg_error err;
  assert_int_equal(load(LOAD, CUDA_SUCCESS, &err), STG_OK);
  assert_int_equal(failing.loaded, 0);
}

static void blames_the_cubin_for_three_answers(void **state) {
  (void)state;
  static const CUresult answers[] = {CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU,
                                     CUDA_ERROR_INVALID_PTX};
  stg_error err;
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    assert_int_equal(load(LOAD, answers[i], &err), STG_E_CORRUPT);
    assert_string_equal(err.message, "the driver refuses the cubin of kernel 'stg_steer' on sm_90: "
                                     "cuModuleLoadData answered TEST_ERROR (TEST_ERROR)");
    /* under lazy loading it may say so later */
    assert_int_equal(load(LOAD_FUNCTION, answers[i], &err), STG_E_CORRUPT);
  }
}

static bool blames(CUresult answer) {
  return answer == CUDA_ERROR_INVALID_IMAGE || answer == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         answer == CUDA_ERROR_INVALID_PTX;
}

static void blames_no_cubin_for_any_other(void **state) {
  (void)state;
  stg_error err;
  for (int call = LOAD; call <= SET_LIMIT; call++) {
    for (int answer = 1; answer < 1000; answer++) {
      const stg_status status = load(call, (CUresult)answer, &err);
      assert_int_not_equal(status, STG_OK);
      assert_int_equal(status == STG_E_CORRUPT, blames((CUresult)answer));
    }
  }
  assert_int_equal(load(GET_FUNCTION, CUDA_ERROR_NOT_FOUND, &err), STG_E_CUDA);
  assert_string_equal(err.message, "cuModuleGetFunction failed: TEST_ERROR (TEST_ERROR)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loads_what_the_driver_takes),
      cmocka_unit_test(blames_the_cubin_for_three_answers),
      cmocka_unit_test(blames_no_cubin_for_any_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
