/*
 * test_pack.c: a pack gives back what went in, whole or not at all, however it is damaged.
 *
 * Its bytes are test_pack_golden.c, its place among layers test_disk_pack.c.
 */
#include "runtime/pack.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/pack_format.h"
#include "tests/support/pack_fixture.h"
#include "tests/support/temp_folder.h"

#define N_ENTRIES 3

/* Three entries, of which two share prelude and source, and the bytes of their pack. */
struct packed {
  void *folder;
  struct stg_strbuf entries[N_ENTRIES]; /* in the order of the pack */
  struct stg_strbuf bytes;
  char path[512];
};

static int setup(void **state) {
  static struct packed packed;
  struct stg_kernel_request first = fixture_request();
  struct stg_kernel_request other = fixture_request();
  struct stg_pack_writer *writer = pack_writer();
  char *bytes = NULL;
  size_t size = 0;
  packed = (struct packed){0};
  if (temp_folder_setup(&packed.folder) != 0) {
    return -1;
  }
  other.source = "// another source\n";
  pack_add(writer, &first, "nvrtc-12.8.93");
  pack_add(writer, &first, "nvrtc-13.0.88");
  pack_add(writer, &other, "nvrtc-13.0.88");
  assert_int_equal(stg_pack_writer_count(writer), N_ENTRIES);
  assert_int_equal(stg_pack_writer_print(writer, &packed.bytes, NULL), STG_OK);
  snprintf(packed.path, sizeof packed.path, "%s", temp_path(&packed.folder, "a.sgp"));
  pack_save(writer, packed.path);
  struct stg_pack *pack = pack_open(packed.path);
  for (size_t i = 0; i < N_ENTRIES; i++) {
    assert_int_equal(stg_pack_read(pack, i, &bytes, &size, NULL), STG_OK);
    stg_strbuf_mem(&packed.entries[i], bytes, size);
    stg_free(bytes);
  }
  stg_pack_close(pack);
  *state = &packed;
  return 0;
}

static int teardown(void **state) {
  struct packed *packed = *state;
  for (size_t i = 0; i < N_ENTRIES; i++) {
    stg_strbuf_finish(&packed->entries[i]);
  }
  stg_strbuf_finish(&packed->bytes);
  return temp_folder_teardown(&packed->folder);
}

static stg_status open_status(const struct packed *packed, stg_error *err) {
  struct stg_pack *pack = NULL;
  memset(err, 0, sizeof *err);
  stg_status status = stg_pack_open(packed->path, false, &pack, err);
  if (status == STG_OK) {
    stg_pack_close(pack);
  } else {
    assert_null(pack);
    assert_non_null(strstr(err->message, packed->path));
  }
  return status;
}

/* Write one byte of the pack's file. */
static void poke(const struct packed *packed, size_t at, char byte) {
  int fd = open(packed->path, O_WRONLY);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
  assert_int_equal(close(fd), 0);
}

static size_t index_at(const struct packed *packed) {
  return (size_t)stg_le_load((const unsigned char *)packed->bytes.data + STG_PACK_AT_INDEX, 8);
}

/* Make the checksum right again after a change of the bytes, and put them in the file. */
static void reseal(struct packed *packed) {
  struct stg_strbuf summed = {0};
  unsigned char sum[STG_KEY_BYTES];
  size_t index = index_at(packed);
  stg_strbuf_mem(&summed, packed->bytes.data, STG_PACK_AT_SUM);
  if (index <= packed->bytes.len) {
    stg_strbuf_mem(&summed, packed->bytes.data + index, packed->bytes.len - index);
  }
  stg_key_store(stg_key_of(summed.data, summed.len), sum);
  memcpy(packed->bytes.data + STG_PACK_AT_SUM, sum, sizeof sum);
  stg_strbuf_finish(&summed);
  pack_put(packed->path, packed->bytes.data, packed->bytes.len);
}

