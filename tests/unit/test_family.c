/*
 * test_family.c: families by name, and what the engine does for one that is not steering: kernels
 * of one variant and one tier. On a device of the host.
 */
#include "engine/family.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/kernels.h"
#include "tests/support/fake_family.h"
#include "tests/support/tier_bed.h"

#define FAKE "fake v1"

static void a_family_is_found_by_the_first_word(void **state) {
  (void)state;
  assert_ptr_equal(&stg_family_steer, stg_family_find("steer v1 | ops=add"));
  assert_ptr_equal(&stg_family_steer, stg_family_find("steer"));
  assert_null(stg_family_find("steers v1"));
  assert_null(stg_family_find("stee v1"));
  assert_null(stg_family_find(" steer v1"));
  assert_null(stg_family_find(""));
}

static void the_variants_of_steering_are_its_tiles(void **state) {
  (void)state;
  assert_string_equal("steer", stg_family_steer.name);
  assert_int_equal(2, stg_family_steer.n_variants);
  assert_string_equal("decode", stg_family_steer.variants[0]);
  assert_string_equal("prefill", stg_family_steer.variants[1]);
}

/* An engine whose caches do not have the kernels. */
static void open_without(struct bed *bed, stg_compile_mode mode) {
  host_device_set_compiler(&(struct host_compiler){.missing = FAKE});
  open_bed(bed, mode, 1, 8);
}

static void expect_served(struct stg_kernel_set *set, const char *source) {
  const struct stg_kernel *kernel = stg_kernels_serving(set, 0);
  assert_non_null(kernel);
  assert_ptr_equal(kernel, stg_kernels_for_capture(set, 0));
  assert_string_equal(source, kernel->source);
  assert_int_equal(STG_TIER_DECLARED, kernel->tier);
  assert_non_null(strstr(kernel->signature, FAKE " | number=1 | sm_"));
  assert_int_equal(2, kernel->rule.rows_per_block);
}

/* There is no other tier to serve meanwhile, so that it is there when the call returns. */
static void what_has_one_tier_is_waited_for(void **state) {
  static const stg_compile_mode modes[] = {STG_COMPILE_BACKGROUND, STG_COMPILE_BLOCK};
  (void)state;
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct bed bed;
    const struct fake_decl decl = fake_decl(1);
    struct stg_kernel_set *set = NULL;
    stg_error error = STG_ERROR_INIT;
    open_without(&bed, modes[i]);
    ok(stg_kernels_open(bed.engine, &decl.base, &set, &error), &error);
    assert_int_equal(1, host_device_compiles());
    expect_served(set, "compiled");
    assert_int_equal(0, stats_of(&bed).kernel_swaps);
    stg_kernels_close(set);
    close_bed(&bed);
  }
}

static void without_a_compiler_it_comes_from_a_cache_or_not_at_all(void **state) {
  (void)state;
  struct bed bed;
  const struct fake_decl decl = fake_decl(1);
  struct stg_kernel_set *set = NULL;
  stg_error error = STG_ERROR_INIT;
  open_without(&bed, STG_COMPILE_NEVER);
  expect(STG_E_NOT_WARM, "kernel 'fake v1 | number=1 | sm_",
         stg_kernels_open(bed.engine, &decl.base, &set, &error), &error);
  assert_null(set);
  host_device_set_compiler(&(struct host_compiler){NULL, NULL, NULL});
  ok(stg_kernels_open(bed.engine, &decl.base, &set, &error), &error);
  expect_served(set, "memory");
  stg_kernels_close(set);
  close_bed(&bed);
}

static void a_compile_that_fails_says_why(void **state) {
  (void)state;
  struct bed bed;
  const struct fake_decl decl = fake_decl(1);
  struct stg_kernel_set *set = NULL;
  stg_error error = STG_ERROR_INIT;
  open_without(&bed, STG_COMPILE_BACKGROUND);
  host_device_set_compiler(&(struct host_compiler){.missing = FAKE, .refused = FAKE});
  expect(STG_E_COMPILE, "NVRTC refuses it: a test said so",
         stg_kernels_open(bed.engine, &decl.base, &set, &error), &error);
  assert_null(set);
  close_bed(&bed);
}

static void equal_declarations_share_a_set(void **state) {
  (void)state;
  struct bed bed;
  const struct fake_decl decls[] = {fake_decl(1), fake_decl(1), fake_decl(2)};
  struct stg_kernel_set *sets[3] = {NULL};
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 8);
  stg_steer *steer = open_table(&bed, only_add, 1); /* of another number of variants */
  for (int i = 0; i < 3; i++) {
    ok(stg_kernels_open(bed.engine, &decls[i].base, &sets[i], &error), &error);
  }
  assert_ptr_equal(sets[0], sets[1]);
  assert_ptr_not_equal(sets[0], sets[2]);
  for (int i = 0; i < 3; i++) {
    stg_kernels_close(sets[i]);
  }
  close_table(steer);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_family_is_found_by_the_first_word),
      cmocka_unit_test(the_variants_of_steering_are_its_tiles),
      cmocka_unit_test(what_has_one_tier_is_waited_for),
      cmocka_unit_test(without_a_compiler_it_comes_from_a_cache_or_not_at_all),
      cmocka_unit_test(a_compile_that_fails_says_why),
      cmocka_unit_test(equal_declarations_share_a_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
