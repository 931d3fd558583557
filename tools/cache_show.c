/*
 * cache_show.c: `steergraph cache show`: all that one entry says, its source, its machine code and
 * its cubin.
 *
 * The entry is verified first; a bad one is named and not shown.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/cache_command.h"
#include "tools/cache_show_report.h"
#include "tools/cache_work.h"
#include "tools/disassemble.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"

struct show_options {
  const char *folder; /* NULL: the environment's */
  const char *key;
  const char *cubin; /* file to write, or NULL */
  bool json, source, sass;
};

static stg_status write_cubin(const stg_cache_entry *entry, const char *path, stg_error *reterr) {
  struct stg_interrupt_hold hold;
  stg_status status = stg_run_output_check_name("--cubin", path, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_interrupt_hold(&hold);
  status = stg_file_write_atomic(path, entry->cubin, entry->cubin_bytes, 0644, reterr);
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
static stg_status report(const struct show_options *options, const stg_cache_entry *entry,
                         struct stg_strbuf *ret_text, stg_error *reterr) {
  struct stg_cache_shown shown = {.entry = entry, .with_source = options->source};
  struct stg_strbuf sass = {0};
  stg_cache_param *params = NULL;
  stg_status status = read_params(entry, &params, &shown.n_params, reterr);
  shown.params = params;
  if (status == STG_OK && options->sass) {
    status = stg_disassemble(entry->cubin, entry->cubin_bytes, &sass, reterr);
    shown.sass = stg_strbuf_text(&sass);
  }
  if (status == STG_OK && options->cubin != NULL) {
    status = write_cubin(entry, options->cubin, reterr);
  }
  if (status == STG_OK && options->json) {
    stg_cache_show_json(&shown, ret_text);
  } else if (status == STG_OK) {
    stg_cache_show_text(&shown, ret_text);
  }
  stg_strbuf_finish(&sass);
  stg_free(params);
  return status;
}

static stg_status show(stg_cache *cache, void *user, bool *ret_good, struct stg_strbuf *ret_text,
                       stg_error *reterr) {
  const struct show_options *options = user;
  stg_cache_entry entry;
  (void)ret_good;
  stg_status status = stg_cache_find(cache, options->key, &entry, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (!entry.ok) {
    return stg_error_set(reterr, STG_E_CORRUPT, "%s: %s", entry.path, entry.problem);
  }
  return report(options, &entry, ret_text, reterr);
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
      .summary = "Show one entry; KEY is the first digits of its key, at least four.",
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
  size_t n_digits = strspn(options.key, "0123456789abcdef");
  if (n_digits < 4 || n_digits > 32 || options.key[n_digits] != '\0') {
    return stg_report_wrong("cache show", "'%s' is no key: expected 4 to 32 digits 0-9a-f",
                            options.key);
  }
  return stg_cache_work(options.folder, show, &options);
}
