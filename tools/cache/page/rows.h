/*
 * cache/page/rows.h: the table's body: a row for each entry, with its factors, graphs and texts
 * folded under it.
 */
#ifndef STG_TOOLS_CACHE_PAGE_ROWS_H
#define STG_TOOLS_CACHE_PAGE_ROWS_H

#include "tools/cache/page/page.h"
#include "tools/cache/page/texts.h"

/* {0} has none. */
struct stg_page_rows {
  struct stg_strbuf html;
  struct stg_page_texts texts;
  size_t count;
};

/** The columns' heads: name, what it is sorted by in the data, and whether it holds numbers. */
#define STG_PAGE_COLUMN_LIST(X)                                                                    \
  X("Key", "key", false)                                                                           \
  X("Family", "family", false)                                                                     \
  X("Arch", "arch", false)                                                                         \
  X("Compiler", "compiler", false)                                                                 \
  X("Compile", "compile_ms", true)                                                                 \
  X("Size", "size_bytes", true)                                                                    \
  X("Occupancy", "occupancy_percent", true)                                                        \
  X("Created", "created", true)                                                                    \
  X("Used", "used", true)
#define STG_PAGE_COLUMNS 9

/**
 * Append the row of an entry that was read (stg_cache_get), good or not. What it lends is not
 * needed afterwards. Of `page` the graphs and what is there are looked at.
 */
void stg_page_rows_add(struct stg_page_rows *rows, const struct stg_cache_page *page,
                       const stg_cache_entry *entry);
stg_status stg_page_rows_status(const struct stg_page_rows *rows, stg_error *reterr);
void stg_page_rows_finish(struct stg_page_rows *rows);

#endif
