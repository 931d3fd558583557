/*
 * workload_text.h: workloads that a test has as text, without a file, for cmocka tests with a
 * temp_folder; and what is said of them.
 */
#ifndef STG_TESTS_SUPPORT_WORKLOAD_TEXT_H
#define STG_TESTS_SUPPORT_WORKLOAD_TEXT_H

#include <string.h>

#include "runtime/base/strbuf.h"
#include "specs/workload.h"
#include "tests/support/temp_folder.h"

/** The workload of `text`, which is freed, as that of the file w.json. */
static inline struct stg_workload parse_workload(void **state, struct stg_strbuf *text) {
  struct stg_workload workload = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status =
      stg_workload_parse(temp_path(state, "w.json"), text->data, text->len, NULL, &workload, &err);
  if (status != STG_OK) {
    print_error("%s\n", err.message);
  }
  assert_int_equal(status, STG_OK);
  stg_strbuf_finish(text);
  return workload;
}

/** What a message says after the folder of the test. */
static inline const char *after_file(const stg_error *err) {
  const char *at = strstr(err->message, "w.json: ");
  return at != NULL ? at : err->message;
}

#endif
