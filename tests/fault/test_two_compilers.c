/*
 * test_two_compilers.c: two versions of NVRTC fill one folder: each kernel then has an entry of
 * each, side by side. A process hits those of the compiler that it has loaded, and without one, and
 * without loading one, the newest. On the stubs of NVRTC, each in processes of its own.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): memmem */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <dlfcn.h>

#include "runtime/compile.h"
#include "runtime/module_cache.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define KERNELS 5
#define OLDER "nvrtc-12.4.127"
#define NEWER "nvrtc-13.0.88"

static char sources[KERNELS + 1][96]; /* the last one is of none of the folder's kernels */

static struct stg_kernel_request request_of(unsigned number) {
  struct stg_kernel_request request = fixture_request();
  request.name = "twice";
  request.source = sources[number];
  snprintf(sources[number], sizeof sources[number],
           "extern \"C\" __global__ void twice(int x) { /* %u */ }\n", number);
  return request;
}

static struct stg_disk_cache *open_in(const char *folder, enum stg_disk_mode mode) {
  const struct stg_disk_options options = {.path_list = folder, .mode = mode};
  struct stg_disk_cache *disk = NULL;
  return stg_disk_cache_open(&options, &disk, NULL) == STG_OK ? disk : NULL;
}

/* The three things a child does; 0: as it should be, else the number of what was wrong. */

static int fill(const char *folder, const char *compiler) {
  struct stg_disk_cache *disk = open_in(folder, STG_DISK_REFRESH);
  const struct stg_log no_log = {0};
  (void)compiler;
  for (unsigned i = 0; i < KERNELS; i++) {
    const struct stg_kernel_request request = request_of(i);
    bool compiled = false;
    double compile_ms = 0;
    if (stg_module_build(disk, &request, &no_log, &compiled, &compile_ms, NULL) != STG_OK ||
        !compiled) {
      return 1;
    }
  }
  stg_disk_cache_close(disk);
  return 0;
}

/* Every kernel is there, and is the one of `compiler`: its code says so. */
static int hit(const char *folder, const char *compiler) {
  struct stg_disk_cache *disk = open_in(folder, STG_DISK_READ_WRITE);
  const struct stg_log no_log = {0};
  for (unsigned i = 0; i < KERNELS; i++) {
    const struct stg_kernel_request request = request_of(i);
    struct stg_strbuf bytes = {0};
    char code[64];
    bool compiled = true;
    double compile_ms = 0;
    snprintf(code, sizeof code, "%s sm_90", compiler);
    if (stg_module_entry(disk, &request, &no_log, &bytes, &compiled, &compile_ms, NULL) != STG_OK ||
        compiled) {
      return 2;
    }
    if (memmem(bytes.data, bytes.len, code, strlen(code)) == NULL) {
      return 3;
    }
    stg_strbuf_finish(&bytes);
  }
  stg_disk_cache_close(disk);
  return 0;
}

static int hit_without_compiler(const char *folder, const char *compiler) {
  const int result = hit(folder, compiler);
  return result == 0 && stg_nvrtc_is_loaded() ? 4 : result;
}

/* One that has compiled something knows its version. */
static int compile_and_hit(const char *folder, const char *compiler) {
  const struct stg_kernel_request other = request_of(KERNELS);
  const struct stg_log no_log = {0};
  struct stg_kernel_image image = {0};
  if (stg_compile(&other, &no_log, &image, NULL) != STG_OK) {
    return 5;
  }
  const bool is_it = strcmp(image.compiler, compiler) == 0;
  stg_kernel_image_finish(&image);
  return is_it ? hit(folder, compiler) : 6;
}

/* The same where the folder's entries are of `compiler`, which is not this one. */
static int compile_and_hit_other(const char *folder, const char *compiler) {
  return compile_and_hit(folder, compiler) == 6 ? hit(folder, compiler) : 7;
}

/* In a process that has this NVRTC, or none so far. */
static void in_process(const char *nvrtc, int (*work)(const char *folder, const char *compiler),
                       const char *folder, const char *compiler) {
  int status = 0;
  const pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (nvrtc != NULL && dlopen(nvrtc, RTLD_NOW | RTLD_LOCAL) == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      _exit(100);
    }
    _exit(work(folder, compiler));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static size_t count_entries(const char *folder) {
  size_t count = 0;
  for (unsigned i = 0; i < KERNELS; i++) {
    const struct stg_kernel_request request = request_of(i);
    const char *const compilers[] = {OLDER, NEWER};
    for (size_t c = 0; c < sizeof compilers / sizeof compilers[0]; c++) {
      char *path = disk_entry_path(folder, &request, compilers[c]);
      count += access(path, R_OK) == 0;
      stg_free(path);
    }
  }
  return count;
}

/* Where there is none of its own, a process takes another's: nothing is compiled. */
static void an_entry_of_another_compiler_serves(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  in_process(STG_TEST_STUB_NVRTC12, fill, folder, OLDER);
  assert_int_equal(count_entries(folder), KERNELS);

  in_process(NULL, hit_without_compiler, folder, OLDER);
  in_process(STG_TEST_STUB_NVRTC, compile_and_hit_other, folder, OLDER);
  assert_int_equal(count_entries(folder), KERNELS);
}

static void each_compiler_hits_its_own(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  in_process(STG_TEST_STUB_NVRTC, fill, folder, NEWER);
  in_process(STG_TEST_STUB_NVRTC12, fill, folder, OLDER);
  assert_int_equal(count_entries(folder), 2 * KERNELS);

  in_process(STG_TEST_STUB_NVRTC12, compile_and_hit, folder, OLDER);
  in_process(STG_TEST_STUB_NVRTC, compile_and_hit, folder, NEWER);
  in_process(NULL, hit_without_compiler, folder, NEWER);
  in_process(STG_TEST_STUB_NVRTC12, hit_without_compiler, folder, NEWER); /* there, not loaded */
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(an_entry_of_another_compiler_serves),
      IN_FOLDER(each_compiler_hits_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
