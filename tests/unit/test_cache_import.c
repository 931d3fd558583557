/*
 * test_cache_import.c: packs, also hostile ones, into a cache folder that has some entries already.
 */
#include <steergraph/cache.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/pack_format.h"
#include "tests/support/shipped_entries.h"
#include "tests/support/temp_folder.h"

static stg_cache_import_result import(const char *folders, const char *pack,
                                      const stg_cache_import_options *options) {
  stg_cache_import_result result = {.struct_size = sizeof result};
  stg_error err = STG_ERROR_INIT;
  if (stg_cache_import(folders, pack, options, &result, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return result;
}

static void assert_counts(stg_cache_import_result result, size_t imported, size_t there,
                          size_t bad) {
  assert_int_equal(result.imported, imported);
  assert_int_equal(result.there, there);
  assert_int_equal(result.bad, bad);
  assert_int_equal(result.bytes != 0, imported != 0);
}

/* Refused with this status and text, and nothing made. */
static void assert_refused(const char *folders, const char *pack, stg_status expected,
                           const char *text) {
  stg_cache_import_result result = {.struct_size = sizeof result, .imported = 77};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_cache_import(folders, pack, NULL, &result, &err), expected);
  assert_int_equal(err.code, expected);
  if (strstr(err.message, text) == NULL) {
    fail_msg("'%s' is not in '%s'", text, err.message);
  }
  assert_int_equal(result.imported, 77);
}

static void imports_what_an_engine_then_finds(void **state) {
  struct stat info;
  shipped_pack(temp_path(state, "a.sgp"));
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL), SHIPPED, 0, 0);
  assert_int_equal(shipped_count(temp_path(state, "c")), SHIPPED);
  struct stg_disk_cache *disk = disk_open(temp_path(state, "c"), STG_DISK_READ_ONLY, NULL);
  struct stg_kernel_request request = shipped_request(0);
  assert_string_equal(disk_found(disk, &request, SHIPPED_OLDER), SHIPPED_OLDER);
  assert_string_equal(disk_found(disk, &request, NULL), SHIPPED_NEWER);
  stg_disk_cache_close(disk);
  assert_int_equal(stat(shipped_path(temp_path(state, "c"), 0), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  assert_int_equal(stat(temp_path(state, "c"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  assert_int_equal(access(temp_path(state, "c/CACHEDIR.TAG"), F_OK), 0);
  assert_int_equal(count_files(temp_path(state, "c/v1/tmp")), 0);
}

static void writes_to_the_last_folder_and_looks_at_no_other(void **state) {
  char list[2100];
  shipped_pack(temp_path(state, "a.sgp"));
  shipped_fill(temp_path(state, "ro"));
  assert_int_equal(chmod(temp_path(state, "ro"), 0777), 0); /* an engine would refuse it */
  snprintf(list, sizeof list, ":%s:%s::", temp_path(state, "ro"), temp_path(state, "rw"));
  assert_counts(import(list, temp_path(state, "a.sgp"), NULL), SHIPPED, 0, 0);
  assert_int_equal(shipped_count(temp_path(state, "rw")), SHIPPED);
}

static void leaves_what_is_there_whatever_its_bytes(void **state) {
  struct stg_kernel_request request = shipped_request(1);
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", SHIPPED_NEWER);
  struct stg_disk_cache *disk = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  shipped_pack(temp_path(state, "a.sgp"));
  image.compile_ms = 99; /* the same kernel, made another time */
  assert_int_equal(stg_disk_cache_store(disk, &request, &image, NULL), STG_OK);
  stg_disk_cache_close(disk);
  struct stg_strbuf before = shipped_bytes(shipped_path(temp_path(state, "c"), 1));
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL), 2, 1, 0);
  struct stg_strbuf after = shipped_bytes(shipped_path(temp_path(state, "c"), 1));
  assert_int_equal(after.len, before.len);
  assert_memory_equal(after.data, before.data, before.len);
  stg_strbuf_finish(&before);
  stg_strbuf_finish(&after);
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL), 0, SHIPPED, 0);
}

