/*
 * cache/page/rows.c: see rows.h.
 *
 * A text stands under the first entry that has it; under the others a link does, and the script
 * puts the text in its place when it is unfolded. Must not know how rows are sorted and styled.
 */
#include "tools/cache/page/rows.h"

#include <string.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/cache/occupancy.h"
#include "tools/cache/page/graph.h"
#include "tools/cache/page/parts.h"
#include "tools/cache/show_report.h"
#include "tools/markup.h"

#define KEY_CHARS 12 /* of a key in the table */

/* A text of an entry, under its name in the key material. */
struct text {
  const char *title;
  const char *text;
  size_t len;
};

static void number_cell(struct stg_strbuf *out, uint64_t bytes) {
  stg_strbuf_str(out, "<td class=\"n\">");
  stg_strbuf_bytes(out, bytes);
  stg_strbuf_str(out, "</td>");
}

static void time_cell(struct stg_strbuf *out, int64_t unix_seconds) {
  stg_strbuf_str(out, "<td class=\"n\">");
  stg_page_time(out, unix_seconds);
  stg_strbuf_str(out, "</td>");
}

static void text_cell(struct stg_strbuf *out, const char *text) {
  stg_strbuf_str(out, "<td>");
  stg_markup_line(out, text);
  stg_strbuf_str(out, "</td>");
}

static void print_cells(const stg_cache_entry *entry, struct stg_strbuf *out) {
  struct stg_occupancy occupancy;
  stg_strbuf_printf(out, "<tr class=\"row\"><td><code>%.*s</code></td>", KEY_CHARS, entry->key);
  text_cell(out, entry->family);
  text_cell(out, entry->arch);
  text_cell(out, entry->compiler);
  stg_strbuf_str(out, "<td class=\"n\">");
  stg_page_ms(out, entry->compile_ms);
  stg_strbuf_str(out, "</td>");
  number_cell(out, entry->size_bytes);
  if (stg_cache_occupancy(entry, &occupancy)) {
    stg_strbuf_printf(out, "<td class=\"n\">%.0f %%</td>", stg_occupancy_percent(&occupancy));
  } else {
    stg_strbuf_str(out, "<td class=\"n\">?</td>");
  }
  time_cell(out, entry->created_unix);
  time_cell(out, entry->used_unix);
  stg_strbuf_str(out, "</tr>\n");
}

static void fact(struct stg_strbuf *out, const char *name) {
  stg_strbuf_printf(out, "<dt>%s</dt><dd>", name);
}

static void print_occupancy(const stg_cache_entry *entry, struct stg_strbuf *out) {
  struct stg_occupancy occupancy;
  struct stg_strbuf limits = {0};
  fact(out, "Occupancy");
  if (!stg_cache_occupancy(entry, &occupancy)) {
    stg_strbuf_str(out, "unknown for ");
    stg_markup_line(out, entry->arch);
  } else {
    stg_occupancy_print_limits(occupancy.limits, &limits);
    stg_strbuf_printf(out, "%u %s a multiprocessor, %u of %u warps, limited by %s",
                      occupancy.blocks, occupancy.blocks == 1 ? "block" : "blocks", occupancy.warps,
                      occupancy.max_warps, stg_strbuf_text(&limits));
  }
  stg_strbuf_finish(&limits);
  stg_strbuf_str(out, "</dd>\n");
}

static void print_uses(const stg_cache_entry *entry, struct stg_strbuf *out) {
  fact(out, "Launch");
  stg_markup_line(out, entry->kernel);
  stg_strbuf_printf(out, ", %u threads a block, %u %s at a time", entry->threads,
                    entry->rows_per_block, entry->rows_per_block == 1 ? "row" : "rows");
  if (entry->max_threads > 0) {
    stg_strbuf_printf(out, "; compiled for at most %u threads", entry->max_threads);
  }
  stg_strbuf_str(out, "</dd>\n");
  fact(out, "Uses");
  stg_strbuf_printf(out, "%u registers a thread, ", entry->registers);
  stg_strbuf_bytes(out, entry->shared_bytes);
  stg_strbuf_str(out, " shared and ");
  stg_strbuf_bytes(out, entry->stage_bytes);
  stg_strbuf_str(out, " staged a block, ");
  stg_strbuf_bytes(out, entry->local_bytes);
  stg_strbuf_str(out, " of frame and spills</dd>\n");
}

