/*
 * test_recipe.c: a graph's recipe as bytes: what goes in comes back, and whatever is damaged,
 * forged or impossible is refused.
 */
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cjson_memory.h"
#include "tests/support/recipe_fixture.h"

struct sealed {
  struct stg_strbuf bytes;
  struct stg_arena arena;
};

static int setup(void **state) {
  static struct sealed sealed;
  const struct stg_recipe recipe = fixture_recipe();
  sealed = (struct sealed){0};
  *state = &sealed;
  return stg_recipe_encode(&recipe, &sealed.bytes, NULL) == STG_OK ? 0 : -1;
}

static int teardown(void **state) {
  struct sealed *sealed = *state;
  stg_strbuf_finish(&sealed->bytes);
  stg_arena_finish(&sealed->arena);
  return 0;
}

/* Make the footer right again. */
static void reseal(struct sealed *sealed) {
  unsigned char footer[STG_KEY_BYTES];
  const size_t end = sealed->bytes.len - sizeof footer;
  stg_key_store(stg_key_of(sealed->bytes.data, end), footer);
  memcpy(sealed->bytes.data + end, footer, sizeof footer);
}

/* Put text of the same length in place of the first `old`. */
static void forge(struct sealed *sealed, const char *old, const char *replacement) {
  const size_t len = strlen(old);
  assert_int_equal(strlen(replacement), len);
  for (size_t i = 0; i + len <= sealed->bytes.len; i++) {
    if (memcmp(sealed->bytes.data + i, old, len) == 0) {
      memcpy(sealed->bytes.data + i, replacement, len);
      reseal(sealed);
      return;
    }
  }
  fail_msg("'%s' is not in the recipe", old);
}

static stg_status decode(struct sealed *sealed, size_t size, stg_error *err) {
  struct stg_recipe recipe = {0};
  memset(err, 0, sizeof *err);
  stg_status status = stg_recipe_decode(sealed->bytes.data, size, &sealed->arena, &recipe, err);
  assert_true(status == STG_OK || recipe.nodes == NULL);
  return status;
}

static void assert_corrupt(struct sealed *sealed, const char *part) {
  stg_error err;
  assert_int_equal(decode(sealed, sealed->bytes.len, &err), STG_E_CORRUPT);
  if (strstr(err.message, part) == NULL) {
    fail_msg("'%s' does not say '%s'", err.message, part);
  }
}

static void comes_back_as_it_went_in(void **state) {
  struct sealed *sealed = *state;
  const struct stg_recipe there = fixture_recipe();
  struct stg_recipe recipe;
  assert_int_equal(
      stg_recipe_decode(sealed->bytes.data, sealed->bytes.len, &sealed->arena, &recipe, NULL),
      STG_OK);
  assert_string_equal(recipe.signature, there.signature);
  assert_string_equal(recipe.arch, "sm_90");
  assert_true(recipe.created_unix == 1700000000);
  assert_true(recipe.batch == 32 && recipe.seq == 64 && recipe.rows == 2048);
  assert_int_equal(recipe.n_nodes, 2);
  assert_true(stg_key_equal(recipe.nodes[0].key, there.nodes[0].key));
  assert_string_equal(recipe.nodes[0].kernel, "stg_steer");
  assert_int_equal(recipe.nodes[0].threads, 128);
  assert_int_equal(recipe.nodes[0].rows_per_block, 8);
  assert_int_equal(recipe.nodes[0].stage_bytes, 2048);
  assert_int_equal(recipe.nodes[0].wide_stage_bytes, 8192);
  assert_int_equal(recipe.nodes[0].n_params, 2);
  assert_memory_equal(recipe.nodes[0].params, fixture_recipe_params, sizeof fixture_recipe_params);
  assert_int_equal(recipe.nodes[1].n_params, 0);
  assert_int_equal(recipe.n_edges, 1);
  assert_memory_equal(recipe.edges, fixture_recipe_edges, sizeof fixture_recipe_edges);
  assert_int_equal(recipe.n_slots, 2);
  assert_string_equal(recipe.slots[1].name, "rows");
  assert_int_equal(recipe.slots[1].offset, 4);
  assert_true(stg_key_equal(recipe.key, stg_recipe_key(&there)));
}

