/*
 * cache/report.c: `steergraph cache report`: a cache folder or pack as one HTML page.
 *
 * Reads and verifies every entry that is asked for, one after the other, so that memory holds the
 * page and not the cache. Must not know how the page looks.
 */
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/cache/command.h"
#include "tools/cache/filter.h"
#include "tools/cache/left_out.h"
#include "tools/cache/page/page.h"
#include "tools/cache/page/rows.h"
#include "tools/cache/sort.h"
#include "tools/cache/work.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"

struct report_options {
  const char *folder; /* NULL: the environment's */
  const char *output;
  struct stg_cache_filter filter;
  bool json;
};

/* What the page is made of, owned. */
struct gathered {
  struct stg_cache_page_entry *entries; /* with room for all */
  stg_cache_entry *there;
  stg_cache_graph *graphs, *bad_graphs;
  stg_cache_layer *layers;
  stg_cache_totals totals;
  stg_error no_totals;
  struct stg_strbuf choice;
  struct stg_page_rows rows;
  struct stg_cache_page page;
};

static void gathered_finish(struct gathered *gathered) {
  stg_free(gathered->entries);
  stg_free(gathered->there);
  stg_free(gathered->graphs);
  stg_free(gathered->bad_graphs);
  stg_free(gathered->layers);
  stg_strbuf_finish(&gathered->choice);
  stg_page_rows_finish(&gathered->rows);
}

static stg_status make_room(stg_cache *cache, struct gathered *gathered, stg_error *reterr) {
  const size_t n_entries = stg_cache_count(cache) + 1;
  const size_t n_graphs = stg_cache_graph_count(cache) + 1;
  const size_t n_layers = stg_cache_layer_count(cache) + 1;
  gathered->entries = stg_calloc(n_entries, sizeof *gathered->entries);
  gathered->there = stg_calloc(n_entries, sizeof *gathered->there);
  gathered->graphs = stg_calloc(n_graphs, sizeof *gathered->graphs);
  gathered->bad_graphs = stg_calloc(n_graphs, sizeof *gathered->bad_graphs);
  gathered->layers = stg_calloc(n_layers, sizeof *gathered->layers);
  const bool has_all = gathered->entries != NULL && gathered->there != NULL &&
                       gathered->graphs != NULL && gathered->bad_graphs != NULL &&
                       gathered->layers != NULL;
  return has_all ? STG_OK : stg_error_memory(reterr, "the list of entries", n_entries);
}

static void append_word(struct stg_strbuf *out, const char *name, const char *value) {
  if (value != NULL) {
    stg_strbuf_printf(out, "%s%s %s", out->len > 0 ? " " : "", name, value);
  }
}

static void describe_choice(const struct stg_cache_filter *filter, struct stg_strbuf *out) {
  append_word(out, "--arch", filter->arch);
  append_word(out, "--family", filter->family);
  append_word(out, "--compiler", filter->compiler);
  append_word(out, "--match", filter->match);
  append_word(out, "--older-than", filter->older_than);
}

