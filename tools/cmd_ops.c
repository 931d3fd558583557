/*
 * cmd_ops.c: `steergraph ops`: what an op does, as its definition says, and whether a user's
 * definition is sound.
 *
 * An op is shown as it is written (body, requirements, note) and as the engine understood it (the
 * hash of its canonical body).
 */
#include <string.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/workload_job.h"

/* One op from both sides. */
struct op_entry {
  const struct stg_op_decl *decl;
  const char *note; /* NULL: none */
  struct stg_op_info info;
};

/* The note is for people, so the declaration does not carry it. */
static stg_status read_note(struct stg_arena *arena, const struct stg_embedded_file *file,
                            const char **ret_note, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_parse(file->stem, file->text, file->len, &doc, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_json root = stg_json_root(&doc);
  struct stg_json note;
  const char *words = NULL;
  if (stg_json_find(&root, "note", &note)) {
    status = stg_json_string(&note, &words, reterr);
  }
  if (status == STG_OK && words != NULL) {
    *ret_note = stg_arena_strdup(arena, words);
    status = stg_arena_status(arena, reterr);
  }
  stg_json_finish(&doc);
  return status;
}

/* An op that the engine knows, with the text it came from. */
static stg_status read_entry(stg_engine *engine, struct stg_arena *arena,
                             const struct stg_embedded_file *file, struct op_entry *ret,
                             stg_error *reterr) {
  stg_status status =
      stg_op_decl_parse(arena, file->stem, file->text, file->len, &ret->decl, reterr);
  if (status == STG_OK) {
    status = read_note(arena, file, &ret->note, reterr);
  }
  if (status == STG_OK) {
    status = stg_engine_op_find(engine, ret->decl->name, &ret->info, reterr);
  }
  return status;
}

static stg_status read_user_op(stg_engine *engine, struct stg_arena *arena, const char *path,
                               struct op_entry *ret, stg_error *reterr) {
  char *text = NULL;
  size_t size = 0;
  stg_status status = stg_file_read(path, STG_JSON_MAX_BYTES, &text, &size, reterr);
  if (status == STG_OK) {
    status = stg_op_register(engine, path, text, size, reterr);
  }
  if (status == STG_OK) {
    const struct stg_embedded_file file = {.stem = path, .text = text, .len = size};
    status = read_entry(engine, arena, &file, ret, reterr);
  }
  stg_free(text);
  return status;
}

/* The built-ins, or the files named. */
static stg_status read_entries(stg_engine *engine, struct stg_arena *arena, char **paths,
                               size_t n_paths, struct op_entry **ret_entries, size_t *ret_count,
                               stg_error *reterr) {
  size_t count = n_paths > 0 ? n_paths : stg_builtin_op_count();
  struct op_entry *entries = stg_arena_alloc(arena, count, sizeof *entries);
  if (entries == NULL) {
    return stg_arena_status(arena, reterr);
  }
  for (size_t i = 0; i < count; i++) {
    stg_status status = n_paths > 0
                            ? read_user_op(engine, arena, paths[i], &entries[i], reterr)
                            : read_entry(engine, arena, stg_builtin_op(i), &entries[i], reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  *ret_entries = entries;
  *ret_count = count;
  return STG_OK;
}

static void add_texts(struct stg_json_out *json, const char *key, const char *const *texts,
                      size_t count) {
  stg_json_out_open(json, key, '[');
  for (size_t i = 0; i < count; i++) {
    stg_json_out_text(json, NULL, texts[i]);
  }
  stg_json_out_close(json, ']');
}

static void report_json(const struct op_entry *entries, size_t count, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_open(&json, "ops", '[');
  for (size_t i = 0; i < count; i++) {
    const struct stg_op_decl *decl = entries[i].decl;
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "op", decl->name);
    stg_json_out_bool(&json, "builtin", entries[i].info.builtin);
    add_texts(&json, "vectors", decl->vectors, decl->n_vectors);
    stg_json_out_open(&json, "params", '[');
    for (size_t k = 0; k < decl->n_params; k++) {
      stg_json_out_open(&json, NULL, '{');
      stg_json_out_text(&json, "name", decl->params[k].name);
      if (decl->params[k].has_default) {
        stg_json_out_float(&json, "default", decl->params[k].default_value);
      } else {
        stg_json_out_null(&json, "default");
      }
      stg_json_out_close(&json, '}');
    }
    stg_json_out_close(&json, ']');
    add_texts(&json, "require", decl->require, decl->n_require);
    add_texts(&json, "body", decl->body, decl->n_body);
    stg_json_out_text(&json, "output", decl->output);
    stg_json_out_text(&json, "note", entries[i].note);
    stg_json_out_text(&json, "body_hash", entries[i].info.body_hash);
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void add_lines(struct stg_table *table, const char *label, const char *const *texts,
                      size_t count) {
  for (size_t i = 0; i < count; i++) {
    stg_table_cell(table, i == 0 ? label : "");
    stg_table_cell(table, texts[i]);
  }
}

static void append_signature(const struct stg_op_decl *decl, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "%s(", decl->name);
  for (size_t i = 0; i < decl->n_vectors; i++) {
    stg_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", decl->vectors[i]);
  }
  stg_strbuf_str(out, decl->n_vectors > 0 && decl->n_params > 0 ? "; " : "");
  for (size_t i = 0; i < decl->n_params; i++) {
    const struct stg_op_decl_param *param = &decl->params[i];
    stg_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", param->name);
    if (param->has_default) {
      stg_strbuf_char(out, '=');
      stg_strbuf_float(out, param->default_value);
    }
  }
  stg_strbuf_str(out, ")\n");
}

static void report_text(const struct op_entry *entries, size_t count, struct stg_strbuf *out) {
  for (size_t i = 0; i < count; i++) {
    const struct stg_op_decl *decl = entries[i].decl;
    if (i > 0) {
      stg_strbuf_char(out, '\n');
    }
    append_signature(decl, out);
    struct stg_table table = {.columns = "ll", .indent = "  "};
    add_lines(&table, "body", decl->body, decl->n_body);
    if (decl->output != NULL) {
      add_lines(&table, "output", &decl->output, 1);
    }
    add_lines(&table, "require", decl->require, decl->n_require);
    if (entries[i].note != NULL) {
      add_lines(&table, "note", &entries[i].note, 1);
    }
    if (!entries[i].info.builtin) {
      stg_table_cell(&table, "hash");
      stg_table_cell(&table, entries[i].info.body_hash);
    }
    stg_table_print(&table, out);
  }
}

static int list_ops(char **paths, size_t n_paths, bool as_json) {
  stg_engine *engine = NULL;
  struct stg_arena arena = {0};
  struct stg_strbuf text = {0};
  struct op_entry *entries = NULL;
  size_t count = 0;
  stg_error err = STG_ERROR_INIT;
  const struct stg_job_options options = {.backend = STG_BACKEND_CPU, .cache_path = ""};
  stg_status status = stg_job_open_engine(&options, &engine, &err);
  if (status == STG_OK) {
    status = read_entries(engine, &arena, paths, n_paths, &entries, &count, &err);
  }
  if (status == STG_OK && as_json) {
    report_json(entries, count, &text);
  } else if (status == STG_OK) {
    report_text(entries, count, &text);
  }
  stg_arena_finish(&arena);
  stg_job_close_engine(engine);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

int stg_cmd_ops(int argc, char **argv) {
  bool json = false;
  const struct stg_option table[] = {
      {"--json", NULL, "print one JSON object", NULL, &json},
  };
  const struct stg_grammar grammar = {
      .name = "ops",
      .words = "[FILE...]",
      .summary =
          "List the built-in ops; or check op definitions and show how they were understood.",
      .min_words = 0,
      .max_words = 64,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  return list_ops(argv + 1, n_words, json);
}