static void replaces_what_is_damaged_there(void **state) {
  shipped_pack(temp_path(state, "a.sgp"));
  shipped_fill(temp_path(state, "c"));
  assert_true(temp_flip_byte(shipped_path(temp_path(state, "c"), 0), -1));
  assert_int_equal(truncate(shipped_path(temp_path(state, "c"), 2), 0), 0);
  const stg_cache_import_options look = {.struct_size = sizeof look, .dry_run = true};
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), &look), 2, 1, 0);
  assert_int_equal(count_files(temp_path(state, "c/v1/quarantine")), 0);
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL), 2, 1, 0);
  assert_int_equal(count_files(temp_path(state, "c/v1/quarantine")), 2);
  assert_int_equal(shipped_count(temp_path(state, "c")), SHIPPED);
}

static void keeps_the_folder_within_its_limits(void **state) {
  const stg_cache_import_options options = {.struct_size = sizeof options, .max_entries = 2};
  shipped_pack(temp_path(state, "a.sgp"));
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), &options), SHIPPED, 0, 0);
  const size_t kept = shipped_count(temp_path(state, "c"));
  assert_true(kept > 0 && kept <= 2);
}

static void only_looks_when_told_to(void **state) {
  const stg_cache_import_options look = {.struct_size = sizeof look, .dry_run = true};
  shipped_pack(temp_path(state, "a.sgp"));
  stg_cache_import_result said = import(temp_path(state, "c"), temp_path(state, "a.sgp"), &look);
  assert_int_equal(access(temp_path(state, "c"), F_OK), -1);
  stg_cache_import_result done = import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL);
  assert_memory_equal(&said, &done, sizeof said);
}

/* What was said of bad entries. */
struct told {
  size_t count;
  char path[600];
  char problem[600];
};

static void tell(void *user, const char *path, const char *problem) {
  struct told *told = user;
  told->count++;
  snprintf(told->path, sizeof told->path, "%s", path);
  snprintf(told->problem, sizeof told->problem, "%s", problem);
}

/* Change a byte of the pack, with its checksum made right again. */
static void forge(const char *path, size_t from_index, char byte) {
  struct stg_strbuf bytes = shipped_bytes(path);
  struct stg_strbuf summed = {0};
  unsigned char sum[STG_KEY_BYTES];
  size_t index = (size_t)stg_le_load((const unsigned char *)bytes.data + STG_PACK_AT_INDEX, 8);
  bytes.data[index + from_index] = byte;
  stg_strbuf_mem(&summed, bytes.data, STG_PACK_AT_SUM);
  stg_strbuf_mem(&summed, bytes.data + index, bytes.len - index);
  stg_key_store(stg_key_of(summed.data, summed.len), sum);
  memcpy(bytes.data + STG_PACK_AT_SUM, sum, sizeof sum);
  pack_put(path, bytes.data, bytes.len);
  stg_strbuf_finish(&summed);
  stg_strbuf_finish(&bytes);
}

/* The last of the index: which of the two keys that is depends on their digits. */
#define LAST_ENTRY ((size_t)(SHIPPED - 1) * STG_PACK_ENTRY_BYTES)

static void passes_over_entries_under_a_wrong_name(void **state) {
  static const struct {
    size_t at; /* in the last entry of the index */
    char byte;
  } cases[] = {
      {STG_KEY_BYTES - 1, '\1'}, /* another key */
      {STG_PACK_ENTRY_COMPILER + 12, '9'} /* another compiler, nvrtc-13.0.89 or -12.4.129 */,
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct told told = {0};
    const stg_cache_import_options options = {
        .struct_size = sizeof options, .on_bad = tell, .user = &told};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", temp_path(state, i == 0 ? "c" : "d"));
    shipped_pack(temp_path(state, "a.sgp"));
    forge(temp_path(state, "a.sgp"), LAST_ENTRY + cases[i].at, cases[i].byte);
    assert_counts(import(folder, temp_path(state, "a.sgp"), &options), 2, 0, 1);
    assert_int_equal(told.count, 1);
    assert_non_null(strstr(told.path, "/a.sgp/"));
    assert_non_null(strstr(told.problem, "its name should be '"));
    assert_int_equal(shipped_count(folder), 2);
  }
}

