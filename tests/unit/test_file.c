/*
 * test_file.c: bounded reads, maps, atomic writes, folders and path words.
 */
#include "runtime/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/temp_folder.h"

#define LIMIT 4096

static void put(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *path, const void *data, size_t size) {
  char *read = NULL;
  size_t read_size = 0;
  assert_int_equal(stg_file_read(path, LIMIT, &read, &read_size, NULL), STG_OK);
  assert_int_equal(read_size, size);
  assert_memory_equal(read, data, size);
  assert_int_equal(read[size], '\0');
  stg_free(read);
}

static int entries_in(const char *folder) {
  int count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  }
  closedir(dir);
  return count;
}

static void assert_message_holds(const stg_error *err, const char *part) {
  if (strstr(err->message, part) == NULL) {
    fail_msg("'%s' is not in '%s'", part, err->message);
  }
}

/* A failed read names the path and the reason, and leaves its outputs alone. */
static void assert_refuses_to_read(const char *path, stg_status expected, const char *reason) {
  char *data = NULL;
  size_t size = 77;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_file_read(path, LIMIT, &data, &size, &err), expected);
  assert_int_equal(err.code, expected);
  assert_message_holds(&err, path);
  assert_message_holds(&err, reason);
  assert_null(data);
  assert_int_equal(size, 77);
}

static void reads_a_file_whole_with_a_nul_after_it(void **state) {
  const char *path = temp_path(state, "a");
  put(path, "a\0b", 3);
  assert_holds(path, "a\0b", 3);
  put(path, "", 0);
  assert_holds(path, "", 0);
}

static void reads_up_to_the_limit_and_not_one_byte_more(void **state) {
  const char *path = temp_path(state, "a");
  char bytes[LIMIT + 1];
  memset(bytes, 'x', sizeof bytes);
  put(path, bytes, LIMIT);
  assert_holds(path, bytes, LIMIT);
  put(path, bytes, LIMIT + 1);
  assert_refuses_to_read(path, STG_E_INVALID, "it has 4097 bytes, at most 4096 are allowed");
}

static void tells_a_missing_file_from_an_unreadable_one(void **state) {
  assert_refuses_to_read(temp_path(state, "none"), STG_E_NOT_FOUND, "No such file or directory");
  put(temp_path(state, "a"), "", 0);
  assert_refuses_to_read(temp_path(state, "a/b"), STG_E_IO, "Not a directory");
}

static void refuses_what_is_no_file_without_waiting(void **state) {
  const char *fifo = temp_path(state, "fifo");
  assert_int_equal(mkfifo(fifo, 0600), 0);
  assert_refuses_to_read(fifo, STG_E_IO, "it is a FIFO, not a file");
  assert_refuses_to_read(*state, STG_E_IO, "it is a folder, not a file");
  assert_refuses_to_read("/dev/zero", STG_E_IO, "it is a device, not a file");
}

static void survives_running_out_of_memory(void **state) {
  const char *path = temp_path(state, "a");
  char *data = NULL;
  size_t size = 0;
  stg_error err = STG_ERROR_INIT;
  put(path, "abc", 3);
  stg_alloc_fail_at(1);
  stg_status status = stg_file_read(path, LIMIT, &data, &size, &err);
  stg_alloc_fail_at(0);
  assert_int_equal(status, STG_E_NO_MEMORY);
  assert_message_holds(&err, "4 bytes");
  assert_null(data);
}

static void maps_a_file_and_an_empty_one(void **state) {
  const char *path = temp_path(state, "a");
  struct stg_file_map map = {0};
  put(path, "mapped", 6);
  assert_int_equal(stg_file_map(path, &map, NULL), STG_OK);
  assert_int_equal(map.size, 6);
  assert_memory_equal(map.data, "mapped", 6);
  stg_file_unmap(&map);
  assert_null(map.data);
  put(path, "", 0);
  assert_int_equal(stg_file_map(path, &map, NULL), STG_OK);
  assert_int_equal(map.size, 0);
  stg_file_unmap(&map);
}

static void refuses_to_map_what_is_no_file(void **state) {
  struct stg_file_map map = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_file_map(*state, &map, &err), STG_E_IO);
  assert_message_holds(&err, "it is a folder, not a file");
  assert_int_equal(stg_file_map(temp_path(state, "none"), &map, &err), STG_E_NOT_FOUND);
  assert_null(map.data);
}