/* The graph key of several kernels stands for all of them, in order. */
static struct stg_key fold_fixture(void) {
  unsigned char keys[2 * STG_KEY_BYTES];
  stg_key_store(fixture_recipe_nodes[0].key, keys);
  stg_key_store(fixture_recipe_nodes[1].key, keys + STG_KEY_BYTES);
  return stg_key_of(keys, sizeof keys);
}

/* The layout that other tools read; it changes with the format's number. */
static void has_the_bytes_of_format_2(void **state) {
  const struct sealed *sealed = *state;
  char text[] = "kernel=00000000000000000000000000000000 batch<=32 seq<=64 rows<=2048";
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_key_hex(fold_fixture(), hex);
  memcpy(text + strlen("kernel="), hex, STG_KEY_HEX_CHARS);
  static const char body[] =
      "{\"signature\":\"steer v1 | ops=add chain<=16 | \\\"h\\\" | sm_90 | batch<=32 seq<=64 "
      "rows<=2048\",\"arch\":\"sm_90\",\"creator\":\"";
  static const char rest[] =
      ",\"created\":1700000000,\"batch\":32,\"seq\":64,\"rows\":2048,\"nodes\":[{\"kind\":"
      "\"kernel\",\"key\":\"455acebd18ab00010123456789abcdef\",\"kernel\":\"stg_steer\","
      "\"threads\":128,\"rows_per_block\":8,\"stage_bytes\":2048,\"wide_stage_bytes\":8192,"
      "\"params\":[{\"ordinal\":0,\"offset\":0,\"bytes\":16},{\"ordinal\":1,\"offset\":16,"
      "\"bytes\":8}]},{\"kind\":\"kernel\",\"key\":\"fedcba9876543210fedcba9876543210\","
      "\"kernel\":\"after\",\"threads\":1024,\"rows_per_block\":1,\"stage_bytes\":0,"
      "\"wide_stage_bytes\":0,\"params\":[]}],\"edges\":[[0,1]],\"slots\":[{\"node\":0,"
      "\"param\":0,\"offset\":0,\"bytes\":8,\"name\":\"hidden\"},{\"node\":0,\"param\":1,"
      "\"offset\":4,\"bytes\":4,\"name\":\"rows\"}]}";
  const char *bytes = sealed->bytes.data;
  const size_t body_at = STG_RECIPE_HEADER_BYTES + sizeof text - 1;
  const size_t rest_at = sealed->bytes.len - STG_RECIPE_FOOTER_BYTES - (sizeof rest - 1);
  unsigned char key[STG_KEY_BYTES];
  stg_key_store(stg_key_of(text, sizeof text - 1), key);
  assert_memory_equal(bytes, "STGRECIP\2\0\0\0\0\0\0\0", 16);
  assert_memory_equal(bytes + STG_RECIPE_AT_KEY, key, sizeof key);
  assert_int_equal((unsigned char)bytes[STG_RECIPE_AT_SIZES], sizeof text - 1);
  assert_memory_equal(bytes + STG_RECIPE_HEADER_BYTES, text, sizeof text - 1);
  assert_memory_equal(bytes + body_at, body, sizeof body - 1);
  assert_memory_equal(bytes + rest_at, rest, sizeof rest - 1);
}

/* Of one node the key is its kernel's. */
static struct stg_recipe one_node(void) {
  struct stg_recipe recipe = fixture_recipe();
  recipe.n_nodes = 1;
  recipe.n_edges = 0;
  return recipe;
}

