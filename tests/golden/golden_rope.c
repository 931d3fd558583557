/*
 * golden_rope.c: the text of a kernel of the rope family, from what a name spells.
 */
#include "tests/golden/golden.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/rope_text.h"
#include "runtime/base/dtype.h"

/* Cut off the word before the next dash or plus; false: there is none. */
static bool take(const char **name, const char **ret_word, size_t *ret_len) {
  const size_t len = strcspn(*name, "-+");
  *ret_word = *name;
  *ret_len = len;
  *name += len + ((*name)[len] != '\0' ? 1 : 0);
  return len > 0;
}

/* "h32" -> 32, for the letter 'h'. */
static bool take_number(const char **name, char letter, uint32_t *ret) {
  const char *word = NULL;
  size_t len = 0;
  char *end = NULL;
  if (!take(name, &word, &len) || word[0] != letter || word[1] < '0' || word[1] > '9') {
    return false;
  }
  *ret = (uint32_t)strtoul(word + 1, &end, 10);
  return end == word + len;
}

/* The place of a word in a list. */
static bool take_choice(const char **name, const char *const *words, int n, int *ret) {
  const char *word = NULL;
  size_t len = 0;
  if (!take(name, &word, &len)) {
    return false;
  }
  for (int i = 0; i < n; i++) {
    if (strlen(words[i]) == len && strncmp(words[i], word, len) == 0) {
      *ret = i;
      return true;
    }
  }
  return false;
}

static bool take_dtype(const char **name, stg_dtype *ret) {
  static const char *const words[] = {"bf16", "f16", "f32"};
  int which = 0;
  return take_choice(name, words, 3, &which) && stg_dtype_parse(words[which], ret);
}

/* What is not as usual: "each_op+table". */
static bool take_features(const char **name, struct stg_rope_kernel *ret) {
  static const char *const words[] = {"backward", "each_op", "heads_first", "swapped",
                                      "table",    "trig",    "xpos_halves", "xpos_pairs"};
  struct stg_rope_geometry *g = &ret->geometry;
  int which = 0;
  while (**name != '\0') {
    if (!take_choice(name, words, 8, &which)) {
      return false;
    }
    ret->backward = ret->backward || which == 0;
    g->round = which == 1 ? STG_ROPE_ROUND_EACH_OP : g->round;
    g->order = which == 2 ? STG_HEADS_HEADS_FIRST : g->order;
    g->trig = which == 3 ? STG_ROPE_TRIG_SWAPPED_BF16 : which == 5 ? STG_ROPE_TRIG_DTYPE : g->trig;
    ret->table = ret->table || which == 4;
    g->xpos = which == 6 ? STG_ROPE_XPOS_HALVES : which == 7 ? STG_ROPE_XPOS_PAIRS : g->xpos;
  }
  return true;
}

static bool take_rotation(const char **name, struct stg_rope_kernel *ret) {
  static const char *const layouts[] = {"concat", "interleaved", "grouped", "head_fastest"};
  static const char *const pairs[] = {"half", "interleaved"};
  static const char *const sinks[] = {"out", "dense", "paged"};
  struct stg_rope_geometry *g = &ret->geometry;
  int layout = 0;
  int pair = 0;
  int sink = 0;
  if (!take_number(name, 'h', &g->heads) || !take_number(name, 'k', &g->kv_heads) ||
      !take_number(name, 'd', &g->dim) || !take_number(name, 'r', &g->rot) ||
      !take_dtype(name, &g->dtype) || !take_choice(name, layouts, 4, &layout) ||
      !take_choice(name, pairs, 2, &pair) || !take_choice(name, sinks, 3, &sink)) {
    return false;
  }
  g->layout = (enum stg_rope_layout)layout;
  g->pairs = (enum stg_rope_pairs)pair;
  ret->sink = (enum stg_rope_sink)sink;
  return take_features(name, ret);
}

static stg_status parse_kernel(const char *name, struct stg_rope_kernel *ret, stg_error *reterr) {
  static const char *const works[] = {"rotate", "transpose", "advance"};
  struct stg_rope_kernel kernel = {0};
  const char *at = name;
  int work = 0;
  bool known = take_choice(&at, works, 3, &work);
  kernel.work = (enum stg_rope_work)work;
  if (known && kernel.work == STG_ROPE_ROTATE) {
    known = take_rotation(&at, &kernel);
  } else if (known && kernel.work == STG_ROPE_TRANSPOSE) {
    known = take_number(&at, 'd', &kernel.geometry.dim) && take_dtype(&at, &kernel.geometry.dtype);
  }
  if (!known || *at != '\0') {
    return stg_error_set(reterr, STG_E_INVALID, "'%s' is no kernel of rope: '%s' is not known",
                         name, at);
  }
  *ret = kernel;
  return STG_OK;
}

stg_status golden_rope(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                       stg_error *reterr) {
  (void)arena;
  struct stg_rope_kernel kernel;
  struct stg_launch_rule rule;
  struct stg_strbuf source = {0};
  stg_status status = parse_kernel(name, &kernel, reterr);
  if (status == STG_OK) {
    status = stg_rope_generate(&kernel, &source, &rule, reterr);
  }
  if (status == STG_OK) {
    stg_strbuf_printf(out, "// launch: threads %u, rows_per_block %u\n", rule.threads,
                      rule.rows_per_block);
    stg_strbuf_str(out, stg_strbuf_text(&source));
  }
  stg_strbuf_finish(&source);
  return status;
}