static void finds_each_entry_by_its_key(void **state) {
  struct packed *packed = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_key key = {0};
  size_t first = 9;
  struct stg_pack *pack = pack_open(packed->path);
  assert_int_equal(stg_pack_count(pack), N_ENTRIES);
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  assert_int_equal(stg_pack_find(pack, key, &first), 2);
  assert_string_equal(stg_pack_item_at(pack, first).compiler, "nvrtc-12.8.93");
  assert_string_equal(stg_pack_item_at(pack, first + 1).compiler, "nvrtc-13.0.88");
  assert_true(stg_key_equal(stg_pack_item_at(pack, first).key, key));
  request.source = "// none such\n";
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  assert_int_equal(stg_pack_find(pack, key, &first), 0);
  stg_pack_close(pack);
}

static void keeps_what_entries_share_once(void **state) {
  struct packed *packed = *state;
  struct stg_kernel_request request = fixture_request();
  static char prelude[20000];
  struct stg_pack_writer *writer = pack_writer();
  struct stg_strbuf bytes = {0};
  memset(prelude, '/', sizeof prelude - 1);
  request.prelude = prelude;
  pack_add(writer, &request, "nvrtc-13.0.88");
  request.source = "// other\n";
  pack_add(writer, &request, "nvrtc-13.0.88");
  assert_int_equal(stg_pack_writer_print(writer, &bytes, NULL), STG_OK);
  size_t cubins = 2 * test_cubin("cuda13_sm_90")->len;
  assert_in_range(bytes.len, cubins + sizeof prelude, cubins + sizeof prelude + 4000);
  stg_strbuf_finish(&bytes);
  stg_pack_writer_destroy(writer);
  (void)packed;
}

static void may_be_empty(void **state) {
  struct packed *packed = *state;
  struct stg_key key = {0};
  size_t first = 0;
  pack_save(pack_writer(), packed->path);
  struct stg_pack *pack = pack_open(packed->path);
  assert_int_equal(stg_pack_count(pack), 0);
  assert_int_equal(stg_pack_find(pack, key, &first), 0);
  stg_pack_close(pack);
}

