/*
 * test_pack_golden.c: the bytes of a small pack, held against files of the repository.
 *
 * tests/data/packs has three entries and the pack of them: one kernel of two compilers, and the
 * same text for another architecture. "test_pack_golden write FOLDER" makes them anew; a change of
 * what is there means that packs made by earlier versions are no longer read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/pack_fixture.h"
#include "tests/support/temp_folder.h"

extern const struct stg_embedded_file stg_test_packs[];
extern const size_t stg_test_packs_count;

#define N_ENTRIES 3
static const char *const stems[N_ENTRIES] = {"a_sm_90_cuda12", "b_sm_90_cuda13", "c_sm_80_cuda13"};

static const struct stg_embedded_file *golden(const char *stem) {
  for (size_t i = 0; i < stg_test_packs_count; i++) {
    if (strcmp(stg_test_packs[i].stem, stem) == 0) {
      return &stg_test_packs[i];
    }
  }
  fail_msg("no file '%s'", stem);
  return NULL;
}

static void has_the_bytes_of_the_golden_whatever_the_order(void **state) {
  static const size_t orders[][N_ENTRIES] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
  const struct stg_embedded_file *expected = golden("small");
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
    struct stg_pack_writer *writer = pack_writer();
    struct stg_strbuf bytes = {0};
    for (size_t k = 0; k < N_ENTRIES; k++) {
      const struct stg_embedded_file *entry = golden(stems[orders[i][k]]);
      assert_int_equal(stg_pack_writer_add(writer, entry->text, entry->len, NULL), STG_OK);
    }
    assert_int_equal(stg_pack_writer_print(writer, &bytes, NULL), STG_OK);
    assert_int_equal(bytes.len, expected->len);
    assert_memory_equal(bytes.data, expected->text, expected->len);
    stg_strbuf_finish(&bytes);
    stg_pack_writer_destroy(writer);
  }
}

static void gives_the_entries_of_the_golden_back(void **state) {
  const char *path = temp_path(state, "small.sgp");
  unsigned found = 0;
  pack_put(path, golden("small")->text, golden("small")->len);
  struct stg_pack *pack = pack_open(path);
  assert_int_equal(stg_pack_count(pack), N_ENTRIES);
  for (size_t i = 0; i < N_ENTRIES; i++) {
    char *bytes = NULL;
    size_t size = 0;
    assert_int_equal(stg_pack_read(pack, i, &bytes, &size, NULL), STG_OK);
    assert_int_equal(stg_pack_item_at(pack, i).size_bytes, size);
    for (size_t k = 0; k < N_ENTRIES; k++) {
      const struct stg_embedded_file *entry = golden(stems[k]);
      if (entry->len == size && memcmp(entry->text, bytes, size) == 0) {
        found |= 1u << k;
      }
    }
    stg_free(bytes);
  }
  assert_int_equal(found, (1u << N_ENTRIES) - 1);
  stg_pack_close(pack);
}

/* Words of the layout by hand: what another tool would read. */
static void has_a_header_that_other_tools_can_read(void **state) {
  const unsigned char *bytes = (const unsigned char *)golden("small")->text;
  const size_t size = golden("small")->len;
  (void)state;
  assert_memory_equal(bytes, "STGPACKS\1\0\0\0\0\0\0\0", 16);
  assert_int_equal(bytes[16] | bytes[17] << 8, size & 0xffff);
  const size_t index = (size_t)(bytes[24] | bytes[25] << 8);
  const size_t n_pieces = (size_t)(bytes[36] | bytes[37] << 8);
  assert_int_equal(bytes[32], N_ENTRIES);
  assert_int_equal(index + (size_t)N_ENTRIES * 56 + n_pieces * 16, size);
  assert_true(memcmp(bytes + index, bytes + index + 56, 40) < 0);
  assert_true(memcmp(bytes + index + 56, bytes + index + 112, 40) < 0);
  assert_memory_equal(bytes + 64, "STGCACHE", 8); /* the first piece of the first entry */
}

/* Write one file of the goldens; false when it cannot be. */
static bool write_one(const char *folder, const char *name, const void *data, size_t size) {
  char *path = stg_path_join(folder, name);
  stg_error err = STG_ERROR_INIT;
  bool done = path != NULL && stg_file_write_atomic(path, data, size, 0644, &err) == STG_OK;
  if (!done) {
    fprintf(stderr, "%s\n", err.message);
  }
  stg_free(path);
  return done;
}

static int write_goldens(const char *folder) {
  static const char *const archs[N_ENTRIES] = {"sm_90", "sm_90", "sm_80"};
  static const char *const cubins[N_ENTRIES] = {"cuda12_sm_90", "cuda13_sm_90", "cuda13_sm_80"};
  static const char *const compilers[N_ENTRIES] = {"nvrtc-12.8.93", "nvrtc-13.0.88",
                                                   "nvrtc-13.0.88"};
  struct stg_strbuf pack = {0};
  struct stg_pack_writer *writer = NULL;
  bool done = stg_pack_writer_create(&writer, NULL) == STG_OK;
  for (size_t i = 0; i < N_ENTRIES && done; i++) {
    struct stg_kernel_request request = fixture_request();
    struct stg_kernel_image image = fixture_image(cubins[i], compilers[i]);
    struct stg_strbuf entry = {0};
    char name[64];
    request.arch = archs[i];
    snprintf(name, sizeof name, "%s.sgc", stems[i]);
    done = stg_entry_encode(&request, &image, &entry, NULL) == STG_OK &&
           stg_pack_writer_add(writer, entry.data, entry.len, NULL) == STG_OK &&
           write_one(folder, name, entry.data, entry.len);
    stg_strbuf_finish(&entry);
  }
  done = done && stg_pack_writer_print(writer, &pack, NULL) == STG_OK &&
         write_one(folder, "small.sgp", pack.data, pack.len);
  stg_strbuf_finish(&pack);
  stg_pack_writer_destroy(writer);
  return done ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "write") == 0) {
    return write_goldens(argv[2]);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_the_bytes_of_the_golden_whatever_the_order),
      cmocka_unit_test_setup_teardown(gives_the_entries_of_the_golden_back, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(has_a_header_that_other_tools_can_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
