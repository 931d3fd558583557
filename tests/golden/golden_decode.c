/*
 * golden_decode.c: the text of a decode kernel, from the geometry that a name spells.
 */
#include "tests/golden/golden.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/decode_kernel.h"
#include "runtime/base/dtype.h"

/* "paged", or with what the kernel is made for besides: "paged+window+mask+loose". */
static bool parse_cache(const char *text, struct stg_decode_geometry *geometry) {
  const size_t len = strcspn(text, "+");
  geometry->paged = len == 5 && strncmp(text, "paged", len) == 0;
  if (!geometry->paged && (len != 5 || strncmp(text, "dense", len) != 0)) {
    return false;
  }
  const char *features = text + len;
  geometry->windowed = strncmp(features, "+window", 7) == 0;
  features += geometry->windowed ? 7 : 0;
  geometry->masked = strncmp(features, "+mask", 5) == 0;
  features += geometry->masked ? 5 : 0;
  geometry->loose = strcmp(features, "+loose") == 0;
  return geometry->loose || *features == '\0';
}

/* "q32-": the number behind the letters. */
static bool take_number(const char **at, const char *letters, uint32_t *ret) {
  const size_t len = strlen(letters);
  char *end = NULL;
  if (strncmp(*at, letters, len) != 0 || (*at)[len] < '0' || (*at)[len] > '9') {
    return false;
  }
  *ret = (uint32_t)strtoul(*at + len, &end, 10);
  *at = end + 1;
  return *end == '-';
}

/* What stands before the next dash. */
static bool take_word(const char **at, char *word, size_t size) {
  const size_t len = strcspn(*at, "-");
  if (len >= size || (*at)[len] != '-') {
    return false;
  }
  memcpy(word, *at, len);
  word[len] = '\0';
  *at += len + 1;
  return true;
}

stg_status golden_decode_geometry(const char *name, struct stg_decode_geometry *ret,
                                  stg_error *reterr) {
  struct stg_decode_geometry geometry = {0};
  char dtype[8];
  char cache[32];
  const char *at = name;
  if (!take_number(&at, "q", &geometry.heads) || !take_number(&at, "k", &geometry.kv_heads) ||
      !take_number(&at, "d", &geometry.dim) || !take_word(&at, dtype, sizeof dtype) ||
      !take_word(&at, cache, sizeof cache) || !take_number(&at, "c", &geometry.chunk) ||
      !stg_dtype_parse(dtype, &geometry.dtype) || !parse_cache(cache, &geometry) ||
      (strcmp(at, "rows") != 0 && strcmp(at, "heads") != 0)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "'%s' is not of the form q32-k8-d128-bf16-paged+window+mask-c128-rows",
                         name);
  }
  geometry.order = strcmp(at, "heads") == 0 ? STG_HEADS_HEADS_FIRST : STG_HEADS_ROWS_FIRST;
  *ret = geometry;
  return STG_OK;
}

stg_status golden_decode(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                         stg_error *reterr) {
  (void)arena;
  struct stg_decode_geometry geometry;
  struct stg_launch_rule rule;
  struct stg_strbuf source = {0};
  stg_status status = golden_decode_geometry(name, &geometry, reterr);
  if (status == STG_OK) {
    status = stg_decode_generate(&geometry, &source, &rule, reterr);
  }
  if (status == STG_OK) {
    stg_strbuf_printf(out, "// launch: threads %u, rows_per_block %u, stage_bytes %u\n",
                      rule.threads, rule.rows_per_block, rule.stage_bytes);
    stg_strbuf_str(out, stg_strbuf_text(&source));
  }
  stg_strbuf_finish(&source);
  return status;
}
