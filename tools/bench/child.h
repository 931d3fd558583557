/*
 * bench/child.h: run this very command in a process of its own and read the rows that it prints.
 *
 * What a process pays once (the driver, a context, NVRTC) can only be measured in a fresh one.
 */
#ifndef STG_TOOLS_BENCH_CHILD_H
#define STG_TOOLS_BENCH_CHILD_H

#include "specs/json.h"
#include "tools/child.h"

#define STG_BENCH_CHILD_MAX_WORDS 16

/**
 * Run `steergraph WORDS...` and parse its stdout as JSON; stderr and the environment are ours.
 * `ret_doc` is the caller's to finish. `words` ends with NULL, at most STG_BENCH_CHILD_MAX_WORDS.
 * @return STG_E_IO when it cannot be started or ends badly (its own message went to stderr),
 * STG_E_FORMAT when what it printed is no JSON.
 */
STG_NODISCARD stg_status stg_bench_child_run(const char *const *words, struct stg_json_doc *ret_doc,
                                             stg_error *reterr);

/** The same in two parts, so that several run at once (child.h). */
STG_NODISCARD stg_status stg_bench_child_start(const char *const *words,
                                               struct stg_child_running *ret_running,
                                               stg_error *reterr);
STG_NODISCARD stg_status stg_bench_child_finish(const struct stg_child_running *running,
                                                struct stg_json_doc *ret_doc, stg_error *reterr);

#endif
