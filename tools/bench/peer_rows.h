/*
 * bench/peer_rows.h: the rows of a peer, joined to ours.
 */
#ifndef STG_TOOLS_BENCH_PEER_ROWS_H
#define STG_TOOLS_BENCH_PEER_ROWS_H

#include "tools/bench/peer_run.h"

/**
 * Read the rows in `path` and add them to the report, all or none. Each must belong to one of the
 * cases. STG_E_FORMAT names file and place.
 */
STG_NODISCARD stg_status stg_peer_rows_read(const char *path, const struct stg_peer_arg *cases,
                                            size_t n_cases, struct stg_bench_report *report,
                                            stg_error *reterr);

#endif
