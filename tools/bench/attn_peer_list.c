/*
 * attn_peer_list.c: see attn_peer_list.h. A script a suite: to start one takes as long as to
 * compile a series or two.
 */
#include "tools/bench/attn_peer_list.h"

#include <string.h>

const struct stg_attn_peer stg_attn_peer_list[STG_ATTN_PEERS] = {
    {STG_PEER_ROPE, "rope.py", 240},
    {STG_PEER_ATTEND, "attend.py", 300},
};

/* By place in attn_cases.c; test_attn_peers.c holds the names. */
const struct stg_attn_peer_case stg_attn_peer_cases[STG_ATTN_PEER_CASES] = {
    {&stg_rope_cases[STG_ROPE_PROMPTS_APPEND], STG_PEER_ROPE},
    {&stg_rope_cases[STG_ROPE_PROMPTS], STG_PEER_ROPE},
    {&stg_rope_cases[STG_ROPE_PROMPTS_EACH_OP], STG_PEER_ROPE},
    {&stg_rope_cases[STG_ROPE_PROMPT], STG_PEER_ROPE},
    {&stg_rope_cases[STG_ROPE_DECODING], STG_PEER_ROPE},
    {&stg_rope_cases[STG_ROPE_PUBLISHED], STG_PEER_ROPE},
    {&stg_attend_cases[STG_ATTEND_LONG], STG_PEER_ATTEND},
    {&stg_attend_cases[STG_ATTEND_SHORT], STG_PEER_ATTEND},
    {&stg_attn_loop_case, STG_PEER_ATTEND},
};

bool stg_attn_peer_wants(const char *const *suites, size_t n_suites, const char *suite) {
  for (size_t i = 0; i < n_suites; i++) {
    if (strcmp(suites[i], suite) == 0) {
      return true;
    }
  }
  return false;
}

bool stg_attn_peers_wanted(const char *const *suites, size_t n_suites) {
  return stg_attn_peer_wants(suites, n_suites, "rope") ||
         stg_attn_peer_wants(suites, n_suites, "attend");
}

stg_status stg_attn_peer_check_names(const char *const *suites, size_t n_suites,
                                     const struct stg_bench_report *report, stg_error *reterr) {
  for (size_t i = 0; i < STG_ATTN_PEER_CASES; i++) {
    const struct stg_attn_case *work = stg_attn_peer_cases[i].work;
    if (stg_attn_peer_wants(suites, n_suites, work->suite) &&
        stg_bench_report_find(report, work->suite, work->name, STG_BENCH_OURS) == NULL) {
      return stg_error_set(reterr, STG_E_NOT_FOUND,
                           "bench --peers: suite '%s' has no row '%s' of ours", work->suite,
                           work->name);
    }
  }
  return STG_OK;
}
