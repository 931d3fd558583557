/*
 * vectors/provenance.c: the keys of a converted file's metadata, in their order.
 *
 * What the file said of itself stays, behind "gguf." or "source.": a control vector converted is
 * still known for one, with its model and mode.
 */
#include "tools/vectors/provenance.h"

#include <inttypes.h>
#include <string.h>

#include <steergraph/version.h>

#include "runtime/base/file.h"

#define OWN_KEYS 7 /* at most */
#define GGUF_PREFIX "gguf."
#define OTHER_PREFIX "source."

/* The types written, in the words that the report has for them. */
static const struct {
  stg_dtype dtype;
  const char *text;
} targets[] = {{STG_BF16, "BF16"}, {STG_F16, "F16"}, {STG_F32, "F32"}};

#define N_TARGETS (sizeof targets / sizeof targets[0])

void stg_vectors_provenance_note(struct stg_vectors_provenance *provenance, enum stg_elem from,
                                 stg_dtype to) {
  for (uint32_t i = 0; i < N_TARGETS; i++) {
    if (targets[i].dtype == to && stg_elem_dtype(from) != to) {
      provenance->converted[from] |= 1u << i;
    }
  }
}

void stg_vectors_provenance_layer(struct stg_vectors_provenance *provenance, int32_t layer) {
  const bool empty = provenance->n_layers == 0;
  provenance->first = empty || layer < provenance->first ? layer : provenance->first;
  provenance->last = empty || layer > provenance->last ? layer : provenance->last;
  provenance->n_layers++;
}

/* One kind of conversion. F64 comes to 16 bits by way of float32, as a bank's rounding does. */
static void print_conversion(enum stg_elem from, stg_dtype to, const char *to_text,
                             struct stg_strbuf *out) {
  const bool twice = from == STG_ELEM_F64 && to != STG_F32;
  const bool exact = from != STG_ELEM_F64 && to == STG_F32;
  stg_strbuf_printf(out, "%s%s%s to %s, %s", out->len > 0 ? "; " : "", stg_elem_name(from),
                    twice ? " to F32" : "", to_text,
                    exact   ? "exact"
                    : twice ? "each rounded to nearest even"
                            : "rounded to nearest even");
}

static void print_conversions(const struct stg_vectors_provenance *provenance,
                              struct stg_strbuf *out) {
  for (int from = STG_ELEM_NONE + 1; from <= STG_ELEM_F64; from++) {
    for (uint32_t i = 0; i < N_TARGETS; i++) {
      if ((provenance->converted[from] & 1u << i) != 0) {
        print_conversion((enum stg_elem)from, targets[i].dtype, targets[i].text, out);
      }
    }
  }
  stg_strbuf_str(out, out->len == 0 ? "none" : "");
}

static void print_layers(const struct stg_vectors *vectors,
                         const struct stg_vectors_provenance *provenance, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "%d", (int)provenance->first);
  if (provenance->last > provenance->first) {
    stg_strbuf_printf(out, " to %d", (int)provenance->last);
  }
  stg_strbuf_printf(out, " by '%s'", provenance->pattern);
  const size_t span = (size_t)(provenance->last - provenance->first) + 1;
  if (provenance->n_layers < span) {
    stg_strbuf_printf(out, ", %zu missing", span - provenance->n_layers);
  }
  stg_strbuf_str(out, stg_vectors_block_rule(vectors, provenance->first));
}

/* Add a pair, of texts that are copied. */
static void add(struct stg_vectors_output *output, const char *prefix, const char *key,
                const char *value) {
  struct stg_strbuf full = {0};
  stg_strbuf_printf(&full, "%s%s", prefix, key);
  output->arena.failed = output->arena.failed || full.failed;
  output->metadata[2 * output->n_metadata] =
      stg_arena_strdup(&output->arena, stg_strbuf_text(&full));
  output->metadata[2 * output->n_metadata + 1] = stg_arena_strdup(&output->arena, value);
  output->n_metadata++;
  stg_strbuf_finish(&full);
}

static void add_text(struct stg_vectors_output *output, const char *key, struct stg_strbuf *text) {
  output->arena.failed = output->arena.failed || text->failed;
  add(output, "", key, stg_strbuf_text(text));
  stg_strbuf_finish(text);
}

static void add_source(const struct stg_vectors *vectors, struct stg_vectors_output *output) {
  const struct stg_tensor_file *file = &vectors->file;
  char hex[STG_KEY_HEX_CHARS + 1];
  struct stg_strbuf size = {0};
  stg_key_hex(stg_tensor_file_key(file), hex);
  stg_strbuf_printf(&size, "%zu", file->size);
  add(output, "", "steergraph", STEERGRAPH_VERSION_STRING);
  add(output, "", "source", stg_path_name(file->path));
  add(output, "", "source_format", file->format_text);
  add_text(output, "source_bytes", &size);
  add(output, "", "source_xxh3", hex);
}

stg_status stg_vectors_provenance_print(const struct stg_vectors *vectors,
                                        const struct stg_vectors_provenance *provenance,
                                        struct stg_vectors_output *output, stg_error *reterr) {
  const struct stg_tensor_file *file = &vectors->file;
  struct stg_strbuf text = {0};
  output->metadata =
      stg_arena_alloc(&output->arena, 2 * (OWN_KEYS + file->n_metadata), sizeof *output->metadata);
  if (output->metadata == NULL) {
    return stg_arena_status(&output->arena, reterr);
  }
  add_source(vectors, output);
  print_conversions(provenance, &text);
  add_text(output, "conversion", &text);
  output->conversion = output->metadata[2 * output->n_metadata - 1];
  if (provenance->n_layers > 0) {
    print_layers(vectors, provenance, &text);
    add_text(output, "layers", &text);
  }
  for (size_t i = 0; i < file->n_metadata; i++) {
    const char *key = file->metadata[2 * i];
    const bool known = strncmp(key, GGUF_PREFIX, strlen(GGUF_PREFIX)) == 0;
    add(output,
        file->format == STG_FILE_GGUF ? GGUF_PREFIX
        : known                       ? ""
                                      : OTHER_PREFIX,
        key, file->metadata[2 * i + 1]);
  }
  return stg_arena_status(&output->arena, reterr);
}
