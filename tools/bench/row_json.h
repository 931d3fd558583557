/*
 * bench/row_json.h: one row of a report, read back from the JSON that report.h describes.
 */
#ifndef STG_TOOLS_BENCH_ROW_JSON_H
#define STG_TOOLS_BENCH_ROW_JSON_H

#include "specs/json.h"
#include "tools/bench/report.h"

/**
 * Read a row. All its texts are borrowed from the document; card and cuda are NULL where they are
 * null. Of wall times only the median is in the JSON: least and most are made the same.
 * @param ret_driver the row's own, 0 where there was none
 * @return STG_E_FORMAT, naming the member: one is missing or of another type, a time is not above
 *         0, or `ratio` is not median_us over floor_us
 */
STG_NODISCARD stg_status stg_bench_row_read(const struct stg_json *object,
                                            struct stg_bench_row *ret_row, int *ret_driver,
                                            stg_error *reterr);

#endif