static void passes_over_a_damaged_entry_and_takes_the_others(void **state) {
  struct told told = {0};
  const stg_cache_import_options options = {
      .struct_size = sizeof options, .on_bad = tell, .user = &told};
  shipped_pack(temp_path(state, "a.sgp"));
  struct stg_strbuf bytes = shipped_bytes(temp_path(state, "a.sgp"));
  size_t index = (size_t)stg_le_load((const unsigned char *)bytes.data + STG_PACK_AT_INDEX, 8);
  stg_strbuf_finish(&bytes);
  assert_true(temp_flip_byte(temp_path(state, "a.sgp"), (long)index - 1)); /* of a checksum */
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), &options), 2, 0, 1);
  assert_int_equal(told.count, 1);
  assert_string_equal(told.problem, "checksum does not match its bytes");
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL), 0, 2, 1);
  assert_int_equal(shipped_count(temp_path(state, "c")), 2);
}

static void refuses_a_pack_that_is_torn(void **state) {
  char pack[512];
  shipped_pack(temp_path(state, "a.sgp"));
  struct stg_strbuf bytes = shipped_bytes(temp_path(state, "a.sgp"));
  snprintf(pack, sizeof pack, "%s", temp_path(state, "torn.sgp"));
  for (size_t i = 0; i < 4; i++) {
    const size_t sizes[] = {0, 40, bytes.len / 2, bytes.len - 1};
    pack_put(pack, bytes.data, sizes[i]);
    assert_refused(temp_path(state, "c"), pack, STG_E_CORRUPT, pack);
  }
  bytes.data[STG_PACK_AT_VERSION] = 9;
  pack_put(pack, bytes.data, bytes.len);
  assert_refused(temp_path(state, "c"), pack, STG_E_UNSUPPORTED, "pack format 9");
  assert_refused(temp_path(state, "c"), temp_path(state, "none.sgp"), STG_E_NOT_FOUND, "none.sgp");
  assert_refused(temp_path(state, "c"), *state, STG_E_IO, "is not a file");
  assert_int_equal(access(temp_path(state, "c"), F_OK), -1);
  stg_strbuf_finish(&bytes);
}

static void refuses_a_pack_that_others_own_or_can_write(void **state) {
  shipped_pack(temp_path(state, "a.sgp"));
  assert_int_equal(chmod(temp_path(state, "a.sgp"), 0664), 0);
  assert_refused(temp_path(state, "c"), temp_path(state, "a.sgp"), STG_E_INVALID,
                 "has mode 0664, so that others can write it");
  assert_int_equal(chmod(temp_path(state, "a.sgp"), 0644), 0);
  if (geteuid() == 0) { /* nobody else can give a file away */
    assert_int_equal(chown(temp_path(state, "a.sgp"), 12345, 12345), 0);
    assert_refused(temp_path(state, "c"), temp_path(state, "a.sgp"), STG_E_INVALID,
                   "is owned by user 12345");
  }
  assert_int_equal(access(temp_path(state, "c"), F_OK), -1);
}

static void refuses_a_folder_that_cannot_be_written_to(void **state) {
  shipped_pack(temp_path(state, "a.sgp"));
  assert_refused(temp_path(state, "a.sgp"), temp_path(state, "a.sgp"), STG_E_INVALID,
                 "put a folder after a pack");
  assert_refused("", temp_path(state, "a.sgp"), STG_E_INVALID, "no cache folder is given");
  assert_refused("::", temp_path(state, "a.sgp"), STG_E_INVALID, "no cache folder is given");
  assert_int_equal(symlink("/proc/none", temp_path(state, "gone")), 0);
  assert_refused(temp_path(state, "gone"), temp_path(state, "a.sgp"), STG_E_IO, "gone");
  shipped_fill(temp_path(state, "c"));
  assert_int_equal(chmod(temp_path(state, "c"), 0777), 0);
  assert_refused(temp_path(state, "c"), temp_path(state, "a.sgp"), STG_E_INVALID,
                 "so that others can write it");
  if (geteuid() != 0) { /* root writes anywhere */
    assert_int_equal(mkdir(temp_path(state, "ro"), 0500), 0);
    assert_refused(temp_path(state, "ro"), temp_path(state, "a.sgp"), STG_E_IO, "ro");
  }
}

