/*
 * test_suggest.c: the nearest word is found where it was meant, and none where it was not.
 */
#include "runtime/base/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const words[] = {"add", "ablation", "add_keep_norm", "scale_norm", "swap"};
#define COUNT (sizeof words / sizeof words[0])

static const char *word_at(const void *user, size_t index) {
  return ((const char *const *)user)[index];
}

static const char *nearest(const char *text) {
  return stg_suggest_find(text, word_at, words, COUNT);
}

static void a_letter_more_less_or_other_is_found(void **state) {
  (void)state;
  assert_string_equal("add", nearest("addd"));
  assert_string_equal("add", nearest("ad"));
  assert_string_equal("swap", nearest("swop"));
  assert_string_equal("ablation", nearest("abaltion"));
  assert_string_equal("add_keep_norm", nearest("add_keep-norm"));
}

static void two_letters_that_changed_places_are_one_edit(void **state) {
  (void)state;
  assert_string_equal("swap", nearest("sawp"));
  assert_string_equal("add", nearest("dad"));
}

static void other_words_are_not_meant(void **state) {
  (void)state;
  assert_null(nearest("quantize"));
  assert_null(nearest("x"));
  assert_null(nearest(""));
  assert_null(nearest("a_word_that_is_longer_than_all_that_anybody_types"));
  assert_null(stg_suggest_find("add", word_at, words, 0));
}

static void the_first_of_equally_near_words_is_found(void **state) {
  (void)state;
  static const char *const twins[] = {"cat", "car", "a_word_that_is_longer_than_all_that_is_typed"};
  assert_string_equal("cat", stg_suggest_find("cax", word_at, twins, 3));
  assert_string_equal("car", stg_suggest_find("car", word_at, twins, 3));
}

/* Of long names the first bytes count. */
static void names_of_any_length_have_a_distance(void **state) {
  char a[300];
  char b[300];
  (void)state;
  assert_int_equal(stg_suggest_distance("direction.12", "direction.21"), 1);
  assert_int_equal(stg_suggest_distance("", "layer"), 5);
  assert_int_equal(stg_suggest_distance("layer.3", "layer.3"), 0);
  memset(a, 'x', sizeof a);
  memset(b, 'x', sizeof b);
  a[sizeof a - 1] = '\0';
  b[sizeof b - 2] = '\0';
  b[STG_SUGGEST_DISTANCE_BYTES] = 'y';
  assert_int_equal(stg_suggest_distance(a, b), 0);
  b[STG_SUGGEST_DISTANCE_BYTES - 1] = 'y';
  assert_int_equal(stg_suggest_distance(a, b), 1);
  assert_int_equal(stg_suggest_distance(a, ""), STG_SUGGEST_DISTANCE_BYTES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_letter_more_less_or_other_is_found),
      cmocka_unit_test(two_letters_that_changed_places_are_one_edit),
      cmocka_unit_test(other_words_are_not_meant),
      cmocka_unit_test(the_first_of_equally_near_words_is_found),
      cmocka_unit_test(names_of_any_length_have_a_distance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
