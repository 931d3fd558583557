/*
 * test_doctor_advice.c: what follows from the facts of a cache folder: what engines refuse, what
 * they put up with, and the remedy for each; and the names of file systems.
 */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/doctor/folder.h"

/* A folder that is written to and has nothing wrong with it. */
static struct stg_doctor_folder good(void) {
  struct stg_doctor_folder folder = {.is_last = true,
                                     .is_there = true,
                                     .can_write = true,
                                     .user = 1000,
                                     .owner = 1000,
                                     .mode = 0700,
                                     .has_inner = true,
                                     .inner_owner = 1000,
                                     .inner_mode = 0700,
                                     .has_system = true,
                                     .system = {.kind = "ext4", .free_bytes = 10000},
                                     .is_counted = true,
                                     .layer = {.entries = 4, .graphs = 3, .bytes = 500},
                                     .max_bytes = 1000,
                                     .max_entries = 10};
  stg_strbuf_str(&folder.path, "/c");
  return folder;
}

/* "wrong: PROBLEM; REMEDY" or "note: ...", a line each. Finishes the folder. */
static void expect(struct stg_doctor_folder folder, const char *wanted) {
  struct stg_strbuf text = {0};
  stg_doctor_folder_advise(&folder);
  for (size_t i = 0; i < folder.n_advice; i++) {
    stg_strbuf_printf(&text, "%s: %s; %s\n", folder.advice[i].wrong ? "wrong" : "note",
                      stg_strbuf_text(&folder.advice[i].problem),
                      stg_strbuf_text(&folder.advice[i].remedy));
  }
  assert_string_equal(stg_strbuf_text(&text), wanted);
  stg_strbuf_finish(&text);
  stg_doctor_folder_finish(&folder);
}

static void a_good_folder_needs_nothing(void **state) {
  (void)state;
  expect(good(), "");
  struct stg_doctor_folder folder = good();
  folder.owner = 0; /* an image's layer, as root made it */
  folder.inner_owner = 0;
  folder.mode = 0755;
  expect(folder, "");
}

static void a_folder_that_others_can_write_is_wrong(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.mode = 0770;
  expect(folder, "wrong: '/c' has mode 0770, so that others can write it; chmod go-w '/c'\n");
  folder = good();
  folder.inner_mode = 0702;
  folder.is_last = false;
  expect(folder, "wrong: '/c/v1' has mode 0702, so that others can write it; chmod go-w '/c/v1'\n");
}

static void a_folder_of_somebody_else_is_wrong(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.inner_owner = 7;
  expect(folder,
         "wrong: '/c/v1' is owned by user 7, not by user 1000 or root; set STEERGRAPH_CACHE_DIR to "
         "a folder of your own; a host may trust this one (stg_options.cache_trust)\n");
}

static void all_that_can_be_wrong_is_said(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.owner = folder.inner_owner = 7;
  folder.mode = folder.inner_mode = 0777;
  folder.can_write = false;
  stg_file_system_of(0x6969, &folder.system);
  folder.system.free_bytes = 0;
  stg_doctor_folder_advise(&folder);
  assert_int_equal(folder.n_advice, 7);
  stg_doctor_folder_finish(&folder);
}

static void a_folder_that_cannot_be_written_is_noted_where_it_is_to_be(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.can_write = false;
  folder.is_last = false;
  expect(folder, "");
  folder = good();
  folder.can_write = false;
  expect(folder, "note: it cannot be written: what is compiled is not kept; set "
                 "STEERGRAPH_CACHE_DIR to a folder that can, or to this one and such a one behind "
                 "it, RO:RW\n");
}

static void file_systems_that_lock_or_forget_badly_are_noted(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  stg_file_system_of(0x6969, &folder.system);
  expect(folder,
         "note: on nfs locks may not hold: each process may compile a kernel that all miss; "
         "nothing is lost but time; a pack to read needs no locks\n");
  folder = good();
  stg_file_system_of(0x01021994, &folder.system);
  expect(folder, "note: on tmpfs it is gone at the next boot; set STEERGRAPH_CACHE_DIR to a folder "
                 "on a disk\n");
}

