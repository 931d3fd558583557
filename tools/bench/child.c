/*
 * bench/child.c: see child.h.
 */
#include "tools/bench/child.h"

#include <assert.h>

#define SELF "/proc/self/exe"
#define NAME "the measured process"

stg_status stg_bench_child_start(const char *const *words, struct stg_child_running *ret_running,
                                 stg_error *reterr) {
  static const char *const places[] = {SELF, NULL};
  const char *argv[STG_BENCH_CHILD_MAX_WORDS + 2] = {"steergraph"};
  for (size_t i = 0; words[i] != NULL; i++) {
    assert(i < STG_BENCH_CHILD_MAX_WORDS);
    argv[i + 1] = words[i];
  }
  const struct stg_child child = {
      .places = places, .argv = argv, .name = NAME, .advice = "see its message above"};
  return stg_child_start(&child, ret_running, reterr);
}

stg_status stg_bench_child_finish(const struct stg_child_running *running,
                                  struct stg_json_doc *ret_doc, stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_status status = stg_child_finish(running, &text, reterr);
  if (status == STG_OK) {
    status = stg_json_parse(NAME "'s output", stg_strbuf_text(&text), text.len, ret_doc, reterr);
  }
  stg_strbuf_finish(&text);
  return status;
}

stg_status stg_bench_child_run(const char *const *words, struct stg_json_doc *ret_doc,
                               stg_error *reterr) {
  struct stg_child_running running;
  stg_status status = stg_bench_child_start(words, &running, reterr);
  return status == STG_OK ? stg_bench_child_finish(&running, ret_doc, reterr) : status;
}
