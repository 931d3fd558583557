/*
 * test_corpus.c: every seed of the fuzzers once through its target, without libFuzzer: what one of
 * them found stays found, with any compiler.
 *
 * A target ends the process when it finds something. Its name is then the last that was printed.
 */
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"

#define PATH_CHARS 1024
#define MAX_SEED_BYTES (1u << 20)

typedef int (*fuzz_target)(const uint8_t *data, size_t size);
int fuzz_cubin(const uint8_t *data, size_t size);
int fuzz_directions(const uint8_t *data, size_t size);
int fuzz_entry(const uint8_t *data, size_t size);
int fuzz_gguf(const uint8_t *data, size_t size);
int fuzz_kb(const uint8_t *data, size_t size);
int fuzz_npy(const uint8_t *data, size_t size);
int fuzz_pack(const uint8_t *data, size_t size);
int fuzz_raw(const uint8_t *data, size_t size);
int fuzz_recipe(const uint8_t *data, size_t size);
int fuzz_safetensors(const uint8_t *data, size_t size);
int fuzz_spec(const uint8_t *data, size_t size);

/* In memory of its own size, so that a sanitizer sees who reads beyond it. */
static void feed(fuzz_target target, const char *path) {
  char *text = NULL;
  size_t size = 0;
  stg_error error = STG_ERROR_INIT;
  if (stg_file_read(path, MAX_SEED_BYTES, &text, &size, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  uint8_t *bytes = stg_malloc(size + (size == 0));
  assert_non_null(bytes);
  memcpy(bytes, text, size);
  stg_free(text);
  printf("# %s\n", path);
  fflush(stdout);
  assert_int_equal(target(bytes, size), 0);
  stg_free(bytes);
}

/* All files that fit a pattern under the source tree, of which there are some. */
static void feed_all(fuzz_target target, const char *pattern) {
  char path[PATH_CHARS];
  struct stat info;
  glob_t found;
  snprintf(path, sizeof path, STG_SOURCE_ROOT "/%s", pattern);
  assert_int_equal(glob(path, 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    if (stat(found.gl_pathv[i], &info) == 0 && S_ISREG(info.st_mode)) {
      feed(target, found.gl_pathv[i]);
    }
  }
  globfree(&found);
}

static void cubins_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_cubin, "tests/data/*.cubin");
  feed_all(fuzz_cubin, "tests/fuzz/cubins/*");
}

static void entries_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_entry, "tests/data/*.sgc");
  feed_all(fuzz_entry, "tests/fuzz/entries/*");
}

static void packs_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_pack, "tests/data/packs/*.sgp");
  feed_all(fuzz_pack, "tests/fuzz/packs/*.sgp");
}

static void knowledge_bases_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_kb, "specs/bad/kb/*[!t]"); /* all but what they give */
  feed_all(fuzz_kb, "specs/kb/*.rules");
  feed_all(fuzz_kb, "tests/fuzz/kb/*");
}

static void recipes_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_recipe, "tests/fuzz/recipes/*");
}

static void specs_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_spec, "specs/*.json");
  feed_all(fuzz_spec, "specs/bad/*.json");
  feed_all(fuzz_spec, "specs/ops/*.json");
  feed_all(fuzz_spec, "specs/user/*.json");
  feed_all(fuzz_spec, "tests/data/traffic_*.json");
}

static void vector_files_are_read_safely(void **state) {
  (void)state;
  feed_all(fuzz_directions, "specs/data/*.json");
  feed_all(fuzz_directions, "specs/bad/data/*.json");
  feed_all(fuzz_directions, "tests/fuzz/vectors/*.json");
  feed_all(fuzz_gguf, "tests/data/vectors/*.gguf");
  feed_all(fuzz_gguf, "tests/fuzz/vectors/*.gguf");
  feed_all(fuzz_npy, "tests/fuzz/vectors/*.npy");
  feed_all(fuzz_raw, "tests/fuzz/vectors/*.f32");
  feed_all(fuzz_safetensors, "tests/fuzz/vectors/*.safetensors");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cubins_are_read_safely),
      cmocka_unit_test(entries_are_read_safely),
      cmocka_unit_test(packs_are_read_safely),
      cmocka_unit_test(knowledge_bases_are_read_safely),
      cmocka_unit_test(recipes_are_read_safely),
      cmocka_unit_test(specs_are_read_safely),
      cmocka_unit_test(vector_files_are_read_safely),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
