/*
 * test_compile.c: NVRTC gives cubins, and says what is wrong in one line. Needs no GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/base/strbuf.h"
#include "runtime/cubin.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/temp_folder.h"

static const struct stg_log no_log;

static struct stg_kernel_image compile(const struct stg_kernel_request *request) {
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  if (stg_compile(request, &no_log, &image, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  return image;
}

static bool images_equal(const struct stg_kernel_image *a, const struct stg_kernel_image *b) {
  return a->cubin_size == b->cubin_size && memcmp(a->cubin, b->cubin, a->cubin_size) == 0;
}

static void compiles_to_a_cubin_of_each_architecture(void **state) {
  (void)state;
  static const struct {
    const char *arch;
    uint32_t sm;
  } archs[] = {{"sm_80", 80}, {"sm_90", 90}, {"sm_90a", 90}, {"sm_100", 100}, {"sm_120", 120}};
  struct stg_nvrtc_info nvrtc;
  assert_int_equal(stg_nvrtc_info(&nvrtc, NULL), STG_OK);
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    if (archs[i].sm >= 100 && nvrtc.major == 12 && nvrtc.minor < 8) {
      continue; /* older than Blackwell */
    }
    struct stg_kernel_request request = scale_request(archs[i].arch);
    struct stg_kernel_image image = compile(&request);
    struct stg_cubin_info info = {0};
    assert_int_equal(stg_cubin_read(image.cubin, image.cubin_size, request.name, &info, NULL),
                     STG_OK);
    assert_int_equal(info.sm, archs[i].sm);
    assert_int_equal(info.param_bytes, 16);
    assert_true(info.registers > 0 && info.code_bytes > 0);
    assert_true(image.compile_ms > 0);
    assert_string_equal(image.compiler, nvrtc.compiler);
    stg_kernel_image_finish(&image);
  }
}

static void knows_its_full_version(void **state) {
  (void)state;
  struct stg_nvrtc_info info;
  assert_int_equal(stg_nvrtc_info(&info, NULL), STG_OK);
  struct stg_strbuf source = {0};
  stg_strbuf_printf(&source,
                    "static_assert(__CUDACC_VER_MAJOR__ == %d, \"major\");\n"
                    "static_assert(__CUDACC_VER_MINOR__ == %d, \"minor\");\n"
                    "static_assert(__CUDACC_VER_BUILD__ == %d, \"build\");\n",
                    info.major, info.minor, info.build);
  struct stg_kernel_request request = scale_request("sm_80");
  request.prelude = "#define TEST_FACTOR 1.0f\n";
  stg_strbuf_str(&source, request.source);
  request.source = stg_strbuf_text(&source);

  struct stg_kernel_image image = compile(&request);

  char known[STG_COMPILER_CHARS] = "";
  assert_true(stg_nvrtc_is_loaded());
  assert_true(stg_nvrtc_known_compiler(known));
  assert_string_equal(known, info.compiler);
  assert_non_null(strstr(info.path, "libnvrtc"));
  stg_kernel_image_finish(&image);
  stg_strbuf_finish(&source);
}

static void lists_the_architectures_it_knows_in_order(void **state) {
  (void)state;
  int archs[64];
  size_t count = 0;
  assert_int_equal(stg_nvrtc_archs(archs, 64, &count, NULL), STG_OK);
  assert_true(count > 2);
  for (size_t i = 1; i < count; i++) {
    assert_true(archs[i - 1] < archs[i]);
  }
  size_t two = 0;
  assert_int_equal(stg_nvrtc_archs(archs, 2, &two, NULL), STG_OK);
  assert_int_equal(two, 2);
}

/* Collects what the log callback is given, level by level. */
struct heard {
  struct stg_strbuf error, debug;
};

static void hear(void *user, stg_log_level level, const char *message) {
  struct heard *heard = user;
  stg_strbuf_str(level == STG_LOG_ERROR ? &heard->error : &heard->debug, message);
}

static void names_the_first_error_and_logs_the_rest(void **state) {
  (void)state;
  struct heard heard = {0};
  struct stg_log log = {hear, &heard, STG_LOG_DEBUG};
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  request.source = "extern \"C\" __global__ void test_scale(float *x) {\n"
                   "  x[0] = first_mistake;\n"
                   "  x[1] = second_mistake;\n"
                   "}\n";

  stg_status status = stg_compile(&request, &log, &image, &error);

  assert_int_equal(status, STG_E_COMPILE);
  assert_int_equal(error.code, STG_E_COMPILE);
  assert_non_null(strstr(error.message, "refuses kernel 'test_scale' for sm_90: "
                                        "steergraph.cu(3): error: "));
  assert_non_null(strstr(error.message, "first_mistake"));
  assert_null(strstr(error.message, "second_mistake"));
  assert_null(strchr(error.message, '\n'));
  assert_non_null(strstr(stg_strbuf_text(&heard.error), "second_mistake"));
  assert_non_null(strstr(stg_strbuf_text(&heard.debug), "    3    x[0] = first_mistake;\n"));
  assert_null(image.cubin);
  stg_strbuf_finish(&heard.error);
  stg_strbuf_finish(&heard.debug);
}

static void refuses_an_architecture_it_does_not_know_and_lists_those_it_does(void **state) {
  (void)state;
  struct stg_kernel_request request = scale_request("sm_999");
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_compile(&request, &no_log, &image, &error), STG_E_UNSUPPORTED);
  assert_non_null(strstr(error.message,
                         "') does not know architecture 'sm_999'; put the folder of a "
                         "newer one on LD_LIBRARY_PATH"));
  assert_non_null(strstr(error.message, "; this one knows sm_"));
  assert_non_null(strstr(error.message, " sm_80 "));

  request.arch = "sm_80a"; /* the number is known, the suffix is not */
  assert_int_equal(stg_compile(&request, &no_log, &image, &error), STG_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "sm_80a"));
}

