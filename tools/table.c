/*
 * table.c: cells are kept as text with a NUL after each; widths are found when the table is
 * printed.
 *
 * Widths count code points, which is right for the names people use and wrong only for wide ones.
 */
#include "tools/table.h"

#include <string.h>

#include "tools/report.h"

#define COLUMN_GAP 2

void stg_table_cell(struct stg_table *table, const char *text) {
  stg_report_clean(&table->cells, text);
  stg_strbuf_char(&table->cells, '\0');
  table->n_cells++;
}

void stg_table_printf(struct stg_table *table, const char *fmt, ...) {
  struct stg_strbuf text = {0};
  va_list args;
  va_start(args, fmt);
  stg_strbuf_vprintf(&text, fmt, args);
  va_end(args);
  table->cells.failed = table->cells.failed || text.failed;
  stg_table_cell(table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
}

static size_t text_width(const char *text) {
  size_t width = 0;
  for (const char *c = text; *c != '\0'; c++) {
    width += ((unsigned char)*c & 0xc0u) != 0x80u;
  }
  return width;
}

static void print_cell(struct stg_strbuf *out, const char *cell, size_t width, char align,
                       bool last) {
  size_t pad = width - text_width(cell);
  if (align == 'r') {
    stg_strbuf_printf(out, "%*s", (int)pad, "");
  }
  stg_strbuf_str(out, cell);
  if (!last) {
    stg_strbuf_printf(out, "%*s", (int)((align == 'r' ? 0 : pad) + COLUMN_GAP), "");
  }
}

void stg_table_print(struct stg_table *table, struct stg_strbuf *out) {
  size_t n_columns = strlen(table->columns);
  size_t widths[STG_TABLE_MAX_COLUMNS] = {0};
  if (table->cells.failed) {
    out->failed = true;
    table->n_cells = 0;
  }
  const char *cell = stg_strbuf_text(&table->cells);
  for (size_t i = 0; i < table->n_cells; i++) {
    size_t width = text_width(cell);
    size_t *column = &widths[i % n_columns];
    *column = width > *column ? width : *column;
    cell += strlen(cell) + 1;
  }
  cell = stg_strbuf_text(&table->cells);
  for (size_t i = 0; i < table->n_cells; i++) {
    size_t column = i % n_columns;
    if (column == 0 && table->indent != NULL) {
      stg_strbuf_str(out, table->indent);
    }
    bool last = column + 1 == n_columns;
    print_cell(out, cell, widths[column], table->columns[column], last);
    if (last) {
      stg_strbuf_char(out, '\n');
    }
    cell += strlen(cell) + 1;
  }
  stg_strbuf_finish(&table->cells);
  table->n_cells = 0;
}
