/*
 * test_bench_kernels.c: the bench's own CUDA compiles, and keeps its rows in registers. Needs no
 * GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/embedded.h"
#include "runtime/cubin.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tools/bench/baseline.h"
#include "tools/bench/floor.h"
#include "tools/bench/prove_floor.h"

extern const struct stg_embedded_file stg_embedded_bench[];
extern const size_t stg_embedded_bench_count;

static const char *text_of(const char *stem) {
  for (size_t i = 0; i < stg_embedded_bench_count; i++) {
    if (strcmp(stg_embedded_bench[i].stem, stem) == 0) {
      return stg_embedded_bench[i].text;
    }
  }
  fail_msg("kernels/%s.cu is not embedded", stem);
  return "";
}

/* Compiles for `arch` and looks at each kernel that the launches name. */
static void check(const char *stem, const char *const *names, size_t count, const char *arch) {
  const struct stg_kernel_request request = {
      .signature = stem, .name = names[0], .prelude = "", .source = text_of(stem), .arch = arch};
  const struct stg_log no_log = {0};
  struct stg_kernel_image image = {0};
  stg_error error = STG_ERROR_INIT;
  if (stg_compile(&request, &no_log, &image, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  for (size_t i = 0; i < count; i++) {
    struct stg_cubin_info info = {0};
    if (stg_cubin_read(image.cubin, image.cubin_size, names[i], &info, &error) != STG_OK) {
      fail_msg("%s: %s", names[i], error.message);
    }
    assert_int_equal(info.local_bytes, 0);
  }
  stg_kernel_image_finish(&image);
}

static const char *const archs[] = {"sm_80", "sm_90"};

static void compiles_every_kernel_of_the_baselines_without_spills(void **state) {
  (void)state;
  static const char *const names[STG_RIVAL_KERNEL_COUNT] = {
#define KERNEL_NAME(name, symbol) symbol,
      STG_BENCH_RIVAL_KERNELS(KERNEL_NAME)
#undef KERNEL_NAME
  };
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    check("baselines", names, STG_RIVAL_KERNEL_COUNT, archs[i]);
  }
}

static void compiles_the_copies_of_the_floor_without_spills(void **state) {
  (void)state;
  static const char *const names[STG_BENCH_N_FLOOR_KERNELS] = {STG_BENCH_FLOOR_NAMES};
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    check("copy", names, STG_BENCH_N_FLOOR_KERNELS, archs[i]);
  }
}

static void compiles_the_reads_of_the_floor_without_spills(void **state) {
  (void)state;
  static const char *const names[] = {"stg_read_1", "stg_read_2", "stg_read_4", "stg_read_8"};
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    check("read", names, sizeof names / sizeof names[0], archs[i]);
  }
}

static void compiles_the_peaks_of_the_floor_without_spills(void **state) {
  (void)state;
  static const char *const names[STG_PROVE_PEAKS] = {STG_PROVE_PEAK_NAMES};
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    check("peak", names, STG_PROVE_PEAKS, archs[i]);
  }
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiles_every_kernel_of_the_baselines_without_spills),
      cmocka_unit_test(compiles_the_copies_of_the_floor_without_spills),
      cmocka_unit_test(compiles_the_reads_of_the_floor_without_spills),
      cmocka_unit_test(compiles_the_peaks_of_the_floor_without_spills),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