static void print_facts(const stg_cache_entry *entry, struct stg_strbuf *out) {
  stg_strbuf_str(out, "<section><h3>Facts</h3><dl>\n");
  fact(out, "Key");
  stg_strbuf_printf(out, "<code>%s</code></dd>\n", entry->key);
  fact(out, "Path");
  stg_strbuf_str(out, "<code>");
  stg_markup_line(out, entry->path);
  stg_strbuf_str(out, "</code></dd>\n");
  fact(out, "Compiled");
  stg_page_time(out, entry->created_unix);
  stg_strbuf_str(out, " in ");
  stg_page_ms(out, entry->compile_ms);
  stg_strbuf_str(out, " by ");
  stg_markup_line(out, entry->compiler);
  stg_strbuf_str(out, ", steergraph ");
  stg_markup_line(out, entry->creator);
  stg_strbuf_str(out, "</dd>\n");
  print_uses(entry, out);
  print_occupancy(entry, out);
  fact(out, "Bytes");
  stg_strbuf_str(out, "cubin ");
  stg_strbuf_bytes(out, entry->cubin_bytes);
  stg_strbuf_str(out, " (code ");
  stg_strbuf_bytes(out, entry->code_bytes);
  stg_strbuf_str(out, "), source ");
  stg_strbuf_bytes(out, entry->source_bytes);
  stg_strbuf_str(out, ", key factors ");
  stg_strbuf_bytes(out, entry->material_bytes);
  stg_strbuf_str(out, "</dd>\n</dl></section>\n");
}

static void print_factors(const stg_cache_entry *entry, struct stg_strbuf *out) {
  size_t cursor = 0;
  struct stg_material_view field;
  stg_strbuf_str(out, "<section><h3>Key factors</h3><table class=\"factors\"><tbody>\n");
  while (stg_material_next(entry->material, entry->material_bytes, &cursor, &field)) {
    struct stg_strbuf value = {0};
    stg_factor_describe(field.value, field.len, 0, &value);
    stg_strbuf_str(out, "<tr><th scope=\"row\">");
    stg_markup_line(out, field.name);
    stg_strbuf_str(out, "</th><td>");
    stg_markup_line(out, stg_strbuf_text(&value));
    stg_strbuf_str(out, "</td></tr>\n");
    out->failed = out->failed || value.failed;
    stg_strbuf_finish(&value);
  }
  stg_strbuf_str(out, "</tbody></table></section>\n");
}

static void print_text(struct stg_page_rows *rows, const struct text *text) {
  struct stg_strbuf *out = &rows->html;
  bool is_new = false;
  const size_t number = stg_page_texts_number(&rows->texts, text->text, text->len, &is_new);
  stg_strbuf_printf(out, "<details class=\"text\"><summary>%s <span class=\"muted\">", text->title);
  stg_strbuf_bytes(out, text->len);
  stg_strbuf_str(out, "</span></summary>");
  if (is_new) {
    stg_strbuf_printf(out, "<pre id=\"t%zu\" tabindex=\"0\">\n", number);
    stg_markup_mem(out, text->text, text->len);
    stg_strbuf_str(out, "</pre></details>\n");
  } else {
    stg_strbuf_printf(out, "<pre data-text=\"t%zu\" tabindex=\"0\"><a href=\"#t%zu\">", number,
                      number);
    stg_strbuf_str(out, "the same text as of another entry</a></pre></details>\n");
  }
}

/* The source in its two parts, where it is those of the key: most of a page's entries share one. */
static size_t split_source(const stg_cache_entry *entry, struct text texts[2]) {
  struct stg_material_view field, prelude = {0}, source = {0};
  size_t cursor = 0;
  while (stg_material_next(entry->material, entry->material_bytes, &cursor, &field)) {
    if (strcmp(field.name, "prelude") == 0) {
      prelude = field;
    } else if (strcmp(field.name, "source") == 0) {
      source = field;
    }
  }
  const bool is_sum = prelude.len > 0 && source.len > 0 &&
                      prelude.len + source.len == entry->source_bytes &&
                      memcmp(entry->source, prelude.value, prelude.len) == 0;
  if (!is_sum) {
    texts[0] = (struct text){"Source", entry->source, entry->source_bytes};
    return 1;
  }
  texts[0] = (struct text){"Source, as generated", source.value, source.len};
  texts[1] = (struct text){"Prelude before it", prelude.value, prelude.len};
  return 2;
}

