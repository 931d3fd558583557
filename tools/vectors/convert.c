/*
 * vectors/convert.c: `steergraph vectors convert FILE -o OUT.safetensors`: vectors of any format
 * as safetensors, with where they come from in the metadata.
 *
 * The output is written as a whole or not at all, and never over the file that is read.
 */
#include <inttypes.h>

#include "runtime/base/dtype.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/run_output.h"
#include "tools/vectors/command.h"
#include "tools/vectors/facts.h"
#include "tools/vectors/output.h"

#define MAX_TENSORS 4096

struct convert_options {
  const char *path;
  const char *output;
  const char *dtype; /* NULL: as stored */
  int64_t width;
  struct stg_vectors_output_options make;
  bool json;
};

static void report_json(const struct convert_options *options, const struct stg_vectors *vectors,
                        const struct stg_vectors_output *output, uint64_t size_bytes,
                        struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "output", options->output);
  stg_json_out_count(&json, "output_bytes", size_bytes);
  stg_vectors_json_head(vectors, &json);
  stg_json_out_text(&json, "conversion", output->conversion);
  stg_json_out_count(&json, "non_finite", output->non_finite);
  stg_json_out_open(&json, "tensors", '[');
  for (size_t i = 0; i < output->n_tensors; i++) {
    const struct stg_tensor_out *tensor = &output->tensors[i];
    stg_json_out_open(&json, NULL, '{');
    stg_json_out_text(&json, "name", tensor->name);
    stg_json_out_text(&json, "dtype", stg_dtype_name(tensor->dtype));
    stg_json_out_open(&json, "shape", '[');
    for (uint32_t k = 0; k < tensor->n_dims; k++) {
      stg_json_out_int(&json, NULL, tensor->shape[k]);
    }
    stg_json_out_close(&json, ']');
    stg_json_out_close(&json, '}');
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void report_text(const struct convert_options *options, const struct stg_vectors *vectors,
                        const struct stg_vectors_output *output, uint64_t size_bytes,
                        struct stg_strbuf *out) {
  stg_report_clean(out, options->output);
  stg_strbuf_printf(out, ": %zu tensor%s, ", output->n_tensors, output->n_tensors == 1 ? "" : "s");
  stg_strbuf_bytes(out, size_bytes);
  stg_strbuf_str(out, ", from ");
  stg_report_clean(out, options->path);
  stg_strbuf_printf(out, " (%s)", vectors->file.format_text);
  if (output->non_finite > 0) {
    stg_strbuf_printf(out, ", %" PRIu64 " non-finite", output->non_finite);
  }
  stg_strbuf_char(out, '\n');
}

/* Write the tensors, and report on the file that is there then. */
static stg_status write_output(const struct convert_options *options,
                               const struct stg_vectors *vectors,
                               const struct stg_vectors_output *output, struct stg_strbuf *ret_text,
                               stg_error *reterr) {
  struct stg_file_map written = {0};
  stg_status status = stg_safetensors_write(options->output, output->tensors, output->n_tensors,
                                            output->metadata, output->n_metadata, reterr);
  if (status == STG_OK) {
    status = stg_file_map(options->output, &written, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  (options->json ? report_json : report_text)(options, vectors, output, written.size, ret_text);
  stg_file_unmap(&written);
  return STG_OK;
}

static int convert(const struct convert_options *options) {
  struct stg_vectors vectors = {0};
  struct stg_vectors_output output = {0};
  struct stg_strbuf text = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_run_output_check_file(options->path, "-o", options->output, &err);
  if (status == STG_OK) {
    status = stg_vectors_open(options->path, options->width, &vectors, &err);
  }
  if (status == STG_OK) {
    status = stg_vectors_output_make(&vectors, &options->make, &output, &err);
  }
  if (status == STG_OK) {
    status = write_output(options, &vectors, &output, &text, &err);
  }
  stg_vectors_output_free(&output);
  stg_vectors_close(&vectors);
  int code = status == STG_OK ? stg_report_print(&text) : stg_report_fail(&err);
  stg_strbuf_finish(&text);
  return code;
}

int stg_vectors_cmd_convert(int argc, char **argv) {
  struct convert_options options = {0};
  const char *width_word = NULL;
  const struct stg_option table[] = {
      {"-o", "OUT.safetensors", "the file to write", &options.output, NULL},
      {"--dtype", "f32|f16|bf16", "of all tensors; else as stored, float64 as f32", &options.dtype,
       NULL},
      {"--name", "PATTERN", "names of the tensors, {} for the layer: 'layer.{}'",
       &options.make.name, NULL},
      STG_VECTORS_WIDTH_OPTION(&width_word),
      {"--json", NULL, "print one JSON object", NULL, &options.json},
  };
  const struct stg_grammar grammar = {
      .name = "vectors convert",
      .words = "FILE [TENSOR...]",
      .summary = "Write the tensors of a vector file, or those named, as safetensors.",
      .details = "Layers keep their numbers. The metadata say which file it was, and what was done "
                 "to it.",
      .min_words = 1,
      .max_words = 1 + MAX_TENSORS,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t n_words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &n_words, &code) != STG_PARSED_OK) {
    return code;
  }
  if (options.output == NULL) {
    return stg_report_wrong(grammar.name, "-o is missing: the file to write");
  }
  options.path = argv[1];
  options.make.tensors = argv + 2;
  options.make.n_tensors = n_words - 1;
  if (options.dtype != NULL && !stg_dtype_parse(options.dtype, &options.make.dtype)) {
    return stg_report_wrong(grammar.name, "--dtype '%s'", options.dtype);
  }
  code = stg_vectors_number(grammar.name, "--width", width_word, 1, &options.width);
  return code == STG_EXIT_DONE ? convert(&options) : code;
}