static void takes_no_bad_entry_and_no_second_one(void **state) {
  struct packed *packed = *state;
  struct stg_strbuf *entry = &packed->entries[0];
  struct stg_pack_writer *writer = pack_writer();
  stg_error err = STG_ERROR_INIT;
  entry->data[entry->len / 2] ^= 1;
  assert_int_equal(stg_pack_writer_add(writer, entry->data, entry->len, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "checksum does not match its bytes");
  assert_int_equal(stg_pack_writer_count(writer), 0);
  entry->data[entry->len / 2] ^= 1;
  assert_int_equal(stg_pack_writer_add(writer, entry->data, entry->len, NULL), STG_OK);
  assert_int_equal(stg_pack_writer_add(writer, entry->data, entry->len, NULL), STG_OK);
  assert_int_equal(stg_pack_writer_count(writer), 1);
  stg_pack_writer_destroy(writer);
}

static void is_refused_at_any_other_length(void **state) {
  struct packed *packed = *state;
  stg_error err;
  for (size_t size = packed->bytes.len; size-- > 0;) {
    assert_int_equal(truncate(packed->path, (off_t)size), 0);
    assert_int_equal(open_status(packed, &err), STG_E_CORRUPT);
  }
  assert_non_null(strstr(err.message, "a.sgp': 0 bytes, a pack has at least 64"));
  pack_put(packed->path, packed->bytes.data, packed->bytes.len);
  poke(packed, packed->bytes.len, 0);
  assert_int_equal(open_status(packed, &err), STG_E_CORRUPT);
  assert_non_null(strstr(err.message, " bytes, its header says "));
}

static void is_refused_with_any_bit_of_header_or_index_flipped(void **state) {
  struct packed *packed = *state;
  for (size_t at = 0; at < packed->bytes.len; at++) {
    if (at == STG_PACK_HEADER_BYTES) {
      at = index_at(packed);
    }
    for (unsigned bit = 0; bit < 8; bit++) {
      stg_error err;
      poke(packed, at, (char)(packed->bytes.data[at] ^ (1 << bit)));
      bool is_version = at >= STG_PACK_AT_VERSION && at < STG_PACK_AT_FLAGS;
      assert_int_equal(open_status(packed, &err), is_version ? STG_E_UNSUPPORTED : STG_E_CORRUPT);
    }
    poke(packed, at, packed->bytes.data[at]);
  }
  stg_error err;
  assert_int_equal(open_status(packed, &err), STG_OK);
}

/* How many entries are still what they were; those that are not must say so. */
static size_t count_good(const struct packed *packed, const struct stg_pack *pack) {
  size_t good = 0;
  for (size_t i = 0; i < N_ENTRIES; i++) {
    struct stg_arena arena = {0};
    struct stg_entry entry;
    char *bytes = NULL;
    size_t size = 0;
    assert_int_equal(stg_pack_read(pack, i, &bytes, &size, NULL), STG_OK);
    assert_int_equal(size, packed->entries[i].len);
    bool same = memcmp(bytes, packed->entries[i].data, size) == 0;
    stg_status status = stg_entry_decode(bytes, size, &arena, &entry, NULL);
    assert_true(same ? status == STG_OK : status == STG_E_CORRUPT || status == STG_E_UNSUPPORTED);
    good += same;
    stg_arena_finish(&arena);
    stg_free(bytes);
  }
  return good;
}

static void loses_one_entry_with_a_flipped_bit_of_its_own(void **state) {
  struct packed *packed = *state;
  size_t lost[N_ENTRIES + 1] = {0};
  struct stg_pack *pack = pack_open(packed->path);
  size_t index = index_at(packed);
  for (size_t at = STG_PACK_HEADER_BYTES; at < index; at++) {
    poke(packed, at, (char)(packed->bytes.data[at] ^ (1 << at % 8)));
    size_t n_lost = N_ENTRIES - count_good(packed, pack);
    assert_in_range(n_lost, 1, N_ENTRIES);
    lost[n_lost]++;
    poke(packed, at, packed->bytes.data[at]);
  }
  /* cubins and metadata are an entry's own; the prelude is all three's, a source two's */
  assert_true(lost[1] > (index - STG_PACK_HEADER_BYTES) * 9 / 10);
  assert_true(lost[2] >= strlen("// source\n"));
  assert_true(lost[3] >= strlen("// prelude\n"));
  stg_pack_close(pack);
}

static void misses_when_it_is_cut_short_while_it_is_open(void **state) {
  struct packed *packed = *state;
  struct stg_pack *pack = pack_open(packed->path);
  stg_error err = STG_ERROR_INIT;
  char *bytes = NULL;
  size_t size = 0;
  assert_int_equal(truncate(packed->path, 100), 0);
  assert_int_equal(stg_pack_read(pack, 0, &bytes, &size, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "it ends at byte 100");
  assert_null(bytes);
  stg_pack_close(pack);
}

static void serves_on_when_its_file_is_replaced_or_removed(void **state) {
  struct packed *packed = *state;
  struct stg_pack *pack = pack_open(packed->path);
  pack_save(pack_writer(), packed->path);
  assert_int_equal(count_good(packed, pack), N_ENTRIES);
  assert_int_equal(unlink(packed->path), 0);
  assert_int_equal(count_good(packed, pack), N_ENTRIES);
  stg_pack_close(pack);
}

/* Change a number of the bytes, seal them again, and expect a refusal. */
static void refuse_number(struct packed *packed, size_t at, size_t width, uint64_t value,
                          const char *message) {
  char kept[8];
  stg_error err;
  memcpy(kept, packed->bytes.data + at, width);
  for (size_t i = 0; i < width; i++) {
    packed->bytes.data[at + i] = (char)(value >> (8 * i));
  }
  reseal(packed);
  assert_int_equal(open_status(packed, &err), STG_E_CORRUPT);
  if (strstr(err.message, message) == NULL) {
    fail_msg("'%s' has no '%s'", err.message, message);
  }
  memcpy(packed->bytes.data + at, kept, width);
}

static void is_refused_when_its_numbers_do_not_fit_together(void **state) {
  struct packed *packed = *state;
  const size_t index = index_at(packed);
  const size_t second = index + STG_PACK_ENTRY_BYTES;
  const size_t pieces = index + (size_t)N_ENTRIES * STG_PACK_ENTRY_BYTES;
  refuse_number(packed, STG_PACK_AT_ENTRIES, 4, 4, "does not end the file");
  refuse_number(packed, STG_PACK_AT_ENTRIES, 4, UINT32_MAX, "does not end the file");
  refuse_number(packed, STG_PACK_AT_PIECES, 4, UINT32_MAX, "does not end the file");
  refuse_number(packed, STG_PACK_AT_INDEX, 8, UINT64_MAX, "does not end the file");
  refuse_number(packed, STG_PACK_AT_INDEX, 8, 0, "does not end the file");
  refuse_number(packed, STG_PACK_AT_FLAGS, 4, 2, "unknown flags 0x2");
  refuse_number(packed, STG_PACK_AT_ZERO, 8, 1, "unknown flags 0x0");
  refuse_number(packed, index, 1, 0xff, "entry 1 of its index is malformed"); /* the order */
  refuse_number(packed, second + STG_PACK_ENTRY_COMPILER, 1, '/', "entry 1 of its index");
  refuse_number(packed, second + STG_PACK_ENTRY_COMPILER, 1, 0, "of its index is malformed");
  refuse_number(packed, second + STG_PACK_ENTRY_FIRST - 1, 1, 'x', "entry 1 of its index");
  refuse_number(packed, second + STG_PACK_ENTRY_FIRST, 4, UINT32_MAX, "entry 1 of its index");
  refuse_number(packed, second + STG_PACK_ENTRY_PIECES, 4, UINT32_MAX, "entry 1 of its index");
  refuse_number(packed, second + STG_PACK_ENTRY_PIECES, 4, 0, "entry 1 of its index");
  refuse_number(packed, second + STG_PACK_ENTRY_SIZE, 8, UINT64_MAX, "entry 1 of its index");
  refuse_number(packed, second + STG_PACK_ENTRY_SIZE, 8, 1, "entry 1 of its index");
  refuse_number(packed, pieces, 8, 0, "entry 0 of its index");
  refuse_number(packed, pieces, 8, index, "entry 0 of its index");
  refuse_number(packed, pieces, 8, UINT64_MAX, "entry 0 of its index");
  refuse_number(packed, pieces + STG_PACK_PIECE_SIZE, 8, UINT64_MAX, "entry 0 of its index");
  refuse_number(packed, pieces + STG_PACK_PIECE_SIZE, 8, 0, "entry 0 of its index");
}

static void is_refused_when_others_can_write_it(void **state) {
  struct packed *packed = *state;
  static const mode_t modes[] = {0664, 0646, 0666};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct stg_pack *pack = NULL;
    stg_error err;
    assert_int_equal(chmod(packed->path, modes[i]), 0);
    assert_int_equal(open_status(packed, &err), STG_E_INVALID);
    assert_non_null(strstr(err.message, "cache pack '"));
    assert_non_null(strstr(err.message, "so that others can write it; chmod go-w it, or trust it"));
    assert_int_equal(stg_pack_open(packed->path, true, &pack, NULL), STG_OK);
    stg_pack_close(pack);
  }
}

static void is_refused_when_another_user_owns_it(void **state) {
  struct packed *packed = *state;
  struct stg_pack *pack = NULL;
  stg_error err;
  if (chown(packed->path, 12345, (gid_t)-1) != 0) {
    print_message("not root: another user's file cannot be made here\n");
    return;
  }
  assert_int_equal(open_status(packed, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "is owned by user 12345, not by user "));
  assert_int_equal(stg_pack_open(packed->path, true, &pack, NULL), STG_OK);
  stg_pack_close(pack);
}

static void is_refused_when_it_is_something_else(void **state) {
  struct packed *packed = *state;
  stg_error err;
  char foreign[200] = "{\"steergraph\": 1}";
  pack_put(packed->path, foreign, sizeof foreign);
  assert_int_equal(open_status(packed, &err), STG_E_CORRUPT);
  assert_non_null(strstr(err.message, "no pack: wrong magic"));
  pack_put(packed->path, packed->entries[0].data, packed->entries[0].len); /* an .sgc */
  assert_int_equal(open_status(packed, &err), STG_E_CORRUPT);
  assert_int_equal(unlink(packed->path), 0);
  assert_int_equal(open_status(packed, &err), STG_E_NOT_FOUND);
  assert_int_equal(mkdir(packed->path, 0700), 0);
  assert_int_equal(open_status(packed, &err), STG_E_IO);
  assert_int_equal(rmdir(packed->path), 0);
  assert_int_equal(mkfifo(packed->path, 0600), 0);
  assert_int_equal(open_status(packed, &err), STG_E_IO);
  assert_false(stg_pack_is_file(packed->path));
}

static void is_refused_in_another_format(void **state) {
  struct packed *packed = *state;
  stg_error err;
  packed->bytes.data[STG_PACK_AT_VERSION] = 2;
  reseal(packed);
  assert_int_equal(open_status(packed, &err), STG_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "pack format 2, this version reads 1"));
}

