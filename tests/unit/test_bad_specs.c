/*
 * test_bad_specs.c: every file of specs/bad whose fault the reader finds gives exactly the message
 * beside it.
 *
 * NN_name.expect has two lines: the message, with file names relative to specs/bad, and
 * "stage: reader" or "stage: engine". Those of the engine must pass the reader; their messages are
 * checked through the command line (tests/cli).
 */
#include "specs/spec.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"

#define BAD_DIR STG_SPECS_DIR "/bad"
#define MIN_READER_FILES 30
#define MIN_ENGINE_FILES 10

struct counts {
  int reader;
  int engine;
  int wrong;
};

/* `text` without the folder in front of file names; stg_free. */
static char *without_folder(const char *text) {
  static const char folder[] = BAD_DIR "/";
  struct stg_strbuf out = {0};
  for (const char *at = text; *at != '\0';) {
    if (strncmp(at, folder, sizeof folder - 1) == 0) {
      at += sizeof folder - 1;
    } else {
      stg_strbuf_char(&out, *at++);
    }
  }
  stg_strbuf_char(&out, '\n');
  char *result = stg_strbuf_take(&out);
  assert_non_null(result);
  return result;
}

static bool check_reader(const char *name, const char *expect, stg_status status,
                         const stg_error *err) {
  char *message = without_folder(err->message);
  size_t len = strlen(message);
  bool right = status != STG_OK && strncmp(expect, message, len) == 0 &&
               strcmp(expect + len, "stage: reader\n") == 0;
  if (!right) {
    print_error("%s gives\n%sexpected\n%s", name, message, expect);
  }
  stg_free(message);
  return right;
}

static void check_file(const char *name, struct counts *counts) {
  char path[512];
  char *expect = NULL;
  size_t size = 0;
  stg_error err = STG_ERROR_INIT;
  snprintf(path, sizeof path, "%s/%.*s.expect", BAD_DIR, (int)(strlen(name) - 5), name);
  assert_int_equal(stg_file_read(path, 4096, &expect, &size, &err), STG_OK);
  snprintf(path, sizeof path, "%s/%s", BAD_DIR, name);
  struct stg_spec spec = {0};
  stg_status status = stg_spec_load(path, NULL, &spec, &err);
  if (strstr(expect, "\nstage: engine\n") != NULL) {
    counts->engine++;
    if (status != STG_OK) {
      print_error("%s: the reader refuses what the engine should: %s\n", name, err.message);
      counts->wrong++;
    }
  } else {
    counts->reader++;
    counts->wrong += !check_reader(name, expect, status, &err);
  }
  stg_spec_finish(&spec);
  stg_free(expect);
}

static void gives_the_message_beside_each_bad_file(void **state) {
  (void)state;
  struct counts counts = {0};
  DIR *folder = opendir(BAD_DIR);
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    size_t len = strlen(entry->d_name);
    if (len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0) {
      check_file(entry->d_name, &counts);
    }
  }
  closedir(folder);
  assert_int_equal(counts.wrong, 0);
  assert_true(counts.reader >= MIN_READER_FILES);
  assert_true(counts.engine >= MIN_ENGINE_FILES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_the_message_beside_each_bad_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