static void has_the_bytes_of_format_1(void **state) {
  struct sealed *sealed = *state;
  static const char text[] = "kernel=455acebd18ab00010123456789abcdef batch<=32 seq<=64 rows<=2048";
  static const char rest[] = "\"wide_stage_bytes\":8192,\"params\":[{\"ordinal\":0,\"offset\":0,"
                             "\"bytes\":16},{\"ordinal\":1,\"offset\":16,\"bytes\":8}]}],"
                             "\"edges\":[],\"slots\":[{\"node\":0,\"param\":0,\"offset\":0,"
                             "\"bytes\":8,\"name\":\"hidden\"},{\"node\":0,\"param\":1,"
                             "\"offset\":4,\"bytes\":4,\"name\":\"rows\"}]}";
  const struct stg_recipe there = one_node();
  struct stg_recipe recipe;
  unsigned char key[STG_KEY_BYTES];
  stg_strbuf_finish(&sealed->bytes);
  assert_int_equal(stg_recipe_encode(&there, &sealed->bytes, NULL), STG_OK);
  const char *bytes = sealed->bytes.data;
  const size_t rest_at = sealed->bytes.len - STG_RECIPE_FOOTER_BYTES - (sizeof rest - 1);
  stg_key_store(stg_key_of(text, sizeof text - 1), key);
  assert_memory_equal(bytes, "STGRECIP\1\0\0\0\0\0\0\0", 16);
  assert_memory_equal(bytes + STG_RECIPE_AT_KEY, key, sizeof key);
  assert_memory_equal(bytes + STG_RECIPE_HEADER_BYTES, text, sizeof text - 1);
  assert_memory_equal(bytes + rest_at, rest, sizeof rest - 1);
  assert_int_equal(stg_recipe_decode(bytes, sealed->bytes.len, &sealed->arena, &recipe, NULL),
                   STG_OK);
  assert_int_equal(recipe.n_nodes, 1);
}

static void a_format_goes_with_the_number_of_nodes(void **state) {
  struct sealed *sealed = *state;
  const struct stg_recipe there = one_node();
  sealed->bytes.data[STG_RECIPE_AT_VERSION] = 1;
  reseal(sealed);
  assert_corrupt(sealed, "a graph of 2 nodes in format 1");
  stg_strbuf_finish(&sealed->bytes);
  assert_int_equal(stg_recipe_encode(&there, &sealed->bytes, NULL), STG_OK);
  sealed->bytes.data[STG_RECIPE_AT_VERSION] = 2;
  reseal(sealed);
  assert_corrupt(sealed, "a graph of 1 nodes in format 2");
}

/* Two graphs that begin with one kernel are two. */
static void every_kernel_moves_the_key(void **state) {
  (void)state;
  struct stg_recipe_node nodes[3];
  struct stg_recipe recipe = fixture_recipe();
  struct stg_key keys[5];
  recipe.nodes = nodes;
  recipe.n_nodes = 3;
  nodes[0] = fixture_recipe_nodes[0];
  nodes[1] = nodes[2] = fixture_recipe_nodes[1];
  keys[0] = stg_recipe_key(&recipe);
  nodes[2] = fixture_recipe_nodes[0];
  keys[1] = stg_recipe_key(&recipe);
  nodes[1] = fixture_recipe_nodes[0];
  nodes[2] = fixture_recipe_nodes[1];
  keys[2] = stg_recipe_key(&recipe);
  recipe.n_nodes = 2;
  keys[3] = stg_recipe_key(&recipe);
  recipe.n_nodes = 1;
  keys[4] = stg_recipe_key(&recipe);
  for (size_t i = 0; i < 5; i++) {
    for (size_t k = 0; k < i; k++) {
      assert_false(stg_key_equal(keys[i], keys[k]));
    }
  }
}

static void is_refused_with_any_bit_flipped(void **state) {
  struct sealed *sealed = *state;
  for (size_t bit = 0; bit < 8 * sealed->bytes.len; bit++) {
    stg_error err;
    char *byte = &sealed->bytes.data[bit / 8];
    *byte = (char)(*byte ^ (1 << bit % 8));
    assert_int_equal(decode(sealed, sealed->bytes.len, &err), STG_E_CORRUPT);
    assert_true(err.message[0] != '\0');
    *byte = (char)(*byte ^ (1 << bit % 8));
  }
}

/* Resealed too: what a checksum does not find must be found by what the bytes mean, or mean no
 * harm. Nothing is read beyond the end (the sanitizers would say). */
static void is_read_safely_with_any_byte_forged(void **state) {
  struct sealed *sealed = *state;
  for (size_t at = 0; at + STG_RECIPE_FOOTER_BYTES < sealed->bytes.len; at++) {
    static const char forged[] = {'\0', '9', '"', ']', (char)0xff};
    const char there = sealed->bytes.data[at];
    for (size_t i = 0; i < sizeof forged; i++) {
      stg_error err;
      sealed->bytes.data[at] = forged[i];
      reseal(sealed);
      stg_status status = decode(sealed, sealed->bytes.len, &err);
      assert_true(status == STG_OK || status == STG_E_CORRUPT || status == STG_E_UNSUPPORTED);
      if (at >= STG_RECIPE_AT_FLAGS && at < STG_RECIPE_HEADER_BYTES && forged[i] != there) {
        assert_int_equal(status, STG_E_CORRUPT);
      }
    }
    sealed->bytes.data[at] = there;
  }
}

