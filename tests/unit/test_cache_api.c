/*
 * test_cache_api.c: the public inspector of a cache folder.
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

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/disk_cache.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/pack_fixture.h"
#include "tests/support/temp_folder.h"

/* Store the request's kernel as made by `compiler`; the source tells keys apart. */
static void fill(const char *folder, const char *source, const char *compiler) {
  struct stg_disk_options options = {.path_list = folder};
  struct stg_disk_cache *disk = NULL;
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", compiler);
  request.source = source;
  assert_int_equal(stg_disk_cache_open(&options, &disk, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_store(disk, &request, &image, NULL), STG_OK);
  stg_disk_cache_close(disk);
}

static stg_cache *open_cache(const char *path_list) {
  stg_cache *cache = NULL;
  assert_int_equal(stg_cache_open(path_list, &cache, NULL), STG_OK);
  assert_non_null(cache);
  return cache;
}

static void shows_every_field_of_an_entry(void **state) {
  const struct stg_embedded_file *cubin = test_cubin("cuda13_sm_90");
  struct stg_kernel_request request = fixture_request();
  struct stg_key key = {0};
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_cache_entry entry;
  fill(temp_path(state, "c"), request.source, "nvrtc-13.0.88");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_count(cache), 1);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  stg_key_hex(key, hex);
  assert_true(entry.ok);
  assert_null(entry.problem);
  assert_string_equal(entry.key, hex);
  assert_non_null(strstr(entry.path, hex));
  assert_string_equal(entry.signature, request.signature);
  assert_string_equal(entry.family, "steer");
  assert_string_equal(entry.kernel, "fixture_plain");
  assert_string_equal(entry.arch, "sm_90");
  assert_string_equal(entry.compiler, "nvrtc-13.0.88");
  assert_true(entry.creator[0] != '\0');
  assert_string_equal(entry.source, "// prelude\n// source\n");
  assert_int_equal(entry.source_bytes, strlen(entry.source));
  assert_int_equal(entry.cubin_bytes, cubin->len);
  assert_memory_equal(entry.cubin, cubin->text, cubin->len);
  assert_memory_equal(entry.material, "format", sizeof "format");
  assert_true(entry.size_bytes > entry.cubin_bytes + entry.source_bytes + entry.material_bytes);
  assert_true(entry.created_unix > 1500000000);
  assert_true(entry.used_unix >= entry.created_unix - 1);
  assert_true(entry.compile_ms == 12.5);
  assert_int_equal(entry.threads, 256);
  assert_int_equal(entry.rows_per_block, 8);
  assert_int_equal(entry.registers, 8);
  assert_int_equal(entry.shared_bytes, 0);
  assert_int_equal(entry.local_bytes, 0);
  assert_int_equal(entry.param_bytes, 12);
  assert_int_equal(entry.code_bytes, 384);
  assert_int_equal(entry.max_threads, 0);
  assert_int_equal(entry.stage_bytes, 2048);
  assert_int_equal(entry.wide_stage_bytes, 8192);
  stg_cache_close(cache);
}

/* Everything but what an entry is made of. */
static void assert_says_the_same(const stg_cache_entry *peeked, const stg_cache_entry *read) {
  assert_true(peeked->ok);
  assert_ptr_equal(peeked->path, read->path);
  assert_string_equal(peeked->key, read->key);
  assert_string_equal(peeked->signature, read->signature);
  assert_string_equal(peeked->family, read->family);
  assert_string_equal(peeked->kernel, read->kernel);
  assert_string_equal(peeked->arch, read->arch);
  assert_string_equal(peeked->compiler, read->compiler);
  assert_string_equal(peeked->creator, read->creator);
  assert_int_equal(peeked->source_bytes, read->source_bytes);
  assert_int_equal(peeked->cubin_bytes, read->cubin_bytes);
  assert_int_equal(peeked->material_bytes, read->material_bytes);
  assert_int_equal(peeked->size_bytes, read->size_bytes);
  assert_int_equal(peeked->created_unix, read->created_unix);
  assert_int_equal(peeked->used_unix, read->used_unix);
  assert_true(peeked->compile_ms == read->compile_ms);
  assert_int_equal(peeked->threads, read->threads);
  assert_int_equal(peeked->rows_per_block, read->rows_per_block);
  assert_int_equal(peeked->registers, read->registers);
  assert_int_equal(peeked->shared_bytes, read->shared_bytes);
  assert_int_equal(peeked->local_bytes, read->local_bytes);
  assert_int_equal(peeked->param_bytes, read->param_bytes);
  assert_int_equal(peeked->code_bytes, read->code_bytes);
  assert_int_equal(peeked->max_threads, read->max_threads);
  assert_int_equal(peeked->stage_bytes, read->stage_bytes);
  assert_int_equal(peeked->wide_stage_bytes, read->wide_stage_bytes);
  assert_null(peeked->source);
  assert_null(peeked->cubin);
  assert_null(peeked->material);
}