static void is_written_all_or_nothing(void **state) {
  struct packed *packed = *state;
  struct stg_pack_writer *writer = pack_writer();
  size_t size = 7;
  stg_error err = STG_ERROR_INIT;
  const char *path = temp_path(&packed->folder, "none/b.sgp");
  assert_int_equal(stg_pack_writer_save(writer, path, &size, &err), STG_E_IO);
  assert_non_null(strstr(err.message, "none"));
  assert_int_equal(size, 7);
  stg_pack_writer_destroy(writer);
}

static void says_when_memory_is_out(void **state) {
  struct packed *packed = *state;
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    struct stg_pack_writer *writer = NULL;
    struct stg_strbuf bytes = {0};
    stg_alloc_fail_at(nth);
    status = stg_pack_writer_create(&writer, NULL);
    for (size_t i = 0; i < N_ENTRIES && status == STG_OK; i++) {
      status = stg_pack_writer_add(writer, packed->entries[i].data, packed->entries[i].len, NULL);
    }
    if (status == STG_OK) {
      status = stg_pack_writer_print(writer, &bytes, NULL);
    }
    stg_alloc_fail_at(0);
    stg_strbuf_finish(&bytes);
    stg_pack_writer_destroy(writer);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(nth < 200);
  }
  status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    struct stg_pack *pack = NULL;
    char *bytes = NULL;
    size_t size = 0;
    stg_alloc_fail_at(nth);
    status = stg_pack_open(packed->path, false, &pack, NULL);
    if (status == STG_OK) {
      status = stg_pack_read(pack, 0, &bytes, &size, NULL);
    }
    stg_alloc_fail_at(0);
    stg_free(bytes);
    stg_pack_close(pack);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(nth < 20);
  }
}