static void writes_a_new_file_with_its_mode(void **state) {
  const char *path = temp_path(state, "a");
  struct stat info;
  mode_t before = umask(022);
  stg_status status = stg_file_write_atomic(path, "a\0b", 3, 0666, NULL);
  umask(before);
  assert_int_equal(status, STG_OK);
  assert_holds(path, "a\0b", 3);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0644);
  assert_int_equal(entries_in(*state), 1);
}

static void replaces_a_file_whose_readers_keep_the_old_one(void **state) {
  const char *path = temp_path(state, "a");
  put(path, "old", 3);
  struct stg_file_map map = {0};
  assert_int_equal(stg_file_map(path, &map, NULL), STG_OK);
  assert_int_equal(stg_file_write_atomic(path, "newer", 5, 0644, NULL), STG_OK);
  assert_memory_equal(map.data, "old", 3);
  assert_holds(path, "newer", 5);
  stg_file_unmap(&map);
}

static void writes_beside_a_dead_process_left_over(void **state) {
  char name[64];
  snprintf(name, sizeof name, ".stg-%ld-0.tmp", (long)getpid());
  put(temp_path(state, name), "left", 4);
  assert_int_equal(stg_file_write_atomic(temp_path(state, "a"), "new", 3, 0644, NULL), STG_OK);
  assert_holds(temp_path(state, "a"), "new", 3);
  assert_holds(temp_path(state, name), "left", 4);
}

static void writes_a_name_as_long_as_names_get(void **state) {
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  const char *path = temp_path(state, name);
  assert_int_equal(stg_file_write_atomic(path, "x", 1, 0644, NULL), STG_OK);
  assert_holds(path, "x", 1);
}

static void leaves_nothing_behind_when_the_rename_fails(void **state) {
  char name[257];
  memset(name, 'n', 256);
  name[256] = '\0';
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_file_write_atomic(temp_path(state, name), "x", 1, 0644, &err), STG_E_IO);
  assert_message_holds(&err, "File name too long");
  assert_int_equal(entries_in(*state), 0);
}

static void refuses_to_replace_what_is_no_file(void **state) {
  stg_error err = STG_ERROR_INIT;
  const char *fifo = temp_path(state, "fifo");
  assert_int_equal(mkfifo(fifo, 0600), 0);
  assert_int_equal(stg_file_write_atomic(*state, "x", 1, 0644, &err), STG_E_IO);
  assert_message_holds(&err, "it is a folder, not a file");
  assert_int_equal(stg_file_write_atomic(fifo, "x", 1, 0644, &err), STG_E_IO);
  assert_message_holds(&err, "it is a FIFO, not a file");
  assert_int_equal(stg_file_write_atomic(temp_path(state, "no/a"), "x", 1, 0644, &err), STG_E_IO);
  assert_message_holds(&err, "No such file or directory");
  assert_int_equal(entries_in(*state), 1);
}

/* As /dev/stdout is one, when it is redirected to a file. */
static void refuses_to_replace_a_link_to_an_open_file(void **state) {
  const char *path = temp_path(state, "open");
  const char *link = temp_path(state, "link");
  char target[64];
  struct stat info;
  stg_error err = STG_ERROR_INIT;
  put(path, "old", 3);
  const int fd = open(path, O_RDONLY);
  snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
  assert_int_equal(symlink(target, link), 0);
  assert_int_equal(stat(link, &info), 0);
  assert_true(S_ISREG(info.st_mode));

  assert_int_equal(stg_file_write_atomic(link, "new", 3, 0644, &err), STG_E_IO);

  assert_message_holds(&err, "it is a link to an open file, not a file");
  assert_int_equal(lstat(link, &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_holds(path, "old", 3);
  close(fd);
}

static void replaces_any_other_link(void **state) {
  const char *path = temp_path(state, "mine");
  const char *link = temp_path(state, "link");
  put(path, "old", 3);
  assert_int_equal(symlink("mine", link), 0);
  assert_int_equal(stg_file_write_atomic(link, "new", 3, 0644, NULL), STG_OK);
  assert_holds(link, "new", 3);
  assert_holds(path, "old", 3);
}

static void leaves_the_old_file_at_any_failed_allocation(void **state) {
  const char *path = temp_path(state, "a");
  put(path, "old", 3);
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    stg_error err = STG_ERROR_INIT;
    assert_in_range(nth, 1, 10);
    stg_alloc_fail_at(nth);
    status = stg_file_write_atomic(path, "new", 3, 0644, &err);
    stg_alloc_fail_at(0);
    if (status != STG_OK) {
      assert_int_equal(status, STG_E_NO_MEMORY);
      assert_message_holds(&err, "out of memory");
      assert_holds(path, "old", 3);
    }
    assert_int_equal(entries_in(*state), 1);
  }
  assert_holds(path, "new", 3);
}

/* Names of a set, the last one of which may be what cannot be written. */
static void write_set(void **state, const char *last, stg_status expected, const char *reason) {
  const struct stg_file_whole files[] = {{temp_path(state, "a"), "new a", 5},
                                         {temp_path(state, "b"), "new b", 5},
                                         {temp_path(state, last), "new c", 5}};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_file_write_set(files, 3, 0644, &err), expected);
  assert_message_holds(&err, reason);
}

