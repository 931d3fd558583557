/*
 * test_kernel_counts.c: what an engine counts of the kernels that its tables ask for, in each
 * compile mode, with nothing in the folder, a part and all: a kernel is looked for by several steps
 * on its way, and is one hit or one miss. On the stubs of driver and compiler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include <steergraph/cache.h>

#include "tests/fault/driver_bed.h"
#include "tests/support/temp_folder.h"

struct counts {
  uint64_t hits, misses, compiles;
};

static stg_stats stats_of(const stg_engine *engine) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  return stats;
}

static void wait_for_compiles(const stg_engine *engine) {
  const struct timespec pause = {.tv_nsec = 500000};
  while (stats_of(engine).compiles_queued + stats_of(engine).compiles_running > 0) {
    nanosleep(&pause, NULL);
  }
}

static stg_cache_totals totals_of(const char *folder) {
  stg_cache_totals totals = {.struct_size = sizeof totals};
  stg_cache *cache = NULL;
  stg_error error = STG_ERROR_INIT;
  must_be_ok("folder", stg_cache_open(folder, &cache, &error), &error);
  must_be_ok("totals", stg_cache_read_totals(cache, &totals, &error), &error);
  stg_cache_close(cache);
  return totals;
}

/* Open a table of `op`, NULL: of all ops, on `folder`, and hold what the engine and the folder
 * counted against `counts`. It asks for two tiles; where it is of one op, of two tiers. */
static void expect_counts(const char *folder, stg_compile_mode mode, const char *op,
                          stg_status wanted, struct counts counts) {
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = 8,
                               .dtype = STG_F32,
                               .ops = op != NULL ? &op : NULL,
                               .n_ops = op != NULL ? 1 : 0};
  static uint64_t hits, misses, compiles; /* of the folder so far, from its first run on */
  stg_options options;
  stg_engine *engine = NULL;
  stg_steer *steer = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = mode;
  options.cache_path = folder;
  options.pack_path = "";
  must_be_ok("engine", stg_engine_create(&options, &engine, &error), &error);
  const stg_status status = stg_steer_create(engine, &desc, &steer, &error);
  if (status != wanted) {
    fail_msg("%s: %s", stg_status_name(status), error.message);
  }
  wait_for_compiles(engine);
  const stg_stats stats = stats_of(engine);
  assert_int_equal(stats.kernel_disk_hits, counts.hits);
  assert_int_equal(stats.cache_misses, counts.misses);
  assert_int_equal(stats.kernel_compiles, counts.compiles);
  if (steer != NULL) {
    must_be_ok("table", stg_steer_destroy(steer, &error), &error);
  }
  must_be_ok("destroy", stg_engine_destroy(engine, &error), &error);
  const stg_cache_totals totals = totals_of(folder);
  if (totals.runs == 1) {
    hits = misses = compiles = 0;
  }
  hits += counts.hits;
  misses += counts.misses;
  compiles += counts.compiles;
  assert_int_equal(totals.disk_hits, hits);
  assert_int_equal(totals.misses, misses);
  assert_int_equal(totals.compiles, compiles);
}

static void a_table_that_compiles_misses_each_kernel_once(void **state) {
  const struct counts cold = {.misses = 2, .compiles = 2}, warm = {.hits = 2};
  expect_counts(*state, STG_COMPILE_BLOCK, "add", STG_OK, cold);
  expect_counts(*state, STG_COMPILE_BLOCK, "add", STG_OK, warm);
  expect_counts(*state, STG_COMPILE_BACKGROUND, "add", STG_OK, warm);
  expect_counts(*state, STG_COMPILE_NEVER, "add", STG_OK, warm);
}

static void a_table_in_the_background_misses_each_kernel_of_each_tier_once(void **state) {
  expect_counts(*state, STG_COMPILE_BACKGROUND, "add", STG_OK,
                (struct counts){.misses = 4, .compiles = 4});
  expect_counts(*state, STG_COMPILE_BACKGROUND, "add", STG_OK, (struct counts){.hits = 2});
}

static void a_table_of_all_ops_misses_each_kernel_once(void **state) {
  expect_counts(*state, STG_COMPILE_BACKGROUND, NULL, STG_OK,
                (struct counts){.misses = 2, .compiles = 2});
  expect_counts(*state, STG_COMPILE_BACKGROUND, NULL, STG_OK, (struct counts){.hits = 2});
}

static void general_kernels_that_are_there_are_hits_beside_what_is_missed(void **state) {
  expect_counts(*state, STG_COMPILE_BLOCK, NULL, STG_OK,
                (struct counts){.misses = 2, .compiles = 2});
  expect_counts(*state, STG_COMPILE_NEVER, "add", STG_OK, (struct counts){.hits = 2, .misses = 2});
  expect_counts(*state, STG_COMPILE_BACKGROUND, "add", STG_OK,
                (struct counts){.hits = 2, .misses = 2, .compiles = 2});
}

/* No compile follows, which would count: the look does. Sums are kept where there is a folder. */
static void a_table_that_may_not_compile_misses_each_kernel_once(void **state) {
  expect_counts(*state, STG_COMPILE_BLOCK, "ablation", STG_OK,
                (struct counts){.misses = 2, .compiles = 2});
  expect_counts(*state, STG_COMPILE_NEVER, NULL, STG_E_NOT_WARM, (struct counts){.misses = 2});
  expect_counts(*state, STG_COMPILE_NEVER, "add", STG_E_NOT_WARM, (struct counts){.misses = 4});
}

#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_table_that_compiles_misses_each_kernel_once),
      IN_FOLDER(a_table_in_the_background_misses_each_kernel_of_each_tier_once),
      IN_FOLDER(a_table_of_all_ops_misses_each_kernel_once),
      IN_FOLDER(general_kernels_that_are_there_are_hits_beside_what_is_missed),
      IN_FOLDER(a_table_that_may_not_compile_misses_each_kernel_once),
  };
  return cmocka_run_group_tests(tests, open_stubs, NULL);
}
