/*
 * cache/page/page.c: see page.h. The frame of the page: head, totals, charts, table, folders,
 * data.
 *
 * What the script needs is in the data, what people read is in the markup: without the script all
 * of it can be read, and only sorting and finding are missing.
 */
#include "tools/cache/page/page.h"

#include <string.h>

#include <steergraph/version.h>

#include "runtime/base/embedded.h"
#include "tools/cache/list_report.h"
#include "tools/cache/page/charts.h"
#include "tools/cache/page/parts.h"
#include "tools/cache/page/rows.h"
#include "tools/cache/show_report.h"
#include "tools/cache/totals.h"
#include "tools/json_out.h"
#include "tools/markup.h"
#include "tools/utc_time.h"

extern const struct stg_embedded_file stg_embedded_page[];
extern const size_t stg_embedded_page_count;

static void append_file(struct stg_strbuf *out, const char *stem) {
  for (size_t i = 0; i < stg_embedded_page_count; i++) {
    if (strcmp(stg_embedded_page[i].stem, stem) == 0) {
      stg_strbuf_mem(out, stg_embedded_page[i].text, stg_embedded_page[i].len);
    }
  }
}

static void print_head(struct stg_strbuf *out) {
  stg_strbuf_str(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<meta name=\"color-scheme\" content=\"light dark\">\n"
                      "<meta name=\"referrer\" content=\"no-referrer\">\n"
                      "<title>steergraph cache</title>\n<style>\n");
  append_file(out, "style");
  stg_strbuf_str(out, "</style>\n</head>\n<body>\n");
}

static void print_header(const struct stg_cache_page *page, struct stg_strbuf *out) {
  stg_strbuf_str(out, "<header>\n<div><h1>Kernel cache</h1>\n<p class=\"muted\">");
  for (size_t i = 0; i < page->n_layers; i++) {
    stg_strbuf_str(out, i == 0 ? "<code>" : " : <code>");
    stg_markup_line(out, page->layers[i].path);
    stg_strbuf_str(out, "</code>");
  }
  stg_strbuf_str(out, "</p>\n<p class=\"muted\">");
  stg_page_time(out, page->written_unix);
  stg_strbuf_str(out, " UTC \xc2\xb7 steergraph " STEERGRAPH_VERSION_STRING);
  if (page->choice[0] != '\0') {
    stg_strbuf_str(out, " \xc2\xb7 <code>");
    stg_markup_line(out, page->choice);
    stg_strbuf_str(out, "</code>");
  }
  stg_strbuf_str(out, "</p></div>\n<button type=\"button\" id=\"theme\" class=\"js-only\" "
                      "aria-label=\"light or dark\"></button>\n</header>\n<main>\n");
}

/* The sums of the entries of a page. */
struct sums {
  size_t n_good, n_bad, n_other_format;
  uint64_t bytes;
  double compile_ms;
};

static struct sums sum_up(const struct stg_cache_page *page) {
  struct sums sums = {0};
  for (size_t i = 0; i < page->count; i++) {
    const stg_cache_entry *entry = &page->entries[i].entry;
    sums.n_good += entry->ok;
    sums.n_other_format += !entry->ok && entry->other_format;
    sums.n_bad += !entry->ok && !entry->other_format;
    sums.bytes += entry->size_bytes;
    sums.compile_ms += entry->ok ? entry->compile_ms : 0;
  }
  return sums;
}

/* What a hit saves: a compile as those of the folder were; without any, as its kernels say. */
static double mean_compile_ms(const struct stg_cache_page *page, const struct sums *sums) {
  const stg_cache_totals *totals = page->totals;
  if (totals != NULL && totals->compiles > 0) {
    return (double)totals->compile_us * 1e-3 / (double)totals->compiles;
  }
  return sums->n_good > 0 ? sums->compile_ms / (double)sums->n_good : 0;
}

static void open_tile(struct stg_strbuf *out, const char *title) {
  stg_strbuf_printf(out, "<div class=\"card tile\"><h2>%s</h2><p class=\"figure\">", title);
}

static void print_entries_tile(const struct stg_cache_page *page, const struct sums *sums,
                               struct stg_strbuf *out) {
  open_tile(out, "Entries");
  stg_strbuf_printf(out, "%zu</p><p class=\"muted\">", page->count);
  if (page->count < page->n_there) {
    stg_strbuf_printf(out, "of %zu in the cache \xc2\xb7 ", page->n_there);
  }
  if (sums->n_bad > 0) {
    stg_strbuf_printf(out, "<span class=\"pill\">%zu bad</span>", sums->n_bad);
  } else {
    stg_strbuf_str(out, "none bad");
  }
  if (sums->n_other_format > 0) {
    stg_strbuf_printf(out, " \xc2\xb7 %zu of another format", sums->n_other_format);
  }
  stg_strbuf_printf(out, " \xc2\xb7 %zu %s</p></div>\n", page->n_graphs,
                    page->n_graphs == 1 ? "graph" : "graphs");
}

