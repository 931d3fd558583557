/*
 * differences.c: see differences.h.
 */
#include "tools/differences.h"

#include <string.h>

#include "tools/table.h"

#define MAX_CELL_CHARS 40 /* what is longer stands in its words */

void stg_differences_json(struct stg_json_out *json, const char *name,
                          const stg_cache_difference *differences, size_t count) {
  stg_json_out_open(json, name, '[');
  for (size_t i = 0; i < count; i++) {
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "factor", differences[i].factor);
    stg_json_out_text(json, "here", differences[i].here);
    stg_json_out_text(json, "there", differences[i].there);
    stg_json_out_text(json, "words", differences[i].words);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void add_value(struct stg_table *table, const char *value) {
  if (strlen(value) > MAX_CELL_CHARS) {
    stg_table_printf(table, "%.*s...", MAX_CELL_CHARS - 3, value);
  } else {
    stg_table_cell(table, value);
  }
}

void stg_differences_text(const stg_cache_difference *differences, size_t count,
                          struct stg_strbuf *out) {
  static const char *const head[] = {"factor", "here", "there", "in words"};
  struct stg_table table = {.columns = "llll", .indent = "  "};
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; table.n_cells < sizeof head / sizeof head[0]; k++) {
      stg_table_cell(&table, head[k]);
    }
    stg_table_cell(&table, differences[i].factor);
    add_value(&table, differences[i].here);
    add_value(&table, differences[i].there);
    stg_table_cell(&table, differences[i].words);
  }
  stg_table_print(&table, out);
}
