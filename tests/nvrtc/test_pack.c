/*
 * test_pack.c: kernels built into a pack without a GPU, and found there by an engine and by a
 * process that has no use for NVRTC.
 *
 * Called with arguments the program is that other process: "warm PACK".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/offline.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define KERNELS 2 /* a tile each */

static const stg_steer_desc desc = {
    .struct_size = sizeof desc, .hidden_size = 64, .dtype = STG_F32, .max_chain = 1};

static stg_engine *engine_on(const char *cache_path, const char *pack_path) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.compile = STG_COMPILE_NEVER;
  options.cache_path = cache_path;
  options.pack_path = pack_path;
  if (stg_engine_create(&options, &engine, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return engine;
}

/* One of the table's two kernels. */
static stg_status build_kernel(stg_engine *engine, size_t index, const char *arch,
                               bool *ret_compiled, double *ret_ms, stg_error *reterr) {
  struct stg_arena arena = {0};
  const struct stg_declared *declared = NULL;
  assert_int_equal(stg_declare_steer(engine, &desc, &arena, &declared, NULL), STG_OK);
  const stg_status status =
      stg_offline_build(engine, declared, index, arch, ret_compiled, ret_ms, reterr);
  stg_arena_finish(&arena);
  return status;
}

/* Both tiles for sm_90, as compiled by NVRTC. */
static void make_pack(const char *path) {
  struct stg_offline_pack *pack = NULL;
  stg_engine *engine = engine_on(NULL, "");
  size_t size = 0;
  struct stg_arena arena = {0};
  const struct stg_declared *declared = NULL;
  assert_int_equal(stg_declare_steer(engine, &desc, &arena, &declared, NULL), STG_OK);
  assert_int_equal(stg_declared_kernels(declared), KERNELS);
  assert_int_equal(stg_offline_pack_create(&pack, NULL), STG_OK);
  for (size_t i = 0; i < KERNELS; i++) {
    struct stg_offline_built built = {0};
    stg_error err = STG_ERROR_INIT;
    if (stg_offline_pack_add(pack, engine, declared, i, "sm_90", &built, &err) != STG_OK) {
      fail_msg("%s", err.message);
    }
    assert_true(built.compiled && built.compile_ms > 0);
  }
  assert_int_equal(stg_offline_pack_save(pack, path, &size, NULL), STG_OK);
  assert_true(size > 1000);
  stg_offline_pack_destroy(pack);
  stg_arena_finish(&arena);
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);
}

static void an_engine_finds_kernels_in_a_pack_without_any_folder(void **state) {
  const char *path = temp_path(state, "a.sgp");
  stg_stats stats = {.struct_size = sizeof stats};
  stg_error err = STG_ERROR_INIT;
  bool compiled = true;
  double ms = 7;
  make_pack(path);
  stg_engine *engine = engine_on(NULL, path);
  for (size_t i = 0; i < KERNELS; i++) {
    assert_int_equal(build_kernel(engine, i, "sm_90", &compiled, &ms, NULL), STG_OK);
    assert_false(compiled);
  }
  assert_int_equal(build_kernel(engine, 0, "sm_80", &compiled, &ms, &err), STG_E_UNSUPPORTED);
  stg_engine_stats(engine, &stats);
  assert_int_equal(stats.cache_pack_hits, KERNELS);
  assert_int_equal(stats.cache_stores, 0);
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);
}

static void a_folder_above_a_pack_gets_what_the_pack_lacks(void **state) {
  const char *path = temp_path(state, "a.sgp");
  stg_stats stats = {.struct_size = sizeof stats};
  bool compiled = true;
  double ms = 0;
  make_pack(path);
  stg_engine *engine = engine_on(temp_path(state, "rw"), path);
  assert_int_equal(build_kernel(engine, 0, "sm_90", &compiled, &ms, NULL), STG_OK);
  assert_false(compiled);
  assert_int_equal(build_kernel(engine, 0, "sm_80", &compiled, &ms, NULL), STG_OK);
  assert_true(compiled);
  stg_engine_stats(engine, &stats);
  assert_int_equal(stats.cache_pack_hits, 1);
  assert_int_equal(stats.cache_stores, 1);
  assert_int_equal(stats.cache_misses, 1);
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);
}

