/*
 * test_bench_child.c: running ourselves in a process of its own. This executable, run with words,
 * is that process.
 */
#include "tools/bench/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_BYTES 300000 /* more than a pipe holds */

/* What the child does with its words. */
static int be_child(int argc, char **argv) {
  const char *what = argv[1];
  if (strcmp(what, "echo") == 0) {
    printf("[\"%s\", \"%s\", %d]", argv[2], getenv("STG_TEST_CHILD"), argc);
  } else if (strcmp(what, "long") == 0) {
    printf("[\"%0*d\"]", LONG_BYTES, 0);
  } else if (strcmp(what, "signals") == 0) {
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    printf("[%d]", sigismember(&blocked, SIGINT));
  } else if (strcmp(what, "die") == 0) {
    raise(SIGKILL);
  } else if (strcmp(what, "text") == 0) {
    printf("no JSON");
  } else {
    return 3;
  }
  return 0;
}

static stg_status run(const char *const *words, struct stg_json_doc *doc, stg_error *err) {
  *err = (stg_error)STG_ERROR_INIT;
  return stg_bench_child_run(words, doc, err);
}

static struct stg_json first_of(const struct stg_json *root) {
  struct stg_json value;
  assert_true(stg_json_first(root, &value));
  return value;
}

static void the_words_and_the_environment_arrive_and_the_output_comes_back(void **state) {
  (void)state;
  const char *const words[] = {"echo", "two words", NULL};
  struct stg_json_doc doc;
  stg_error err;
  const char *text = NULL;
  int64_t count = 0;
  assert_int_equal(0, setenv("STG_TEST_CHILD", "kept", 1));
  assert_int_equal(STG_OK, run(words, &doc, &err));
  const struct stg_json root = stg_json_root(&doc);
  struct stg_json value = first_of(&root);
  assert_int_equal(STG_OK, stg_json_string(&value, &text, &err));
  assert_string_equal("two words", text);
  assert_true(stg_json_next(&value));
  assert_int_equal(STG_OK, stg_json_string(&value, &text, &err));
  assert_string_equal("kept", text);
  assert_true(stg_json_next(&value));
  assert_int_equal(STG_OK, stg_json_int(&value, 0, 9, &count, &err));
  assert_int_equal(3, count);
  stg_json_finish(&doc);
}

static void an_output_larger_than_a_pipe_comes_whole(void **state) {
  (void)state;
  const char *const words[] = {"long", NULL};
  struct stg_json_doc doc;
  stg_error err;
  const char *text = NULL;
  assert_int_equal(STG_OK, run(words, &doc, &err));
  const struct stg_json root = stg_json_root(&doc);
  const struct stg_json value = first_of(&root);
  assert_int_equal(STG_OK, stg_json_string(&value, &text, &err));
  assert_int_equal(LONG_BYTES, strlen(text));
  stg_json_finish(&doc);
}

static void signals_that_we_put_off_act_on_the_child(void **state) {
  (void)state;
  const char *const words[] = {"signals", NULL};
  struct stg_json_doc doc;
  stg_error err;
  int64_t blocked = -1;
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  assert_int_equal(0, sigprocmask(SIG_BLOCK, &set, &before));
  assert_int_equal(STG_OK, run(words, &doc, &err));
  assert_int_equal(0, sigprocmask(SIG_SETMASK, &before, NULL));
  const struct stg_json root = stg_json_root(&doc);
  const struct stg_json value = first_of(&root);
  assert_int_equal(STG_OK, stg_json_int(&value, 0, 1, &blocked, &err));
  assert_int_equal(0, blocked);
  stg_json_finish(&doc);
}

static void a_child_that_ends_badly_is_told_by_status_or_signal(void **state) {
  (void)state;
  const char *const fails[] = {"other", NULL};
  const char *const dies[] = {"die", NULL};
  struct stg_json_doc doc;
  stg_error err;
  assert_int_equal(STG_E_IO, run(fails, &doc, &err));
  assert_non_null(strstr(err.message, "failed with exit status 3"));
  assert_int_equal(STG_E_IO, run(dies, &doc, &err));
  assert_non_null(strstr(err.message, "ended by signal 9"));
}

static void an_output_that_is_no_json_is_refused(void **state) {
  (void)state;
  const char *const words[] = {"text", NULL};
  struct stg_json_doc doc;
  stg_error err;
  assert_int_equal(STG_E_FORMAT, run(words, &doc, &err));
  assert_non_null(strstr(err.message, "the measured process's output"));
}

int main(int argc, char **argv) {
  if (argc > 1) {
    return be_child(argc, argv);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_words_and_the_environment_arrive_and_the_output_comes_back),
      cmocka_unit_test(an_output_larger_than_a_pipe_comes_whole),
      cmocka_unit_test(signals_that_we_put_off_act_on_the_child),
      cmocka_unit_test(a_child_that_ends_badly_is_told_by_status_or_signal),
      cmocka_unit_test(an_output_that_is_no_json_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
