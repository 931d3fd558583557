/*
 * why_miss.c: compare key materials field by field.
 *
 * A material is a list of named fields; a name may repeat (compile options). Fields are matched by
 * name and by their place among those of that name. The signature is compared piece by piece, so
 * that the answer is "hidden=4096 here, hidden=2048 there" and not two long lines.
 */
#include "tools/why_miss.h"

#include <string.h>

#include "runtime/base/key.h"

#define SHORT_VALUE_BYTES 400
#define MAX_FACTORS 64

/* Two materials, and where differences go. `factors` NULL: only count. */
struct comparison {
  const void *here, *there;
  size_t here_size, there_size;
  struct stg_arena *arena;
  struct stg_miss_factor *factors;
  size_t count;
};

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

/* The nth field called `name`. */
static bool find_field(const void *material, size_t size, const char *name, size_t nth,
                       struct stg_material_view *ret) {
  size_t cursor = 0;
  while (stg_material_next(material, size, &cursor, ret)) {
    if (strcmp(ret->name, name) == 0 && nth-- == 0) {
      return true;
    }
  }
  return false;
}

/* How many fields before `end` are called `name`. */
static size_t count_before(const void *material, size_t size, const char *name, size_t end) {
  size_t count = 0;
  size_t cursor = 0;
  struct stg_material_view field;
  while (cursor < end && stg_material_next(material, size, &cursor, &field)) {
    count += cursor < end && strcmp(field.name, name) == 0;
  }
  return count;
}

static size_t first_differing_line(const struct stg_material_view *a,
                                   const struct stg_material_view *b) {
  size_t line = 1;
  for (size_t i = 0; i < a->len && i < b->len && a->value[i] == b->value[i]; i++) {
    line += a->value[i] == '\n';
  }
  return line;
}

static const char *take_text(struct comparison *c, struct stg_strbuf *text) {
  char *kept = stg_arena_strdup(c->arena, stg_strbuf_text(text));
  c->arena->failed = c->arena->failed || text->failed;
  stg_strbuf_finish(text);
  return kept;
}

static void add_factor(struct comparison *c, const char *name, struct stg_strbuf *here,
                       struct stg_strbuf *there) {
  if (c->factors != NULL && c->count < MAX_FACTORS) {
    struct stg_miss_factor *factor = &c->factors[c->count];
    factor->name = stg_arena_strdup(c->arena, name);
    factor->here = take_text(c, here);
    factor->there = take_text(c, there);
  }
  stg_strbuf_finish(here);
  stg_strbuf_finish(there);
  c->count++;
}

/* The piece of a signature at `*cursor`: pieces are separated by blanks, "|" is none. */
static bool next_piece(const struct stg_material_view *field, size_t *cursor,
                       const char **ret_piece, size_t *ret_len) {
  size_t at = *cursor;
  while (at < field->len && (field->value[at] == ' ' || field->value[at] == '|')) {
    at++;
  }
  size_t end = at;
  while (end < field->len && field->value[end] != ' ') {
    end++;
  }
  *ret_piece = field->value + at;
  *ret_len = end - at;
  *cursor = end;
  return end > at;
}

/* Signatures have their pieces in one fixed order: compare place by place. */
static void compare_signatures(struct comparison *c, const struct stg_material_view *a,
                               const struct stg_material_view *b) {
  size_t a_cursor = 0;
  size_t b_cursor = 0;
  for (;;) {
    const char *a_piece = NULL;
    const char *b_piece = NULL;
    size_t a_len = 0;
    size_t b_len = 0;
    bool a_more = next_piece(a, &a_cursor, &a_piece, &a_len);
    bool b_more = next_piece(b, &b_cursor, &b_piece, &b_len);
    if (!a_more && !b_more) {
      return;
    }
    if (a_len == b_len && memcmp(a_piece, b_piece, a_len) == 0) {
      continue;
    }
    struct stg_strbuf here = {0};
    struct stg_strbuf there = {0};
    stg_strbuf_mem(&here, a_piece, a_len);
    stg_strbuf_mem(&there, b_piece, b_len);
    add_factor(c, a->name, &here, &there);
  }
}

