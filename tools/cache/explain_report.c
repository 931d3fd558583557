/*
 * cache/explain_report.c: differences, and in one line what follows from them.
 *
 * Must not read entries; it goes by the names of the factors that differ.
 */
#include "tools/cache/explain_report.h"

#include <string.h>

#include "tools/differences.h"
#include "tools/explain_report.h"
#include "tools/report.h"

static bool differs(const struct stg_explained_pair *pair, const char *factor, const char *piece) {
  for (size_t i = 0; i < pair->n_differences; i++) {
    const stg_cache_difference *difference = &pair->differences[i];
    if (strcmp(difference->factor, factor) == 0 &&
        strncmp(difference->here, piece, strlen(piece)) == 0) {
      return true;
    }
  }
  return false;
}

/* Whether `piece` is all of the signature that differs. */
static bool is_only_piece(const struct stg_explained_pair *pair, const char *piece) {
  size_t pieces = 0;
  for (size_t i = 0; i < pair->n_differences; i++) {
    pieces += strcmp(pair->differences[i].factor, "signature") == 0;
  }
  return pieces == 1 && differs(pair, "signature", piece);
}

/* Whether they have a prelude each. */
static bool of_two_kinds(const struct stg_explained_pair *pair) {
  return strcmp(pair->here->family, pair->there->family) != 0 ||
         differs(pair, "signature", "work=");
}

/* Whether one of two kernels is what another version of steergraph makes. A signature settles the
 * source, but for the version. */
static bool of_two_versions(const struct stg_explained_pair *pair) {
  return differs(pair, "format", "") || (differs(pair, "prelude", "") && !of_two_kinds(pair)) ||
         (!differs(pair, "signature", "") &&
          (differs(pair, "source", "") || differs(pair, "kernel", "")));
}

/* What two kernels that one version makes are both there for. All that differs must hold at once
 * for one of them to be looked up. */
static void say_both_needed(const struct stg_explained_pair *pair, struct stg_strbuf *out) {
  const bool arch = differs(pair, "arch", "");
  const bool option = differs(pair, "option", "");
  const bool tile = is_only_piece(pair, "tile="); /* every table takes both */
  const bool kind = differs(pair, "signature", "") && !tile;
  const bool tables =
      strcmp(pair->here->family, "steer") == 0 && strcmp(pair->there->family, "steer") == 0;
  const char *used = tables ? "tables of its kind are made" : "steps of its kind are taken";
  if (!arch && !option && tile) {
    stg_strbuf_str(out, "two kernels of one table, for steps of short and of long requests: both "
                        "are needed");
    return;
  }
  if (!arch && !option) {
    stg_strbuf_printf(out, "two kernels: both are needed as long as %s",
                      tables ? "tables of both kinds are made" : "steps of both kinds are taken");
    return;
  }
  if (!arch && !kind) {
    stg_strbuf_str(out, "two kernels: both are needed as long as processes compile with either set "
                        "of options");
    return;
  }
  stg_strbuf_str(out, "two kernels: each is needed");
  if (arch) {
    stg_strbuf_str(out, " where there are GPUs of its architecture");
  }
  if (option) {
    stg_strbuf_printf(out, "%s by processes that compile with its options", arch ? "," : "");
  }
  if (kind) {
    stg_strbuf_printf(out, ", as long as %s", used);
  }
}

/* What follows for whoever wonders whether both must be there. */
static void say_consequence(const struct stg_explained_pair *pair, struct stg_strbuf *out) {
  if (strcmp(pair->here->key, pair->there->key) != 0) {
    if (of_two_versions(pair)) {
      stg_strbuf_str(out, "two kernels: the older one is of use to the version that made it, and "
                          "to no other");
    } else {
      say_both_needed(pair, out);
    }
  } else if (pair->n_differences > 0) {
    stg_strbuf_str(out, "one kernel from two compilers: a process takes that of its own compiler, "
                        "else the newest");
  } else if (strcmp(pair->here->path, pair->there->path) == 0) {
    stg_strbuf_str(out, "the same entry");
  } else {
    stg_strbuf_str(out, "one kernel, stored twice: the later folder serves first");
  }
}

