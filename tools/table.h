/*
 * table.h: aligned columns of text for a terminal.
 */
#ifndef STG_TOOLS_TABLE_H
#define STG_TOOLS_TABLE_H

#include "runtime/base/strbuf.h"

#define STG_TABLE_MAX_COLUMNS 8

/*
 * `columns` has one letter per column: 'l' or 'r'. The rest {0}.
 *
 * A table that is wider than `max_width` gives way as `yields` says, one letter per column: 's' is
 * shortened in the middle of its cells, and where too little is left of it '1' is left out first,
 * then '2' and so on; '.' stays.
 */
struct stg_table {
  const char *columns;
  const char *indent; /* before each row; NULL: none */
  size_t max_width;   /* of a row; 0: as wide as it gets */
  const char *yields; /* NULL: no column does */
  struct stg_strbuf cells;
  size_t n_cells;
};

/** Add the next cell, row by row; control characters are made harmless. */
void stg_table_cell(struct stg_table *table, const char *text);
void stg_table_printf(struct stg_table *table, const char *fmt, ...) STG_PRINTF(2, 3);
/** Add a size as people write it, "14.0 MiB". */
void stg_table_bytes(struct stg_table *table, uint64_t bytes);
/** Append a text that is wider than `width` columns without what stands in its middle. */
void stg_table_fit(struct stg_strbuf *out, const char *text, size_t width);
/** Append the rows to `out` and empty the table. A failure is sticky in `out`. */
void stg_table_print(struct stg_table *table, struct stg_strbuf *out);

#endif