static void looks_into_entries_of_folders_and_packs_without_reading_them(void **state) {
  char list[512];
  struct stg_kernel_request request = fixture_request();
  request.source = "// 1\n";
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  fill(temp_path(state, "b"), "// 2\n", "nvrtc-13.0.88");
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "a.sgp"), temp_path(state, "b"));
  stg_cache *cache = open_cache(list);
  assert_int_equal(stg_cache_count(cache), 2);
  for (size_t i = 0; i < 2; i++) {
    stg_cache_entry peeked;
    stg_cache_entry read;
    assert_int_equal(stg_cache_peek(cache, i, &peeked, NULL), STG_OK);
    assert_int_equal(stg_cache_get(cache, i, &read, NULL), STG_OK);
    assert_non_null(read.source);
    assert_says_the_same(&peeked, &read);
    assert_int_equal(stg_cache_peek(cache, i, &peeked, NULL), STG_OK); /* also when it was read */
    assert_says_the_same(&peeked, &read);
  }
  stg_cache_close(cache);
}

static void sees_by_a_look_what_is_wrong_with_a_head_alone(void **state) {
  static const struct {
    long flip; /* offset of a byte */
    const char *problem;
    bool other_format;
  } cases[] = {
      {0, "no cache entry: wrong magic", false}, {8, "entry format 3, this version reads 2", true},
      {12, "unknown flags 0x1", false},          {20, "its name should be '", false}, /* the key */
      {38, " does not fit in ", false}, /* size of the material */
  };
  struct stg_kernel_request request = fixture_request();
  stg_cache_entry entry;
  fill(temp_path(state, "c"), request.source, "nvrtc-13.0.88");
  char *path = disk_entry_path(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_true(temp_flip_byte(path, cases[i].flip));
    stg_cache *cache = open_cache(temp_path(state, "c"));
    assert_int_equal(stg_cache_peek(cache, 0, &entry, NULL), STG_OK);
    assert_false(entry.ok);
    assert_int_equal(entry.other_format, cases[i].other_format);
    assert_string_equal(entry.key, "");
    assert_null(entry.signature);
    if (strstr(entry.problem, cases[i].problem) == NULL) {
      fail_msg("'%s' is not in '%s'", cases[i].problem, entry.problem);
    }
    stg_cache_close(cache);
    assert_true(temp_flip_byte(path, cases[i].flip));
  }
  assert_true(temp_flip_byte(path, -1)); /* the checksum: only who reads it all sees that */
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_peek(cache, 0, &entry, NULL), STG_OK);
  assert_true(entry.ok);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_false(entry.ok);
  stg_cache_close(cache);
  stg_free(path);
}

static void reads_anew_what_was_forgotten(void **state) {
  stg_cache_entry entry;
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  stg_cache_forget(cache, 0); /* nothing was read */
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_true(entry.ok);
  stg_cache_forget(cache, 0);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_string_equal(entry.source, "// prelude\n// 1\n");
  const char *path = entry.path;
  stg_cache_forget(cache, 0);
  assert_int_equal(truncate(path, 200), 0);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_false(entry.ok);
  const char *problem = entry.problem;
  stg_cache_forget(cache, 0);
  assert_non_null(strstr(problem, "does not fit in 200"));
  assert_int_equal(unlink(path), 0);
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88"); /* healed meanwhile */
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_true(entry.ok);
  stg_cache_forget(cache, 1);
  stg_cache_forget(NULL, 0);
  stg_cache_close(cache);
}