static stg_engine *engine_with(const stg_options *options) {
  stg_engine *engine = NULL;
  stg_error err = STG_ERROR_INIT;
  if (stg_engine_create(options, &engine, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return engine;
}

/* Build the decode kernel for an architecture; whether it was compiled. */
static bool builds(stg_engine *engine, const char *arch) {
  bool compiled = false;
  double ms = 0;
  stg_error err = STG_ERROR_INIT;
  if (build_kernel(engine, 0, arch, &compiled, &ms, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return compiled;
}

static void an_engine_keeps_its_folder_under_its_limits(void **state) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_path = *state;
  options.cache_max_entries = 1;
  stg_engine *engine = engine_with(&options);
  assert_true(builds(engine, "sm_80"));
  stg_engine_stats(engine, &stats);
  assert_int_equal(stats.cache_evictions, 0);
  assert_true(builds(engine, "sm_90"));
  assert_false(builds(engine, "sm_90"));
  stg_engine_stats(engine, &stats);
  assert_int_equal(stats.cache_misses, 2);
  assert_int_equal(stats.cache_evictions, 1);
  assert_true(stats.cache_evicted_bytes > 10000);
  assert_true(builds(engine, "sm_80")); /* it went */
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);

  options.cache_max_entries = 0;
  options.cache_max_bytes = 1; /* less than any entry: nothing stays, and nothing fails */
  engine = engine_with(&options);
  assert_true(builds(engine, "sm_90"));
  assert_true(builds(engine, "sm_90"));
  stg_engine_stats(engine, &stats);
  assert_int_equal(stats.cache_evictions, 3);
  assert_int_equal(stats.cache_stores, 2);
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);
}

static void memory_alone_still_reads_packs(void **state) {
  const char *path = temp_path(state, "a.sgp");
  char list[1200];
  stg_options options;
  stg_error err = STG_ERROR_INIT;
  bool compiled = true;
  double ms = 0;
  make_pack(path);
  snprintf(list, sizeof list, "%s:%s", path, temp_path(state, "rw"));
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.pack_path = "";
  options.cache_path = list;
  stg_engine *engine = engine_with(&options);
  assert_true(builds(engine, "sm_80")); /* into the folder */
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);

  options.cache_mode = STG_CACHE_MEMORY;
  engine = engine_with(&options);
  assert_false(builds(engine, "sm_90"));
  assert_int_equal(build_kernel(engine, 0, "sm_80", &compiled, &ms, &err), STG_E_UNSUPPORTED);
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);

  options.cache_path = path; /* nothing is written, so a pack may be the last */
  engine = engine_with(&options);
  assert_false(builds(engine, "sm_90"));
  assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);
}

enum warm_exit { WARM_OK = 0, WARM_FAILED = 1, WARM_COMPILED = 2, WARM_LOADED = 3 };

/* The other process: the entries must be there, and NVRTC must stay out of it. */
static enum warm_exit warm(const char *path) {
  stg_engine *engine = engine_on(NULL, path);
  enum warm_exit found = WARM_OK;
  for (size_t i = 0; i < KERNELS && found == WARM_OK; i++) {
    bool compiled = false;
    double ms = 0;
    stg_error err = STG_ERROR_INIT;
    if (build_kernel(engine, i, "sm_90", &compiled, &ms, &err) != STG_OK) {
      fprintf(stderr, "%s\n", err.message);
      found = WARM_FAILED;
    } else if (compiled) {
      found = WARM_COMPILED;
    }
  }
  if (stg_engine_destroy(engine, NULL) != STG_OK) {
    return WARM_FAILED;
  }
  return found == WARM_OK && stg_nvrtc_is_loaded() ? WARM_LOADED : found;
}

static void a_fresh_process_hits_without_loading_nvrtc(void **state) {
  const char *path = temp_path(state, "a.sgp");
  int status = 0;
  make_pack(path);
  fflush(NULL);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "test_pack", "warm", path, (char *)NULL);
    _exit(99);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), WARM_OK);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "warm") == 0) {
    return (int)warm(argv[2]);
  }
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_engine_finds_kernels_in_a_pack_without_any_folder,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_folder_above_a_pack_gets_what_the_pack_lacks,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(an_engine_keeps_its_folder_under_its_limits,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(memory_alone_still_reads_packs, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_fresh_process_hits_without_loading_nvrtc, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
