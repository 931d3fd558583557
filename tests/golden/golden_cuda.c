/*
 * golden_cuda.c: the text of a steer kernel, from the geometry that a name spells.
 */
#include "tests/golden/golden.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/steer.h"
#include "runtime/base/dtype.h"

enum part { PART_HIDDEN, PART_DTYPE, PART_BANK, PART_STATE, PART_TURNS, PART_OPS, PARTS };

/* "h4096" -> 4096, for the letter 'h'. */
static bool parse_number(const char *text, char letter, int64_t *ret) {
  char *end = NULL;
  if (text[0] != letter || text[1] < '0' || text[1] > '9') {
    return false;
  }
  *ret = strtoll(text + 1, &end, 10);
  return *end == '\0';
}

/* Cut the name at its first five dashes: op names have none. */
static bool split(struct stg_arena *arena, const char *name, const char *ret_parts[PARTS]) {
  for (int i = 0; i < PARTS; i++) {
    size_t len = i + 1 < PARTS ? strcspn(name, "-") : strlen(name);
    ret_parts[i] = stg_arena_strndup(arena, name, len);
    if (ret_parts[i] == NULL || (i + 1 < PARTS && name[len] == '\0')) {
      return false;
    }
    name += len + 1;
  }
  return true;
}

/* "pair", or with what the table declares besides: "pair+windows". */
static bool parse_state(const char *text, struct stg_steer_geometry *geometry) {
  const struct {
    const char *name;
    bool *flag;
  } features[] = {{"+windows", &geometry->windows},
                  {"+probes", &geometry->probes},
                  {"+counters", &geometry->counters}};
  const size_t len = strcspn(text, "+");
  geometry->epilogue = len == 4 && strncmp(text, "norm", len) == 0;
  geometry->pair = geometry->epilogue || (len == 4 && strncmp(text, "pair", len) == 0);
  bool known = geometry->pair || (len == 6 && strncmp(text, "hidden", len) == 0);
  for (const char *at = text + len; *at != '\0' && known;) {
    known = false;
    for (size_t i = 0; i < sizeof features / sizeof features[0] && !known; i++) {
      const size_t n = strlen(features[i].name);
      if (strncmp(at, features[i].name, n) == 0) {
        *features[i].flag = true;
        at += n;
        known = true;
      }
    }
  }
  return known;
}

static stg_status parse_geometry(struct stg_arena *arena, const char *name,
                                 struct stg_steer_geometry *ret, const char **ret_ops,
                                 stg_error *reterr) {
  const char *parts[PARTS] = {0};
  struct stg_steer_geometry geometry = {0};
  int64_t turns = 0;
  if (!split(arena, name, parts) || !parse_number(parts[PART_HIDDEN], 'h', &geometry.hidden_size) ||
      !stg_dtype_parse(parts[PART_DTYPE], &geometry.dtype) ||
      !stg_dtype_parse(parts[PART_BANK], &geometry.bank_dtype) ||
      !parse_number(parts[PART_TURNS], 't', &turns) || turns > UINT32_MAX) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "'%s' is not of the form h4096-bf16-f32-pair-t2-add+swap", name);
  }
  if (!parse_state(parts[PART_STATE], &geometry)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "state '%s' is none of hidden, pair and norm, with features after '+'",
                         parts[PART_STATE]);
  }
  geometry.turns = (uint32_t)turns;
  *ret = geometry;
  *ret_ops = parts[PART_OPS];
  return STG_OK;
}

/* "all" has ops that a table without probes cannot have. */
static size_t drop_outputs(const struct stg_op **ops, size_t n_ops, bool probes) {
  size_t n = 0;
  for (size_t i = 0; i < n_ops; i++) {
    if (probes || !ops[i]->has_output) {
      ops[n++] = ops[i];
    }
  }
  return n;
}

stg_status golden_geometry(struct stg_arena *arena, const char *name,
                           struct stg_steer_geometry *ret, stg_error *reterr) {
  const struct stg_op **ops = stg_arena_alloc(arena, STG_CHAIN_MAX_OPS, sizeof(struct stg_op *));
  const char *op_names = NULL;
  struct stg_steer_geometry geometry;
  if (ops == NULL) {
    return stg_arena_status(arena, reterr);
  }
  stg_status status = parse_geometry(arena, name, &geometry, &op_names, reterr);
  if (status == STG_OK) {
    status = golden_ops(arena, op_names, ops, &geometry.n_ops, reterr);
  }
  if (status == STG_OK) {
    geometry.n_ops = drop_outputs(ops, geometry.n_ops, geometry.probes);
    qsort(ops, geometry.n_ops, sizeof ops[0], stg_op_compare);
    geometry.ops = ops;
    *ret = geometry;
  }
  return status;
}

stg_status golden_cuda(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                       stg_error *reterr) {
  struct stg_steer_geometry geometry;
  struct stg_launch_rule rule;
  struct stg_strbuf source = {0};
  stg_status status = golden_geometry(arena, name, &geometry, reterr);
  if (status == STG_OK) {
    status = stg_steer_generate(&geometry, &source, &rule, reterr);
  }
  if (status == STG_OK) {
    stg_strbuf_printf(out, "// launch: threads %u, rows_per_block %u\n", rule.threads,
                      rule.rows_per_block);
    stg_strbuf_str(out, stg_strbuf_text(&source));
  }
  stg_strbuf_finish(&source);
  return status;
}
