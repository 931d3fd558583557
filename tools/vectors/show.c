/*
 * vectors/show.c: `steergraph vectors show FILE [TENSOR]`: how long the vectors of a file are, and
 * how they lie to those of another.
 *
 * Norms matter because the library applies a vector exactly as stored. A row is the last dimension;
 * everything before it counts rows.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/vectors/command.h"
#include "tools/vectors/cosine.h"
#include "tools/vectors/facts.h"
#include "tools/vectors/histogram.h"

#define NO_ROW (-1)

struct show_options {
  const char *path;
  const char *tensor; /* NULL: all */
  int64_t row;        /* NO_ROW: all */
  int64_t width;
  const char *cosine; /* a file; NULL: none */
  const char *cosine_tensor;
  int64_t cosine_row; /* NO_ROW: none is named */
  bool json;
};

/* What is shown. */
struct show {
  struct stg_vectors vectors;
  struct stg_vectors_side side; /* the tensors asked for */
  struct stg_vectors_cosine cosine;
  bool has_cosine;
  int64_t row; /* NO_ROW: all */
  const struct stg_vectors_bar *bars;
  size_t n_bars;
  const char *bars_of;
};

/* The rows that are shown of a tensor: [*ret_first, *ret_end). */
static void shown_rows(const struct show *show, const struct stg_tensor_info *tensor,
                       size_t *ret_first, size_t *ret_end) {
  *ret_first = show->row == NO_ROW ? 0 : (size_t)show->row;
  *ret_end = show->row == NO_ROW ? stg_tensor_rows(tensor) : (size_t)show->row + 1;
}

/* A row that is asked for must be there. */
static stg_status check_row(const struct show *show, stg_error *reterr) {
  for (size_t i = 0; show->row != NO_ROW && i < show->side.n_tensors; i++) {
    const struct stg_tensor_info *tensor = &show->side.tensors[i];
    const size_t rows = stg_tensor_rows(tensor);
    if ((size_t)show->row >= rows && tensor->elem != STG_ELEM_NONE) {
      return stg_error_set(
          reterr, STG_E_NOT_FOUND, "'%s': --row %" PRId64 ", but tensor '%.96s' has %zu row%s",
          show->vectors.file.path, show->row, tensor->name, rows, rows == 1 ? "" : "s");
    }
  }
  return STG_OK;
}

static struct stg_vectors_bar bar_of(int32_t number, const struct stg_tensor_info *tensor,
                                     size_t row) {
  struct stg_vectors_bar bar = {.number = number};
  if (tensor->elem == STG_ELEM_NONE) {
    bar.unread = tensor->dtype_name;
    return bar;
  }
  const struct stg_row_facts facts = stg_tensor_row_facts(tensor, row);
  bar.norm = facts.norm;
  bar.non_finite = facts.non_finite;
  return bar;
}

/* Whether every layer is one vector. */
static bool layers_are_vectors(const struct stg_vectors *vectors) {
  bool vector = vectors->layers.pattern != NULL && vectors->layers.present > 1;
  for (size_t i = 0; i < vectors->file.n_tensors && vector; i++) {
    vector = stg_tensor_rows(&vectors->file.tensors[i]) == 1;
  }
  return vector;
}

/* Bars of all layers, or of the rows of the one tensor that is shown; else none. */
static stg_status make_bars(struct show *show, stg_error *reterr) {
  const struct stg_vectors *vectors = &show->vectors;
  const struct stg_layer_map *layers = &vectors->layers;
  const struct stg_tensor_info *tensor = show->side.tensors;
  const bool by_layer = !show->side.named && show->row == NO_ROW && layers_are_vectors(vectors);
  size_t n_bars = 0;
  if (by_layer) {
    n_bars = (size_t)layers->last - (size_t)layers->first + 1;
  } else if (show->side.n_tensors == 1 && show->row == NO_ROW && tensor->n_dims == 2) {
    n_bars = stg_tensor_rows(tensor);
  }
  if (n_bars < 2 || n_bars > STG_LAYER_MAX + 1) {
    return STG_OK;
  }
  struct stg_vectors_bar *bars = stg_arena_alloc(&show->vectors.arena, n_bars, sizeof *bars);
  if (bars == NULL) {
    return stg_arena_status(&show->vectors.arena, reterr);
  }
  for (size_t i = 0; i < n_bars; i++) {
    const int32_t number = (int32_t)i + (by_layer ? layers->first : 0);
    const int32_t index = by_layer ? layers->tensor_of[number] : 0;
    bars[i] = index < 0 ? (struct stg_vectors_bar){.number = number, .missing = true}
                        : bar_of(number, &tensor[index], by_layer ? 0 : i);
  }
  show->bars = bars;
  show->n_bars = n_bars;
  show->bars_of = by_layer ? "layer" : "row";
  return STG_OK;
}