static void says_how_far_it_came_when_the_folder_fails_in_between(void **state) {
  char path[600];
  stg_error err = STG_ERROR_INIT;
  shipped_pack(temp_path(state, "a.sgp"));
  stg_cache *cache = shipped_open(temp_path(state, "a.sgp"));
  stg_cache_entry last;
  assert_int_equal(stg_cache_get(cache, SHIPPED - 1, &last, NULL), STG_OK);
  snprintf(path, sizeof path, "%s/%.2s", temp_path(state, "c/v1"), last.key);
  stg_cache_close(cache);
  assert_int_equal(mkdir(temp_path(state, "c"), 0700), 0);
  assert_int_equal(mkdir(temp_path(state, "c/v1"), 0700), 0);
  pack_put(path, "in the way of a folder", 22);
  assert_int_equal(
      stg_cache_import(temp_path(state, "c"), temp_path(state, "a.sgp"), NULL, NULL, &err),
      STG_E_IO);
  assert_non_null(strstr(err.message, " entries were imported, then: cannot write '"));
  assert_int_equal(shipped_count(temp_path(state, "c")), err.message[0] - '0');
}

static void refuses_structs_of_another_version(void **state) {
  stg_cache_import_options options = {.struct_size = 1};
  stg_cache_import_result result = {.struct_size = sizeof result};
  shipped_pack(temp_path(state, "a.sgp"));
  const char *pack = temp_path(state, "a.sgp");
  const char *folder = temp_path(state, "c");
  assert_int_equal(stg_cache_import(folder, pack, &options, &result, NULL), STG_E_INVALID);
  options.struct_size = sizeof options;
  result.struct_size = 1;
  assert_int_equal(stg_cache_import(folder, pack, &options, &result, NULL), STG_E_INVALID);
  assert_int_equal(stg_cache_import(NULL, pack, NULL, NULL, NULL), STG_E_INVALID);
  assert_int_equal(stg_cache_import(folder, NULL, NULL, NULL, NULL), STG_E_INVALID);
  assert_int_equal(access(folder, F_OK), -1);
}

static void it_says_how_far_it_has_come(void **state) {
  struct shipped_seen seen = {0};
  const stg_cache_import_options options = {
      .struct_size = sizeof options, .progress = shipped_see, .user = &seen};
  shipped_pack(temp_path(state, "a.sgp"));
  assert_counts(import(temp_path(state, "c"), temp_path(state, "a.sgp"), &options), SHIPPED, 0, 0);
  assert_int_equal(seen.calls, SHIPPED);
  assert_int_equal(seen.total, SHIPPED);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(imports_what_an_engine_then_finds),
      IN_FOLDER(writes_to_the_last_folder_and_looks_at_no_other),
      IN_FOLDER(leaves_what_is_there_whatever_its_bytes),
      IN_FOLDER(replaces_what_is_damaged_there),
      IN_FOLDER(keeps_the_folder_within_its_limits),
      IN_FOLDER(only_looks_when_told_to),
      IN_FOLDER(passes_over_entries_under_a_wrong_name),
      IN_FOLDER(passes_over_a_damaged_entry_and_takes_the_others),
      IN_FOLDER(refuses_a_pack_that_is_torn),
      IN_FOLDER(refuses_a_pack_that_others_own_or_can_write),
      IN_FOLDER(refuses_a_folder_that_cannot_be_written_to),
      IN_FOLDER(says_how_far_it_came_when_the_folder_fails_in_between),
      IN_FOLDER(refuses_structs_of_another_version),
      IN_FOLDER(it_says_how_far_it_has_come),
  };
#undef IN_FOLDER
  return cmocka_run_group_tests(tests, NULL, NULL);
}