static void json_side(struct stg_json_out *json, const char *name, const stg_cache_entry *entry) {
  stg_json_out_open(json, name, '{');
  stg_json_out_text(json, "key", entry->key);
  stg_json_out_text(json, "path", entry->path);
  stg_json_out_text(json, "compiler", entry->compiler);
  stg_json_out_text(json, "signature", entry->signature);
  stg_json_out_close(json, '}');
}

void stg_cache_pair_json(const struct stg_explained_pair *pair, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  json_side(&json, "here", pair->here);
  json_side(&json, "there", pair->there);
  stg_json_out_bool(&json, "same_kernel", strcmp(pair->here->key, pair->there->key) == 0);
  stg_differences_json(&json, "differences", pair->differences, pair->n_differences);
  struct stg_strbuf text = {0};
  say_consequence(pair, &text);
  stg_json_out_text(&json, "consequence", stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void append_side(const char *name, const stg_cache_entry *entry, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "%-6s %s ", name, entry->key);
  stg_report_clean(out, entry->compiler);
  stg_strbuf_str(out, "  ");
  stg_report_clean(out, entry->path);
  stg_strbuf_char(out, '\n');
}

void stg_cache_pair_text(const struct stg_explained_pair *pair, struct stg_strbuf *out) {
  append_side("here", pair->here, out);
  append_side("there", pair->there, out);
  stg_differences_text(pair->differences, pair->n_differences, out);
  say_consequence(pair, out);
  stg_strbuf_char(out, '\n');
}

void stg_cache_spec_json(const struct stg_explained_spec *spec, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", spec->file);
  stg_json_out_text(&json, "arch", spec->arch);
  stg_json_out_open(&json, "kernels", '[');
  for (size_t i = 0; i < spec->n_kernels; i++) {
    const struct stg_explained *kernel = &spec->kernels[i];
    const struct stg_miss *miss = &spec->misses[i];
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "variant", kernel->variant);
    stg_json_out_text(&json, "key", kernel->kernel_key);
    stg_json_out_text(&json, "signature", kernel->signature);
    stg_json_out_bool(&json, "hit", miss->hit);
    stg_json_out_text(&json, "nearest", miss->path);
    stg_json_out_text(&json, "nearest_key", miss->path != NULL ? miss->key : NULL);
    stg_miss_bad_json(&json, miss);
    stg_differences_json(&json, "differences", miss->factors, miss->n_factors);
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void append_kernel(const struct stg_explained *kernel, const struct stg_miss *miss,
                          const char *arch, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "%s kernel %s on %s: ", kernel->variant, kernel->kernel_key, arch);
  if (miss->hit) {
    stg_strbuf_str(out, "cached, ");
    stg_report_clean(out, miss->path);
    stg_strbuf_char(out, '\n');
    return;
  }
  if (miss->path == NULL) {
    stg_strbuf_str(out, "not cached, and no entry to compare with\n");
    stg_miss_bad_text(miss, out);
    return;
  }
  stg_strbuf_str(out, "not cached; there is ");
  stg_report_clean(out, miss->path);
  stg_strbuf_char(out, '\n');
  stg_miss_bad_text(miss, out);
  stg_differences_text(miss->factors, miss->n_factors, out);
}

void stg_cache_spec_text(const struct stg_explained_spec *spec, struct stg_strbuf *out) {
  size_t hits = 0;
  for (size_t i = 0; i < spec->n_kernels; i++) {
    append_kernel(&spec->kernels[i], &spec->misses[i], spec->arch, out);
    hits += spec->misses[i].hit;
  }
  stg_report_clean(out, spec->file);
  if (hits == spec->n_kernels) {
    stg_strbuf_str(out, ": compiles nothing\n");
  } else {
    stg_strbuf_printf(out,
                      ": %zu of %zu kernels would be compiled; 'steergraph build' makes them "
                      "ahead\n",
                      spec->n_kernels - hits, spec->n_kernels);
  }
}
