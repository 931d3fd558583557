/*
 * test_kb.c: knowledge bases as they are read: names and their numbers, facts, rules, queries,
 * buckets, and every file of specs/bad/kb with the message beside it.
 */
#include "specs/kb_index.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"

#define BAD_DIR STG_SPECS_DIR "/bad/kb"
#define MIN_BAD_FILES 30
#define PATH_CHARS 1024

static const char facts_text[] = "% who is whose parent\n"
                                 "parent(ann, bob).\r\n"
                                 "\n"
                                 " parent ( bob , cid ) . # blanks\n"
                                 "male(bob,bob).\n"
                                 "parent('Ann O', \"o'neil\").\n"
                                 "parent(ann,cid).";
static const char rules_text[] = "r0:0.74:parent(a,h), parent(h,b) -> grandparent(a,b)\n"
                                 "r1:1:male(x,x)->parent('ann',x) % and so on\n";

static void parse(struct stg_kb *kb) {
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_kb_parse_facts(kb, "f", facts_text, strlen(facts_text), &err), STG_OK);
  assert_int_equal(stg_kb_parse_rules(kb, "r", rules_text, strlen(rules_text), &err), STG_OK);
}

static void assert_atom(struct stg_kb_atom atom, int32_t pred, int32_t arg0, int32_t arg1) {
  assert_int_equal(atom.pred, pred);
  assert_int_equal(atom.arg0, arg0);
  assert_int_equal(atom.arg1, arg1);
}

static void numbers_names_in_the_order_of_their_first_occurrence(void **state) {
  static const char *const constants[] = {"ann", "bob", "cid", "Ann O", "o'neil"};
  struct stg_kb kb = {0};
  (void)state;
  parse(&kb);
  assert_int_equal(kb.predicates.n, 3);
  assert_string_equal(stg_kb_names_text(&kb.predicates, 1), "parent");
  assert_string_equal(stg_kb_names_text(&kb.predicates, 2), "male");
  assert_string_equal(stg_kb_names_text(&kb.predicates, 3), "grandparent");
  assert_int_equal(kb.constants.n, 5);
  for (int32_t i = 0; i < 5; i++) {
    assert_string_equal(stg_kb_names_text(&kb.constants, i + 1), constants[i]);
    assert_int_equal(stg_kb_names_find(&kb.constants, constants[i], strlen(constants[i])), i + 1);
  }
  assert_int_equal(stg_kb_names_find(&kb.constants, "anna", 4), 0);
  assert_int_equal(stg_kb_names_find(&kb.constants, "an", 2), 0);
  stg_kb_finish(&kb);
}

static void keeps_facts_in_the_order_of_the_file_and_finds_them(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  assert_int_equal(stg_kb_find_fact(&kb, (struct stg_kb_atom){1, 1, 1}), SIZE_MAX);
  parse(&kb);
  assert_int_equal(kb.facts.n, 5);
  assert_atom(kb.facts.list[0], 1, 1, 2);
  assert_atom(kb.facts.list[1], 1, 2, 3);
  assert_atom(kb.facts.list[2], 2, 2, 2);
  assert_atom(kb.facts.list[3], 1, 4, 5);
  assert_atom(kb.facts.list[4], 1, 1, 3);
  for (size_t i = 0; i < kb.facts.n; i++) {
    assert_int_equal(stg_kb_find_fact(&kb, kb.facts.list[i]), i);
  }
  assert_int_equal(stg_kb_find_fact(&kb, (struct stg_kb_atom){1, 2, 1}), SIZE_MAX);
  stg_kb_finish(&kb);
}

static void reads_variables_and_constants_of_rules(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  parse(&kb);
  assert_int_equal(kb.n_rules, 2);
  const struct stg_kb_rule *rule = &kb.rules[0];
  assert_string_equal(rule->name, "r0");
  assert_true(rule->confidence == 0.74);
  assert_int_equal(rule->n_body, 2);
  assert_int_equal(rule->n_vars, 3);
  assert_atom(rule->body[0], 1, -1, -2);
  assert_atom(rule->body[1], 1, -2, -3);
  assert_atom(rule->head, 3, -1, -3);
  rule = &kb.rules[1];
  assert_true(rule->confidence == 1);
  assert_int_equal(rule->n_body, 1);
  assert_int_equal(rule->n_vars, 1);
  assert_atom(rule->body[0], 2, -1, -1);
  assert_atom(rule->head, 1, 1, -1);
  stg_kb_finish(&kb);
}