static void compare_field(struct comparison *c, const struct stg_material_view *a,
                          const struct stg_material_view *b) {
  if (a != NULL && b != NULL) {
    if (a->len == b->len && memcmp(a->value, b->value, a->len) == 0) {
      return;
    }
    if (strcmp(a->name, "signature") == 0) {
      compare_signatures(c, a, b);
      return;
    }
  }
  size_t line = a != NULL && b != NULL ? first_differing_line(a, b) : 0;
  struct stg_strbuf here = {0};
  struct stg_strbuf there = {0};
  if (a != NULL) {
    stg_factor_describe(a->value, a->len, line, &here);
  } else {
    stg_strbuf_str(&here, "(none)");
  }
  if (b != NULL) {
    stg_factor_describe(b->value, b->len, line, &there);
  } else {
    stg_strbuf_str(&there, "(none)");
  }
  add_factor(c, a != NULL ? a->name : b->name, &here, &there);
}

static void compare_materials(struct comparison *c) {
  struct stg_material_view field;
  struct stg_material_view other;
  size_t cursor = 0;
  while (stg_material_next(c->here, c->here_size, &cursor, &field)) {
    size_t nth = count_before(c->here, c->here_size, field.name, cursor);
    bool found = find_field(c->there, c->there_size, field.name, nth, &other);
    compare_field(c, &field, found ? &other : NULL);
  }
  cursor = 0;
  while (stg_material_next(c->there, c->there_size, &cursor, &field)) {
    size_t nth = count_before(c->there, c->there_size, field.name, cursor);
    if (!find_field(c->here, c->here_size, field.name, nth, &other)) {
      compare_field(c, NULL, &field);
    }
  }
}

static struct comparison comparison_of(const struct stg_explained *kernel,
                                       const stg_cache_entry *entry, struct stg_arena *arena) {
  return (struct comparison){.here = kernel->material,
                             .here_size = kernel->material_size,
                             .there = entry->material,
                             .there_size = entry->material_bytes,
                             .arena = arena};
}

/* The entry that serves the kernel, or else the one with the fewest differing factors. */
static stg_status find_nearest(const struct stg_explained *kernel, stg_cache *cache,
                               struct stg_arena *arena, size_t *ret_index, size_t *ret_distance,
                               stg_error *reterr) {
  size_t nearest = SIZE_MAX;
  size_t distance = SIZE_MAX;
  for (size_t i = 0; i < stg_cache_count(cache) && distance > 0; i++) {
    stg_cache_entry entry;
    stg_status status = stg_cache_get(cache, i, &entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!entry.ok) {
      continue;
    }
    struct comparison c = comparison_of(kernel, &entry, arena);
    compare_materials(&c);
    if (c.count < distance) {
      nearest = i;
      distance = c.count;
    }
  }
  *ret_index = nearest;
  *ret_distance = distance;
  return STG_OK;
}

stg_status stg_why_miss(const struct stg_explained *kernel, stg_cache *cache,
                        struct stg_arena *arena, struct stg_miss *ret_miss, stg_error *reterr) {
  size_t index = 0;
  size_t distance = 0;
  stg_status status = find_nearest(kernel, cache, arena, &index, &distance, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_miss miss = {.hit = distance == 0};
  if (index != SIZE_MAX) {
    stg_cache_entry entry;
    status = stg_cache_get(cache, index, &entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    miss.path = stg_arena_strdup(arena, entry.path);
    miss.key = stg_arena_strdup(arena, entry.key);
    miss.factors = stg_arena_alloc(arena, MAX_FACTORS, sizeof *miss.factors);
    struct comparison c = comparison_of(kernel, &entry, arena);
    c.factors = miss.factors;
    if (miss.factors != NULL) {
      compare_materials(&c);
    }
    miss.n_factors = c.count < MAX_FACTORS ? c.count : MAX_FACTORS;
  }
  status = stg_arena_status(arena, reterr);
  if (status == STG_OK) {
    *ret_miss = miss;
  }
  return status;
}
