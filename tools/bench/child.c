/*
 * bench/child.c: see child.h.
 */
#include "tools/bench/child.h"

#include <assert.h>

#include "tools/child.h"

#define SELF "/proc/self/exe"
#define NAME "the measured process"

stg_status stg_bench_child_run(const char *const *words, struct stg_json_doc *ret_doc,
                               stg_error *reterr) {
  const char *const places[] = {SELF, NULL};
  const char *argv[STG_BENCH_CHILD_MAX_WORDS + 2] = {"steergraph"};
  for (size_t i = 0; words[i] != NULL; i++) {
    assert(i < STG_BENCH_CHILD_MAX_WORDS);
    argv[i + 1] = words[i];
  }
  const struct stg_child child = {
      .places = places, .argv = argv, .name = NAME, .advice = "see its message above"};
  struct stg_strbuf text = {0};
  stg_status status = stg_child_run(&child, &text, reterr);
  if (status == STG_OK) {
    status = stg_json_parse(NAME "'s output", stg_strbuf_text(&text), text.len, ret_doc, reterr);
  }
  stg_strbuf_finish(&text);
  return status;
}
