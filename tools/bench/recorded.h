/*
 * bench/recorded.h: the rows of a run that was recorded earlier.
 *
 * A file is the array that `bench --json` prints, or an object with that array in "rows", and, as
 * table.py records them, the "commit" and the "date" of the run.
 */
#ifndef STG_TOOLS_BENCH_RECORDED_H
#define STG_TOOLS_BENCH_RECORDED_H

#include "tools/bench/report.h"

/**
 * Add all rows of a file to an empty report, and say what they were measured on.
 * @param ret_machine its texts are the report's
 * @return STG_E_FORMAT, naming file, row and member; STG_E_IO, STG_E_NOT_FOUND, STG_E_NO_MEMORY.
 *         After a failure the report may hold some of the rows; finish it.
 */
STG_NODISCARD stg_status stg_bench_recorded_load(const char *path, struct stg_bench_report *report,
                                                 struct stg_bench_machine *ret_machine,
                                                 stg_error *reterr);

#endif