static void lists_the_parameters_of_a_kernel(void **state) {
  stg_cache_entry entry;
  stg_cache_param params[3] = {{7, 7, 7}, {7, 7, 7}, {7, 7, 7}};
  size_t count = 0;
  stg_error err = STG_ERROR_INIT;
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_int_equal(stg_cache_params(&entry, NULL, 0, &count, NULL), STG_OK);
  assert_int_equal(count, 2);
  assert_int_equal(stg_cache_params(&entry, params, 1, &count, NULL), STG_OK);
  assert_int_equal(count, 2);
  assert_int_equal(params[0].size_bytes, 8);
  assert_int_equal(params[1].size_bytes, 7);
  assert_int_equal(stg_cache_params(&entry, params, 3, &count, NULL), STG_OK);
  assert_int_equal(params[1].ordinal, 1);
  assert_int_equal(params[1].offset_bytes, 8);
  assert_int_equal(params[1].size_bytes, 4);
  assert_int_equal(params[2].size_bytes, 7);
  assert_int_equal(stg_cache_params(NULL, params, 3, &count, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_params(&entry, NULL, 3, &count, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_peek(cache, 0, &entry, NULL), STG_OK);
  assert_int_equal(stg_cache_params(&entry, params, 3, &count, &err), STG_E_INVALID);
  assert_string_equal(err.message,
                      "the cubin of a cache entry is not read; take one of stg_cache_get");
  assert_int_equal(count, 2);
  stg_cache_close(cache);
}

static void has_no_entries_where_there_is_no_folder(void **state) {
  stg_cache *cache = open_cache(temp_path(state, "none"));
  assert_int_equal(stg_cache_count(cache), 0);
  stg_cache_close(cache);
  assert_int_equal(access(temp_path(state, "none"), F_OK), -1);
}

static void lists_all_layers_in_path_order(void **state) {
  char list[512];
  stg_cache_entry first;
  stg_cache_entry second;
  fill(temp_path(state, "b"), "// 1\n", "nvrtc-13.0.88");
  fill(temp_path(state, "a"), "// 2\n", "nvrtc-13.0.88");
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "b"), temp_path(state, "a"));
  stg_cache *cache = open_cache(list);
  assert_int_equal(stg_cache_count(cache), 2);
  assert_int_equal(stg_cache_get(cache, 0, &first, NULL), STG_OK);
  assert_int_equal(stg_cache_get(cache, 1, &second, NULL), STG_OK);
  assert_true(strcmp(first.path, second.path) < 0);
  stg_cache_close(cache);
}

static void lists_the_entries_of_a_pack_among_those_of_folders(void **state) {
  char list[512];
  struct stg_kernel_request request = fixture_request();
  stg_cache_entry entry;
  stg_error err = STG_ERROR_INIT;
  request.source = "// 1\n";
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  fill(temp_path(state, "b"), "// 2\n", "nvrtc-13.0.88");
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "b"), temp_path(state, "a.sgp"));
  stg_cache *cache = open_cache(list);
  assert_int_equal(stg_cache_count(cache), 2);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_true(entry.ok);
  assert_non_null(strstr(entry.path, "/a.sgp/"));
  assert_string_equal(entry.source, "// prelude\n// 1\n");
  assert_int_equal(stg_cache_find(cache, entry.key, &entry, NULL), STG_OK);
  assert_int_equal(stg_cache_quarantine(cache, entry.path, &err), STG_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "make the pack again"));
  stg_cache_close(cache);
}

static void refuses_a_file_that_is_no_pack(void **state) {
  stg_cache *cache = NULL;
  stg_error err = STG_ERROR_INIT;
  pack_put(temp_path(state, "a.sgp"), "x", 1);
  assert_int_equal(stg_cache_open(temp_path(state, "a.sgp"), &cache, &err), STG_E_CORRUPT);
  assert_non_null(strstr(err.message, "/a.sgp': 1 bytes, a pack has at least 64"));
  assert_null(cache);
}

static void shows_a_bad_entry_and_leaves_it_until_told(void **state) {
  stg_cache_entry entry;
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_int_equal(truncate(entry.path, 200), 0);
  stg_cache_close(cache);
  cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_false(entry.ok);
  assert_non_null(strstr(entry.problem, "does not fit in 200"));
  assert_int_equal(entry.size_bytes, 200);
  assert_null(entry.signature);
  assert_string_equal(entry.key, "");
  assert_int_equal(access(entry.path, F_OK), 0);
  assert_int_equal(stg_cache_quarantine(cache, entry.path, NULL), STG_OK);
  assert_int_equal(access(entry.path, F_OK), -1);
  stg_cache_close(cache);
  cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_count(cache), 0);
  stg_cache_close(cache);
}

