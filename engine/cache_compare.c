/*
 * cache_compare.c: compare key materials field by field.
 *
 * A material is a list of named fields; a name may repeat (compile options). The signature is
 * compared piece by piece, so that the answer is "hidden=4096 here, hidden=2048 there" and not two
 * long lines. Allocates nothing, for walks over many entries. Must not know what a factor means.
 */
#include "engine/cache_compare.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/base/key.h"
#include "runtime/kernel.h"

struct comparison {
  const struct stg_key_material *here, *there;
  struct stg_factor_difference *ret;
  size_t capacity, count;
};

static void add(struct comparison *c, const char *name, struct stg_factor_value here,
                struct stg_factor_value there) {
  if (c->count < c->capacity) {
    c->ret[c->count] = (struct stg_factor_difference){name, here, there};
  }
  c->count++;
}

static struct stg_factor_value value_of(const struct stg_material_view *field) {
  return (struct stg_factor_value){field->value, field->len};
}

static bool same(struct stg_factor_value a, struct stg_factor_value b) {
  return a.text != NULL && b.text != NULL && a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

/* The nth field called `name`; no text when there are fewer. */
static struct stg_factor_value field_at(const struct stg_key_material *material, const char *name,
                                        size_t nth) {
  size_t cursor = 0;
  struct stg_material_view field;
  while (stg_material_next(material->bytes, material->size, &cursor, &field)) {
    if (strcmp(field.name, name) == 0 && nth-- == 0) {
      return value_of(&field);
    }
  }
  return (struct stg_factor_value){NULL, 0};
}

/* The piece of a signature at `*cursor`: pieces are separated by blanks, "|" is none. */
static struct stg_factor_value next_piece(struct stg_factor_value signature, size_t *cursor) {
  size_t at = *cursor;
  while (at < signature.len && (signature.text[at] == ' ' || signature.text[at] == '|')) {
    at++;
  }
  size_t end = at;
  while (end < signature.len && signature.text[end] != ' ') {
    end++;
  }
  *cursor = end;
  return (struct stg_factor_value){end > at ? signature.text + at : NULL, end - at};
}

/* The architecture is a field of its own too: it is not said twice. */
static bool is_arch(struct stg_factor_value piece) {
  return piece.text != NULL && piece.len > 3 && memcmp(piece.text, "sm_", 3) == 0;
}

/* Signatures have their pieces in one fixed order: compare place by place. */
static void compare_signatures(struct comparison *c, const char *name, struct stg_factor_value here,
                               struct stg_factor_value there) {
  size_t here_cursor = 0;
  size_t there_cursor = 0;
  for (;;) {
    struct stg_factor_value a = next_piece(here, &here_cursor);
    struct stg_factor_value b = next_piece(there, &there_cursor);
    if (a.text == NULL && b.text == NULL) {
      return;
    }
    if (!same(a, b) && !(is_arch(a) && is_arch(b))) {
      add(c, name, a, b);
    }
  }
}

/* What an option is called: all of it up to "=". */
static size_t name_len(struct stg_factor_value option) {
  const char *equals = memchr(option.text, '=', option.len);
  return equals == NULL ? option.len : (size_t)(equals - option.text);
}

static bool has_option(const struct stg_key_material *material, struct stg_factor_value wanted) {
  struct stg_factor_value option;
  for (size_t i = 0; (option = field_at(material, STG_FIELD_OPTION, i)).text != NULL; i++) {
    if (same(option, wanted)) {
      return true;
    }
  }
  return false;
}

/* The option of `in` that has the name of `option` and another value, which `beside` has not. */
static struct stg_factor_value partner(const struct stg_key_material *in,
                                       const struct stg_key_material *beside,
                                       struct stg_factor_value option) {
  const size_t len = name_len(option);
  struct stg_factor_value other;
  for (size_t i = 0; (other = field_at(in, STG_FIELD_OPTION, i)).text != NULL; i++) {
    if (name_len(other) == len && memcmp(other.text, option.text, len) == 0 &&
        !has_option(beside, other)) {
      return other;
    }
  }
  return (struct stg_factor_value){NULL, 0};
}

static void compare_option_order(struct comparison *c) {
  for (size_t i = 0;; i++) {
    struct stg_factor_value here = field_at(c->here, STG_FIELD_OPTION, i);
    struct stg_factor_value there = field_at(c->there, STG_FIELD_OPTION, i);
    if (here.text == NULL && there.text == NULL) {
      return;
    }
    if (here.text == NULL || there.text == NULL || !same(here, there)) {
      add(c, STG_FIELD_OPTION, here, there);
      return;
    }
  }
}

static void compare_options(struct comparison *c) {
  const struct stg_factor_value none = {NULL, 0};
  const size_t before = c->count;
  struct stg_factor_value option;
  for (size_t i = 0; (option = field_at(c->here, STG_FIELD_OPTION, i)).text != NULL; i++) {
    if (!has_option(c->there, option)) {
      add(c, STG_FIELD_OPTION, option, partner(c->there, c->here, option));
    }
  }
  for (size_t i = 0; (option = field_at(c->there, STG_FIELD_OPTION, i)).text != NULL; i++) {
    if (!has_option(c->here, option) && partner(c->here, c->there, option).text == NULL) {
      add(c, STG_FIELD_OPTION, none, option);
    }
  }
  if (c->count == before) {
    compare_option_order(c);
  }
}

static void compare_field(struct comparison *c, const struct stg_material_view *field) {
  const struct stg_factor_value here = value_of(field);
  const struct stg_factor_value there = field_at(c->there, field->name, 0);
  if (there.text != NULL && same(here, there)) {
    return;
  }
  if (there.text != NULL && strcmp(field->name, STG_FIELD_SIGNATURE) == 0) {
    compare_signatures(c, field->name, here, there);
  } else {
    add(c, field->name, here, there);
  }
}

size_t stg_factors_compare(const struct stg_key_material *here,
                           const struct stg_key_material *there, struct stg_factor_difference *ret,
                           size_t capacity) {
  struct comparison c = {.here = here, .there = there, .ret = ret, .capacity = capacity};
  struct stg_material_view field;
  size_t cursor = 0;
  bool had_options = false;
  while (stg_material_next(here->bytes, here->size, &cursor, &field)) {
    if (strcmp(field.name, STG_FIELD_OPTION) != 0) {
      compare_field(&c, &field);
    } else if (!had_options) {
      compare_options(&c);
      had_options = true;
    }
  }
  cursor = 0;
  while (stg_material_next(there->bytes, there->size, &cursor, &field)) {
    if (strcmp(field.name, STG_FIELD_OPTION) == 0) {
      if (!had_options) {
        compare_options(&c);
        had_options = true;
      }
    } else if (field_at(here, field.name, 0).text == NULL) {
      add(&c, field.name, (struct stg_factor_value){NULL, 0}, value_of(&field));
    }
  }
  return c.count;
}