static void reads_queries_by_the_names_of_facts_and_rules(void **state) {
  static const char text[] = "grandparent(ann,cid).\nparent('cid',ann).\n";
  struct stg_kb kb = {0};
  (void)state;
  parse(&kb);
  assert_int_equal(stg_kb_parse_queries(&kb, "q", text, strlen(text), NULL), STG_OK);
  assert_int_equal(kb.queries.n, 2);
  assert_atom(kb.queries.list[0], 3, 1, 3);
  assert_atom(kb.queries.list[1], 1, 3, 1);
  assert_int_equal(kb.predicates.n, 3);
  stg_kb_finish(&kb);
}

static void assert_bucket(const struct stg_kb_index *index, int32_t pred, int32_t arg,
                          const uint32_t *facts, uint32_t n) {
  const struct stg_kb_bucket *bucket = stg_kb_index_find(index, pred, arg);
  assert_non_null(bucket);
  assert_int_equal(bucket->count, n);
  assert_memory_equal(index->facts + bucket->first, facts, n * sizeof *facts);
}

static void buckets_hold_the_facts_of_an_argument_in_the_order_of_the_file(void **state) {
  struct stg_kb kb = {0};
  struct stg_kb_index index = {0};
  (void)state;
  parse(&kb);
  assert_int_equal(stg_kb_index_init(&kb, STG_KB_BY_PRED, &index, NULL), STG_OK);
  assert_int_equal(index.n_buckets, 2);
  assert_bucket(&index, 1, 0, (const uint32_t[]){0, 1, 3, 4}, 4);
  assert_bucket(&index, 2, 0, (const uint32_t[]){2}, 1);
  assert_null(stg_kb_index_find(&index, 3, 0));
  stg_kb_index_finish(&index);
  assert_int_equal(stg_kb_index_init(&kb, STG_KB_BY_ARG0, &index, NULL), STG_OK);
  assert_int_equal(index.n_buckets, 4);
  assert_bucket(&index, 1, 1, (const uint32_t[]){0, 4}, 2);
  assert_null(stg_kb_index_find(&index, 1, 3));
  assert_null(stg_kb_index_find(&index, 2, 1));
  stg_kb_index_finish(&index);
  assert_int_equal(stg_kb_index_init(&kb, STG_KB_BY_ARG1, &index, NULL), STG_OK);
  assert_int_equal(index.n_buckets, 4);
  assert_bucket(&index, 1, 3, (const uint32_t[]){1, 4}, 2);
  stg_kb_index_finish(&index);
  stg_kb_finish(&kb);
}

static void an_empty_knowledge_base_is_counted(void **state) {
  struct stg_kb kb = {0};
  struct stg_kb_stats stats;
  struct stg_kb_index index = {0};
  (void)state;
  assert_int_equal(stg_kb_parse_facts(&kb, "f", "% none", 6, NULL), STG_OK);
  assert_int_equal(stg_kb_count(&kb, &stats, NULL), STG_OK);
  assert_int_equal(stats.facts + stats.predicates + stats.constants + stats.rules, 0);
  assert_int_equal(stats.largest[STG_KB_BY_ARG0].count, 0);
  assert_int_equal(stats.most_ruled, 0);
  assert_null(stg_kb_index_find(&index, 1, 1));
  stg_kb_finish(&kb);
}

static void counts_the_largest_buckets_and_the_predicate_with_most_rules(void **state) {
  struct stg_kb kb = {0};
  struct stg_kb_stats stats;
  (void)state;
  parse(&kb);
  assert_int_equal(stg_kb_count(&kb, &stats, NULL), STG_OK);
  assert_int_equal(stats.facts, 5);
  assert_int_equal(stats.largest[STG_KB_BY_PRED].pred, 1);
  assert_int_equal(stats.largest[STG_KB_BY_PRED].count, 4);
  assert_int_equal(stats.largest[STG_KB_BY_ARG0].arg, 1);
  assert_int_equal(stats.largest[STG_KB_BY_ARG0].count, 2);
  assert_int_equal(stats.largest[STG_KB_BY_ARG1].arg, 3);
  assert_int_equal(stats.longest_body, 2);
  assert_int_equal(stats.most_rules, 1);
  assert_int_equal(stats.most_ruled, 3);
  stg_kb_finish(&kb);
}

static void stays_right_while_its_tables_grow(void **state) {
  enum { N = 3000 };
  struct stg_strbuf text = {0};
  struct stg_kb kb = {0};
  (void)state;
  for (int i = 0; i < N; i++) {
    stg_strbuf_printf(&text, "p%d(c%d,c%d).\n", i % 7, i, i / 2);
  }
  assert_int_equal(stg_kb_parse_facts(&kb, "f", text.data, text.len, NULL), STG_OK);
  assert_int_equal(kb.constants.n, N);
  for (int i = 0; i < N; i++) {
    char name[16];
    const int len = snprintf(name, sizeof name, "c%d", i);
    const int32_t number = stg_kb_names_find(&kb.constants, name, (size_t)len);
    assert_string_equal(stg_kb_names_text(&kb.constants, number), name);
    assert_int_equal(stg_kb_find_fact(&kb, kb.facts.list[i]), i);
  }
  stg_strbuf_finish(&text);
  stg_kb_finish(&kb);
}

