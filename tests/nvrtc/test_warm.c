/*
 * test_warm.c: a manifest built without a GPU, and warmed by a process that has no use for NVRTC;
 * and a cold one, compiled by the engine's threads. The compiler and the caches are real, the
 * device is one of the host.
 *
 * Called with arguments the program is that other process: "warm FOLDER".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <steergraph/cache.h>

#include "engine/offline.h"
#include "runtime/base/file.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"
#include "tests/support/tier_bed.h"

/* Two declarations, of which one has the user op `lean`; three signatures. */
#define LEAN_HASH "91e1c7774a09c4ec7b43e6781e362e00"
#define TYPES " chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | tile="
#define REST " epilogue=none windows=0 counters=0 probes=0 | batch<=8 "
static const char manifest[] =
    "{\"steergraph\": 1, \"user_ops\": {\"" LEAN_HASH "\": {\"op\": \"lean\", \"vectors\": [\"v\"],"
    " \"params\": {\"scale\": {\"default\": 1}}, \"body\": [\"h += (scale * 1) * v\"]}},"
    " \"manifest\": ["
    "{\"signature\": \"steer v1 | ops=add" TYPES "decode" REST "seq<=1 rows<=4\", \"count\": 9},"
    "{\"signature\": \"steer v1 | ops=add" TYPES "prefill" REST "seq<=4 rows<=4\", \"count\": 5},"
    "{\"signature\": \"steer v1 | ops=add,user:" LEAN_HASH TYPES "decode" REST
    "seq<=1 rows<=4\", \"count\": 1}]}";

static void open_engine(struct bed *bed, const char *folder) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_path = folder;
  options.pack_path = "";
  options.compile_threads = 2;
  open_bed_with(bed, &options);
}

static stg_warm_report warm(const struct bed *bed) {
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  ok(stg_warm(bed->engine, "m.json", manifest, sizeof manifest - 1, NULL, &report, &error), &error);
  return report;
}

static void a_cold_warm_compiles_what_the_manifest_lists(void **state) {
  struct bed bed;
  open_engine(&bed, *state);
  const stg_warm_report report = warm(&bed);
  assert_int_equal(3, report.done);
  assert_int_equal(4, report.kernels_compiled);
  assert_int_equal(3, report.graphs);
  const uint64_t compiles = stats_of(&bed).kernel_compiles;
  assert_int_equal(4, compiles);
  stg_steer *steer = open_table(&bed, with_lean, 2);
  set_slot(&bed, steer, "lean"); /* not pending */
  stg_frame *frame = open_frame(steer);
  step(frame);
  apply(&bed, frame, "");
  assert_int_equal(compiles, stats_of(&bed).kernel_compiles);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  assert_int_equal(0, host_device_modules());
}

/* Warm, and open a table more: its kernels are in memory. What the engine counted. */
static stg_stats count_of_an_engine(const char *folder) {
  struct bed bed;
  open_engine(&bed, folder);
  (void)warm(&bed);
  close_table(open_table(&bed, only_add, 1));
  const stg_stats stats = stats_of(&bed);
  close_bed(&bed);
  return stats;
}

static stg_cache_totals totals_of(const char *folder) {
  stg_cache_totals totals = {.struct_size = sizeof totals};
  stg_cache *cache = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_cache_open(folder, &cache, &error), &error);
  ok(stg_cache_read_totals(cache, &totals, &error), &error);
  stg_cache_close(cache);
  return totals;
}

