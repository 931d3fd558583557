/*
 * vectors/ls.c: `steergraph vectors ls FILE`: what is in a vector file, and what it says of itself.
 */
#include <string.h>

#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/vectors/command.h"
#include "tools/vectors/facts.h"

#define MAX_VALUE_COLUMNS 64 /* of a value of the metadata; --json has all of it */

/* The file's name gives way to a narrow terminal, what is in the file does not. */
static void text_head(const struct stg_vectors *vectors, size_t max_width, struct stg_strbuf *out) {
  const struct stg_control_facts *facts = &vectors->control;
  struct stg_strbuf path = {0};
  struct stg_strbuf rest = {0};
  stg_report_clean(&path, vectors->file.path);
  stg_strbuf_printf(&rest, ": %s", vectors->file.format_text);
  if (facts->declared) {
    stg_strbuf_str(&rest, " control vector");
  } else if (facts->architecture != NULL) {
    stg_strbuf_str(&rest, " of a model (");
    stg_table_fit(&rest, facts->architecture, MAX_VALUE_COLUMNS);
    stg_strbuf_char(&rest, ')');
  }
  stg_strbuf_printf(&rest, ", %zu tensor%s, ", vectors->file.n_tensors,
                    vectors->file.n_tensors == 1 ? "" : "s");
  stg_strbuf_bytes(&rest, vectors->file.size);
  const size_t room = max_width > rest.len ? max_width - rest.len : 1;
  stg_table_fit(out, stg_strbuf_text(&path), max_width > 0 ? room : SIZE_MAX);
  stg_strbuf_str(out, stg_strbuf_text(&rest));
  stg_strbuf_char(out, '\n');
  out->failed = out->failed || path.failed || rest.failed;
  stg_strbuf_finish(&path);
  stg_strbuf_finish(&rest);
}

/* One line that gives the value of a key; none where the file has no such key. Values and keys are
 * of any length in the file. */
static void text_key(struct stg_table *table, const char *name, const char *value,
                     const char *key) {
  struct stg_strbuf text = {0};
  if (value == NULL) {
    return;
  }
  stg_table_fit(&text, value, MAX_VALUE_COLUMNS);
  stg_strbuf_str(&text, " (");
  stg_table_fit(&text, key, MAX_VALUE_COLUMNS);
  stg_strbuf_char(&text, ')');
  table->cells.failed = table->cells.failed || text.failed;
  stg_table_cell(table, name);
  stg_table_cell(table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
}

static void text_facts(const struct stg_vectors *vectors, size_t max_width,
                       struct stg_strbuf *out) {
  const struct stg_control_facts *facts = &vectors->control;
  struct stg_table table = {
      .columns = "ll", .yields = ".s", .indent = "  ", .max_width = max_width};
  text_key(&table, "model", facts->model_hint,
           vectors->file.format == STG_FILE_DIRECTIONS ? "model_hint" : "controlvector.model_hint");
  text_key(&table, "mode", facts->mode, facts->mode_key);
  if (facts->mode == NULL && facts->declared) {
    text_key(&table, "mode", "add", "no key says otherwise");
  }
  text_key(&table, "place", facts->hook_point, facts->hook_point_key);
  text_key(&table, "structure", facts->structure, facts->structure_key);
  text_key(&table, "alpha", facts->alpha, facts->alpha_key);
  if (vectors->layers.present > 0) {
    struct stg_strbuf layers = {0};
    stg_vectors_print_layers(vectors, &layers);
    stg_table_cell(&table, "layers");
    stg_table_printf(&table, "%s%s", stg_strbuf_text(&layers),
                     stg_vectors_block_rule(vectors, vectors->layers.first));
    stg_strbuf_finish(&layers);
  }
  if (vectors->not_said.code != STG_OK) {
    stg_table_cell(&table, "note");
    stg_table_cell(&table, vectors->not_said.message);
  }
  stg_table_print(&table, out);
}

/* A column of layers only where names tell them. */
static void text_tensors(const struct stg_vectors *vectors, size_t max_width,
                         struct stg_strbuf *out) {
  const bool layers = vectors->layers.pattern != NULL;
  struct stg_table table = {.columns = layers ? "lllr" : "lll",
                            .yields = layers ? "s2.1" : "s1.",
                            .max_width = max_width};
  static const char *const header[] = {"tensor", "dtype", "shape", "layer"};
  for (size_t i = 0; i < strlen(table.columns); i++) {
    stg_table_cell(&table, header[i]);
  }
  for (size_t i = 0; i < vectors->file.n_tensors; i++) {
    const struct stg_tensor_info *tensor = &vectors->file.tensors[i];
    char shape[STG_TENSOR_SHAPE_BYTES];
    stg_tensor_print_shape(tensor, shape);
    stg_table_cell(&table, tensor->name);
    stg_table_cell(&table, tensor->dtype_name);
    stg_table_cell(&table, shape);
    if (layers) {
      stg_table_printf(&table, "%d", (int)stg_vectors_layer_of(vectors, tensor));
    }
  }
  stg_table_print(&table, out);
}

/* null where the file tells no layers; "pattern" is null where they are rows. */
static void json_layers(const struct stg_layer_map *layers, struct stg_json_out *json) {
  if (layers->present == 0) {
    stg_json_out_null(json, "layers");
    return;
  }
  stg_json_out_open(json, "layers", '{');
  stg_json_out_text(json, "pattern", layers->pattern);
  stg_json_out_int(json, "first", layers->first);
  stg_json_out_int(json, "last", layers->last);
  stg_json_out_open(json, "missing", '[');
  for (int32_t layer = layers->first; layer <= layers->last; layer++) {
    if (layers->tensor_of[layer] < 0) {
      stg_json_out_int(json, NULL, layer);
    }
  }
  stg_json_out_close(json, ']');
  stg_json_out_close(json, '}');
}

static void json_tensor(const struct stg_vectors *vectors, const struct stg_tensor_info *tensor,
                        struct stg_json_out *json) {
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "name", tensor->name);
  stg_json_out_text(json, "dtype", tensor->dtype_name);
  stg_vectors_json_shape(tensor, json);
  if (vectors->layers.pattern != NULL) {
    stg_json_out_int(json, "layer", stg_vectors_layer_of(vectors, tensor));
  }
  stg_json_out_close(json, '}');
}

