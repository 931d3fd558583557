/*
 * test_occupancy.c: the limits of each architecture, by hand.
 *
 * Every row below was worked out on paper from the CUDA C++ Programming Guide's table "Technical
 * Specifications per Compute Capability"; tests/gpu/test_occupancy.c asks the driver.
 */
#include "tools/cache/occupancy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define R STG_LIMIT_REGISTERS
#define S STG_LIMIT_SHARED_MEMORY
#define T STG_LIMIT_THREADS
#define B STG_LIMIT_BLOCKS

struct row {
  struct stg_occupancy_ask ask;  /* sm, threads, registers, static, dynamic */
  struct stg_occupancy expected; /* blocks, warps, of how many, limits */
};

static void assert_rows(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct stg_occupancy *expected = &rows[i].expected;
    struct stg_occupancy got = {0};
    assert_true(stg_occupancy_of(&rows[i].ask, &got));
    if (got.blocks != expected->blocks || got.warps != expected->warps ||
        got.max_warps != expected->max_warps || got.limits != expected->limits) {
      fail_msg("row %zu: %u blocks, %u of %u warps, limits 0x%x", i, got.blocks, got.warps,
               got.max_warps, got.limits);
    }
  }
}

static void has_the_limits_of_every_architecture(void **state) {
  (void)state;
  static const struct row rows[] = {
      /* one warp and hardly a register: as many blocks as a multiprocessor may hold */
      {{80, 32, 16, 0, 0}, {32, 32, 64, B}},
      {{86, 32, 16, 0, 0}, {16, 16, 48, B}},
      {{87, 32, 16, 0, 0}, {16, 16, 48, B}},
      {{89, 32, 16, 0, 0}, {24, 24, 48, B}},
      {{90, 32, 16, 0, 0}, {32, 32, 64, B}},
      {{100, 32, 16, 0, 0}, {32, 32, 64, B}},
      {{103, 32, 16, 0, 0}, {32, 32, 64, B}},
      {{110, 32, 16, 0, 0}, {24, 24, 48, B}},
      {{120, 32, 16, 0, 0}, {24, 24, 48, B}},
      {{121, 32, 16, 0, 0}, {24, 24, 48, B}},
      /* 512 threads are 16 warps: of 64 there are 4, of 48 there are 3 */
      {{80, 512, 32, 0, 0}, {4, 64, 64, R | T}},
      {{86, 512, 32, 0, 0}, {3, 48, 48, T}},
      {{87, 512, 32, 0, 0}, {3, 48, 48, T}},
      {{89, 512, 32, 0, 0}, {3, 48, 48, T}},
      {{90, 512, 32, 0, 0}, {4, 64, 64, R | T}},
      {{100, 512, 32, 0, 0}, {4, 64, 64, R | T}},
      {{103, 512, 32, 0, 0}, {4, 64, 64, R | T}},
      {{110, 512, 32, 0, 0}, {3, 48, 48, T}},
      {{120, 512, 32, 0, 0}, {3, 48, 48, T}},
      {{121, 512, 32, 0, 0}, {3, 48, 48, T}},
      /* 31 KiB and the system's one: 164 KiB hold 5 of them, 100 hold 3, 228 hold 7 */
      {{80, 64, 32, 0, 31 * 1024}, {5, 10, 64, S}},
      {{86, 64, 32, 0, 31 * 1024}, {3, 6, 48, S}},
      {{87, 64, 32, 0, 31 * 1024}, {5, 10, 48, S}},
      {{89, 64, 32, 0, 31 * 1024}, {3, 6, 48, S}},
      {{90, 64, 32, 0, 31 * 1024}, {7, 14, 64, S}},
      {{100, 64, 32, 0, 31 * 1024}, {7, 14, 64, S}},
      {{103, 64, 32, 0, 31 * 1024}, {7, 14, 64, S}},
      {{110, 64, 32, 0, 31 * 1024}, {7, 14, 48, S}},
      {{120, 64, 32, 0, 31 * 1024}, {3, 6, 48, S}},
      {{121, 64, 32, 0, 31 * 1024}, {3, 6, 48, S}},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void gives_registers_to_warps_in_units_and_by_partition(void **state) {
  (void)state;
  static const struct row rows[] = {
      /* 56 x 32 = 1792 = 7 units: 16384 / 1792 = 9 warps a partition, 36 in all, 4 blocks of 8 */
      {{90, 256, 56, 0, 0}, {4, 32, 64, R}},
      /* 57 x 32 = 1824, up to 2048: 8 warps a partition, 32 in all */
      {{90, 256, 57, 0, 0}, {4, 32, 64, R}},
      {{90, 128, 57, 0, 0}, {8, 32, 64, R}},
      /* 56: 36 warps are 9 blocks of 4 */
      {{90, 128, 56, 0, 0}, {9, 36, 64, R}},
      /* 80 x 32 = 2560: 6 a partition, 24 in all, 6 blocks of 4 */
      {{100, 128, 80, 0, 0}, {6, 24, 64, R}},
      /* 65536 / 2560 would be 25 warps, and 5 blocks of 5 */
      {{100, 160, 80, 0, 0}, {4, 20, 64, R}},
      {{100, 32, 80, 0, 0}, {24, 24, 64, R}},
      /* 255 x 32 = 8160, up to 8192: 2 a partition, 8 warps: one block of 256 threads */
      {{80, 256, 255, 0, 0}, {1, 8, 64, R}},
      /* 9 warps of 8192 do not fit in */
      {{80, 288, 255, 0, 0}, {0, 0, 64, R}},
      /* 168 x 32 = 5376: 3 a partition, 12 in all. 12 warps are 64512 registers and fit */
      {{80, 384, 168, 0, 0}, {1, 12, 64, R}},
      /* 13 warps do not */
      {{80, 416, 168, 0, 0}, {0, 0, 64, R}},
      /* threads of a broken warp count as a whole one: 33 are 2 warps */
      {{90, 33, 128, 0, 0}, {8, 16, 64, R}},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void counts_shared_memory_in_units_with_the_systems_share(void **state) {
  (void)state;
  static const struct row rows[] = {
      /* static and dynamic count alike: 16384 + 1232 + 1024 = 18640, up to 18688: 8 in 164 KiB */
      {{80, 128, 32, 1232, 16384}, {8, 32, 64, S}},
      {{80, 128, 32, 0, 17616}, {8, 32, 64, S}},
      /* 228 KiB = 233472 are 2 of 115712 + 1024 = 116736 exactly, and one with a byte more */
      {{90, 128, 32, 0, 115712}, {2, 8, 64, S}},
      {{90, 128, 32, 0, 115713}, {1, 4, 64, S}},
      /* all that a block may have, and more than that */
      {{90, 128, 32, 0, 227 * 1024}, {1, 4, 64, S}},
      {{90, 128, 32, 0, 227 * 1024 + 1}, {0, 0, 64, S}},
      {{86, 128, 32, 0, 99 * 1024}, {1, 4, 48, S}},
      {{86, 128, 32, 0, 99 * 1024 + 1}, {0, 0, 48, S}},
      {{80, 128, 32, UINT32_MAX, UINT32_MAX}, {0, 0, 64, S}},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void names_all_that_end_at_once(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{90, 64, 32, 0, 0}, {32, 64, 64, R | T | B}},
      {{90, 2048, 16, 0, 0}, {0, 0, 64, T}},
  };
  struct stg_strbuf text = {0};
  assert_rows(rows, sizeof rows / sizeof rows[0]);
  stg_occupancy_print_limits(R | T | B, &text);
  stg_occupancy_print_limits(0, &text);
  assert_string_equal(stg_strbuf_text(&text), "registers and threads and blocks");
  stg_occupancy_print_limits(S, &text);
  assert_string_equal(stg_strbuf_text(&text), "registers and threads and blocksshared memory");
  stg_strbuf_finish(&text);
}

static void does_not_guess(void **state) {
  (void)state;
  static const uint32_t unknown[] = {0, 70, 75, 88, 91, 101, 130, UINT32_MAX};
  struct stg_occupancy got = {.blocks = 77};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    const struct stg_occupancy_ask ask = {.sm = unknown[i], .threads = 128, .registers = 32};
    assert_false(stg_occupancy_of(&ask, &got));
  }
  const struct stg_occupancy_ask no_threads = {.sm = 90, .registers = 32};
  assert_false(stg_occupancy_of(&no_threads, &got));
  assert_int_equal(got.blocks, 77);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_the_limits_of_every_architecture),
      cmocka_unit_test(gives_registers_to_warps_in_units_and_by_partition),
      cmocka_unit_test(counts_shared_memory_in_units_with_the_systems_share),
      cmocka_unit_test(names_all_that_end_at_once),
      cmocka_unit_test(does_not_guess),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