static void tells_an_entry_of_another_format_from_a_bad_one(void **state) {
  struct stg_kernel_request request = fixture_request();
  stg_cache_entry entry;
  fill(temp_path(state, "c"), request.source, "nvrtc-13.0.88");
  char *path = disk_entry_path(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  disk_set_format(path, 7);
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_false(entry.ok);
  assert_true(entry.other_format);
  assert_non_null(strstr(entry.problem, "entry format 7, this version reads 2"));
  stg_cache_close(cache);
  assert_true(temp_flip_byte(path, 70));
  cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_false(entry.ok);
  assert_false(entry.other_format);
  stg_cache_close(cache);
  stg_free(path);
}

static void says_that_an_entry_is_gone(void **state) {
  stg_cache_entry entry;
  char path[512];
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  snprintf(path, sizeof path, "%s", entry.path);
  stg_cache_close(cache);
  cache = open_cache(temp_path(state, "c"));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_false(entry.ok);
  assert_non_null(strstr(entry.problem, "No such file or directory"));
  stg_cache_close(cache);
}

static void finds_by_the_beginning_of_a_key(void **state) {
  stg_cache_entry entry;
  stg_cache_entry same;
  char prefix[80];
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-12.9.86");
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-12.10.3");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  snprintf(prefix, sizeof prefix, "%.6s", entry.key);
  assert_int_equal(stg_cache_find(cache, prefix, &same, NULL), STG_OK);
  assert_string_equal(same.key, entry.key);
  assert_string_equal(same.compiler, "nvrtc-12.10.3");
  snprintf(prefix, sizeof prefix, "%.9s-nvrtc-12.9", entry.key);
  assert_int_equal(stg_cache_find(cache, prefix, &same, NULL), STG_OK);
  assert_string_equal(same.compiler, "nvrtc-12.9.86");
  stg_cache_close(cache);
}

static void refuses_keys_that_are_short_unknown_or_ambiguous(void **state) {
  stg_cache_entry entry = {.size_bytes = 7};
  stg_error err = STG_ERROR_INIT;
  char source[32];
  /* a twin whose name differs in the last digit of the key */
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88");
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  char twin[512];
  snprintf(twin, sizeof twin, "%s", entry.path);
  char *digit = strrchr(twin, '/') + STG_KEY_HEX_CHARS;
  *digit = *digit == '0' ? '1' : '0';
  assert_int_equal(link(entry.path, twin), 0);
  snprintf(source, sizeof source, "%.8s", entry.key);
  stg_cache_close(cache);
  cache = open_cache(temp_path(state, "c"));
  entry = (stg_cache_entry){.size_bytes = 7};
  assert_int_equal(stg_cache_find(cache, source, &entry, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "' is ambiguous: '"));
  assert_int_equal(stg_cache_find(cache, "abc", &entry, &err), STG_E_INVALID);
  assert_string_equal(err.message, "key 'abc' does not begin with 4 lower-case hex digits");
  assert_int_equal(stg_cache_find(cache, "", &entry, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_find(cache, "zzzzzzzz", &entry, &err), STG_E_INVALID);
  const char *unknown = strncmp(source, "0000", 4) == 0 ? "1111" : "0000";
  assert_int_equal(stg_cache_find(cache, unknown, &entry, &err), STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "no entry of 2 has a key that begins '"));
  assert_int_equal(entry.size_bytes, 7);
  stg_cache_close(cache);
}

static void checks_its_arguments(void **state) {
  stg_cache *cache = NULL;
  stg_cache_entry entry = {.size_bytes = 7};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_cache_open(NULL, &cache, &err), STG_E_INVALID);
  assert_string_equal(err.message, "no cache folder is given");
  assert_int_equal(stg_cache_open("", &cache, &err), STG_E_INVALID);
  assert_null(cache);
  cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_get(cache, 0, &entry, &err), STG_E_INVALID);
  assert_string_equal(err.message, "no cache entry 0, the cache has 0");
  assert_int_equal(stg_cache_peek(cache, 0, &entry, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_peek(NULL, 0, &entry, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_quarantine(cache, "/etc/passwd", &err), STG_E_INVALID);
  assert_string_equal(err.message, "'/etc/passwd' is in no folder of this cache");
  assert_int_equal(entry.size_bytes, 7);
  stg_cache_close(cache);
  stg_cache_close(NULL);
  assert_int_equal(stg_cache_count(NULL), 0);
}

static void inspects_a_folder_that_an_engine_would_refuse(void **state) {
  fill(temp_path(state, "c"), "// 1\n", "nvrtc-13.0.88");
  assert_int_equal(chmod(temp_path(state, "c"), 0777), 0);
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_count(cache), 1);
  stg_cache_close(cache);
}

