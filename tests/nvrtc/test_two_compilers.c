/*
 * test_two_compilers.c: NVRTC 12 and 13 of one machine on one cache folder: their entries stand
 * side by side, each process is served by its own compiler's, and one without a compiler by the
 * newest.
 *
 * A process loads one NVRTC. So what compiles is this program again, with the loader's path of one
 * of them: "ask FOLDER FIRST SOURCE" (see ask).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <steergraph/cache.h>

#include "runtime/module_cache.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define LIBRARIES "LD_LIBRARY_PATH"
#define ANSWER_CHARS 64

static const struct stg_log no_log;
static const char *path_of_12;        /* the loader's path with NVRTC 12 */
static char name_of_12[ANSWER_CHARS]; /* "nvrtc-12.4.127" */
static char name_of_13[ANSWER_CHARS];

/* The compiler of the kernel's entry, and whether it was compiled for it. False on a failure. */
static bool get(struct stg_disk_cache *disk, const struct stg_kernel_request *request,
                char *ret_compiler, bool *ret_compiled) {
  struct stg_strbuf bytes = {0};
  struct stg_arena arena = {0};
  struct stg_entry entry;
  double ms = 0;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_module_entry(disk, request, &no_log, &bytes, ret_compiled, &ms, &err);
  if (status == STG_OK) {
    status = stg_entry_decode(bytes.data, bytes.len, &arena, &entry, &err);
  }
  if (status == STG_OK) {
    snprintf(ret_compiler, ANSWER_CHARS, "%s", entry.meta.compiler);
  } else {
    fprintf(stderr, "%s\n", err.message);
  }
  stg_arena_finish(&arena);
  stg_strbuf_finish(&bytes);
  return status == STG_OK;
}

/*
 * The other process. It may first compile a kernel of its own in memory ("compiles"), so that its
 * NVRTC is loaded; then it asks the folder for a kernel: "refresh" compiles it whatever is there.
 * Prints the compiler of what it got, and "compiled" or "found".
 */
static int ask(const char *folder, const char *first, const char *mode) {
  struct stg_disk_options options = {.path_list = folder};
  struct stg_disk_options nowhere = {.mode = STG_DISK_OFF};
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_cache *disk = NULL;
  char compiler[ANSWER_CHARS] = "";
  bool compiled = false;
  if (strcmp(first, "compiles") == 0) {
    struct stg_kernel_request other = scale_request("sm_80");
    if (stg_disk_cache_open(&nowhere, &disk, NULL) != STG_OK ||
        !get(disk, &other, compiler, &compiled)) {
      return 1;
    }
    stg_disk_cache_close(disk);
  }
  options.mode = strcmp(mode, "refresh") == 0 ? STG_DISK_REFRESH : STG_DISK_READ_WRITE;
  if (stg_disk_cache_open(&options, &disk, NULL) != STG_OK ||
      !get(disk, &request, compiler, &compiled)) {
    return 1;
  }
  stg_disk_cache_close(disk);
  printf("%s %s%s", compiler, compiled ? "compiled" : "found",
         stg_nvrtc_is_loaded() ? "" : " without NVRTC");
  return 0;
}

/* Its answer, in a static buffer. `libraries` NULL: those of this process. */
static const char *answer(const char *folder, const char *libraries, const char *first,
                          const char *mode) {
  static char text[2 * ANSWER_CHARS];
  int ends[2];
  int status = 0;
  size_t used = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    if (libraries != NULL) {
      setenv(LIBRARIES, libraries, 1);
    }
    execl("/proc/self/exe", "test_two_compilers", "ask", folder, first, mode, (char *)NULL);
    _exit(99);
  }
  close(ends[1]);
  for (ssize_t got = 1; got > 0 && used < sizeof text - 1; used += (size_t)got) {
    got = read(ends[0], text + used, sizeof text - 1 - used);
    assert_true(got >= 0);
  }
  text[used] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  return text;
}

static void assert_answer(const char *text, const char *compiler, const char *how) {
  char expected[2 * ANSWER_CHARS];
  snprintf(expected, sizeof expected, "%s %s", compiler, how);
  assert_string_equal(text, expected);
}

/* A folder with the kernel of both. */
static const char *fill(void **state) {
  const char *folder = temp_path(state, "c");
  assert_answer(answer(folder, NULL, "no", "refresh"), name_of_13, "compiled");
  assert_answer(answer(folder, path_of_12, "no", "refresh"), name_of_12, "compiled");
  return folder;
}