static void is_refused_at_any_other_length(void **state) {
  struct sealed *sealed = *state;
  stg_error err;
  for (size_t size = 0; size < sealed->bytes.len; size++) {
    assert_int_equal(decode(sealed, size, &err), STG_E_CORRUPT);
  }
  stg_strbuf_char(&sealed->bytes, '\0');
  reseal(sealed);
  assert_corrupt(sealed, "do not fill");
}

static void tells_another_format_from_damage(void **state) {
  struct sealed *sealed = *state;
  stg_error err;
  sealed->bytes.data[STG_RECIPE_AT_VERSION] = 3;
  assert_corrupt(sealed, "checksum does not match its bytes");
  reseal(sealed);
  assert_int_equal(decode(sealed, sealed->bytes.len, &err), STG_E_UNSUPPORTED);
  assert_string_equal(err.message, "recipe format 3, this version reads 1 to 2");
  sealed->bytes.data[STG_RECIPE_AT_VERSION] = 0;
  reseal(sealed);
  assert_int_equal(decode(sealed, sealed->bytes.len, &err), STG_E_UNSUPPORTED);
  assert_string_equal(err.message, "recipe format 0, this version reads 1 to 2");
}

static void members_that_contradict_each_other_are_refused(void **state) {
  static const struct {
    const char *old, *replacement, *says;
  } cases[] = {
      {"kernel=", "kernol=", "key text is not what the body says"},
      {"rows<=2048\"", "rows<=2049\"", "does not end with"},
      {"\"arch\":\"sm_90\"", "\"arch\":\"sm_80\"", "does not end with"},
      {"\"batch\":32", "\"batch\":33", "does not end with"},
      {"\"batch\":32", "\"batch\": 0", "not written as"},
      {"\"kind\"", "\"kine\"", "not written as"},
      {"\"threads\":128", "\"threads\":0  ", "not written as"},
      {"\"threads\":1024", "\"threads\":1025", "node 1 of the recipe is impossible"},
      {"\"threads\":1024", "\"threads\":-102", "'threads'"},
      {"\"ordinal\":1", "\"ordinal\":0", "node 0 of the recipe is impossible"},
      {"\"offset\":16,", "\"offset\":15,", "node 0 of the recipe is impossible"},
      {"[[0,1]]", "[[1,0]]", "edge 0 of the recipe is impossible"},
      {"[[0,1]]", "[[1,1]]", "edge 0 of the recipe is impossible"},
      {"[[0,1]]", "[[0,2]]", "edge 0 of the recipe is impossible"},
      {"[[0,1]]", "[[0,-]]", "not JSON"},
      {"\"node\":0", "\"node\":2", "slot 0 of the recipe is impossible"},
      {"\"param\":1", "\"param\":2", "slot 1 of the recipe is impossible"},
      {"\"offset\":4", "\"offset\":5", "slot 1 of the recipe is impossible"},
      {"\"name\":\"rows\"", "\"name\":\"\"    ", "not written as"},
      {"\"key\":\"f", "\"key\":\"F", "'key'"},
  };
  struct sealed *sealed = *state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char before[8192];
    assert_true(sealed->bytes.len <= sizeof before);
    memcpy(before, sealed->bytes.data, sealed->bytes.len);
    forge(sealed, cases[i].old, cases[i].replacement);
    assert_corrupt(sealed, cases[i].says);
    memcpy(sealed->bytes.data, before, sealed->bytes.len);
  }
}