static void compares_an_entry_with_few_of_many(void **state) {
  (void)state;
  enum { MANY = 600 };
  struct stg_pack_writer *writer = pack_writer();
  for (int again = 0; again < 2; again++) {
    for (int i = 0; i < MANY; i++) {
      char signature[64];
      struct stg_kernel_request request = fixture_request();
      snprintf(signature, sizeof signature, "steer v1 | hidden=%d | sm_90", i / 2);
      request.signature = signature;
      pack_add(writer, &request, i % 2 != 0 ? "nvrtc-13.0.88" : "nvrtc-12.8.93");
    }
    assert_int_equal(stg_pack_writer_count(writer), MANY);
  }
  assert_in_range(stg_pack_writer_compared(writer), MANY, 8 * MANY);
  stg_pack_writer_destroy(writer);
}

int main(void) {
#define PACKED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      PACKED(finds_each_entry_by_its_key),
      PACKED(keeps_what_entries_share_once),
      PACKED(may_be_empty),
      PACKED(takes_no_bad_entry_and_no_second_one),
      PACKED(is_refused_at_any_other_length),
      PACKED(is_refused_with_any_bit_of_header_or_index_flipped),
      PACKED(loses_one_entry_with_a_flipped_bit_of_its_own),
      PACKED(misses_when_it_is_cut_short_while_it_is_open),
      PACKED(serves_on_when_its_file_is_replaced_or_removed),
      PACKED(is_refused_when_its_numbers_do_not_fit_together),
      PACKED(is_refused_when_others_can_write_it),
      PACKED(is_refused_when_another_user_owns_it),
      PACKED(is_refused_when_it_is_something_else),
      PACKED(is_refused_in_another_format),
      PACKED(is_written_all_or_nothing),
      PACKED(says_when_memory_is_out),
      cmocka_unit_test(compares_an_entry_with_few_of_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