static stg_status load(const char *path, struct stg_kb *kb, stg_error *err) {
  const char *suffix = stg_path_suffix(path);
  struct stg_kb_paths paths = {.facts = BAD_DIR "/base.facts"};
  if (strcmp(suffix, ".facts") == 0) {
    paths.facts = path;
  } else if (strcmp(suffix, ".rules") == 0) {
    paths.rules = path;
  } else {
    assert_string_equal(suffix, ".queries");
    paths.queries = path;
  }
  return stg_kb_load(&paths, kb, err);
}

/* "01_x.expect" has the one line of message of "01_x.facts", without folders. */
static void check_bad(const char *name) {
  char path[PATH_CHARS];
  char expect_path[PATH_CHARS];
  char *expect = NULL;
  size_t size = 0;
  struct stg_kb kb = {0};
  stg_error err = STG_ERROR_INIT;
  const int stem = (int)(strlen(name) - strlen(stg_path_suffix(name)));
  snprintf(path, sizeof path, BAD_DIR "/%s", name);
  snprintf(expect_path, sizeof expect_path, BAD_DIR "/%.*s.expect", stem, name);
  assert_int_equal(stg_file_read(expect_path, PATH_CHARS, &expect, &size, NULL), STG_OK);
  assert_int_equal(load(path, &kb, &err), STG_E_FORMAT);
  assert_int_equal(err.code, STG_E_FORMAT);
  assert_int_equal(kb.facts.n, 0);
  assert_true(strncmp(err.message, BAD_DIR "/", strlen(BAD_DIR "/")) == 0);
  assert_int_equal(expect[size - 1], '\n');
  expect[size - 1] = '\0';
  assert_string_equal(err.message + strlen(BAD_DIR "/"), expect);
  stg_free(expect);
}

static void every_bad_file_gives_the_message_beside_it(void **state) {
  int n = 0;
  (void)state;
  DIR *folder = opendir(BAD_DIR);
  assert_non_null(folder);
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
        strcmp(stg_path_suffix(entry->d_name), ".expect") != 0) {
      check_bad(entry->d_name);
      n++;
    }
  }
  closedir(folder);
  assert_true(n >= MIN_BAD_FILES);
}

static void a_file_that_is_not_there_is_said(void **state) {
  const struct stg_kb_paths paths = {.facts = "/nowhere/facts.txt"};
  struct stg_kb kb = {0};
  stg_error err = STG_ERROR_INIT;
  (void)state;
  assert_int_equal(stg_kb_load(&paths, &kb, &err), STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "/nowhere/facts.txt"));
}

/* Each allocation of reading and counting, in turn. */
static void running_out_of_memory_is_said_and_nothing_leaks(void **state) {
  stg_error err = STG_ERROR_INIT;
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  while (status == STG_E_NO_MEMORY) {
    static const char query[] = "parent(ann,bob).\n";
    struct stg_kb kb = {0};
    struct stg_kb_stats stats;
    stg_alloc_fail_at(++nth);
    status = stg_kb_parse_facts(&kb, "f", facts_text, strlen(facts_text), &err);
    status = status ? status : stg_kb_parse_rules(&kb, "r", rules_text, strlen(rules_text), &err);
    status = status ? status : stg_kb_parse_queries(&kb, "q", query, strlen(query), &err);
    status = status ? status : stg_kb_count(&kb, &stats, &err);
    stg_alloc_fail_at(0);
    stg_kb_finish(&kb);
    assert_true(status == STG_OK || strstr(err.message, "memory") != NULL);
  }
  assert_int_equal(status, STG_OK);
  assert_true(nth > 15);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_names_in_the_order_of_their_first_occurrence),
      cmocka_unit_test(keeps_facts_in_the_order_of_the_file_and_finds_them),
      cmocka_unit_test(reads_variables_and_constants_of_rules),
      cmocka_unit_test(reads_queries_by_the_names_of_facts_and_rules),
      cmocka_unit_test(buckets_hold_the_facts_of_an_argument_in_the_order_of_the_file),
      cmocka_unit_test(an_empty_knowledge_base_is_counted),
      cmocka_unit_test(counts_the_largest_buckets_and_the_predicate_with_most_rules),
      cmocka_unit_test(stays_right_while_its_tables_grow),
      cmocka_unit_test(every_bad_file_gives_the_message_beside_it),
      cmocka_unit_test(a_file_that_is_not_there_is_said),
      cmocka_unit_test(running_out_of_memory_is_said_and_nothing_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