static void json_row(const struct show *show, const struct stg_tensor_info *tensor, size_t row,
                     struct stg_json_out *json) {
  const struct stg_row_facts facts = stg_tensor_row_facts(tensor, row);
  double cosine = 0;
  stg_json_out_open(json, NULL, '{');
  stg_json_out_count(json, "row", row);
  stg_json_out_number(json, "norm", facts.norm);
  stg_json_out_number(json, "max_abs", facts.max_abs);
  stg_json_out_count(json, "non_finite", facts.non_finite);
  if (show->has_cosine && stg_vectors_cosine_of(&show->cosine, &show->side, tensor, row, &cosine)) {
    stg_json_out_number(json, "cosine", cosine);
  } else if (show->has_cosine) {
    stg_json_out_null(json, "cosine");
  }
  stg_json_out_close(json, '}');
}

static void json_tensor(const struct show *show, const struct stg_tensor_info *tensor,
                        struct stg_json_out *json) {
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "name", tensor->name);
  stg_json_out_text(json, "dtype", tensor->dtype_name);
  stg_vectors_json_shape(tensor, json);
  if (tensor->elem != STG_ELEM_NONE) {
    size_t row = 0;
    size_t end = 0;
    stg_json_out_open(json, "rows", '[');
    for (shown_rows(show, tensor, &row, &end); row < end; row++) {
      json_row(show, tensor, row, json);
    }
    stg_json_out_close(json, ']');
  }
  stg_json_out_close(json, '}');
}

