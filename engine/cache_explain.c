/*
 * cache_explain.c: which factors make two cache entries two, and what that means.
 *
 * Text lives in an arena of the caller's.
 */
#include "engine/cache_explain.h"

#include <string.h>

#include "engine/cache_compare.h"
#include "engine/cache_words.h"
#include "engine/offline.h"
#include "runtime/kernel.h"

#define SHORT_VALUE_BYTES 400
#define MAX_DIFFERENCES 64

static bool is_short_text(const char *value, size_t len) {
  if (len > SHORT_VALUE_BYTES) {
    return false;
  }
  for (size_t i = 0; i < len; i++) {
    if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f) {
      return false;
    }
  }
  return true;
}

void stg_factor_describe(const char *value, size_t len, size_t differ_line,
                         struct stg_strbuf *ret) {
  if (is_short_text(value, len)) {
    stg_strbuf_mem(ret, value, len);
    return;
  }
  stg_strbuf_printf(ret, "%zu bytes", len);
  if (differ_line > 0) {
    stg_strbuf_printf(ret, ", differs from line %zu on", differ_line);
  }
}

size_t stg_material_distance(const void *here, size_t here_size, const void *there,
                             size_t there_size) {
  const struct stg_key_material a = {here, here_size};
  const struct stg_key_material b = {there, there_size};
  return stg_factors_compare(&a, &b, NULL, 0);
}

static const char *keep(struct stg_arena *arena, struct stg_strbuf *text) {
  char *kept = stg_arena_strdup(arena, stg_strbuf_text(text));
  arena->failed = arena->failed || text->failed;
  stg_strbuf_finish(text);
  return kept;
}

static const char *describe(struct stg_arena *arena, struct stg_factor_value value, size_t line) {
  struct stg_strbuf text = {0};
  if (value.text == NULL) {
    return "(none)";
  }
  stg_factor_describe(value.text, value.len, line, &text);
  return keep(arena, &text);
}

static stg_cache_difference explain(struct stg_arena *arena, const struct stg_factor_difference *d,
                                    const struct stg_words_about *about) {
  struct stg_strbuf words = {0};
  const bool both = d->here.text != NULL && d->there.text != NULL;
  const size_t line = both ? stg_first_differing_line(d->here, d->there) : 0;
  stg_factor_words(d, about, &words);
  return (stg_cache_difference){.factor = stg_arena_strdup(arena, d->name),
                                .here = describe(arena, d->here, line),
                                .there = describe(arena, d->there, line),
                                .words = keep(arena, &words)};
}

static bool is_signature(const struct stg_factor_difference *d) {
  return strcmp(d->name, STG_FIELD_SIGNATURE) == 0 && d->here.text != NULL && d->there.text != NULL;
}

/* A piece of letters alone is the name of a family. */
static bool is_family(struct stg_factor_value piece) {
  size_t letters = 0;
  while (letters < piece.len && piece.text[letters] >= 'a' && piece.text[letters] <= 'z') {
    letters++;
  }
  return letters == piece.len;
}

static bool is_work(struct stg_factor_value piece) {
  const size_t len = strlen("work=");
  return piece.len >= len && memcmp(piece.text, "work=", len) == 0;
}

/* What kernels of two families, or of two works of one, differ in before all: the pieces behind it
 * are not of one another. `count`: there is none. */
static size_t find_kind(const struct stg_factor_difference *found, size_t count) {
  size_t i = 0;
  while (i < count &&
         !(is_signature(&found[i]) && ((is_family(found[i].here) && is_family(found[i].there)) ||
                                       (is_work(found[i].here) && is_work(found[i].there))))) {
    i++;
  }
  return i;
}

/* The compiler is no factor of the key. */
static bool explain_compilers(const stg_cache_entry *here, const stg_cache_entry *there,
                              bool is_one_key, struct stg_arena *arena, stg_cache_difference *ret) {
  struct stg_strbuf words = {0};
  if (here->compiler == NULL || there->compiler == NULL ||
      strcmp(here->compiler, there->compiler) == 0) {
    return false;
  }
  if (is_one_key) {
    stg_strbuf_printf(&words, "the same kernel from two compilers, %s and %s: neither is stale",
                      here->compiler, there->compiler);
  } else {
    stg_strbuf_printf(&words, "compiled by %s here, %s there, which is no factor of the key",
                      here->compiler, there->compiler);
  }
  *ret = (stg_cache_difference){.factor = "compiler",
                                .here = stg_arena_strdup(arena, here->compiler),
                                .there = stg_arena_strdup(arena, there->compiler),
                                .words = keep(arena, &words)};
  return true;
}

stg_status stg_explain_entries(const stg_cache_entry *here, const stg_cache_entry *there,
                               struct stg_arena *arena, const stg_cache_difference **ret,
                               size_t *ret_count, stg_error *reterr) {
  struct stg_factor_difference found[MAX_DIFFERENCES];
  const struct stg_key_material a = {here->material, here->material_bytes};
  const struct stg_key_material b = {there->material, there->material_bytes};
  size_t n_found = stg_factors_compare(&a, &b, found, MAX_DIFFERENCES);
  const bool is_one_key = n_found == 0;
  n_found = n_found < MAX_DIFFERENCES ? n_found : MAX_DIFFERENCES;
  const size_t kind = find_kind(found, n_found);
  struct stg_words_about about = {.here_creator = here->creator,
                                  .there_creator = there->creator,
                                  .kinds_differ = kind < n_found};
  for (size_t i = 0; i < n_found; i++) {
    about.signatures_differ =
        about.signatures_differ || strcmp(found[i].name, STG_FIELD_SIGNATURE) == 0;
  }
  stg_cache_difference *differences = stg_arena_alloc(arena, n_found + 1, sizeof *differences);
  if (differences == NULL) {
    return stg_arena_status(arena, reterr);
  }
  size_t count = 0;
  for (size_t i = 0; i < n_found; i++) {
    if (!about.kinds_differ || i == kind || strcmp(found[i].name, STG_FIELD_SIGNATURE) != 0) {
      differences[count++] = explain(arena, &found[i], &about);
    }
  }
  count += explain_compilers(here, there, is_one_key, arena, &differences[count]);
  stg_status status = stg_arena_status(arena, reterr);
  if (status == STG_OK) {
    *ret = differences;
    *ret_count = count;
  }
  return status;
}