static void what_would_be_refused_is_not_written(void **state) {
  (void)state;
  static const struct stg_recipe_edge back[] = {{1, 0}};
  struct stg_strbuf bytes = {0};
  stg_error err = STG_ERROR_INIT;
  struct stg_recipe recipe = fixture_recipe();
  recipe.edges = back;
  assert_int_equal(stg_recipe_encode(&recipe, &bytes, &err), STG_E_INVALID);
  assert_string_equal(err.message, "edge 0 of the recipe is impossible");
  recipe = fixture_recipe();
  recipe.rows = 0;
  assert_int_equal(stg_recipe_encode(&recipe, &bytes, &err), STG_E_INVALID);
  assert_string_equal(err.message, "a graph of batch 32, seq 64, rows 0");
  recipe = fixture_recipe();
  recipe.signature = "steer v1 | sm_90 | batch<=32 seq<=64 rows<=9007199254740993"; /* 2^53 + 1 */
  recipe.rows = 9007199254740993;
  assert_int_equal(stg_recipe_encode(&recipe, &bytes, &err), STG_E_INVALID);
  assert_string_equal(err.message, "a graph of batch 32, seq 64, rows 9007199254740993");
  recipe = fixture_recipe();
  recipe.created_unix = -5;
  assert_int_equal(stg_recipe_encode(&recipe, &bytes, &err), STG_E_INVALID);
  assert_string_equal(err.message, "a graph made -5 s after 1970");
  recipe = fixture_recipe();
  recipe.n_nodes = 0;
  assert_int_equal(stg_recipe_encode(&recipe, &bytes, &err), STG_E_INVALID);
  assert_int_equal(bytes.len, 0);
  stg_strbuf_finish(&bytes);
}

/* As many nodes as there may be, each with a name of so many characters. */
static stg_status encode_many(size_t name_chars, struct stg_strbuf *bytes, stg_error *err) {
  static struct stg_recipe_node nodes[STG_RECIPE_MAX_NODES];
  char name[512];
  struct stg_recipe recipe = fixture_recipe();
  assert_true(name_chars < sizeof name);
  memset(name, 'k', name_chars);
  name[name_chars] = '\0';
  for (size_t i = 0; i < STG_RECIPE_MAX_NODES; i++) {
    nodes[i] = fixture_recipe_nodes[1];
    nodes[i].kernel = name;
  }
  recipe.nodes = nodes;
  recipe.n_nodes = STG_RECIPE_MAX_NODES;
  recipe.n_slots = 0;
  return stg_recipe_encode(&recipe, bytes, err);
}

static void what_is_written_is_as_large_as_what_is_read(void **state) {
  (void)state;
  struct stg_strbuf bytes = {0};
  struct stg_arena arena = {0};
  struct stg_recipe recipe;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(encode_many(80, &bytes, &err), STG_OK);
  assert_in_range(bytes.len, 3 * STG_RECIPE_MAX_BYTES / 4, STG_RECIPE_MAX_BYTES);
  assert_int_equal(stg_recipe_decode(bytes.data, bytes.len, &arena, &recipe, NULL), STG_OK);
  assert_int_equal(recipe.n_nodes, STG_RECIPE_MAX_NODES);
  stg_strbuf_finish(&bytes);
  assert_int_equal(encode_many(160, &bytes, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, " bytes, at most 1048352"));
  assert_int_equal(bytes.len, 0);
  stg_strbuf_finish(&bytes);
  stg_arena_finish(&arena);
}

static void tells_a_body_that_memory_is_out_for_from_a_damaged_one(void **state) {
  struct sealed *sealed = *state;
  stg_error err = STG_ERROR_INIT;
  stg_status status = STG_E_NO_MEMORY;
  for (size_t n = 0; status != STG_OK; n++) {
    cjson_memory_limit(n);
    status = decode(sealed, sealed->bytes.len, &err);
    cjson_memory_restore();
    if (status != STG_OK) {
      assert_int_equal(status, STG_E_NO_MEMORY);
      assert_non_null(strstr(err.message, "the body of a recipe"));
    }
    assert_true(n < 500);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(comes_back_as_it_went_in),
      CASE(has_the_bytes_of_format_1),
      CASE(has_the_bytes_of_format_2),
      CASE(a_format_goes_with_the_number_of_nodes),
      CASE(every_kernel_moves_the_key),
      CASE(is_refused_with_any_bit_flipped),
      CASE(is_read_safely_with_any_byte_forged),
      CASE(is_refused_at_any_other_length),
      CASE(tells_another_format_from_damage),
      CASE(members_that_contradict_each_other_are_refused),
      CASE(what_would_be_refused_is_not_written),
      CASE(what_is_written_is_as_large_as_what_is_read),
      CASE(tells_a_body_that_memory_is_out_for_from_a_damaged_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
