/*
 * cache/show.c: `steergraph cache show`: all that one entry says, its source, its machine code and
 * its cubin; or what a graph is made of.
 *
 * The entry is verified first; a bad one is named and not shown.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/cache/command.h"
#include "tools/cache/disassemble.h"
#include "tools/cache/graph_report.h"
#include "tools/cache/pick.h"
#include "tools/cache/show_report.h"
#include "tools/cache/work.h"
#include "tools/cache_folder.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"

struct show_options {
  const char *folder; /* NULL: the environment's */
  const char *key;
  const char *cubin; /* file to write, or NULL */
  bool json, source, sass;
};

static stg_status write_cubin(const struct show_options *options, const stg_cache_entry *entry,
                              stg_error *reterr) {
  struct stg_interrupt_hold hold;
  stg_status status =
      stg_cache_folder_check_output(options->folder, "--cubin", options->cubin, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_interrupt_hold(&hold);
  status = stg_file_write_atomic(options->cubin, entry->cubin, entry->cubin_bytes, 0644, reterr);
  stg_interrupt_release(&hold);
  return status;
}

static stg_status read_params(const stg_cache_entry *entry, stg_cache_param **ret_params,
                              size_t *ret_count, stg_error *reterr) {
  size_t count = 0;
  stg_status status = stg_cache_params(entry, NULL, 0, &count, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", entry->path);
    return status;
  }
  stg_cache_param *params = stg_calloc(count + 1, sizeof *params);
  if (params == NULL) {
    return stg_error_memory(reterr, "the parameters of a kernel", count * sizeof *params);
  }
  *ret_params = params;
  return stg_cache_params(entry, params, count, ret_count, reterr);
}

/* Put together what was asked for of an entry that is good. */
static stg_status report(const struct show_options *options, struct stg_cache_shown *shown,
                         struct stg_strbuf *ret_text, stg_error *reterr) {
  const stg_cache_entry *entry = shown->entry;
  struct stg_strbuf sass = {0};
  stg_cache_param *params = NULL;
  stg_status status = read_params(entry, &params, &shown->n_params, reterr);
  shown->params = params;
  if (status == STG_OK && options->sass) {
    status = stg_disassemble(entry->cubin, entry->cubin_bytes, &sass, reterr);
    shown->sass = stg_strbuf_text(&sass);
  }
  if (status == STG_OK && options->cubin != NULL) {
    status = write_cubin(options, entry, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_show_json(shown, ret_text);
  } else if (status == STG_OK) {
    stg_cache_show_text(shown, ret_text);
  }
  stg_strbuf_finish(&sass);
  stg_free(params);
  return status;
}

/* Whether there is an entry of this key, good or not. */
static stg_status has_entry(stg_cache *cache, const char *key, bool *ret_has, stg_error *reterr) {
  stg_cache_entry entry;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_cache_find(cache, key, &entry, &error);
  *ret_has = status == STG_OK;
  return status == STG_OK || status == STG_E_NOT_FOUND
             ? STG_OK
             : stg_error_set(reterr, status, "%s", error.message);
}

static stg_status show_graph(const struct show_options *options, stg_cache *cache,
                             const stg_cache_graph *graph, struct stg_strbuf *ret_text,
                             stg_error *reterr) {
  if (options->source || options->sass || options->cubin != NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "--source, --sass and --cubin are of entries, and '%s' is a graph; show "
                         "the keys of its nodes",
                         options->key);
  }
  bool *in_cache = stg_calloc(graph->n_nodes, sizeof *in_cache);
  stg_status status =
      in_cache != NULL ? STG_OK : stg_error_memory(reterr, "the nodes of a graph", graph->n_nodes);
  for (size_t i = 0; i < graph->n_nodes && status == STG_OK; i++) {
    status = has_entry(cache, graph->nodes[i].key, &in_cache[i], reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_graph_show_json(graph, in_cache, ret_text);
  } else if (status == STG_OK) {
    stg_cache_graph_show_text(graph, in_cache, ret_text);
  }
  stg_free(in_cache);
  return status;
}

static bool has_node(const stg_cache_graph *graph, const char *key) {
  for (size_t i = 0; i < graph->n_nodes; i++) {
    if (strcmp(graph->nodes[i].key, key) == 0) {
      return true;
    }
  }
  return false;
}

/* The good graphs that launch a kernel: `graphs` has room for all. */
static stg_status find_graphs(stg_cache *cache, const char *key, stg_cache_graph *graphs,
                              size_t *ret_count, stg_error *reterr) {
  for (size_t i = 0; i < stg_cache_graph_count(cache); i++) {
    stg_status status = stg_cache_graph_get(cache, i, &graphs[*ret_count], reterr);
    if (status != STG_OK) {
      return status;
    }
    if (graphs[*ret_count].ok && has_node(&graphs[*ret_count], key)) {
      ++*ret_count;
    } else {
      stg_cache_graph_forget(cache, i);
    }
  }
  return STG_OK;
}

static stg_status show(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                       stg_error *reterr) {
  const struct show_options *options = user;
  struct stg_cache_picked picked;
  (void)ret_good;
  stg_status status = stg_cache_pick(cache, options->key, &picked, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (picked.is_graph) {
    return show_graph(options, cache, &picked.graph, ret_text, reterr);
  }
  const size_t room = stg_cache_graph_count(cache) + 1;
  stg_cache_graph *graphs = stg_calloc(room, sizeof *graphs);
  struct stg_cache_shown shown = {
      .entry = &picked.entry, .graphs = graphs, .with_source = options->source};
  status = graphs != NULL ? find_graphs(cache, picked.entry.key, graphs, &shown.n_graphs, reterr)
                          : stg_error_memory(reterr, "the list of graphs", room * sizeof *graphs);
  if (status == STG_OK) {
    status = report(options, &shown, ret_text, reterr);
  }
  stg_free(graphs);
  return status;
}

int stg_cache_cmd_show(int argc, char **argv) {
  struct show_options options = {0};
  const struct stg_option table[] = {
      STG_CACHE_OPTION(&options.folder),
      {"--source", NULL, "print the CUDA source too", NULL, &options.source},
      {"--sass", NULL, "print the machine code too, by nvdisasm", NULL, &options.sass},
      {"--cubin", "FILE", "write the compiled kernel to a file", &options.cubin, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "cache show",
      .words = "KEY",
      .summary = "Show one entry or one graph; KEY is the first digits of its key, at least four.",
      .details = "An entry's key may have its compiler behind it, as 12ab-nvrtc-13.0.88.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.key = argv[1];
  code = stg_cache_check_key("cache show", options.key);
  return code == STG_EXIT_DONE ? stg_cache_work(options.folder, show, &options) : code;
}