/* null where there is no norm; "nan" where an element is not finite. */
static void json_bars(const struct show *show, struct stg_json_out *json) {
  if (show->n_bars == 0) {
    stg_json_out_null(json, "layers");
    return;
  }
  stg_json_out_open(json, "layers", '[');
  for (size_t i = 0; i < show->n_bars; i++) {
    const struct stg_vectors_bar *bar = &show->bars[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_int(json, "layer", bar->number);
    if (bar->missing || bar->unread != NULL) {
      stg_json_out_null(json, "norm");
    } else {
      stg_json_out_number(json, "norm", bar->norm);
    }
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void report_json(const struct show *show, struct stg_strbuf *out) {
  const struct stg_tensor_file *file = &show->vectors.file;
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_vectors_json_head(&show->vectors, &json);
  stg_json_out_open(&json, "metadata", '{');
  for (size_t i = 0; i < file->n_metadata; i++) {
    stg_json_out_text(&json, file->metadata[2 * i], file->metadata[2 * i + 1]);
  }
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "tensors", '[');
  for (size_t i = 0; i < show->side.n_tensors; i++) {
    json_tensor(show, &show->side.tensors[i], &json);
  }
  stg_json_out_close(&json, ']');
  json_bars(show, &json);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void text_rows(const struct show *show, const struct stg_tensor_info *tensor,
                      struct stg_table *table) {
  size_t first = 0;
  size_t end = 0;
  shown_rows(show, tensor, &first, &end);
  for (size_t row = first; row < end; row++) {
    const struct stg_row_facts facts = stg_tensor_row_facts(tensor, row);
    double cosine = 0;
    stg_table_cell(table, row == first ? tensor->name : "");
    stg_table_printf(table, "%zu", row);
    stg_table_printf(table, "%.6g", facts.norm);
    stg_table_printf(table, "%.6g", facts.max_abs);
    stg_table_printf(table, "%" PRIu64, facts.non_finite);
    if (show->has_cosine &&
        stg_vectors_cosine_of(&show->cosine, &show->side, tensor, row, &cosine)) {
      stg_table_printf(table, "%.4f", cosine);
    } else if (show->has_cosine) {
      stg_table_cell(table, "-");
    }
  }
}

/* Tensors that are left out of the table, and what they are. */
static void note_unread(const struct show *show, struct stg_strbuf *out) {
  const struct stg_tensor_info *first = NULL;
  size_t n = 0;
  for (size_t i = 0; i < show->side.n_tensors; i++) {
    const struct stg_tensor_info *tensor = &show->side.tensors[i];
    if (tensor->elem == STG_ELEM_NONE) {
      first = n++ == 0 ? tensor : first;
    }
  }
  if (n > 0) {
    stg_strbuf_printf(out, "%zu tensor%s not shown, whose elements are not read: '", n,
                      n == 1 ? "" : "s");
    stg_report_clean(out, first->name);
    stg_strbuf_printf(out, n == 1 ? "' (%s)\n" : "' (%s), ...\n", first->dtype_name);
  }
}

static void report_text(const struct show *show, size_t max_width, struct stg_strbuf *out) {
  static const char *const header[] = {"tensor", "row", "norm", "max |x|", "non-finite", "cosine"};
  struct stg_table table = {.columns = show->has_cosine ? "lrrrrr" : "lrrrr",
                            .yields = show->has_cosine ? "s..12." : "s..12",
                            .max_width = max_width};
  for (size_t i = 0; i < strlen(table.columns); i++) {
    stg_table_cell(&table, header[i]);
  }
  for (size_t i = 0; i < show->side.n_tensors; i++) {
    if (show->side.tensors[i].elem != STG_ELEM_NONE) {
      text_rows(show, &show->side.tensors[i], &table);
    }
  }
  stg_table_print(&table, out);
  note_unread(show, out);
  if (show->n_bars > 0) {
    stg_vectors_histogram(show->bars_of, show->bars, show->n_bars, max_width, out);
  }
}

/* Open both files. The width goes to the one that is raw, or to both. */
static stg_status open_files(const struct show_options *options, struct show *show,
                             stg_error *reterr) {
  const struct stg_vectors_cosine_options other = {
      .path = options->cosine,
      .tensor = options->cosine_tensor,
      .row = options->cosine_row,
      .width = options->width,
  };
  int64_t width = options->width;
  bool other_is_raw = false;
  stg_status status = STG_OK;
  if (options->cosine != NULL) {
    status = stg_vectors_cosine_open(&other, &show->cosine, reterr);
    show->has_cosine = status == STG_OK;
    other_is_raw = show->has_cosine && show->cosine.vectors.file.format == STG_FILE_RAW;
  }
  if (status == STG_OK && other_is_raw &&
      stg_vectors_open(options->path, 0, &show->vectors, NULL) == STG_OK) {
    return STG_OK;
  }
  return status == STG_OK ? stg_vectors_open(options->path, width, &show->vectors, reterr) : status;
}

static stg_status choose(const struct show_options *options, struct show *show, stg_error *reterr) {
  const struct stg_tensor_file *file = &show->vectors.file;
  show->row = options->row;
  show->side = (struct stg_vectors_side){
      .vectors = &show->vectors, .tensors = file->tensors, .n_tensors = file->n_tensors};
  stg_status status = STG_OK;
  if (options->tensor != NULL) {
    status = stg_tensor_find(file, options->tensor, &show->side.tensors, reterr);
    show->side.n_tensors = 1;
    show->side.named = true;
  }
  if (status == STG_OK) {
    status = check_row(show, reterr);
  }
  if (status == STG_OK && show->has_cosine) {
    status = stg_vectors_cosine_check(&show->cosine, &show->side, reterr);
  }
  return status == STG_OK ? make_bars(show, reterr) : status;
}

static int show_file(const struct show_options *options) {
  struct show show = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = open_files(options, &show, &err);
  if (status == STG_OK) {
    status = choose(options, &show, &err);
  }
  if (status == STG_OK && options->json) {
    report_json(&show, &text);
  } else if (status == STG_OK) {
    report_text(&show, stg_terminal_width(), &text);
  }
  stg_vectors_close(&show.vectors);
  stg_vectors_cosine_close(&show.cosine);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

/* Words that came as text, and those that go together. */
struct show_words {
  const char *row, *width, *cosine_row;
};

static int check_words(const char *command, const struct show_words *words,
                       struct show_options *options) {
  if (options->cosine == NULL && (options->cosine_tensor != NULL || words->cosine_row != NULL)) {
    return stg_report_wrong(command, "%s goes with --cosine FILE",
                            options->cosine_tensor != NULL ? "--cosine-tensor" : "--cosine-row");
  }
  int code = stg_vectors_number(command, "--row", words->row, 0, &options->row);
  if (code == STG_EXIT_DONE) {
    code = stg_vectors_number(command, "--cosine-row", words->cosine_row, 0, &options->cosine_row);
  }
  return code == STG_EXIT_DONE
             ? stg_vectors_number(command, "--width", words->width, 1, &options->width)
             : code;
}

int stg_vectors_cmd_show(int argc, char **argv) {
  struct show_options options = {.row = NO_ROW, .cosine_row = NO_ROW};
  struct show_words words = {0};
  const struct stg_option table[] = {
      {"--row", "N", "this row alone, counted from 0", &words.row, NULL},
      {"--cosine", "FILE", "add the cosine with a vector, or with each layer's, of this file",
       &options.cosine, NULL},
      {"--cosine-tensor", "NAME", "the tensor of that file", &options.cosine_tensor, NULL},
      {"--cosine-row", "N", "the row of that tensor", &words.cosine_row, NULL},
      STG_VECTORS_WIDTH_OPTION(&words.width),
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "vectors show",
      .words = "FILE [TENSOR]",
      .summary = "Show the norm, the largest element and the non-finite count of every row.",
      .details =
          "Norms of layers are drawn as bars. --cosine holds every row against the one vector "
          "that it\nnames, or each layer against the same layer of the other file.",
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
  code = check_words(grammar.name, &words, &options);
  return code == STG_EXIT_DONE ? show_file(&options) : code;
}
