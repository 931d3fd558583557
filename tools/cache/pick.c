/*
 * cache/pick.c: see pick.h. Keys of entries and of graphs are digits alike, so both are
 * asked.
 */
#include "tools/cache/pick.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "tools/cache/left_out.h"
#include "tools/command.h"
#include "tools/report.h"

/* Why a folder is left out that the key's entries, or any graph, would be in; or NULL. */
static const char *may_hide(const stg_cache *cache, const char *key) {
  const struct stg_cache_left_out_list list = stg_cache_left_out_of(cache, false);
  for (size_t i = 0; i < list.count; i++) {
    const char *name = stg_path_name(list.items[i].path);
    if (list.items[i].is_folder &&
        (strcmp(name, "graphs") == 0 || strncmp(name, key, strlen(name)) == 0)) {
      return list.items[i].problem;
    }
  }
  return NULL;
}

stg_status stg_cache_pick(stg_cache *cache, const char *key, struct stg_cache_picked *ret_picked,
                          stg_error *reterr) {
  struct stg_cache_picked picked = {false};
  stg_error entry_error = STG_ERROR_INIT;
  stg_error graph_error = STG_ERROR_INIT;
  const stg_status entry = stg_cache_find(cache, key, &picked.entry, &entry_error);
  const stg_status graph = strchr(key, '-') != NULL /* graphs have no compiler */
                               ? STG_E_NOT_FOUND
                               : stg_cache_graph_find(cache, key, &picked.graph, &graph_error);
  if (entry != STG_OK && entry != STG_E_NOT_FOUND) {
    return stg_error_set(reterr, entry, "%s", entry_error.message);
  }
  if (graph != STG_OK && graph != STG_E_NOT_FOUND) {
    return stg_error_set(reterr, graph, "%s", graph_error.message);
  }
  if (entry == STG_E_NOT_FOUND && graph == STG_E_NOT_FOUND) {
    const char *hidden = may_hide(cache, key);
    return stg_error_set(reterr, STG_E_NOT_FOUND,
                         "no entry of %zu and no graph of %zu has a key that begins '%s'%s%s",
                         stg_cache_count(cache), stg_cache_graph_count(cache), key,
                         hidden != NULL ? "; left out: " : "", hidden != NULL ? hidden : "");
  }
  if (entry == STG_OK && graph == STG_OK) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "key '%s' is ambiguous: an entry's and a graph's begin so, give more "
                         "digits: '%s', '%s'",
                         key, picked.entry.path, picked.graph.path);
  }
  picked.is_graph = graph == STG_OK;
  const bool ok = picked.is_graph ? picked.graph.ok : picked.entry.ok;
  if (!ok) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%s: %s",
                         picked.is_graph ? picked.graph.path : picked.entry.path,
                         picked.is_graph ? picked.graph.problem : picked.entry.problem);
  }
  *ret_picked = picked;
  return STG_OK;
}

int stg_cache_check_key(const char *command, const char *key) {
  const size_t n_digits = strspn(key, "0123456789abcdef");
  if (n_digits < 4 || n_digits > 32 || (key[n_digits] != '\0' && key[n_digits] != '-')) {
    return stg_report_wrong(command,
                            "'%s' is no key: expected 4 to 32 digits 0-9a-f, and perhaps a "
                            "compiler, as 12ab-nvrtc-13.0.88",
                            key);
  }
  return STG_EXIT_DONE;
}
