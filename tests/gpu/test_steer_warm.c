/*
 * test_steer_warm.c: warm-up on a device: a process that starts with a cache and a manifest
 * compiles nothing, loads no NVRTC and makes no graph at its first steps; a cold one compiles all;
 * a deadline.
 *
 * Called with arguments the program is that process: "fresh FOLDER".
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <steergraph/warm.h>

#include "engine/steer_decl.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_random.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define SELF "/proc/self/exe"
#define TABLES 4
#define SHAPES 2
#define SIGNATURES (TABLES * SHAPES)
#define KERNELS (TABLES * STG_TILE_COUNT)

static const char *const three[] = {"ablation", "add", "projection_cap"};
static const char *const with_lean[] = {"add", "lean"};

/* Some built-ins; all of them, between residual add and norm; a user op, and rows that end within a
 * chunk; all that can be declared beside ops. */
static stg_steer_desc desc_of(size_t table) {
  const stg_steer_desc descs[TABLES] = {
      {.hidden_size = 768, .dtype = STG_BF16, .ops = three, .n_ops = 3},
      {.hidden_size = 4096,
       .dtype = STG_BF16,
       .state = STG_STATE_HIDDEN_PLUS_RESIDUAL,
       .epilogue = STG_EPILOGUE_ADD_RMSNORM,
       .epsilon = 1e-5F},
      {.hidden_size = 1001, .dtype = STG_F16, .ops = with_lean, .n_ops = 2},
      {.hidden_size = 512, .dtype = STG_F32, .windows = true, .counters = true, .probes = 3},
  };
  stg_steer_desc desc = descs[table];
  desc.max_rows = 128;
  desc.max_slots = 2;
  return desc;
}

/* A decode batch and a prefill batch on each table, each held against the oracle. */
static void steer_all(struct steer_env *env, stg_engine *engine, stg_stream stream) {
  static const struct {
    int64_t rows;
    uint32_t longest;
  } shapes[SHAPES] = {{20, 1}, {90, 45}};
  for (size_t t = 0; t < TABLES; t++) {
    const stg_steer_desc desc = desc_of(t);
    struct steer_bed *bed = steer_bed_on(env, engine, &desc);
    const stg_vector a = steer_bed_direction(bed, 41, 1), b = steer_bed_direction(bed, 42, 1);
    const stg_op_call lean = {.op = "lean", .vectors = {a, b}};
    const stg_op_call calls[] = {steer_add(a, 2), t == 2 ? lean : steer_ablate(b, 0)};
    steer_bed_set(bed, 0, calls, 2);
    steer_bed_set(bed, 1, calls, 1);
    for (size_t s = 0; s < SHAPES; s++) {
      const int64_t rows = shapes[s].rows;
      struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = rows});
      batch->stream = stream;
      batch->longest = shapes[s].longest;
      steer_batch_fill(batch, 43 + s, 1);
      steer_batch_map(batch, 0, rows / 2, 0);
      steer_batch_map(batch, rows / 2, rows, 1);
      steer_batch_expect_ok(batch);
      steer_batch_destroy(batch);
    }
    steer_bed_destroy(bed);
  }
}

static stg_engine *open_engine(const char *folder, stg_compile_mode mode) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.compile = mode;
  options.cache_path = folder;
  options.cache_mode = folder != NULL ? STG_CACHE_DEFAULT : STG_CACHE_OFF;
  options.pack_path = "";
  options.compile_threads = 2;
  stg_engine *engine = steer_engine(&options);
  steer_register_lean(engine);
  return engine;
}

/* Steer with a cold cache in `folder`, and leave the manifest there. */
static const char *record(struct steer_env *env, void *const *folder) {
  stg_error error = STG_ERROR_INIT;
  const char *path = temp_path(folder, "traffic.json");
  stg_engine *engine = open_engine(*folder, STG_COMPILE_BLOCK);
  steer_all(env, engine, stg_mem_stream(engine));
  assert_int_equal(SIGNATURES, steer_engine_stats(engine).traffic_shapes);
  check_ok(stg_traffic_save(engine, path, &error), &error);
  steer_engine_close(engine);
  return path;
}

static stg_warm_report warm(stg_engine *engine, const char *path, const stg_warm_desc *desc) {
  stg_warm_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  char *text = NULL;
  size_t size = 0;
  char json[512];
  check_ok(stg_file_read(path, 1 << 20, &text, &size, &error), &error);
  check_ok(stg_warm(engine, path, text, size, desc, &report, &error), &error);
  stg_free(text);
  (void)stg_warm_report_json(&report, json, sizeof json);
  print_message("%s\n", json);
  assert_int_equal(SIGNATURES, report.total);
  assert_int_equal(SIGNATURES, report.done + report.failed + report.left);
  return report;
}

/* Every kernel and graph is there: steering makes none, on a stream that the engine never saw. */
static void expect_warm(struct steer_env *env, stg_engine *engine) {
  struct stg_device *device = stg_mem_device(engine);
  stg_error error = STG_ERROR_INIT;
  stg_stream stream = NULL;
  const stg_stats before = steer_engine_stats(engine);
  check_ok(stg_stream_create(device, &stream, &error), &error);
  steer_all(env, engine, stream);
  stg_stream_destroy(device, stream);
  const stg_stats after = steer_engine_stats(engine);
  assert_int_equal(before.graphs_created, after.graphs_created);
  assert_int_equal(before.plans_live, after.plans_live);
  assert_int_equal(before.kernel_compiles, after.kernel_compiles);
  assert_int_equal(before.kernel_disk_hits, after.kernel_disk_hits);
  assert_int_equal(0, after.plain_launches);
  assert_int_equal(0, after.graph_fallbacks);
}

/* The fresh process. */
static char *fresh_folder;

