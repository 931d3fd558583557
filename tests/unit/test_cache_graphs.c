/*
 * test_cache_graphs.c: recipes of graphs through the public inspector of a cache.
 */
#include <steergraph/cache.h>

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/disk_recipe.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/recipe_fixture.h"
#include "tests/support/temp_folder.h"

static stg_cache *open_cache(const char *path_list) {
  stg_cache *cache = NULL;
  assert_int_equal(stg_cache_open(path_list, &cache, NULL), STG_OK);
  return cache;
}

/* The fixture's recipe, and one for fewer rows, into a folder. */
static void fill_graphs(const char *folder) {
  struct stg_disk_cache *disk = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  struct stg_recipe recipe = fixture_recipe();
  assert_int_equal(stg_disk_recipe_put(disk, &recipe, NULL), STG_OK);
  recipe.signature = "steer v1 | sm_90 | batch<=32 seq<=64 rows<=8";
  recipe.rows = 8;
  assert_int_equal(stg_disk_recipe_put(disk, &recipe, NULL), STG_OK);
  stg_disk_cache_close(disk);
}

static void shows_every_field_of_a_graph(void **state) {
  const struct stg_recipe there = fixture_recipe();
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_cache_graph graph;
  fill_graphs(temp_path(state, "c"));
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_count(cache), 0);
  assert_int_equal(stg_cache_graph_count(cache), 2);
  stg_key_hex(stg_recipe_key(&there), hex);
  assert_int_equal(stg_cache_graph_find(cache, hex, &graph, NULL), STG_OK);
  assert_true(graph.ok);
  assert_null(graph.problem);
  assert_string_equal(graph.key, hex);
  assert_non_null(strstr(graph.path, hex));
  assert_string_equal(graph.signature, there.signature);
  assert_string_equal(graph.arch, "sm_90");
  assert_true(graph.creator[0] != '\0');
  assert_true(graph.created_unix == 1700000000 && graph.used_unix > graph.created_unix);
  assert_true(graph.batch == 32 && graph.seq == 64 && graph.rows == 2048);
  assert_int_equal(graph.n_nodes, 2);
  assert_string_equal(graph.nodes[0].key, "455acebd18ab00010123456789abcdef");
  assert_string_equal(graph.nodes[1].kernel, "after");
  assert_int_equal(graph.nodes[0].threads, 128);
  assert_int_equal(graph.nodes[0].rows_per_block, 8);
  assert_int_equal(graph.nodes[0].stage_bytes, 2048);
  assert_int_equal(graph.nodes[0].wide_stage_bytes, 8192);
  assert_int_equal(graph.nodes[0].n_params, 2);
  assert_int_equal(graph.nodes[0].params[1].ordinal, 1);
  assert_int_equal(graph.nodes[0].params[1].offset_bytes, 16);
  assert_int_equal(graph.nodes[0].params[1].size_bytes, 8);
  assert_int_equal(graph.n_edges, 1);
  assert_int_equal(graph.edges[0].from, 0);
  assert_int_equal(graph.edges[0].to, 1);
  assert_int_equal(graph.n_slots, 2);
  assert_string_equal(graph.slots[1].name, "rows");
  assert_int_equal(graph.slots[1].node, 0);
  assert_int_equal(graph.slots[1].param, 1);
  assert_int_equal(graph.slots[1].offset_bytes, 4);
  assert_int_equal(graph.slots[1].size_bytes, 4);
  stg_cache_graph_forget(cache, 0);
  stg_cache_graph_forget(cache, 99);
  assert_int_equal(stg_cache_graph_get(cache, 0, &graph, NULL), STG_OK);
  stg_cache_close(cache);
}

static void graphs_that_are_not_there_or_bad_are_told(void **state) {
  stg_cache_graph graph;
  stg_error err = STG_ERROR_INIT;
  fill_graphs(temp_path(state, "c"));
  stg_cache *cache = open_cache(temp_path(state, "c"));
  assert_int_equal(stg_cache_graph_get(cache, 2, &graph, &err), STG_E_INVALID);
  assert_string_equal(err.message, "no graph 2, the cache has 2");
  assert_int_equal(stg_cache_graph_find(cache, "abc", &graph, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_graph_find(cache, "abcx", &graph, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_graph_find(cache, "00000000", &graph, &err), STG_E_NOT_FOUND);
  assert_string_equal(err.message, "no graph of 2 has a key that begins '00000000'");
  assert_int_equal(stg_cache_graph_find(cache, NULL, &graph, &err), STG_E_INVALID);
  assert_int_equal(stg_cache_graph_count(NULL), 0);
  assert_int_equal(stg_cache_graph_get(cache, 1, &graph, NULL), STG_OK);
  const char *path = graph.path;
  assert_true(temp_flip_byte(path, -20));
  stg_cache_graph_forget(cache, 1);
  assert_int_equal(stg_cache_graph_get(cache, 1, &graph, NULL), STG_OK);
  assert_false(graph.ok);
  assert_false(graph.other_format);
  assert_string_equal(graph.problem, "checksum does not match its bytes");
  assert_int_equal(stg_cache_quarantine(cache, graph.path, NULL), STG_OK);
  assert_int_equal(count_files(temp_path(state, "c/v1/quarantine")), 1);
  stg_cache_close(cache);
}

static void every_layer_has_its_own(void **state) {
  stg_cache_graph graph;
  const struct stg_recipe there = fixture_recipe();
  char hex[STG_KEY_HEX_CHARS + 1];
  struct stg_strbuf list = {0};
  fill_graphs(temp_path(state, "a"));
  fill_graphs(temp_path(state, "b"));
  stg_strbuf_printf(&list, "%s:%s", temp_path(state, "a"), temp_path(state, "b"));
  stg_cache *cache = open_cache(list.data);
  assert_int_equal(stg_cache_graph_count(cache), 4);
  stg_key_hex(stg_recipe_key(&there), hex);
  assert_int_equal(stg_cache_graph_find(cache, hex, &graph, NULL), STG_OK);
  assert_string_equal(graph.key, hex);
  stg_cache_close(cache);
  stg_strbuf_finish(&list);
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  const char *folder = temp_path(state, "c");
  fill_graphs(folder);
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    stg_cache *cache = NULL;
    stg_cache_graph graph;
    stg_alloc_fail_at(nth);
    status = stg_cache_open(folder, &cache, NULL);
    if (status == STG_OK) {
      status = stg_cache_graph_get(cache, 1, &graph, NULL);
      assert_true(status != STG_OK || graph.ok);
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
      IN_FOLDER(shows_every_field_of_a_graph),
      IN_FOLDER(graphs_that_are_not_there_or_bad_are_told),
      IN_FOLDER(every_layer_has_its_own),
      IN_FOLDER(gives_no_memory_when_any_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
