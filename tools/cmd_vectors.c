/*
 * cmd_vectors.c: `steergraph vectors ls|show FILE`: what is in a vector file, and how long its
 * vectors are.
 *
 * Norms matter because the library applies a vector exactly as stored. A row is the last dimension;
 * everything before it counts rows.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "specs/vector_file.h"
#include "tools/command.h"
#include "tools/json_out.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/subcommands.h"
#include "tools/table.h"

struct vectors_options {
  const char *path;
  const char *tensor; /* NULL: all */
  const char *width_word;
  int64_t width; /* of the rows of a raw file; 0: the file says itself what it is */
  bool json, norms;
};

static void json_rows(struct stg_json_out *json, const struct stg_tensor_info *tensor) {
  stg_json_out_open(json, "rows", '[');
  for (size_t i = 0; i < stg_tensor_rows(tensor); i++) {
    struct stg_row_facts facts = stg_tensor_row_facts(tensor, i);
    stg_json_out_open(json, NULL, '{');
    stg_json_out_number(json, "norm", facts.norm);
    stg_json_out_number(json, "max_abs", facts.max_abs);
    stg_json_out_count(json, "non_finite", facts.non_finite);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void json_tensor(struct stg_json_out *json, const struct stg_tensor_info *tensor,
                        bool norms) {
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "name", tensor->name);
  stg_json_out_text(json, "dtype", tensor->dtype_name);
  stg_json_out_open(json, "shape", '[');
  for (uint32_t i = 0; i < tensor->n_dims; i++) {
    stg_json_out_int(json, NULL, tensor->shape[i]);
  }
  stg_json_out_close(json, ']');
  if (norms && tensor->elem != STG_ELEM_NONE) {
    json_rows(json, tensor);
  }
  stg_json_out_close(json, '}');
}

static void table_rows(struct stg_table *table, const struct stg_tensor_info *tensor) {
  for (size_t i = 0; i < stg_tensor_rows(tensor); i++) {
    struct stg_row_facts facts = stg_tensor_row_facts(tensor, i);
    stg_table_cell(table, i == 0 ? tensor->name : "");
    stg_table_printf(table, "%zu", i);
    stg_table_printf(table, "%.6g", facts.norm);
    stg_table_printf(table, "%.6g", facts.max_abs);
    stg_table_printf(table, "%" PRIu64, facts.non_finite);
  }
}

static void table_header(struct stg_table *table, bool norms) {
  static const char *const show[] = {"tensor", "row", "norm", "max |x|", "non-finite", NULL};
  static const char *const list[] = {"tensor", "dtype", "shape", NULL};
  for (const char *const *name = norms ? show : list; *name != NULL; name++) {
    stg_table_cell(table, *name);
  }
}

static void table_tensor(struct stg_table *table, const struct stg_tensor_info *tensor) {
  char shape[STG_TENSOR_SHAPE_BYTES];
  stg_tensor_print_shape(tensor, shape);
  stg_table_cell(table, tensor->name);
  stg_table_cell(table, tensor->dtype_name);
  stg_table_cell(table, shape);
}

static void report(const struct vectors_options *options, const struct stg_tensor_file *file,
                   const struct stg_tensor_info *tensors, size_t n_tensors,
                   struct stg_strbuf *out) {
  if (options->json) {
    struct stg_json_out json = {0};
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "file", options->path);
    stg_json_out_open(&json, "metadata", '{');
    for (size_t i = 0; i < file->n_metadata; i++) {
      stg_json_out_text(&json, file->metadata[2 * i], file->metadata[2 * i + 1]);
    }
    stg_json_out_close(&json, '}');
    stg_json_out_open(&json, "tensors", '[');
    for (size_t i = 0; i < n_tensors; i++) {
      json_tensor(&json, &tensors[i], options->norms);
    }
    stg_json_out_close(&json, ']');
    stg_json_out_close(&json, '}');
    *out = json.text;
    return;
  }
  struct stg_table table = {.columns = options->norms ? "lrrrr" : "lll"};
  table_header(&table, options->norms);
  for (size_t i = 0; i < n_tensors; i++) {
    if (!options->norms) {
      table_tensor(&table, &tensors[i]);
    } else if (tensors[i].elem != STG_ELEM_NONE) {
      table_rows(&table, &tensors[i]);
    }
  }
  stg_table_print(&table, out);
}

static int read_width(const char *command, struct vectors_options *options) {
  const char *word = options->width_word;
  if (word == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t digits = strspn(word, "0123456789");
  const unsigned long width = digits > 0 && digits < 10 ? strtoul(word, NULL, 10) : 0;
  if (word[digits] != '\0' || width == 0) {
    return stg_report_wrong(command, "--width '%s': expected a number of elements, 1 to 999999999",
                            word);
  }
  options->width = (int64_t)width;
  return STG_EXIT_DONE;
}

/* Open the file, as raw elements where a width is given. A file that says itself what it is needs
 * none, and would be misread. */
static stg_status open_file(const struct vectors_options *options, struct stg_tensor_file *ret_file,
                            stg_error *reterr) {
  const struct stg_tensor_hint hint = {.width_elems = options->width};
  struct stg_tensor_file file = {0};
  if (options->width > 0 && stg_tensor_file_open(options->path, NULL, &file, NULL) == STG_OK) {
    stg_status status = stg_error_set(reterr, STG_E_INVALID,
                                      "'%s' is %s, and --width goes with a raw file; leave it out",
                                      options->path, file.format_text);
    stg_tensor_file_close(&file);
    return status;
  }
  return stg_tensor_file_open(options->path, &hint, ret_file, reterr);
}

static int show_file(const struct vectors_options *options) {
  struct stg_tensor_file file = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  if (open_file(options, &file, &err) != STG_OK) {
    return stg_report_fail(&err);
  }
  const struct stg_tensor_info *tensors = file.tensors;
  size_t n_tensors = file.n_tensors;
  stg_status status = STG_OK;
  if (options->tensor != NULL) {
    status = stg_tensor_find(&file, options->tensor, &tensors, &err);
    n_tensors = 1;
  }
  if (status == STG_OK) {
    report(options, &file, tensors, n_tensors, &text);
  }
  stg_tensor_file_close(&file);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

static int vectors_ls(int argc, char **argv) {
  struct vectors_options options = {0};
  const struct stg_option table[] = {
      {"--width", "N", "a raw file: float32 rows of N elements", &options.width_word, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "vectors ls",
      .words = "FILE",
      .summary = "List the tensors of a vector file.",
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
  options.path = argv[1];
  code = read_width(grammar.name, &options);
  return code == STG_EXIT_DONE ? show_file(&options) : code;
}

static int vectors_show(int argc, char **argv) {
  struct vectors_options options = {.norms = true};
  const struct stg_option table[] = {
      {"--width", "N", "a raw file: float32 rows of N elements", &options.width_word, NULL},
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "vectors show",
      .words = "FILE [TENSOR]",
      .summary = "Show the norm, the largest element and the non-finite count of every row.",
      .min_words = 1,
      .max_words = 2,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  options.path = argv[1];
  options.tensor = n_words > 1 ? argv[2] : NULL;
  code = read_width(grammar.name, &options);
  return code == STG_EXIT_DONE ? show_file(&options) : code;
}

int stg_cmd_vectors(int argc, char **argv) {
  static const struct stg_subcommand subcommands[] = {
      {"ls", "list the tensors of a file", vectors_ls},
      {"show", "show the norms of a file's vectors", vectors_show},
  };
  return stg_subcommands_run("vectors", subcommands, sizeof subcommands / sizeof subcommands[0],
                             argc, argv);
}