static void print_fold(struct stg_page_rows *rows, const struct stg_cache_page *page,
                       const stg_cache_entry *entry) {
  struct stg_strbuf *out = &rows->html;
  struct text texts[2];
  const size_t n_texts = split_source(entry, texts);
  stg_strbuf_str(out, "<div class=\"fold\"><div class=\"pair\">\n");
  print_facts(entry, out);
  print_factors(entry, out);
  stg_strbuf_str(out, "</div>\n<section><h3>Graph</h3>\n");
  stg_page_graphs(page, entry, out);
  stg_strbuf_str(out, "</section>\n<section><h3>Source</h3>\n");
  for (size_t i = 0; i < n_texts; i++) {
    print_text(rows, &texts[i]);
  }
  stg_strbuf_str(out, "</section></div>\n");
}

/* What is not ok says its name, its size and what is wrong with it. */
static void print_bad(const stg_cache_entry *entry, struct stg_strbuf *out) {
  const char *name = stg_path_name(entry->path);
  stg_strbuf_str(out, "<tr class=\"row\"><td><code>");
  stg_markup_mem(out, name, strnlen(name, KEY_CHARS));
  stg_strbuf_printf(out, "</code></td><td colspan=\"4\"><span class=\"pill\">%s</span></td>",
                    entry->other_format ? "other format" : "bad");
  number_cell(out, entry->size_bytes);
  stg_strbuf_str(out, "<td></td><td></td><td></td></tr>\n");
  stg_strbuf_printf(out, "<tr><td colspan=\"%d\"><details><summary class=\"why\">",
                    STG_PAGE_COLUMNS);
  stg_markup_line(out, entry->problem);
  stg_strbuf_str(out, "</summary><div class=\"fold\"><dl>");
  fact(out, "Path");
  stg_strbuf_str(out, "<code>");
  stg_markup_line(out, entry->path);
  stg_strbuf_str(out, "</code></dd>");
  fact(out, "Remedy");
  stg_strbuf_str(out,
                 entry->other_format
                     ? "None needed: another version of steergraph wrote it, and uses it."
                     : "<code>steergraph cache verify --repair</code> moves it to quarantine. "
                       "An engine that meets it does the same, and compiles the kernel again.");
  stg_strbuf_str(out, "</dd></dl></div></details></td></tr>\n");
}

void stg_page_rows_add(struct stg_page_rows *rows, const struct stg_cache_page *page,
                       const stg_cache_entry *entry) {
  struct stg_strbuf *out = &rows->html;
  stg_strbuf_printf(out, "<tbody id=\"e%zu\" class=\"entry%s\">\n", rows->count++,
                    entry->ok ? "" : " bad");
  if (!entry->ok) {
    print_bad(entry, out);
  } else {
    print_cells(entry, out);
    stg_strbuf_printf(out, "<tr><td colspan=\"%d\"><details><summary><span class=\"sig\">",
                      STG_PAGE_COLUMNS);
    stg_page_signature(out, entry->signature);
    stg_strbuf_str(out, "</span></summary>\n");
    print_fold(rows, page, entry);
    stg_strbuf_str(out, "</details></td></tr>\n");
  }
  stg_strbuf_str(out, "</tbody>\n");
}

stg_status stg_page_rows_status(const struct stg_page_rows *rows, stg_error *reterr) {
  return rows->texts.failed ? stg_error_memory(reterr, "the texts of a page", rows->texts.count)
                            : stg_strbuf_status(&rows->html, reterr);
}

void stg_page_rows_finish(struct stg_page_rows *rows) {
  stg_strbuf_finish(&rows->html);
  stg_page_texts_finish(&rows->texts);
}