static void what_is_above_its_limits_is_noted(void **state) {
  static const char wanted[] =
      "note: it is above its limits; the next store makes room, or 'steergraph cache gc'\n";
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.layer.bytes = 1001;
  expect(folder, wanted);
  folder = good();
  folder.layer.temporary = 2;
  folder.layer.quarantined = 2;
  expect(folder, wanted);
  folder = good();
  folder.layer.temporary = 3; /* ten files: just within */
  folder.layer.bytes = 1000;
  expect(folder, "");
  folder = good();
  folder.layer.bytes = 1001;
  folder.layer.entries = 1000;
  folder.max_bytes = UINT64_MAX;
  folder.max_entries = UINT64_MAX;
  expect(folder, "");
}

static void a_disk_that_is_full_before_the_limit_is_noted(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.system.free_bytes = 500;
  expect(folder, "");
  folder = good();
  folder.system.free_bytes = 499;
  expect(folder, "note: 499 B are free, less than it may grow by: 500 B; set "
                 "STEERGRAPH_CACHE_MAX_SIZE lower, or make room\n");
  folder = good();
  folder.system.free_bytes = 0;
  folder.max_bytes = UINT64_MAX;
  expect(folder, "");
}

/* Of a pack the list of packs says what is wrong. */
static void a_pack_is_for_others_to_judge(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.is_pack = true;
  folder.mode = 0777;
  expect(folder, "");
}

static void a_folder_that_is_not_there_has_no_owner_yet(void **state) {
  (void)state;
  struct stg_doctor_folder folder = good();
  folder.is_there = false;
  folder.has_inner = false;
  folder.owner = 0;
  folder.mode = 0;
  folder.can_write = false;
  expect(folder, "");
}

static void file_systems_have_names(void **state) {
  static const struct {
    uint32_t magic;
    const char *kind;
    bool is_shared, is_memory;
  } rows[] = {
      {0xef53, "ext4", false, false},      {0x58465342, "xfs", false, false},
      {0x9123683e, "btrfs", false, false}, {0x794c7630, "overlay", false, false},
      {0x01021994, "tmpfs", false, true},  {0x6969, "nfs", true, false},
      {0xff534d42, "cifs", true, false},   {0x65735546, "fuse", true, false},
      {0x01021997, "9p", true, false},     {0x9fa0, "0x9fa0", false, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct stg_file_system system = {.is_shared = true, .is_memory = true, .free_bytes = 3};
    stg_file_system_of(rows[i].magic, &system);
    assert_string_equal(system.kind, rows[i].kind);
    assert_int_equal(system.is_shared, rows[i].is_shared);
    assert_int_equal(system.is_memory, rows[i].is_memory);
    assert_int_equal(system.free_bytes, 3);
  }
}

static void a_path_that_is_not_there_is_on_no_file_system(void **state) {
  (void)state;
  struct stg_file_system system;
  assert_false(stg_file_system_find("/nowhere/at/all", &system));
  assert_true(stg_file_system_find("/", &system));
  assert_true(system.kind[0] != '\0');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_good_folder_needs_nothing),
      cmocka_unit_test(a_folder_that_others_can_write_is_wrong),
      cmocka_unit_test(a_folder_of_somebody_else_is_wrong),
      cmocka_unit_test(all_that_can_be_wrong_is_said),
      cmocka_unit_test(a_folder_that_cannot_be_written_is_noted_where_it_is_to_be),
      cmocka_unit_test(file_systems_that_lock_or_forget_badly_are_noted),
      cmocka_unit_test(what_is_above_its_limits_is_noted),
      cmocka_unit_test(a_disk_that_is_full_before_the_limit_is_noted),
      cmocka_unit_test(a_pack_is_for_others_to_judge),
      cmocka_unit_test(a_folder_that_is_not_there_has_no_owner_yet),
      cmocka_unit_test(file_systems_have_names),
      cmocka_unit_test(a_path_that_is_not_there_is_on_no_file_system),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