static void writes_a_set_over_what_is_there_and_is_not(void **state) {
  put(temp_path(state, "a"), "old", 3);
  char left_over[64];
  snprintf(left_over, sizeof left_over, ".stg-%ld-0.tmp.old", (long)getpid());
  put(temp_path(state, left_over), "a dead process's", 16);
  write_set(state, "c", STG_OK, "");
  assert_holds(temp_path(state, "a"), "new a", 5);
  assert_holds(temp_path(state, "b"), "new b", 5);
  assert_holds(temp_path(state, "c"), "new c", 5);
  assert_int_equal(entries_in(*state), 3);
}

/* The folder is seen before anything was renamed; the long name is not, and what was replaced comes
 * back. */
static void a_set_of_which_one_cannot_be_written_leaves_all_as_they_were(void **state) {
  char name[257];
  memset(name, 'n', 256);
  name[256] = '\0';
  put(temp_path(state, "a"), "old", 3);
  assert_int_equal(mkdir(temp_path(state, "c"), 0777), 0);
  write_set(state, "c", STG_E_IO, "it is a folder, not a file");
  assert_holds(temp_path(state, "a"), "old", 3);
  assert_int_equal(entries_in(*state), 2);
  write_set(state, "none/c", STG_E_IO, "No such file or directory");
  assert_holds(temp_path(state, "a"), "old", 3);
  assert_int_equal(entries_in(*state), 2);
  write_set(state, name, STG_E_IO, "File name too long");
  assert_holds(temp_path(state, "a"), "old", 3);
  assert_int_equal(entries_in(*state), 2);
}

static void a_set_leaves_the_old_files_at_any_failed_allocation(void **state) {
  const struct stg_file_whole files[] = {{temp_path(state, "a"), "new", 3},
                                         {temp_path(state, "b"), "new", 3}};
  put(files[0].path, "old", 3);
  put(files[1].path, "old", 3);
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    stg_error err = STG_ERROR_INIT;
    assert_in_range(nth, 1, 20);
    stg_alloc_fail_at(nth);
    status = stg_file_write_set(files, 2, 0644, &err);
    stg_alloc_fail_at(0);
    assert_holds(files[0].path, status == STG_OK ? "new" : "old", 3);
    assert_holds(files[1].path, status == STG_OK ? "new" : "old", 3);
    if (status != STG_OK) {
      assert_int_equal(status, STG_E_NO_MEMORY);
      assert_message_holds(&err, "out of memory");
    }
    assert_int_equal(entries_in(*state), 2);
  }
}

static void makes_folders_with_their_parents(void **state) {
  struct stat info;
  const char *path = temp_path(state, "a/b//c/");
  assert_int_equal(stg_mkdir_all(path, 0700, NULL), STG_OK);
  assert_int_equal(stg_mkdir_all(path, 0700, NULL), STG_OK);
  assert_int_equal(stat(path, &info), 0);
  assert_true(S_ISDIR(info.st_mode));
  assert_int_equal(info.st_mode & 0777, 0700);
}

