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
#define SHORTEST_CELL 24 /* below, other columns are left out */

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

void stg_table_bytes(struct stg_table *table, uint64_t bytes) {
  struct stg_strbuf text = {0};
  stg_strbuf_bytes(&text, bytes);
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

/* The first `n` code points of a text end here. */
static const char *skip(const char *text, size_t n) {
  while (n > 0 && *text != '\0') {
    do {
      text++;
    } while (((unsigned char)*text & 0xc0u) == 0x80u);
    n--;
  }
  return text;
}

void stg_table_fit(struct stg_strbuf *out, const char *text, size_t width) {
  size_t full = text_width(text);
  if (full <= width) {
    stg_strbuf_str(out, text);
    return;
  }
  size_t tail = width > 0 ? (width - 1) / 2 : 0;
  size_t head = width > 0 ? width - 1 - tail : 0;
  stg_strbuf_mem(out, text, (size_t)(skip(text, head) - text));
  stg_strbuf_str(out, width > 0 ? "\xe2\x80\xa6" : ""); /* an ellipsis */
  stg_strbuf_str(out, width > 0 ? skip(text, full - tail) : "");
}

static void print_cell(struct stg_strbuf *out, const char *cell, size_t width, char align,
                       bool last) {
  size_t full = text_width(cell);
  size_t pad = full < width ? width - full : 0;
  if (align == 'r') {
    stg_strbuf_printf(out, "%*s", (int)pad, "");
  }
  stg_table_fit(out, cell, width);
  if (!last) {
    stg_strbuf_printf(out, "%*s", (int)((align == 'r' ? 0 : pad) + COLUMN_GAP), "");
  }
}

/* How the columns are printed. */
struct layout {
  size_t n_columns;
  size_t widths[STG_TABLE_MAX_COLUMNS];
  bool hidden[STG_TABLE_MAX_COLUMNS];
  size_t last; /* column that is not hidden */
};

static struct layout measure(const struct stg_table *table) {
  struct layout layout = {.n_columns = strlen(table->columns)};
  const char *cell = stg_strbuf_text(&table->cells);
  for (size_t i = 0; i < table->n_cells; i++) {
    size_t width = text_width(cell);
    size_t *column = &layout.widths[i % layout.n_columns];
    *column = width > *column ? width : *column;
    cell += strlen(cell) + 1;
  }
  layout.last = layout.n_columns > 0 ? layout.n_columns - 1 : 0;
  return layout;
}

/* What is left of `max_width` for one column, beside the others. */
static size_t room_for(const struct stg_table *table, const struct layout *layout, size_t column) {
  size_t used = table->indent != NULL ? text_width(table->indent) : 0;
  for (size_t i = 0; i < layout->n_columns; i++) {
    used += i != column && !layout->hidden[i] ? layout->widths[i] + COLUMN_GAP : 0;
  }
  return used < table->max_width ? table->max_width - used : 0;
}

/* Leave out the next column that may go; false when there is none. */
static bool hide_next(const struct stg_table *table, struct layout *layout) {
  for (int order = '1'; order <= '9'; order++) {
    const char *at = strchr(table->yields, order);
    if (at != NULL && !layout->hidden[at - table->yields]) {
      layout->hidden[at - table->yields] = true;
      return true;
    }
  }
  return false;
}

static void fit(const struct stg_table *table, struct layout *layout) {
  const char *at = table->yields != NULL ? strchr(table->yields, 's') : NULL;
  if (at == NULL || table->max_width == 0) {
    return;
  }
  size_t column = (size_t)(at - table->yields);
  size_t wanted = layout->widths[column];
  size_t least = wanted < SHORTEST_CELL ? wanted : SHORTEST_CELL;
  while (room_for(table, layout, column) < least && hide_next(table, layout)) {
  }
  size_t room = room_for(table, layout, column);
  layout->widths[column] = room < wanted ? room : wanted;
  while (layout->last > 0 && layout->hidden[layout->last]) {
    layout->last--;
  }
}

void stg_table_print(struct stg_table *table, struct stg_strbuf *out) {
  if (table->cells.failed) {
    out->failed = true;
    table->n_cells = 0;
  }
  struct layout layout = measure(table);
  fit(table, &layout);
  const char *cell = stg_strbuf_text(&table->cells);
  for (size_t i = 0; i < table->n_cells; i++) {
    size_t column = i % layout.n_columns;
    if (column == 0 && table->indent != NULL) {
      stg_strbuf_str(out, table->indent);
    }
    if (!layout.hidden[column]) {
      print_cell(out, cell, layout.widths[column], table->columns[column], column == layout.last);
    }
    if (column == layout.last) {
      stg_strbuf_char(out, '\n');
    }
    cell += strlen(cell) + 1;
  }
  stg_strbuf_finish(&table->cells);
  table->n_cells = 0;
}