/* Look at all entries, and list those that are asked for. */
static stg_status look(stg_cache *cache, const struct stg_cache_filter *filter,
                       struct gathered *gathered, stg_error *reterr) {
  struct stg_cache_page *page = &gathered->page;
  for (size_t i = 0; i < stg_cache_count(cache); i++) {
    stg_cache_entry *entry = &gathered->there[page->n_there];
    stg_status status = stg_cache_peek(cache, i, entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (stg_cache_is_gone(entry)) {
      continue;
    }
    page->n_there++;
    if (stg_cache_filter_takes(filter, entry)) {
      gathered->entries[page->count++] = (struct stg_cache_page_entry){.entry = *entry, .index = i};
    }
  }
  return STG_OK;
}

static stg_status read_graphs(stg_cache *cache, struct gathered *gathered, stg_error *reterr) {
  struct stg_cache_page *page = &gathered->page;
  for (size_t i = 0; i < stg_cache_graph_count(cache); i++) {
    stg_cache_graph graph;
    stg_status status = stg_cache_graph_get(cache, i, &graph, reterr);
    if (status != STG_OK) {
      return status;
    }
    const stg_cache_entry same = {.path = graph.path, .ok = graph.ok};
    if (graph.ok) {
      gathered->graphs[page->n_graphs++] = graph;
    } else if (!stg_cache_is_gone(&same)) {
      gathered->bad_graphs[page->n_bad_graphs++] = graph;
    }
  }
  return STG_OK;
}

static stg_status read_layers(stg_cache *cache, struct gathered *gathered, stg_error *reterr) {
  struct stg_cache_page *page = &gathered->page;
  stg_status status = STG_OK;
  page->n_layers = stg_cache_layer_count(cache);
  for (size_t i = 0; i < page->n_layers && status == STG_OK; i++) {
    gathered->layers[i].struct_size = sizeof gathered->layers[i];
    status = stg_cache_layer_get(cache, i, &gathered->layers[i], reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  gathered->totals.struct_size = sizeof gathered->totals;
  status = stg_cache_read_totals(cache, &gathered->totals, &gathered->no_totals);
  page->totals = status == STG_OK ? &gathered->totals : NULL;
  page->no_totals = status == STG_E_NOT_FOUND ? "no statistics yet" : gathered->no_totals.message;
  return status == STG_E_NO_MEMORY
             ? stg_error_set(reterr, status, "%s", gathered->no_totals.message)
             : STG_OK;
}

/* Verify what was listed and write its rows. What turns out bad, or is gone by now, is not what it
 * was when it was looked at. */
static stg_status read_entries(stg_cache *cache, struct gathered *gathered, stg_error *reterr) {
  struct stg_cache_page *page = &gathered->page;
  const size_t n_listed = page->count;
  struct stg_cache_progress progress;
  page->count = 0;
  stg_cache_progress_begin(&progress, "entries read");
  for (size_t i = 0; i < n_listed; i++) {
    struct stg_cache_page_entry listed = gathered->entries[i];
    stg_cache_entry entry;
    stg_status status = stg_cache_get(cache, listed.index, &entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!stg_cache_is_gone(&entry)) {
      stg_page_rows_add(&gathered->rows, page, &entry);
      listed.entry = entry.ok ? listed.entry : entry;
      gathered->entries[page->count++] = listed;
    }
    stg_cache_forget(cache, listed.index);
    stg_cache_progress_say(&progress, i + 1, n_listed);
  }
  stg_report_live_end();
  return stg_page_rows_status(&gathered->rows, reterr);
}

static stg_status gather(stg_cache *cache, const struct stg_cache_filter *filter,
                         struct gathered *gathered, stg_error *reterr) {
  stg_status status = make_room(cache, gathered, reterr);
  if (status != STG_OK) {
    return status;
  }
  describe_choice(filter, &gathered->choice);
  gathered->page = (struct stg_cache_page){.entries = gathered->entries,
                                           .there = gathered->there,
                                           .graphs = gathered->graphs,
                                           .bad_graphs = gathered->bad_graphs,
                                           .layers = gathered->layers,
                                           .choice = stg_strbuf_text(&gathered->choice),
                                           .written_unix = (int64_t)time(NULL)};
  status = look(cache, filter, gathered, reterr);
  if (status == STG_OK) {
    status = read_graphs(cache, gathered, reterr);
  }
  if (status == STG_OK) {
    status = read_layers(cache, gathered, reterr);
  }
  if (status == STG_OK) {
    stg_cache_sort(gathered->entries, gathered->page.count, sizeof *gathered->entries, "size",
                   false);
    status = read_entries(cache, gathered, reterr);
  }
  return status;
}

/* A file of the cache must not be what is written. */
static stg_status check_output(stg_cache *cache, const char *output, stg_error *reterr) {
  struct stat facts;
  stg_cache_entry entry;
  stg_cache_graph graph;
  stg_status status = stg_run_output_check_name("-o", output, reterr);
  if (status != STG_OK || stat(output, &facts) != 0) {
    return status;
  }
  for (size_t i = 0; i < stg_cache_count(cache) && status == STG_OK; i++) {
    status = stg_cache_peek(cache, i, &entry, reterr);
    if (status == STG_OK) {
      status = stg_run_output_check_file(entry.path, "-o", output, reterr);
    }
  }
  for (size_t i = 0; i < stg_cache_graph_count(cache) && status == STG_OK; i++) {
    status = stg_cache_graph_get(cache, i, &graph, reterr);
    if (status == STG_OK) {
      status = stg_run_output_check_file(graph.path, "-o", output, reterr);
    }
  }
  return status;
}

static void say(const struct report_options *options, const struct gathered *gathered,
                const struct stg_cache_left_out_list *left_out, size_t page_bytes,
                struct stg_strbuf *out) {
  const struct stg_cache_page *page = &gathered->page;
  size_t n_bad = 0;
  for (size_t i = 0; i < page->count; i++) {
    n_bad += !page->entries[i].entry.ok && !page->entries[i].entry.other_format;
  }
  if (options->json) {
    struct stg_json_out json = {0};
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "page", options->output);
    stg_json_out_count(&json, "page_bytes", page_bytes);
    stg_json_out_count(&json, "entries", page->count);
    stg_json_out_count(&json, "in_cache", page->n_there);
    stg_json_out_count(&json, "bad", n_bad);
    stg_json_out_count(&json, "graphs", page->n_graphs);
    stg_cache_left_out_json(&json, left_out);
    stg_json_out_close(&json, '}');
    *out = json.text;
    return;
  }
  stg_cache_left_out_text(left_out, out);
  stg_report_clean(out, options->output);
  stg_strbuf_printf(out, ": %zu %s", page->count, page->count == 1 ? "entry" : "entries");
  if (page->count < page->n_there) {
    stg_strbuf_printf(out, " of %zu", page->n_there);
  }
  if (n_bad > 0) {
    stg_strbuf_printf(out, ", %zu of them bad", n_bad);
  }
  stg_strbuf_str(out, "; ");
  stg_strbuf_bytes(out, page_bytes);
  stg_strbuf_char(out, '\n');
}

static stg_status report(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                         stg_error *reterr) {
  const struct report_options *options = user;
  struct gathered gathered = {0};
  struct stg_strbuf page = {0};
  struct stg_interrupt_hold hold;
  const struct stg_cache_left_out_list left_out = stg_cache_left_out_of(cache, false);
  stg_status status = stg_cache_folder_check_output(options->folder, "-o", options->output, reterr);
  if (status == STG_OK) {
    status = check_output(cache, options->output, reterr);
  }
  if (status == STG_OK) {
    status = gather(cache, &options->filter, &gathered, reterr);
  }
  if (status == STG_OK) {
    status = stg_cache_page_print(&gathered.page, &gathered.rows.html, &page, reterr);
  }
  if (status == STG_OK) {
    stg_interrupt_hold(&hold);
    status = stg_file_write_atomic(options->output, page.data, page.len, 0644, reterr);
    stg_interrupt_release(&hold);
  }
  if (status == STG_OK) {
    say(options, &gathered, &left_out, page.len, ret_text);
  }
  *ret_good = !stg_cache_left_out_any(&left_out);
  stg_strbuf_finish(&page);
  gathered_finish(&gathered);
  return status;
}

int stg_cache_cmd_report(int argc, char **argv) {
  struct report_options options = {0};
  const struct stg_option table[] = {
      {"-o", "FILE", "the page to write: cache.html", &options.output, NULL},
      STG_CACHE_OPTION(&options.folder),
      STG_CACHE_FILTER_OPTIONS(&options.filter),
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache report",
      .words = "",
      .summary = "Write what a cache folder or pack holds as one HTML page.",
      .details = "The page asks for nothing: style, script, charts and sources are in it. Options "
                 "choose its entries, as for 'cache ls'. Every one of them is read and verified.",
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  if (options.output == NULL) {
    return stg_report_wrong("cache report", "-o FILE is missing: the page to write, as cache.html");
  }
  code = stg_cache_filter_prepare("cache report", &options.filter);
  return code == STG_EXIT_DONE ? stg_cache_work(options.folder, report, &options) : code;
}
