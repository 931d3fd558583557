/*
 * test_components_choices.c: applies of components that are spread otherwise than the family's are:
 * within the oracle's bounds, and with its bits.
 */
#include "tests/gpu/components_applied.h"

#include "tests/support/quick.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SEED 23

static const struct stg_components_choice choices[] = {
    {.rows = 16, .columns = 16},
    {.rows = 16, .columns = 32},
    {.rows = 16, .columns = 64},
    {.rows = 32, .columns = 32},
    {.rows = 32, .columns = 64},
    {.rows = 16, .columns = 32, .chunk = 32, .stages = 3},
    {.rows = 32, .columns = 32, .chunk = 32, .stages = 2},
    {.chunk = 64, .stages = 2},
    {.chunk = 32, .stages = 3},
};

/* Where neither way has room for a choice, it is the family's own that is run again. */
static void compare(struct components_device *device, const uint32_t sizes[4], size_t how) {
  const struct components_shape shape = applied_shape(sizes, how);
  struct attn_bed bed;
  struct components_case first;
  attn_open(&bed, SEED + how);
  applied_open(&bed, &shape, &first);
  applied_run_well(device, &first, (struct components_how){.tile = 128, .aligned = true});
  for (size_t i = 0; i < COUNT(choices) * 2; i += test_is_quick() ? 3 : 1) {
    struct components_case other = first;
    applied_renew(&other);
    applied_run_well(device, &other,
                     (struct components_how){.tile = i % 3 == 2 ? 64 : 128,
                                             .choice = choices[i / 2],
                                             .aligned = i % 2 == 0,
                                             .misaligned = i % 4 == 3});
    applied_expect_same(&first, &other, shape.rows);
  }
  attn_close(&bed);
}

static void choices_of_128_to_128_have_the_familys_bits(void **state) {
  for (size_t how = 2; how < APPLIED_HOWS; how += 7) {
    compare(*state, (uint32_t[4]){128, 300, 128, 140}, how);
  }
}
static void choices_of_128_to_341_have_the_familys_bits(void **state) {
  for (size_t how = 2; how < APPLIED_HOWS; how += 13) {
    compare(*state, (uint32_t[4]){128, 200, 341, 140}, how);
  }
}
static void choices_of_341_to_128_have_the_familys_bits(void **state) {
  compare(*state, (uint32_t[4]){341, 200, 128, 140}, 14);
}
static void choices_of_odd_sizes_have_the_familys_bits(void **state) {
  compare(*state, (uint32_t[4]){37, 71, 41, 130}, 20);
  compare(*state, (uint32_t[4]){1, 7, 5, 3}, 5);
}
static void choices_of_many_components_have_the_familys_bits(void **state) {
  compare(*state, (uint32_t[4]){128, 1200, 128, 257}, 2);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choices_of_128_to_128_have_the_familys_bits),
      cmocka_unit_test(choices_of_128_to_341_have_the_familys_bits),
      cmocka_unit_test(choices_of_341_to_128_have_the_familys_bits),
      cmocka_unit_test(choices_of_odd_sizes_have_the_familys_bits),
      cmocka_unit_test(choices_of_many_components_have_the_familys_bits),
  };
  return cmocka_run_group_tests(tests, components_device_setup, components_device_teardown);
}