static void compiles_nothing_and_makes_no_graph(void **state) {
  struct steer_env *env = *state;
  void *folder = fresh_folder;
  stg_engine *engine = open_engine(fresh_folder, STG_COMPILE_BACKGROUND);
  const stg_warm_report report = warm(engine, temp_path(&folder, "traffic.json"), NULL);
  assert_int_equal(SIGNATURES, report.done);
  assert_int_equal(SIGNATURES, report.graphs);
  assert_int_equal(KERNELS, report.kernels_disk);
  assert_int_equal(0, report.kernels_memory + report.kernels_compiled + report.kernels_failed);
  assert_int_equal(SIGNATURES, steer_engine_stats(engine).graph_launches);
  expect_warm(env, engine);
  assert_int_equal(0, steer_engine_stats(engine).kernel_compiles);
  assert_false(stg_nvrtc_is_loaded());
  steer_engine_close(engine);
}

static int run_fresh_process(const char *folder) {
  fflush(NULL);
  const pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    execl(SELF, "test_steer_warm", "fresh", folder, (char *)NULL);
    _exit(99);
  }
  int status = 0;
  assert_int_equal(child, waitpid(child, &status, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void a_fresh_process_with_the_same_cache_is_warm(void **state) {
  struct steer_env *env = *state;
  void *folder = NULL;
  assert_int_equal(0, temp_folder_setup(&folder));
  (void)record(env, &folder);
  assert_int_equal(0, run_fresh_process(folder));
  assert_int_equal(0, temp_folder_teardown(&folder));
}

static bool count_call(void *user, const stg_warm_progress *progress) {
  size_t *calls = user;
  assert_int_equal(*calls, progress->done);
  *calls += 1;
  return true;
}

static void a_cold_warm_compiles_all(void **state) {
  struct steer_env *env = *state;
  void *folder = NULL;
  assert_int_equal(0, temp_folder_setup(&folder));
  const char *path = record(env, &folder);
  size_t calls = 0;
  const stg_warm_desc desc = {.struct_size = sizeof desc, .progress = count_call, .user = &calls};
  stg_engine *engine = open_engine(NULL, STG_COMPILE_BACKGROUND);
  const stg_warm_report report = warm(engine, path, &desc);
  assert_int_equal(SIGNATURES, report.done);
  assert_int_equal(KERNELS, report.kernels_compiled);
  assert_int_equal(SIGNATURES, report.graphs);
  assert_int_equal(SIGNATURES + 1, calls);
  assert_int_equal(KERNELS, steer_engine_stats(engine).kernel_compiles);
  assert_int_equal(0, steer_engine_stats(engine).kernel_swaps);
  expect_warm(env, engine);
  const stg_warm_report again = warm(engine, path, NULL);
  assert_int_equal(SIGNATURES, again.done);
  assert_int_equal(KERNELS, again.kernels_memory);
  assert_int_equal(0, again.graphs);
  steer_engine_close(engine);
  assert_int_equal(0, temp_folder_teardown(&folder));
}

static void a_deadline_ends_it_and_the_engine_goes_on(void **state) {
  struct steer_env *env = *state;
  void *folder = NULL;
  assert_int_equal(0, temp_folder_setup(&folder));
  const char *path = record(env, &folder);
  const stg_warm_desc desc = {.struct_size = sizeof desc, .deadline_ms = 1};
  stg_engine *engine = open_engine(NULL, STG_COMPILE_BLOCK);
  const stg_warm_report report = warm(engine, path, &desc);
  assert_int_equal(SIGNATURES, report.left);
  assert_int_equal(0, report.graphs);
  assert_true(report.ms < 1000);
  steer_all(env, engine, stg_mem_stream(engine));
  steer_engine_close(engine);
  assert_int_equal(0, temp_folder_teardown(&folder));
}

/* Beside a frame that steps and applies: nothing of it is disturbed. */
static void what_serves_meanwhile_goes_on(void **state) {
  struct steer_env *env = *state;
  void *folder = NULL;
  assert_int_equal(0, temp_folder_setup(&folder));
  const char *path = record(env, &folder);
  stg_engine *engine = open_engine(folder, STG_COMPILE_NEVER);
  const stg_steer_desc desc = desc_of(0);
  struct steer_bed *bed = steer_bed_on(env, engine, &desc);
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 20});
  const stg_op_call add = steer_add(steer_bed_direction(bed, 44, 1), 2);
  steer_bed_set(bed, 0, &add, 1);
  steer_batch_fill(batch, 45, 1);
  steer_batch_map(batch, 0, 20, 0);
  steer_batch_send(batch);
  steer_batch_step(batch);
  const stg_warm_report report = warm(engine, path, NULL);
  assert_int_equal(SIGNATURES, report.done);
  assert_int_equal(KERNELS - STG_TILE_COUNT, report.kernels_disk); /* the others are the bed's */
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  steer_engine_close(engine);
  assert_int_equal(0, temp_folder_teardown(&folder));
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "fresh") == 0) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compiles_nothing_and_makes_no_graph)};
    fresh_folder = argv[2];
    if (setenv("STG_TEST_CACHE_DIR", fresh_folder, 1) != 0) { /* an empty one asks for NVRTC */
      return EXIT_FAILURE;
    }
    return cmocka_run_group_tests_name("fresh process", tests, steer_env_cuda, steer_env_close);
  }
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fresh_process_with_the_same_cache_is_warm),
      cmocka_unit_test(a_cold_warm_compiles_all),
      cmocka_unit_test(a_deadline_ends_it_and_the_engine_goes_on),
      cmocka_unit_test(what_serves_meanwhile_goes_on),
  };
  return cmocka_run_group_tests_name("steer warm", tests, steer_env_cuda, steer_env_close);
}