static void looks_like_an_engine_into_a_pack_below_the_folders(void **state) {
  struct stg_kernel_request request = fixture_request();
  const char *folder = temp_path(state, "c");
  const char *pack = temp_path(state, "installed.sgp");
  stg_cache *cache = NULL;
  stg_cache_entry entry;
  fill(folder, "// 1\n", "nvrtc-13.0.88");
  pack_of_one(pack, &request, "nvrtc-12.8.93");
  assert_int_equal(stg_cache_open_as_engine(folder, pack, false, &cache, NULL), STG_OK);
  assert_int_equal(stg_cache_count(cache), 2);
  assert_int_equal(stg_cache_get(cache, 1, &entry, NULL), STG_OK);
  assert_true(entry.ok);
  assert_string_equal(entry.compiler, "nvrtc-12.8.93");
  assert_non_null(strstr(entry.path, "/installed.sgp/"));
  stg_cache_close(cache);
  assert_int_equal(stg_cache_open_as_engine("", pack, false, &cache, NULL), STG_OK);
  assert_int_equal(stg_cache_count(cache), 1);
  stg_cache_close(cache);
  for (int nothing = 0; nothing < 2; nothing++) {
    const char *none = nothing == 0 ? NULL : "";
    assert_int_equal(stg_cache_open_as_engine(folder, none, false, &cache, NULL), STG_OK);
    assert_int_equal(stg_cache_count(cache), 1);
    stg_cache_close(cache);
    assert_int_equal(stg_cache_open_as_engine("", none, false, &cache, NULL), STG_E_INVALID);
  }
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  const char *folder = temp_path(state, "c");
  fill(folder, "// 1\n", "nvrtc-13.0.88");
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    stg_cache *cache = NULL;
    stg_cache_entry entry;
    stg_alloc_fail_at(nth);
    status = stg_cache_open(folder, &cache, NULL);
    if (status == STG_OK) {
      status = stg_cache_peek(cache, 0, &entry, NULL);
    }
    if (status == STG_OK) {
      assert_true(entry.ok);
      status = stg_cache_get(cache, 0, &entry, NULL);
    }
    stg_alloc_fail_at(0);
    stg_cache_close(cache);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(nth < 200);
  }
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(shows_every_field_of_an_entry),
      IN_FOLDER(looks_into_entries_of_folders_and_packs_without_reading_them),
      IN_FOLDER(sees_by_a_look_what_is_wrong_with_a_head_alone),
      IN_FOLDER(lists_the_parameters_of_a_kernel),
      IN_FOLDER(reads_anew_what_was_forgotten),
      IN_FOLDER(has_no_entries_where_there_is_no_folder),
      IN_FOLDER(lists_all_layers_in_path_order),
      IN_FOLDER(lists_the_entries_of_a_pack_among_those_of_folders),
      IN_FOLDER(refuses_a_file_that_is_no_pack),
      IN_FOLDER(shows_a_bad_entry_and_leaves_it_until_told),
      IN_FOLDER(tells_an_entry_of_another_format_from_a_bad_one),
      IN_FOLDER(says_that_an_entry_is_gone),
      IN_FOLDER(finds_by_the_beginning_of_a_key),
      IN_FOLDER(refuses_keys_that_are_short_unknown_or_ambiguous),
      IN_FOLDER(checks_its_arguments),
      IN_FOLDER(inspects_a_folder_that_an_engine_would_refuse),
      IN_FOLDER(looks_like_an_engine_into_a_pack_below_the_folders),
      IN_FOLDER(gives_no_memory_when_any_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
