/*
 * test_components_kernels.c: kernels of components as an engine of each architecture would have
 * them compile, and no thread of them has memory of its own: sums over rows stay in registers.
 * Needs no GPU.
 * STG_TEST_QUICK=1: all are generated, and one of weights and one of applies compiled.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "runtime/base/strbuf.h"
#include "runtime/cubin.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/quick.h"

#define N_SHAPES 5

static const struct stg_log no_log;

/* Those of the design, and the largest. */
static const uint32_t shapes[N_SHAPES][2] = {
    {128, 128}, {128, 341}, {341, 128}, {128, 64}, {512, 512}};

static struct stg_components_kernel weights_of(size_t shape, uint32_t sm, bool tf32) {
  return (struct stg_components_kernel){
      .work = STG_COMPONENTS_WEIGHTS,
      .geometry = {.d_in = shapes[shape][0],
                   .d_out = shapes[shape][1],
                   .components = 1200,
                   .dtype = tf32 ? STG_F32 : STG_BF16,
                   .tf32 = tf32,
                   .mask = STG_COMPONENTS_MASK_DTYPE,
                   .bias = true,
                   .delta = true},
      .sm = sm,
  };
}

/* Generate one, and compile it where the run is not quick or it is the one of a quick run. */
static void check_kernel(const struct stg_components_kernel *kernel, const char *arch, bool one) {
  struct stg_strbuf prelude = {0};
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule;
  struct stg_kernel_image image = {0};
  struct stg_cubin_info info = {0};
  stg_error error = STG_ERROR_INIT;
  const char *const name = stg_components_kernel_name(kernel->work);
  stg_components_prelude(kernel->work, &prelude);
  assert_int_equal(stg_components_generate(kernel, &source, &rule, &error), STG_OK);
  if (test_is_quick() && !one) {
    assert_int_equal(stg_strbuf_status(&source, NULL), STG_OK);
    stg_strbuf_finish(&source);
    stg_strbuf_finish(&prelude);
    return;
  }
  const struct stg_kernel_request request = {
      .signature = "test: components",
      .name = name,
      .prelude = stg_strbuf_text(&prelude),
      .source = stg_strbuf_text(&source),
      .arch = arch,
      .threads = rule.threads,
      .rows_per_block = rule.rows_per_block,
  };

  if (stg_compile(&request, &no_log, &image, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }

  assert_int_equal(stg_cubin_read(image.cubin, image.cubin_size, name, &info, &error), STG_OK);
  print_message("%-7s %3u registers, %u local, %5u + %6u shared  %u -> %u\n", arch, info.registers,
                info.local_bytes, info.shared_bytes, rule.stage_bytes, kernel->geometry.d_in,
                kernel->geometry.d_out);
  assert_int_equal(info.local_bytes, 0);
  assert_int_equal(info.param_bytes, stg_components_args_bytes(kernel->work));
  assert_in_range(info.registers, 1, 255);
  stg_kernel_image_finish(&image);
  stg_strbuf_finish(&source);
  stg_strbuf_finish(&prelude);
}

/* An NVRTC may be older than the architecture. */
static bool is_known(uint32_t sm) {
  int archs[64];
  size_t count = 0;
  assert_int_equal(stg_nvrtc_archs(archs, 64, &count, NULL), STG_OK);
  for (size_t i = 0; i < count; i++) {
    if (archs[i] == (int)sm) {
      return true;
    }
  }
  return false;
}

static void check_weights(const char *arch, uint32_t sm) {
  if (!is_known(sm)) {
    print_message("%s: this NVRTC does not know it\n", arch);
    return;
  }
  for (size_t i = 0; i < N_SHAPES; i++) {
    const struct stg_components_kernel kernel = weights_of(i, sm, false);
    check_kernel(&kernel, arch, sm == 90 && i == 0);
  }
}

static void weights_stay_in_registers_of_sm_80(void **state) {
  (void)state;
  check_weights("sm_80", 80);
}
static void weights_stay_in_registers_of_sm_89(void **state) {
  (void)state;
  check_weights("sm_89", 89);
}
static void weights_stay_in_registers_of_sm_90(void **state) {
  (void)state;
  check_weights("sm_90", 90);
}
/* The first three shapes of a large card: what the design is for. */
static void weights_of_float32_stay_in_registers_of_sm_90(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    const struct stg_components_kernel kernel = weights_of(i, 90, true);
    check_kernel(&kernel, "sm_90", false);
  }
}
static void weights_stay_in_registers_of_sm_120(void **state) {
  (void)state;
  check_weights("sm_120", 120);
}

/* Those whose sums leave the fewest registers, and those that hold x in them; both ways, with all
 * there is. */
static void applies_stay_in_registers(void **state) {
  (void)state;
  static const struct {
    const char *arch;
    uint32_t sm;
  } archs[] = {{"sm_90", 90}, {"sm_80", 80}};
  for (size_t i = 0; i < 8; i++) {
    const size_t arch = i / 4;
    const bool turned = i % 2 == 0;
    const uint32_t odd = i / 2 % 2 == 0 ? 341 : 128;
    if (!is_known(archs[arch].sm)) {
      continue;
    }
    const struct stg_components_kernel kernel = {
        .work = STG_COMPONENTS_APPLY,
        .geometry = {.d_in = turned ? odd : 128,
                     .d_out = turned ? 128 : odd,
                     .components = 1200,
                     .dtype = STG_BF16,
                     .mask = STG_COMPONENTS_MASK_DTYPE,
                     .bias = true,
                     .delta = true},
        .sm = archs[arch].sm,
        .turned = turned,
        .tile = 128,
    };
    check_kernel(&kernel, archs[arch].arch, i == 0);
  }
}

/* Whose sums leave few registers. */
static void choices_of_applies_stay_in_registers(void **state) {
  (void)state;
  static const struct {
    uint32_t d_out, rows, columns;
  } choices[] = {{128, 32, 32}, {341, 16, 16}, {128, 16, 64}, {341, 16, 32}};
  if (!is_known(90)) {
    return;
  }
  for (size_t i = 0; i < 8; i++) {
    const size_t which = i % 4;
    const struct stg_components_kernel kernel = {
        .work = STG_COMPONENTS_APPLY,
        .geometry = {.d_in = 128,
                     .d_out = choices[which].d_out,
                     .components = 1200,
                     .dtype = STG_BF16,
                     .mask = STG_COMPONENTS_MASK_DTYPE,
                     .bias = true,
                     .delta = true},
        .sm = 90,
        .turned = i / 4 != 0,
        .tile = 128,
        .choice = {.rows = choices[which].rows, .columns = choices[which].columns},
    };
    check_kernel(&kernel, "sm_90", false);
  }
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_stay_in_registers_of_sm_80),
      cmocka_unit_test(weights_stay_in_registers_of_sm_89),
      cmocka_unit_test(weights_stay_in_registers_of_sm_90),
      cmocka_unit_test(weights_of_float32_stay_in_registers_of_sm_90),
      cmocka_unit_test(weights_stay_in_registers_of_sm_120),
      cmocka_unit_test(applies_stay_in_registers),
      cmocka_unit_test(choices_of_applies_stay_in_registers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
