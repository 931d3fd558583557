/*
 * vectors/facts.c: open a vector file and find out what it says, once for all subcommands.
 */
#include "tools/vectors/facts.h"

#include <stdlib.h>
#include <string.h>

#include "specs/control_plan.h"
#include "tools/command.h"
#include "tools/report.h"

#define MAX_DIGITS 9
#define MISSING_NAMED 8 /* of a long list of layers the first */

int stg_vectors_number(const char *command, const char *option, const char *word, int64_t least,
                       int64_t *ret_number) {
  if (word == NULL) {
    return STG_EXIT_DONE;
  }
  const size_t digits = strspn(word, "0123456789");
  const bool read = digits > 0 && digits <= MAX_DIGITS && word[digits] == '\0';
  const int64_t number = read ? (int64_t)strtol(word, NULL, 10) : -1;
  if (number < least) {
    return stg_report_wrong(command, "%s '%s': expected a number, %d to 999999999", option, word,
                            (int)least);
  }
  *ret_number = number;
  return STG_EXIT_DONE;
}

/* What the file says of itself. Values that are none are no reason not to look into it. */
static stg_status read_facts(struct stg_vectors *vectors, stg_error *reterr) {
  if (stg_control_read(&vectors->file, &vectors->control, &vectors->not_said) != STG_OK) {
    vectors->control = (struct stg_control_facts){.layer_count = -1};
  }
  return stg_layers_find(&vectors->file, &vectors->arena, &vectors->layers, reterr);
}

stg_status stg_vectors_open(const char *path, int64_t width, struct stg_vectors *ret_vectors,
                            stg_error *reterr) {
  const struct stg_tensor_hint hint = {.width_elems = width};
  struct stg_vectors vectors = {.not_said = STG_ERROR_INIT};
  if (width > 0 && stg_tensor_file_open(path, NULL, &vectors.file, NULL) == STG_OK) {
    stg_status status = stg_error_set(reterr, STG_E_INVALID,
                                      "'%s' is %s, and --width goes with a raw file; leave it out",
                                      path, vectors.file.format_text);
    stg_tensor_file_close(&vectors.file);
    return status;
  }
  stg_status status = stg_tensor_file_open(path, &hint, &vectors.file, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = read_facts(&vectors, reterr);
  if (status != STG_OK) {
    stg_vectors_close(&vectors);
    return status;
  }
  *ret_vectors = vectors;
  return STG_OK;
}

void stg_vectors_close(struct stg_vectors *vectors) {
  stg_tensor_file_close(&vectors->file);
  stg_arena_finish(&vectors->arena);
  *vectors = (struct stg_vectors){0};
}

int32_t stg_vectors_layer_of(const struct stg_vectors *vectors,
                             const struct stg_tensor_info *tensor) {
  return vectors->layers.pattern != NULL ? stg_layer_of(vectors->layers.pattern, tensor->name) : -1;
}

/* ", none missing", or the first that are. */
static void print_missing(const struct stg_layer_map *layers, struct stg_strbuf *out) {
  if (layers->missing == 0) {
    stg_strbuf_str(out, ", none missing");
    return;
  }
  size_t named = 0;
  for (int32_t layer = layers->first; layer <= layers->last && named < MISSING_NAMED; layer++) {
    if (layers->tensor_of[layer] < 0) {
      stg_strbuf_printf(out, named == 0 ? ", missing %d" : " %d", (int)layer);
      named++;
    }
  }
  if (named < layers->missing) {
    stg_strbuf_printf(out, " and %zu more", layers->missing - named);
  }
}

void stg_vectors_print_layers(const struct stg_vectors *vectors, struct stg_strbuf *out) {
  const struct stg_layer_map *layers = &vectors->layers;
  if (layers->present == 0) {
    return;
  }
  stg_strbuf_printf(out, "%d to %d by ", (int)layers->first, (int)layers->last);
  if (layers->pattern == NULL) {
    stg_strbuf_str(out, "row");
    return;
  }
  stg_strbuf_printf(out, "'%s'", layers->pattern);
  print_missing(layers, out);
}

const char *stg_vectors_block_rule(const struct stg_vectors *vectors, int32_t first) {
  if (!vectors->control.declared) {
    return "";
  }
  return first < STG_CONTROL_FIRST_BLOCK
             ? "; N acts at block N, but block 0 is never steered by a control vector"
             : "; N acts at block N";
}

void stg_vectors_json_head(const struct stg_vectors *vectors, struct stg_json_out *json) {
  stg_json_out_text(json, "file", vectors->file.path);
  stg_json_out_text(json, "format", vectors->file.format_text);
  stg_json_out_count(json, "size_bytes", vectors->file.size);
}

void stg_vectors_json_shape(const struct stg_tensor_info *tensor, struct stg_json_out *json) {
  stg_json_out_open(json, "shape", '[');
  for (uint32_t i = 0; i < tensor->n_dims; i++) {
    stg_json_out_int(json, NULL, tensor->shape[i]);
  }
  stg_json_out_close(json, ']');
}