static void refuses_what_is_no_architecture(void **state) {
  (void)state;
  static const char *const archs[] = {"", "90", "compute_90", "sm_", "sm_90 --help"};
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    struct stg_kernel_request request = scale_request(archs[i]);
    struct stg_kernel_image image = {0};
    stg_error error = STG_ERROR_INIT;
    assert_int_equal(stg_compile(&request, &no_log, &image, &error), STG_E_INVALID);
    assert_non_null(strstr(error.message, "is not of the form sm_90"));
  }
}

static void refuses_an_option_it_does_not_know_by_name(void **state) {
  (void)state;
  static const char *const options[] = {"--no-such-option"};
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  request.options = options;
  request.n_options = 1;
  assert_int_equal(stg_compile(&request, &no_log, &image, &error), STG_E_COMPILE);
  assert_non_null(strstr(error.message, "--no-such-option"));
}

static void keeps_options_of_the_environment_to_the_key(void **state) {
  (void)state;
  static const char *const options[] = {"env:--no-such-option"};
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_kernel_image plain = compile(&request);
  request.options = options;
  request.n_options = 1;
  struct stg_kernel_image image = compile(&request);
  assert_true(images_equal(&image, &plain));
  stg_kernel_image_finish(&image);
  stg_kernel_image_finish(&plain);
}

static void contracts_no_product_and_sum(void **state) {
  (void)state;
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_kernel_image plain = compile(&request);
  request.source = "extern \"C\" __global__ void test_scale(float *x, float offset, unsigned n) {\n"
                   "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                   "  if (i < n) {\n"
                   "    x[i] = __fadd_rn(__fmul_rn(x[i], TEST_FACTOR), offset);\n"
                   "  }\n"
                   "}\n";
  struct stg_kernel_image rounded_twice = compile(&request);
  request.source = "extern \"C\" __global__ void test_scale(float *x, float offset, unsigned n) {\n"
                   "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                   "  if (i < n) {\n"
                   "    x[i] = __fmaf_rn(x[i], TEST_FACTOR, offset);\n"
                   "  }\n"
                   "}\n";
  struct stg_kernel_image rounded_once = compile(&request);
  assert_true(images_equal(&plain, &rounded_twice));
  assert_false(images_equal(&plain, &rounded_once));
  stg_kernel_image_finish(&plain);
  stg_kernel_image_finish(&rounded_twice);
  stg_kernel_image_finish(&rounded_once);
}

#define N_THREADS 4

struct compile_job {
  struct stg_kernel_request request;
  struct stg_kernel_image image;
  stg_status status;
};

static void *run_job(void *user) {
  struct compile_job *job = user;
  job->status = stg_compile(&job->request, &no_log, &job->image, NULL);
  return NULL;
}

static void gives_equal_bytes_from_parallel_compiles(void **state) {
  (void)state;
  static const char *const archs[N_THREADS] = {"sm_80", "sm_90", "sm_80", "sm_90"};
  struct compile_job jobs[N_THREADS] = {0};
  pthread_t threads[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) {
    jobs[i].request = scale_request(archs[i]);
    assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].status, STG_OK);
  }
  assert_true(images_equal(&jobs[0].image, &jobs[2].image));
  assert_true(images_equal(&jobs[1].image, &jobs[3].image));
  assert_false(images_equal(&jobs[0].image, &jobs[1].image));
  for (int i = 0; i < N_THREADS; i++) {
    stg_kernel_image_finish(&jobs[i].image);
  }
}

static bool maps_name(const char *name) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false;
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps) != NULL) {
    found = found || strstr(line, name) != NULL;
  }
  fclose(maps);
  return found;
}

static void leaves_the_home_folder_the_driver_and_the_stack_limit_alone(void **state) {
  struct stg_nvrtc_info info;
  struct rlimit before;
  struct rlimit after;
  assert_int_equal(stg_nvrtc_info(&info, NULL), STG_OK);
  assert_int_equal(setenv("HOME", *state, 1), 0);
  assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
  struct stg_kernel_request request = scale_request("sm_90");

  struct stg_kernel_image image = compile(&request);

  assert_int_equal(getrlimit(RLIMIT_STACK, &after), 0);
  assert_true(before.rlim_cur == after.rlim_cur);
  assert_false(maps_name("/libcuda.so"));
  assert_true(maps_name("/libnvrtc"));
  DIR *home = opendir(*state);
  assert_non_null(home);
  size_t entries = 0;
  while (readdir(home) != NULL) {
    entries++;
  }
  closedir(home);
  assert_int_equal(entries, 2); /* . and .. */
  stg_kernel_image_finish(&image);
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiles_to_a_cubin_of_each_architecture),
      cmocka_unit_test(knows_its_full_version),
      cmocka_unit_test(lists_the_architectures_it_knows_in_order),
      cmocka_unit_test(names_the_first_error_and_logs_the_rest),
      cmocka_unit_test(refuses_an_architecture_it_does_not_know_and_lists_those_it_does),
      cmocka_unit_test(refuses_what_is_no_architecture),
      cmocka_unit_test(refuses_an_option_it_does_not_know_by_name),
      cmocka_unit_test(keeps_options_of_the_environment_to_the_key),
      cmocka_unit_test(contracts_no_product_and_sum),
      cmocka_unit_test(gives_equal_bytes_from_parallel_compiles),
      cmocka_unit_test_setup_teardown(leaves_the_home_folder_the_driver_and_the_stack_limit_alone,
                                      temp_folder_setup, temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