static void print_size_tile(const struct stg_cache_page *page, const struct sums *sums,
                            struct stg_strbuf *out) {
  open_tile(out, "Size");
  stg_strbuf_bytes(out, sums->bytes);
  stg_strbuf_str(out, "</p><p class=\"muted\">");
  stg_strbuf_bytes(out, page->count > 0 ? sums->bytes / page->count : 0);
  stg_strbuf_str(out, " an entry</p></div>\n");
}

static void print_hits_tile(const struct stg_cache_page *page, struct stg_strbuf *out) {
  const stg_cache_totals *totals = page->totals;
  double rate = 0;
  open_tile(out, "Hits");
  if (totals == NULL) {
    stg_strbuf_str(out, "\xe2\x80\x93</p><p class=\"muted\">");
    stg_markup_line(out, page->no_totals);
  } else {
    stg_strbuf_printf(out, "%llu</p><p class=\"muted\">", (unsigned long long)totals->disk_hits);
    if (stg_cache_totals_rate(totals, &rate)) {
      stg_strbuf_printf(out, "%.0f %% of what was asked for; ", rate);
    }
    stg_strbuf_printf(out, "%llu more in memory", (unsigned long long)totals->memory_hits);
  }
  stg_strbuf_str(out, "</p></div>\n");
}

static void print_saved_tile(const struct stg_cache_page *page, const struct sums *sums,
                             struct stg_strbuf *out) {
  const double mean = mean_compile_ms(page, sums);
  open_tile(out, "Compile time saved");
  if (page->totals == NULL) {
    stg_strbuf_str(out, "\xe2\x80\x93</p><p class=\"muted\">a compile takes ");
    stg_page_ms(out, mean);
  } else {
    stg_page_ms(out, mean * (double)page->totals->disk_hits);
    stg_strbuf_printf(out, "</p><p class=\"muted\">%llu hits \xc3\x97 ",
                      (unsigned long long)page->totals->disk_hits);
    stg_page_ms(out, mean);
    stg_strbuf_str(out, " a compile");
  }
  stg_strbuf_str(out, "</p></div>\n");
}

static void print_tiles(const struct stg_cache_page *page, struct stg_strbuf *out) {
  const struct sums sums = sum_up(page);
  stg_strbuf_str(out, "<section class=\"tiles\" aria-label=\"totals\">\n");
  print_entries_tile(page, &sums, out);
  print_size_tile(page, &sums, out);
  print_hits_tile(page, out);
  print_saved_tile(page, &sums, out);
  stg_strbuf_str(out, "</section>\n");
}

/* Where there is nothing to show, what would make it so. */
static void print_nothing(const struct stg_cache_page *page, struct stg_strbuf *out) {
  stg_strbuf_str(out, "<section class=\"card empty\">\n");
  if (page->n_there > 0) {
    stg_strbuf_printf(out, "<h2>No entry fits</h2>\n<p>The cache has %zu, and none of them is ",
                      page->n_there);
    stg_strbuf_str(out, "<code>");
    stg_markup_line(out, page->choice);
    stg_strbuf_str(out, "</code>.</p>\n");
  } else {
    const char *path = page->n_layers > 0 ? page->layers[page->n_layers - 1].path : "FOLDER";
    stg_strbuf_str(out, "<h2>Nothing here yet</h2>\n<p>No kernel was compiled into this cache. A "
                        "first run does that, or, without a GPU:</p>\n"
                        "<pre>steergraph build --arch sm_90 --cache ");
    stg_markup_line(out, path);
    stg_strbuf_str(out, " SPEC.json</pre>\n");
  }
  stg_strbuf_str(out, "</section>\n");
}

static void print_table(const struct stg_cache_page *page, const struct stg_strbuf *rows,
                        struct stg_strbuf *out) {
  stg_strbuf_printf(out,
                    "<section class=\"card entries\">\n<div class=\"bar-above\"><h2>Entries "
                    "<span class=\"muted\" id=\"shown\" aria-live=\"polite\">%zu</span></h2>\n",
                    page->count);
  stg_strbuf_str(out, "<input id=\"find\" class=\"js-only\" type=\"search\" placeholder=\"Find in "
                      "signatures, keys, paths\" aria-label=\"find entries\"></div>\n"
                      "<table id=\"entries\">\n<thead><tr>");
#define HEAD(title, member, is_number)                                                             \
  stg_strbuf_printf(out, "<th scope=\"col\" data-by=\"%s\"%s%s>%s</th>", member,                   \
                    is_number ? " class=\"n\"" : "",                                               \
                    strcmp(member, "size_bytes") == 0 ? " aria-sort=\"descending\"" : "", title);
  STG_PAGE_COLUMN_LIST(HEAD)
#undef HEAD
  stg_strbuf_str(out, "</tr></thead>\n");
  stg_strbuf_mem(out, stg_strbuf_text(rows), rows->len);
  stg_strbuf_str(out, "</table>\n</section>\n");
}