static void refuses_a_folder_under_a_file(void **state) {
  stg_error err = STG_ERROR_INIT;
  put(temp_path(state, "a"), "", 0);
  assert_int_equal(stg_mkdir_all(temp_path(state, "a"), 0700, &err), STG_E_IO);
  assert_message_holds(&err, "Not a directory");
  assert_int_equal(stg_mkdir_all(temp_path(state, "a/b"), 0700, &err), STG_E_IO);
  assert_message_holds(&err, "cannot make folder");
  assert_int_equal(stg_mkdir_all("", 0700, &err), STG_E_IO);
}

static void assert_text(char *text, const char *expected) {
  assert_non_null(text);
  assert_string_equal(text, expected);
  stg_free(text);
}

static void joins_folders_and_names(void **state) {
  (void)state;
  assert_text(stg_path_join("a", "b/c"), "a/b/c");
  assert_text(stg_path_join("a/", "b"), "a/b");
  assert_text(stg_path_join("/", "b"), "/b");
  assert_text(stg_path_join("", "b"), "b");
  assert_text(stg_path_join("a", "/b"), "/b");
  stg_alloc_fail_at(1);
  char *none = stg_path_join("a", "b");
  stg_alloc_fail_at(0);
  assert_null(none);
}

static void finds_the_folder_of_a_path(void **state) {
  (void)state;
  assert_text(stg_path_folder("a/b"), "a");
  assert_text(stg_path_folder("a/b/"), "a");
  assert_text(stg_path_folder("a//b"), "a");
  assert_text(stg_path_folder("a"), ".");
  assert_text(stg_path_folder(""), ".");
  assert_text(stg_path_folder("/a"), "/");
  assert_text(stg_path_folder("/"), "/");
  assert_string_equal(stg_path_name("a/b/c.d"), "c.d");
  assert_string_equal(stg_path_name("/a"), "a");
  assert_string_equal(stg_path_name("a"), "a");
  assert_string_equal(stg_path_name("a/"), "");
  assert_string_equal(stg_path_suffix("a/b.c/d.e.npy"), ".npy");
  assert_string_equal(stg_path_suffix(".npy"), ".npy");
  assert_string_equal(stg_path_suffix("a.npy/b"), "");
  assert_string_equal(stg_path_suffix("a"), "");
}

static void knows_which_names_stay_inside(void **state) {
  (void)state;
  const char *const inside[] = {"a", "a/b", "...", "..a/b", "a../b", "./a", "a//b"};
  const char *const outside[] = {"/a", "..", "../a", "a/..", "a/../b", "a//../b"};
  for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
    assert_true(stg_path_stays_inside(inside[i]));
  }
  for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
    assert_false(stg_path_stays_inside(outside[i]));
  }
}

#define in_temp_folder(test)                                                                       \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      in_temp_folder(reads_a_file_whole_with_a_nul_after_it),
      in_temp_folder(reads_up_to_the_limit_and_not_one_byte_more),
      in_temp_folder(tells_a_missing_file_from_an_unreadable_one),
      in_temp_folder(refuses_what_is_no_file_without_waiting),
      in_temp_folder(survives_running_out_of_memory),
      in_temp_folder(maps_a_file_and_an_empty_one),
      in_temp_folder(refuses_to_map_what_is_no_file),
      in_temp_folder(writes_a_new_file_with_its_mode),
      in_temp_folder(replaces_a_file_whose_readers_keep_the_old_one),
      in_temp_folder(writes_beside_a_dead_process_left_over),
      in_temp_folder(writes_a_name_as_long_as_names_get),
      in_temp_folder(leaves_nothing_behind_when_the_rename_fails),
      in_temp_folder(refuses_to_replace_what_is_no_file),
      in_temp_folder(refuses_to_replace_a_link_to_an_open_file),
      in_temp_folder(replaces_any_other_link),
      in_temp_folder(leaves_the_old_file_at_any_failed_allocation),
      in_temp_folder(writes_a_set_over_what_is_there_and_is_not),
      in_temp_folder(a_set_of_which_one_cannot_be_written_leaves_all_as_they_were),
      in_temp_folder(a_set_leaves_the_old_files_at_any_failed_allocation),
      in_temp_folder(makes_folders_with_their_parents),
      in_temp_folder(refuses_a_folder_under_a_file),
      cmocka_unit_test(joins_folders_and_names),
      cmocka_unit_test(finds_the_folder_of_a_path),
      cmocka_unit_test(knows_which_names_stay_inside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