static void each_has_an_entry_of_its_own_under_one_key(void **state) {
  stg_cache *cache = NULL;
  stg_cache_entry entries[2];
  assert_int_equal(stg_cache_open(fill(state), &cache, NULL), STG_OK);
  assert_int_equal(stg_cache_count(cache), 2);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(stg_cache_get(cache, i, &entries[i], NULL), STG_OK);
    assert_true(entries[i].ok);
    assert_int_equal(entries[i].code_bytes != 0, true);
  }
  assert_string_equal(entries[0].key, entries[1].key);
  assert_string_equal(entries[0].compiler, name_of_12);
  assert_string_equal(entries[1].compiler, name_of_13);
  stg_cache_close(cache);
}

static void who_compiled_with_one_is_served_by_it(void **state) {
  const char *folder = fill(state);
  assert_answer(answer(folder, path_of_12, "compiles", "find"), name_of_12, "found");
  assert_answer(answer(folder, NULL, "compiles", "find"), name_of_13, "found");
}

static void who_loaded_none_is_served_by_the_newest(void **state) {
  const char *folder = fill(state);
  assert_answer(answer(folder, path_of_12, "no", "find"), name_of_13, "found without NVRTC");
  assert_answer(answer(folder, NULL, "no", "find"), name_of_13, "found without NVRTC");
}

/* Neither is stale: what the one compiled serves the other, rather than a compile. */
static void who_has_only_the_other_s_compiles_nothing(void **state) {
  const char *of_12 = temp_path(state, "12");
  const char *of_13 = temp_path(state, "13");
  assert_answer(answer(of_12, path_of_12, "no", "refresh"), name_of_12, "compiled");
  assert_answer(answer(of_12, NULL, "compiles", "find"), name_of_12, "found");
  assert_answer(answer(of_13, NULL, "no", "refresh"), name_of_13, "compiled");
  assert_answer(answer(of_13, path_of_12, "compiles", "find"), name_of_13, "found");
}

/* Both entries go into a pack and out of it. */
static void both_travel_in_a_pack(void **state) {
  const size_t indices[] = {0, 1};
  char pack[512];
  stg_cache *cache = NULL;
  stg_cache_import_result result = {.struct_size = sizeof result};
  snprintf(pack, sizeof pack, "%s", temp_path(state, "a.sgp"));
  assert_int_equal(stg_cache_open(fill(state), &cache, NULL), STG_OK);
  assert_int_equal(stg_cache_export(cache, indices, 2, pack, NULL, NULL, NULL), STG_OK);
  stg_cache_close(cache);
  assert_int_equal(stg_cache_import(temp_path(state, "d"), pack, NULL, &result, NULL), STG_OK);
  assert_int_equal(result.imported, 2);
  assert_answer(answer(temp_path(state, "d"), path_of_12, "compiles", "find"), name_of_12, "found");
  assert_answer(answer(temp_path(state, "d"), NULL, "no", "find"), name_of_13,
                "found without NVRTC");
}

/* Learn both names, each of a compile, so that a mix-up of the libraries is seen at once. */
static int learn_names(void) {
  struct stg_nvrtc_info info;
  stg_error err = STG_ERROR_INIT;
  path_of_12 = getenv("STG_TEST_NVRTC12");
  if (path_of_12 == NULL || stg_nvrtc_info(&info, &err) != STG_OK) {
    printf("skipped: %s\n", path_of_12 == NULL ? "STG_TEST_NVRTC12 is not set" : err.message);
    return EXIT_SKIPPED;
  }
  if (info.major != 13) {
    printf("skipped: %s is no NVRTC 13 to go with NVRTC 12\n", info.compiler);
    return EXIT_SKIPPED;
  }
  return 0;
}

static int learn_compilers(void **state) {
  if (temp_folder_setup(state) != 0) {
    return -1;
  }
  const char *of_12 = answer(temp_path(state, "names12"), path_of_12, "no", "refresh");
  snprintf(name_of_12, sizeof name_of_12, "%.*s", (int)strcspn(of_12, " "), of_12);
  const char *of_13 = answer(temp_path(state, "names13"), NULL, "no", "refresh");
  snprintf(name_of_13, sizeof name_of_13, "%.*s", (int)strcspn(of_13, " "), of_13);
  int result = temp_folder_teardown(state);
  const bool apart =
      strncmp(name_of_12, "nvrtc-12.", 9) == 0 && strncmp(name_of_13, "nvrtc-13.", 9) == 0;
  return apart ? result : -1;
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "ask") == 0) {
    return ask(argv[2], argv[3], argv[4]);
  }
  int skip = learn_names();
  if (skip != 0) {
    return skip;
  }
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(each_has_an_entry_of_its_own_under_one_key),
      IN_FOLDER(who_compiled_with_one_is_served_by_it),
      IN_FOLDER(who_loaded_none_is_served_by_the_newest),
      IN_FOLDER(who_has_only_the_other_s_compiles_nothing),
      IN_FOLDER(both_travel_in_a_pack),
  };
#undef IN_FOLDER
  return cmocka_run_group_tests(tests, learn_compilers, NULL);
}