static void print_layer(const stg_cache_layer *layer, struct stg_strbuf *out) {
  stg_strbuf_str(out, "<tr><td><code>");
  stg_markup_line(out, layer->path);
  stg_strbuf_printf(out,
                    "</code></td><td>%s</td><td class=\"n\">%llu</td><td class=\"n\">%llu</td>",
                    layer->is_pack   ? "pack, read"
                    : layer->is_last ? "folder, written"
                                     : "folder, read",
                    (unsigned long long)layer->entries, (unsigned long long)layer->graphs);
  stg_strbuf_printf(out, "<td class=\"n\">%s%llu%s</td><td class=\"n\">",
                    layer->quarantined > 0 ? "<span class=\"pill\">" : "",
                    (unsigned long long)layer->quarantined,
                    layer->quarantined > 0 ? "</span>" : "");
  stg_strbuf_bytes(out, layer->bytes);
  stg_strbuf_str(out, "</td></tr>\n");
}

static void print_folders(const struct stg_cache_page *page, struct stg_strbuf *out) {
  stg_strbuf_str(out, "<section class=\"card\">\n<h2>Folders and packs</h2>\n<div class=\"wide\">"
                      "<table class=\"small\"><thead><tr><th>path</th><th>use</th>"
                      "<th class=\"n\">entries</th><th class=\"n\">graphs</th>"
                      "<th class=\"n\" title=\"bad ones that were set aside\">in quarantine</th>"
                      "<th class=\"n\">bytes</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < page->n_layers; i++) {
    print_layer(&page->layers[i], out);
  }
  stg_strbuf_str(out, "</tbody></table></div>\n");
  for (size_t i = 0; i < page->n_bad_graphs; i++) {
    stg_strbuf_printf(out, "<p><span class=\"pill\">%s</span> <code>",
                      page->bad_graphs[i].other_format ? "other format" : "bad graph");
    stg_markup_line(out, page->bad_graphs[i].path);
    stg_strbuf_str(out, "</code>: ");
    stg_markup_line(out, page->bad_graphs[i].problem);
    stg_strbuf_str(out, "</p>\n");
  }
  stg_strbuf_str(out, "</section>\n");
}

static void json_entry(struct stg_json_out *json, const stg_cache_entry *entry) {
  struct stg_occupancy occupancy;
  stg_json_out_open(json, NULL, '{');
  stg_cache_entry_json(json, entry);
  if (entry->ok && stg_cache_occupancy(entry, &occupancy)) {
    stg_json_out_number(json, "occupancy_percent", stg_occupancy_percent(&occupancy));
  } else {
    stg_json_out_null(json, "occupancy_percent");
  }
  stg_json_out_close(json, '}');
}

/* The facts of `cache ls --json`. In a script element nothing may look like its end: '<' stands in
 * strings alone, where it can be written otherwise. */
static void print_data(const struct stg_cache_page *page, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  char written[STG_UTC_TIME_CHARS];
  stg_utc_time(page->written_unix, written);
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "version", STEERGRAPH_VERSION_STRING);
  stg_json_out_text(&json, "written", written);
  stg_json_out_open(&json, "folders", '[');
  for (size_t i = 0; i < page->n_layers; i++) {
    stg_json_out_text(&json, NULL, page->layers[i].path);
  }
  stg_json_out_close(&json, ']');
  if (page->totals != NULL) {
    stg_cache_totals_json(&json, page->totals);
  } else {
    stg_json_out_null(&json, "totals");
  }
  stg_json_out_count(&json, "in_cache", page->n_there);
  stg_json_out_bool(&json, "verified", true);
  stg_json_out_open(&json, "entries", '[');
  for (size_t i = 0; i < page->count; i++) {
    json_entry(&json, &page->entries[i].entry);
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  const char *text = stg_strbuf_text(&json.text);
  stg_strbuf_str(out, "<script type=\"application/json\" id=\"data\">\n");
  for (const char *mark = strchr(text, '<'); mark != NULL; mark = strchr(text, '<')) {
    stg_strbuf_mem(out, text, (size_t)(mark - text));
    stg_strbuf_str(out, "\\u003c");
    text = mark + 1;
  }
  stg_strbuf_str(out, text);
  stg_strbuf_str(out, "</script>\n");
  out->failed = out->failed || json.text.failed;
  stg_strbuf_finish(&json.text);
}

stg_status stg_cache_page_print(const struct stg_cache_page *page, const struct stg_strbuf *rows,
                                struct stg_strbuf *out, stg_error *reterr) {
  stg_status status = STG_OK;
  print_head(out);
  print_header(page, out);
  if (page->count > 0) {
    print_tiles(page, out);
    status = stg_page_charts(page, out, reterr);
    print_table(page, rows, out);
  } else {
    print_nothing(page, out);
  }
  print_folders(page, out);
  stg_strbuf_str(out, "</main>\n<footer class=\"muted\">Written by <code>steergraph cache report"
                      "</code>. Every entry was read and verified.</footer>\n");
  print_data(page, out);
  stg_strbuf_str(out, "<script>\n");
  append_file(out, "script");
  stg_strbuf_str(out, "</script>\n</body>\n</html>\n");
  return status != STG_OK ? status : stg_strbuf_status(out, reterr);
}
