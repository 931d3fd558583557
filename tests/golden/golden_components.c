/*
 * golden_components.c: the text of a kernel of the components family, from what a name spells.
 */
#include "tests/golden/golden.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/components_text.h"
#include "runtime/base/dtype.h"

/* Cut off the word before the next dash or plus. */
static bool take(const char **name, const char **ret_word, size_t *ret_len) {
  const size_t len = strcspn(*name, "-+");
  *ret_word = *name;
  *ret_len = len;
  *name += len + ((*name)[len] != '\0' ? 1 : 0);
  return len > 0;
}

/* "t128" -> 128, for the letters "t". */
static bool take_number(const char **name, const char *letters, uint32_t *ret) {
  const char *word = NULL;
  size_t len = 0;
  char *end = NULL;
  const size_t before = strlen(letters);
  if (!take(name, &word, &len) || len <= before || strncmp(word, letters, before) != 0 ||
      word[before] < '0' || word[before] > '9') {
    return false;
  }
  *ret = (uint32_t)strtoul(word + before, &end, 10);
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

/* "own16x32": a warp has 16 rows, and makes 32 columns of their intermediate at once. */
static bool take_own(const char **name, struct stg_components_choice *ret) {
  char *end = NULL;
  if (strncmp(*name, "own", 3) != 0) {
    return false;
  }
  ret->rows = (uint32_t)strtoul(*name + 3, &end, 10);
  if (*end != 'x') {
    return false;
  }
  ret->columns = (uint32_t)strtoul(end + 1, &end, 10);
  *name = end + (*end != '\0' ? 1 : 0);
  return true;
}

/* What is not as usual: "turned+delta". */
static bool take_features(const char **name, struct stg_components_kernel *ret) {
  static const char *const words[] = {"turned", "bias", "delta"};
  int which = 0;
  while (**name != '\0') {
    if (take_own(name, &ret->choice)) {
      continue;
    }
    if (!take_choice(name, words, 3, &which)) {
      return false;
    }
    ret->turned = ret->turned || which == 0;
    ret->geometry.bias = ret->geometry.bias || which == 1;
    ret->geometry.delta = ret->geometry.delta || which == 2;
  }
  return true;
}

static bool take_dtype(const char **name, struct stg_components_geometry *ret) {
  static const char *const words[] = {"bf16", "f16", "f32", "tf32"};
  int which = 0;
  if (!take_choice(name, words, 4, &which)) {
    return false;
  }
  ret->tf32 = which == 3;
  return stg_dtype_parse(words[ret->tf32 ? 2 : which], &ret->dtype);
}

/* What apply and weights have, and sum has not. */
static bool take_device(const char **name, struct stg_components_kernel *ret) {
  static const char *const masks[] = {"none", "elements", "bool"};
  int mask = 0;
  if (!take_choice(name, masks, 3, &mask) ||
      (ret->work == STG_COMPONENTS_APPLY && !take_number(name, "t", &ret->tile)) ||
      !take_number(name, "sm", &ret->sm)) {
    return false;
  }
  ret->geometry.mask = (enum stg_components_mask)mask;
  return true;
}

static stg_status parse_kernel(const char *name, struct stg_components_kernel *ret,
                               stg_error *reterr) {
  static const char *const works[] = {"apply", "weights", "sum"};
  struct stg_components_kernel kernel = {0};
  struct stg_components_geometry *g = &kernel.geometry;
  const char *at = name;
  int work = 0;
  bool known = take_choice(&at, works, 3, &work) && take_number(&at, "i", &g->d_in) &&
               take_number(&at, "c", &g->components) && take_number(&at, "o", &g->d_out) &&
               take_dtype(&at, g);
  kernel.work = (enum stg_components_work)work;
  if (known && kernel.work != STG_COMPONENTS_SUM) {
    known = take_device(&at, &kernel);
  }
  if (!known || !take_features(&at, &kernel)) {
    return stg_error_set(reterr, STG_E_INVALID, "'%s' is no kernel of components: '%s'", name, at);
  }
  *ret = kernel;
  return STG_OK;
}

stg_status golden_components(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                             stg_error *reterr) {
  (void)arena;
  struct stg_components_kernel kernel;
  struct stg_launch_rule rule;
  struct stg_strbuf source = {0};
  stg_status status = parse_kernel(name, &kernel, reterr);
  if (status == STG_OK) {
    status = stg_components_generate(&kernel, &source, &rule, reterr);
  }
  if (status == STG_OK) {
    stg_strbuf_printf(out, "// launch: threads %u, rows_per_block %u, stage_bytes %u\n",
                      rule.threads, rule.rows_per_block, rule.stage_bytes);
    stg_strbuf_str(out, stg_strbuf_text(&source));
  }
  stg_strbuf_finish(&source);
  return status;
}