static void engines_add_what_they_counted_to_the_folder(void **state) {
  const stg_stats cold = count_of_an_engine(*state);
  stg_cache_totals totals = totals_of(*state);
  assert_int_equal(1, totals.runs);
  assert_int_equal(4, totals.compiles);
  assert_int_equal(4, totals.misses);
  assert_int_equal(4, cold.cache_misses);
  assert_int_equal(4, totals.stores);
  assert_int_equal(0, totals.disk_hits);
  assert_true(cold.kernel_memory_hits > 0);
  assert_int_equal(cold.kernel_memory_hits, totals.memory_hits);
  assert_true((double)totals.compile_us > 1000 * cold.compile_ms - 10);
  assert_true((double)totals.compile_us < 1000 * cold.compile_ms + 10);
  const stg_stats hot = count_of_an_engine(*state);
  totals = totals_of(*state);
  assert_int_equal(4, hot.kernel_disk_hits);
  assert_int_equal(2, totals.runs);
  assert_int_equal(4, totals.disk_hits);
  assert_int_equal(0, hot.cache_misses);
  assert_int_equal(4, totals.misses);
  assert_int_equal(4, totals.compiles);
  assert_int_equal(cold.kernel_memory_hits + hot.kernel_memory_hits, totals.memory_hits);
  assert_true(totals.load_us <= (uint64_t)(cold.load_us + hot.load_us));
}

/* Both tiles of the manifest's declarations, as `steergraph build` makes them. */
static size_t build(void *const *state) {
  stg_options options;
  stg_engine *engine = NULL;
  struct stg_arena arena = {0};
  const struct stg_declared *const *declared = NULL;
  size_t n_declared = 0, n_compiled = 0;
  stg_error error = STG_ERROR_INIT;
  const char *path = temp_path(state, "m.json");
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_path = *state;
  ok(stg_engine_create(&options, &engine, &error), &error);
  ok(stg_file_write_atomic(path, manifest, sizeof manifest - 1, 0600, &error), &error);
  ok(stg_offline_read_manifest(engine, path, &arena, &declared, &n_declared, &error), &error);
  for (size_t i = 0; i < 2 * n_declared; i++) {
    bool compiled = false;
    double ms = 0;
    assert_int_equal(2, stg_declared_kernels(declared[i / 2])); /* both tiles */
    ok(stg_offline_build(engine, declared[i / 2], i % 2, "sm_90", &compiled, &ms, &error), &error);
    n_compiled += compiled ? 1 : 0;
  }
  stg_arena_finish(&arena);
  ok(stg_engine_destroy(engine, &error), &error);
  return n_compiled;
}

/* This program in another process; its exit status. */
static int run_fresh_process(const char *folder) {
  const pid_t pid = test_fork();
  if (pid == 0) {
    execl("/proc/self/exe", "test", "warm", folder, (char *)NULL);
    _exit(99);
  }
  int status = 0;
  assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void what_was_built_is_warmed_without_a_compiler(void **state) {
  assert_int_equal(4, build(state));
  assert_int_equal(0, build(state));
  assert_int_equal(0, run_fresh_process(*state));
}

/* The other process: 0, or the number of what was not so. */
static int be_fresh_process(const char *folder) {
  struct bed bed;
  open_engine(&bed, folder);
  const stg_warm_report report = warm(&bed);
  stg_steer *steer = open_table(&bed, only_add, 1);
  set_slot(&bed, steer, "add");
  stg_frame *frame = open_frame(steer);
  const uint64_t graphs = stats_of(&bed).graphs_created;
  step(frame);
  apply(&bed, frame, "");
  const stg_stats stats = stats_of(&bed);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
  return report.done != 3 || report.kernels_disk != 4    ? 1
         : stats.kernel_compiles != 0                    ? 2
         : stg_nvrtc_is_loaded()                         ? 3
         : graphs != 3 || stats.graphs_created != graphs ? 4
                                                         : 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "warm") == 0) {
    return be_fresh_process(argv[2]);
  }
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_cold_warm_compiles_what_the_manifest_lists,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(engines_add_what_they_counted_to_the_folder,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(what_was_built_is_warmed_without_a_compiler,
                                      temp_folder_setup, temp_folder_teardown),
  };
  return cmocka_run_group_tests_name("warm", tests, NULL, NULL);
}
