/*
 * test_tensor_layers.c: names to numbers and back, and the pattern that a file's names are of.
 */
#include "specs/tensor_layers.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

#define MAX_NAMES 8

/* A file of tensors with these names, in memory of the test. */
struct named {
  struct stg_tensor_info tensors[MAX_NAMES];
  struct stg_tensor_file file;
};

static const struct stg_tensor_file *named(struct named *out, const char *const *names) {
  size_t n = 0;
  *out = (struct named){0};
  for (; names[n] != NULL; n++) {
    out->tensors[n] = (struct stg_tensor_info){
        .name = names[n], .elem = STG_ELEM_F32, .n_dims = 1, .shape = {4}, .n_elems = 4};
  }
  out->file.tensors = out->tensors;
  out->file.n_tensors = n;
  return &out->file;
}

static void tells_a_layer_by_a_name(void **state) {
  static const struct {
    const char *pattern, *name;
    int32_t layer;
  } cases[] = {
      {"direction.{}", "direction.1", 1},
      {"direction.{}", "direction.0", 0},
      {"direction.{}", "direction.1023", 1023},
      {"direction.{}", "direction.1024", -1},
      {"direction.{}", "direction.99999999999999999999", -1},
      {"direction.{}", "direction.01", -1},
      {"direction.{}", "direction.00", -1},
      {"direction.{}", "direction.-1", -1},
      {"direction.{}", "direction.+1", -1},
      {"direction.{}", "direction. 1", -1},
      {"direction.{}", "direction.", -1},
      {"direction.{}", "direction.1.", -1},
      {"direction.{}", "direction.1x", -1},
      {"direction.{}", "direction", -1},
      {"direction.{}", "Direction.1", -1},
      {"direction.{}", "xdirection.1", -1},
      {"layer_{}", "layer_3", 3},
      {"{}", "12", 12},
      {"{}", "", -1},
      {"model.layers.{}.axis", "model.layers.46.axis", 46},
      {"model.layers.{}.axis", "model.layers.46.axes", -1},
      {"a.1.{}", "a.1.2", 2},
      {"a.{}.2", "a.1.2", 1},
      {"{}x", "7x", 7},
      {"none", "none", -1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (stg_layer_of(cases[i].pattern, cases[i].name) != cases[i].layer) {
      fail_msg("'%s' of '%s'", cases[i].name, cases[i].pattern);
    }
  }
}

static void makes_the_name_that_it_reads(void **state) {
  char name[32];
  (void)state;
  for (int32_t layer = 0; layer <= STG_LAYER_MAX; layer++) {
    assert_true(stg_layer_name("model.{}.axis", layer, name, sizeof name));
    assert_int_equal(stg_layer_of("model.{}.axis", name), layer);
  }
  assert_true(stg_layer_name("a{}", 12, name, 4));
  assert_string_equal(name, "a12");
  assert_false(stg_layer_name("a{}", 123, name, 4));
  assert_false(stg_layer_name("a", 1, name, sizeof name));
  assert_true(stg_layer_is_pattern("a.{}") && stg_layer_is_pattern("{}"));
  assert_false(stg_layer_is_pattern("a") || stg_layer_is_pattern("{}.{}") ||
               stg_layer_is_pattern("{ }"));
}

static void matches_what_is_of_a_pattern_and_passes_over_the_rest(void **state) {
  static const char *const names[] = {"v.7", "bias", "v.3", "v.x", "v.4", "v.03", NULL};
  struct named bed;
  struct stg_arena arena = {0};
  struct stg_layer_map map = {0};
  (void)state;
  assert_int_equal(stg_layers_match(named(&bed, names), "v.{}", &arena, &map, NULL), STG_OK);
  assert_string_equal(map.pattern, "v.{}");
  assert_int_equal(map.first, 3);
  assert_int_equal(map.last, 7);
  assert_int_equal(map.present, 3);
  assert_int_equal(map.missing, 2);
  static const int32_t expected[] = {-1, -1, -1, 2, 4, -1, -1, 0};
  assert_memory_equal(map.tensor_of, expected, sizeof expected);
  assert_int_equal(stg_layers_match(&bed.file, "w.{}", &arena, &map, NULL), STG_OK);
  assert_int_equal(map.present, 0);
  stg_arena_finish(&arena);
}

static void finds_the_one_pattern_of_all_names(void **state) {
  static const struct {
    const char *names[MAX_NAMES];
    const char *pattern; /* "": none */
  } cases[] = {
      {{"direction.1", "direction.2", "direction.31"}, "direction.{}"},
      {{"layer_3"}, "layer_{}"},
      {{"layer_3", "layer_30"}, "layer_{}"},
      {{"12", "13"}, "{}"},
      {{"a/0/v", "a/1/v"}, "a/{}/v"},
      {{"a.1.b.2", "a.1.b.3"}, "a.1.b.{}"},
      {{"a.1.b.2", "a.4.b.2"}, "a.{}.b.2"},
      {{"a.1.b.2", "a.2.b.3"}, ""},
      {{"a.1.b.2"}, ""},  /* which of the two? */
      {{"v1", "v2"}, ""}, /* no segment of its own */
      {{"a.1", "a.2", "bias"}, ""},
      {{"a.1", "b.2"}, ""},
      {{"a.01", "a.02"}, ""},
      {{"a.1", "a.1024"}, ""},
      {{"a.{}.1", "a.{}.2"}, ""},
      {{"v"}, ""},
      {{NULL}, ""},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct named bed;
    struct stg_arena arena = {0};
    struct stg_layer_map map = {0};
    assert_int_equal(stg_layers_find(named(&bed, cases[i].names), &arena, &map, NULL), STG_OK);
    assert_string_equal(map.pattern != NULL ? map.pattern : "", cases[i].pattern);
    assert_int_equal(map.present, cases[i].pattern[0] != '\0' ? bed.file.n_tensors : 0);
    stg_arena_finish(&arena);
  }
}

static void takes_the_rows_of_an_only_matrix(void **state) {
  static const char *const names[] = {"direction.5", NULL};
  static const struct {
    int64_t rows, width;
    size_t present;
  } cases[] = {{3, 4, 3}, {1024, 1, 1024}, {1025, 1, 0}, {0, 4, 0}, {4, 0, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct named bed;
    struct stg_arena arena = {0};
    struct stg_layer_map map = {0};
    named(&bed, names);
    bed.tensors[0].n_dims = 2;
    bed.tensors[0].shape[0] = cases[i].rows;
    bed.tensors[0].shape[1] = cases[i].width;
    bed.tensors[0].n_elems = (size_t)(cases[i].rows * cases[i].width);
    assert_int_equal(stg_layers_find(&bed.file, &arena, &map, NULL), STG_OK);
    assert_null(map.pattern);
    assert_int_equal(map.present, cases[i].present);
    if (map.present > 0) {
      assert_int_equal(map.first, 0);
      assert_int_equal(map.last, cases[i].rows - 1);
      assert_int_equal(map.tensor_of[map.last], map.last);
    }
    stg_arena_finish(&arena);
  }
}

/* A name of thousands of numbers is no reason to ask for much, nor to work for long. */
static void passes_over_endless_names(void **state) {
  static char name[1 << 20];
  const char *names[] = {name, NULL};
  struct named bed;
  struct stg_arena arena = {0};
  struct stg_layer_map map = {0};
  (void)state;
  for (size_t i = 0; i + 1 < sizeof name; i++) {
    name[i] = i % 2 == 0 ? '1' : '.';
  }
  stg_alloc_asked_bytes(true);
  assert_int_equal(stg_layers_find(named(&bed, names), &arena, &map, NULL), STG_OK);
  assert_int_equal(map.present, 0);
  assert_int_equal(stg_alloc_asked_bytes(true), 0);
  stg_arena_finish(&arena);
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  static const char *const names[] = {"v.1000", "v.3", NULL};
  struct named bed;
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  named(&bed, names);
  while (status != STG_OK) {
    struct stg_arena arena = {0};
    struct stg_layer_map map = {0};
    stg_alloc_fail_at(++nth);
    status = stg_layers_find(&bed.file, &arena, &map, NULL);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    stg_arena_finish(&arena);
    assert_true(nth < 20);
  }
  assert_true(nth > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tells_a_layer_by_a_name),
      cmocka_unit_test(makes_the_name_that_it_reads),
      cmocka_unit_test(matches_what_is_of_a_pattern_and_passes_over_the_rest),
      cmocka_unit_test(finds_the_one_pattern_of_all_names),
      cmocka_unit_test(takes_the_rows_of_an_only_matrix),
      cmocka_unit_test(passes_over_endless_names),
      cmocka_unit_test(gives_no_memory_when_any_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
