/*
 * test_entry_head.c: what an entry says of itself, read without the rest of it.
 */
#include "runtime/entry_head.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/kernel_fixture.h"

/* An entry, and how much of it was read. */
struct source {
  struct stg_strbuf bytes;
  struct stg_arena arena;
  size_t n_read;
  stg_status fails; /* STG_OK: reading works */
};

static int setup(void **state) {
  static struct source source;
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  source = (struct source){0};
  *state = &source;
  return stg_entry_encode(&request, &image, &source.bytes, NULL) == STG_OK ? 0 : -1;
}

static int teardown(void **state) {
  struct source *source = *state;
  stg_strbuf_finish(&source->bytes);
  stg_arena_finish(&source->arena);
  return 0;
}

static stg_status read_bytes(void *user, uint64_t offset, void *ret_data, size_t size,
                             stg_error *reterr) {
  struct source *source = user;
  if (source->fails != STG_OK) {
    return stg_error_set(reterr, source->fails, "the disk is on fire");
  }
  assert_true(offset <= source->bytes.len && size <= source->bytes.len - offset);
  memcpy(ret_data, source->bytes.data + offset, size);
  source->n_read += size;
  return STG_OK;
}

/* As if the entry had `size` bytes. */
static stg_status peek(struct source *source, size_t size, struct stg_entry_facts *facts,
                       stg_error *err) {
  const struct stg_entry_bytes bytes = {read_bytes, source, size};
  memset(err, 0, sizeof *err);
  source->n_read = 0;
  return stg_entry_peek(&bytes, &source->arena, facts, err);
}

static void sees_what_is_read_back(void **state) {
  struct source *source = *state;
  struct stg_entry entry = {0};
  struct stg_entry_facts facts = {0};
  stg_error err;
  assert_int_equal(
      stg_entry_decode(source->bytes.data, source->bytes.len, &source->arena, &entry, NULL),
      STG_OK);
  assert_int_equal(peek(source, source->bytes.len, &facts, &err), STG_OK);
  assert_true(stg_key_equal(facts.head.key, entry.key));
  assert_int_equal(facts.head.parts[STG_ENTRY_MATERIAL].size, entry.material_size);
  assert_int_equal(facts.head.parts[STG_ENTRY_SOURCE].size, entry.source_size);
  assert_int_equal(facts.head.parts[STG_ENTRY_CUBIN].size, entry.cubin_size);
  assert_string_equal(facts.meta.signature, entry.meta.signature);
  assert_string_equal(facts.meta.family, entry.meta.family);
  assert_string_equal(facts.meta.compiler, entry.meta.compiler);
  assert_true(facts.meta.compile_ms == entry.meta.compile_ms);
  assert_int_equal(facts.meta.created_unix, entry.meta.created_unix);
  assert_int_equal(facts.meta.cubin.registers, entry.meta.cubin.registers);
  assert_int_equal(facts.meta.cubin.code_bytes, entry.meta.cubin.code_bytes);
  assert_int_equal(facts.meta.wide_stage_bytes, entry.meta.wide_stage_bytes);
}

static void reads_the_header_and_the_metadata_alone(void **state) {
  struct source *source = *state;
  struct stg_entry_facts facts = {0};
  stg_error err;
  assert_int_equal(peek(source, source->bytes.len, &facts, &err), STG_OK);
  assert_int_equal(source->n_read,
                   STG_ENTRY_HEADER_BYTES + facts.head.parts[STG_ENTRY_METADATA].size);
  /* so that damage elsewhere is not seen */
  for (size_t i = 0; i < STG_ENTRY_N_PARTS; i++) {
    if (i != STG_ENTRY_METADATA) {
      source->bytes.data[facts.head.parts[i].offset] ^= 1;
    }
  }
  assert_int_equal(peek(source, source->bytes.len, &facts, &err), STG_OK);
}

static void refuses_an_entry_of_any_other_length(void **state) {
  struct source *source = *state;
  for (size_t size = 0; size < source->bytes.len; size += size < 128 ? 1 : 61) {
    struct stg_entry_facts facts = {.head.flags = 77};
    stg_error err;
    assert_int_equal(peek(source, size, &facts, &err), STG_E_CORRUPT);
    assert_true(err.message[0] != '\0');
    assert_int_equal(facts.head.flags, 77);
  }
  struct stg_entry_facts facts = {0};
  stg_error err;
  assert_int_equal(peek(source, source->bytes.len + 7, &facts, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "7 bytes too many");
}

static void flip(char *bytes, size_t bit) {
  const unsigned flipped = (unsigned char)bytes[bit / 8] ^ 1u << bit % 8;
  bytes[bit / 8] = (char)flipped;
}

static void survives_any_flipped_bit_of_header_and_metadata(void **state) {
  struct source *source = *state;
  struct stg_entry_facts good = {0};
  stg_error err;
  assert_int_equal(peek(source, source->bytes.len, &good, &err), STG_OK);
  const size_t begin = (size_t)good.head.parts[STG_ENTRY_METADATA].offset;
  const size_t end = begin + (size_t)good.head.parts[STG_ENTRY_METADATA].size;
  for (size_t bit = 0; bit < 8 * end; bit++) {
    if (bit == 8 * (size_t)STG_ENTRY_HEADER_BYTES) {
      bit = 8 * begin;
    }
    struct stg_entry_facts facts = {0};
    flip(source->bytes.data, bit);
    stg_status status = peek(source, source->bytes.len, &facts, &err);
    if (bit < 8 * (size_t)STG_ENTRY_AT_KEY) { /* magic, version, flags */
      assert_true(status == STG_E_CORRUPT || status == STG_E_UNSUPPORTED);
    }
    assert_true(status == STG_OK || err.message[0] != '\0');
    flip(source->bytes.data, bit);
  }
}

static void tells_another_format_without_its_checksum(void **state) {
  struct source *source = *state;
  struct stg_entry_facts facts = {0};
  stg_error err;
  source->bytes.data[STG_ENTRY_AT_VERSION] = 7;
  assert_int_equal(peek(source, source->bytes.len, &facts, &err), STG_E_UNSUPPORTED);
  assert_string_equal(err.message, "entry format 7, this version reads 2");
}

static void names_flags_that_it_does_not_know(void **state) {
  struct source *source = *state;
  struct stg_entry_facts facts = {0};
  stg_error err;
  source->bytes.data[STG_ENTRY_AT_FLAGS] = 4;
  assert_int_equal(peek(source, source->bytes.len, &facts, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "unknown flags 0x4");
}

static void hands_on_what_reading_fails_with(void **state) {
  struct source *source = *state;
  struct stg_entry_facts facts = {0};
  stg_error err;
  source->fails = STG_E_IO;
  assert_int_equal(peek(source, source->bytes.len, &facts, &err), STG_E_IO);
  assert_string_equal(err.message, "the disk is on fire");
}

int main(void) {
#define OF_ENTRY(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      OF_ENTRY(sees_what_is_read_back),
      OF_ENTRY(reads_the_header_and_the_metadata_alone),
      OF_ENTRY(refuses_an_entry_of_any_other_length),
      OF_ENTRY(survives_any_flipped_bit_of_header_and_metadata),
      OF_ENTRY(tells_another_format_without_its_checksum),
      OF_ENTRY(names_flags_that_it_does_not_know),
      OF_ENTRY(hands_on_what_reading_fails_with),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