static void report_json(const struct stg_vectors *vectors, struct stg_strbuf *out) {
  const struct stg_tensor_file *file = &vectors->file;
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_vectors_json_head(vectors, &json);
  stg_json_out_bool(&json, "control_vector", vectors->control.declared);
  stg_json_out_text(&json, "model_hint", vectors->control.model_hint);
  stg_json_out_text(
      &json, "mode",
      vectors->control.mode == NULL && vectors->control.declared ? "add" : vectors->control.mode);
  json_layers(&vectors->layers, &json);
  stg_json_out_open(&json, "metadata", '{');
  for (size_t i = 0; i < file->n_metadata; i++) {
    stg_json_out_text(&json, file->metadata[2 * i], file->metadata[2 * i + 1]);
  }
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "tensors", '[');
  for (size_t i = 0; i < file->n_tensors; i++) {
    json_tensor(vectors, &file->tensors[i], &json);
  }
  stg_json_out_close(&json, ']');
  stg_json_out_open(&json, "notes", '[');
  if (vectors->not_said.code != STG_OK) {
    stg_json_out_text(&json, NULL, vectors->not_said.message);
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void report_text(const struct stg_vectors *vectors, size_t max_width,
                        struct stg_strbuf *out) {
  text_head(vectors, max_width, out);
  text_facts(vectors, max_width, out);
  text_tensors(vectors, max_width, out);
}

static int list(const char *path, int64_t width, bool json) {
  struct stg_vectors vectors = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  if (stg_vectors_open(path, width, &vectors, &err) != STG_OK) {
    return stg_report_fail(&err);
  }
  if (json) {
    report_json(&vectors, &text);
  } else {
    report_text(&vectors, stg_terminal_width(), &text);
  }
  stg_vectors_close(&vectors);
  int code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  return code;
}

int stg_vectors_cmd_ls(int argc, char **argv) {
  const char *width_word = NULL;
  bool json = false;
  const struct stg_option table[] = {
      STG_VECTORS_WIDTH_OPTION(&width_word),
      {"--json", NULL, "print one JSON object", NULL, &json},
  };
  const struct stg_grammar grammar = {
      .name = "vectors ls",
      .words = "FILE",
      .summary = "List the tensors of a vector file, and what it says of itself.",
      .details = "The content tells what a file is: safetensors, a GGUF control vector or model, "
                 ".npy, or\nJSON directions. A raw file says nothing: --width says how wide its "
                 "rows are.",
      .min_words = 1,
      .max_words = 1,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int64_t width = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  code = stg_vectors_number(grammar.name, "--width", width_word, 1, &width);
  return code == STG_EXIT_DONE ? list(argv[1], width, json) : code;
}
