/*
 * attn_peer_list.h: which PyTorch peers run on which workloads of rope and attend.
 */
#ifndef STG_TOOLS_BENCH_ATTN_PEER_LIST_H
#define STG_TOOLS_BENCH_ATTN_PEER_LIST_H

#include "tools/bench/attn_case.h"
#include "tools/bench/report.h"

enum stg_attn_peer_flag { STG_PEER_ROPE = 1 << 0, STG_PEER_ATTEND = 1 << 1 };

struct stg_attn_peer {
  enum stg_attn_peer_flag flag;
  const char *script;
  double limit_s; /* several times what it should take */
};
#define STG_ATTN_PEERS 2
extern const struct stg_attn_peer stg_attn_peer_list[STG_ATTN_PEERS];

struct stg_attn_peer_case {
  const struct stg_attn_case *work;
  unsigned peers; /* stg_attn_peer_flag */
};
#define STG_ATTN_PEER_CASES 9
extern const struct stg_attn_peer_case stg_attn_peer_cases[STG_ATTN_PEER_CASES];

/** Whether `suite` is among the suites. */
bool stg_attn_peer_wants(const char *const *suites, size_t n_suites, const char *suite);
/** Whether rope or attend is. */
bool stg_attn_peers_wanted(const char *const *suites, size_t n_suites);

/**
 * Each case of the suites has a row of ours: one that was renamed would be measured beside nothing.
 * @return STG_E_NOT_FOUND names the suite and the row.
 */
STG_NODISCARD stg_status stg_attn_peer_check_names(const char *const *suites, size_t n_suites,
                                                   const struct stg_bench_report *report,
                                                   stg_error *reterr);

#endif
