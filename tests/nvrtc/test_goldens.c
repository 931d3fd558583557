/*
 * test_goldens.c: every golden kernel compiles, for every architecture, to a cubin that keeps to
 * its limits. Needs no GPU. Knows the kernels only as files: their text is the generator's affair.
 * STG_TEST_QUICK=1: each for one architecture, which go round; what NVRTC says of them is not ours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/steer.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"
#include "runtime/cubin.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/quick.h"

#define N_ARCHS 4
#define MAX_GOLDENS 64
#define MIN_GOLDENS 10
#define MAX_GOLDEN_BYTES 65536

/* What every architecture has: of a thread, of a multiprocessor, of a block. */
#define MAX_REGISTERS 255
#define REGISTER_FILE 65536
#define MAX_STATIC_SHARED_BYTES 49152
/* What a kernel of the usual size may spill. */
#define MAX_LOCAL_BYTES 256

static const struct stg_log no_log;

/* The files of the folder, sorted by name. */
struct goldens {
  char *paths[MAX_GOLDENS];
  size_t count;
  struct stg_strbuf prelude;
};

static int compare_paths(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_goldens(void **state) {
  struct goldens *goldens = stg_calloc(1, sizeof *goldens);
  DIR *folder = opendir(STG_GOLDEN_CUDA_DIR);
  assert_non_null(goldens);
  assert_non_null(folder);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    const char *suffix = strrchr(entry->d_name, '.');
    if (suffix != NULL && strcmp(suffix, ".cu") == 0) {
      assert_true(goldens->count < MAX_GOLDENS);
      char *path = stg_path_join(STG_GOLDEN_CUDA_DIR, entry->d_name);
      assert_non_null(path);
      goldens->paths[goldens->count++] = path;
    }
  }
  closedir(folder);
  qsort(goldens->paths, goldens->count, sizeof goldens->paths[0], compare_paths);
  stg_steer_prelude(&goldens->prelude);
  assert_int_equal(stg_strbuf_status(&goldens->prelude, NULL), STG_OK);
  *state = goldens;
  return 0;
}

static int drop_goldens(void **state) {
  struct goldens *goldens = *state;
  for (size_t i = 0; i < goldens->count; i++) {
    stg_free(goldens->paths[i]);
  }
  stg_strbuf_finish(&goldens->prelude);
  stg_free(goldens);
  return 0;
}

/* The number behind `key` in the first line, "// launch: threads 256, rows_per_block 2". */
static uint32_t launch_number(const char *source, const char *key) {
  const char *at = strstr(source, key);
  if (at == NULL || at > strchr(source, '\n')) {
    fail_msg("no '%s' in the first line", key);
    return 0;
  }
  return (uint32_t)strtoul(at + strlen(key), NULL, 10);
}

static void check_facts(const char *path, const char *arch, const struct stg_cubin_info *info,
                        uint32_t threads) {
  uint32_t sm = 0;
  print_message("%-7s %3u registers, %4u local, %5u shared, %6u code  %s\n", arch, info->registers,
                info->local_bytes, info->shared_bytes, info->code_bytes, strrchr(path, '/') + 1);
  assert_true(stg_arch_parse(arch, &sm));
  assert_int_equal(info->sm, sm);
  assert_in_range(info->registers, 1, MAX_REGISTERS);
  assert_true(info->registers * threads <= REGISTER_FILE);
  assert_true(info->shared_bytes <= MAX_STATIC_SHARED_BYTES);
  assert_int_equal(info->param_bytes, sizeof(struct stg_steer_args));
  assert_true(info->code_bytes > 0);
  if (strstr(path, "/h4096-bf16-bf16-") != NULL) {
    assert_in_range(info->local_bytes, 0, MAX_LOCAL_BYTES);
  }
}

static void compile_golden(const struct goldens *goldens, const char *path, const char *arch) {
  char *source = NULL;
  size_t size = 0;
  stg_error error = STG_ERROR_INIT;
  struct stg_kernel_image image = {0};
  struct stg_cubin_info info = {0};
  if (stg_file_read(path, MAX_GOLDEN_BYTES, &source, &size, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  const struct stg_kernel_request request = {
      .signature = "test: golden",
      .name = STG_STEER_KERNEL_NAME,
      .prelude = stg_strbuf_text(&goldens->prelude),
      .source = source,
      .arch = arch,
      .threads = launch_number(source, "threads "),
      .rows_per_block = launch_number(source, "rows_per_block "),
  };

  if (stg_compile(&request, &no_log, &image, &error) != STG_OK) {
    fail_msg("%s: %s", path, error.message);
  }

  assert_int_equal(
      stg_cubin_read(image.cubin, image.cubin_size, STG_STEER_KERNEL_NAME, &info, &error), STG_OK);
  check_facts(path, arch, &info, request.threads);
  stg_kernel_image_finish(&image);
  stg_free(source);
}

/* An NVRTC may be older than the architecture. */
static bool is_known(const char *arch) {
  int archs[64];
  size_t count = 0;
  uint32_t sm = 0;
  assert_true(stg_arch_parse(arch, &sm));
  assert_int_equal(stg_nvrtc_archs(archs, 64, &count, NULL), STG_OK);
  for (size_t i = 0; i < count; i++) {
    if (archs[i] == (int)sm) {
      return true;
    }
  }
  return false;
}

/* The nth of the architectures. */
static void compile_all(const struct goldens *goldens, const char *arch, size_t nth) {
  assert_true(goldens->count >= MIN_GOLDENS);
  if (!is_known(arch)) {
    print_message("%s: this NVRTC does not know it\n", arch);
    return;
  }
  const bool quick = test_is_quick();
  for (size_t i = quick ? nth : 0; i < goldens->count; i += quick ? N_ARCHS : 1) {
    compile_golden(goldens, goldens->paths[i], arch);
  }
}

static void every_golden_compiles_for_sm_80(void **state) {
  compile_all(*state, "sm_80", 0);
}
static void every_golden_compiles_for_sm_90(void **state) {
  compile_all(*state, "sm_90", 1);
}
static void every_golden_compiles_for_sm_100(void **state) {
  compile_all(*state, "sm_100", 2);
}
static void every_golden_compiles_for_sm_120(void **state) {
  compile_all(*state, "sm_120", 3);
}

int main(void) {
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_golden_compiles_for_sm_80),
      cmocka_unit_test(every_golden_compiles_for_sm_90),
      cmocka_unit_test(every_golden_compiles_for_sm_100),
      cmocka_unit_test(every_golden_compiles_for_sm_120),
  };
  return cmocka_run_group_tests(tests, find_goldens, drop_goldens);
}
