/*
 * golden_decode.c: the text of a decode kernel, from the geometry that a name spells.
 */
#include "tests/golden/golden.h"

#include <stdio.h>
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

stg_status golden_decode_geometry(const char *name, struct stg_decode_geometry *ret,
                                  stg_error *reterr) {
  struct stg_decode_geometry geometry = {0};
  char dtype[8];
  char cache[32];
  char order[8];
  int end = 0;
  /* NOLINTNEXTLINE(cert-err34-c): numbers that are out of range give a kernel that is not held */
  const int n =
      sscanf(name, "q%u-k%u-d%u-%7[a-z0-9]-%31[a-z+]-c%u-%7[a-z]%n", &geometry.heads,
             &geometry.kv_heads, &geometry.dim, dtype, cache, &geometry.chunk, order, &end);
  const bool heads_first = n == 7 && strcmp(order, "heads") == 0;
  if (n != 7 || name[end] != '\0' || !stg_dtype_parse(dtype, &geometry.dtype) ||
      !parse_cache(cache, &geometry) || (!heads_first && strcmp(order, "rows") != 0)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "'%s' is not of the form q32-k8-d128-bf16-paged+window+mask-c128-rows",
                         name);
  }
  geometry.order = heads_first ? STG_HEADS_HEADS_FIRST : STG_HEADS_ROWS_FIRST;
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
