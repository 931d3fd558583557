/*
 * kb_generate.c: which generator, the limits of sizes, the rules of each kind, and what generators
 * share.
 */
#include "specs/kb_generate.h"

#include <assert.h>
#include <inttypes.h>

#include "runtime/base/alloc.h"
#include "runtime/base/embedded.h"
#include "specs/kb_draft.h"
#include "specs/random.h"

#define STREAM 0x6b62u /* of the seed; tensors have their own */

extern const struct stg_embedded_file stg_embedded_kb_rules[];
extern const size_t stg_embedded_kb_rules_count;

static const struct {
  const char *name;
  int32_t size;
  int32_t least;
  stg_status (*make)(struct stg_kb_draft *draft, int32_t size, struct stg_kb_text *ret_text);
} kinds[] = {
#define KIND_ROW(NAME, name, size, least, what) {#name, size, least, stg_kb_make_##name},
    STG_KB_KIND_LIST(KIND_ROW)
#undef KIND_ROW
};

uint32_t stg_kb_draw(struct stg_kb_draft *draft, uint32_t below) {
  assert(below > 0);
  return (uint32_t)stg_random_between(draft->seed, STREAM, draft->drawn++, 0, (int64_t)below - 1);
}

void stg_kb_say(struct stg_kb_draft *draft, struct stg_kb_atoms *list, int32_t pred, int32_t arg0,
                int32_t arg1) {
  if (draft->status == STG_OK) {
    draft->status = stg_kb_atoms_add(list, (struct stg_kb_atom){pred, arg0, arg1}, draft->err);
  }
}

void stg_kb_shuffle(struct stg_kb_draft *draft, struct stg_kb_atoms *list) {
  for (size_t i = list->n; i > 1; i--) {
    const uint32_t k = stg_kb_draw(draft, (uint32_t)i);
    const struct stg_kb_atom other = list->list[k];
    list->list[k] = list->list[i - 1];
    list->list[i - 1] = other;
  }
}

static void print_atoms(const struct stg_kb_draft *draft, const struct stg_kb_atoms *atoms,
                        struct stg_strbuf *out) {
  for (size_t i = 0; i < atoms->n; i++) {
    const struct stg_kb_atom atom = atoms->list[i];
    stg_strbuf_str(out, draft->predicates[atom.pred - 1]);
    stg_strbuf_char(out, '(');
    draft->name(draft->user, atom.arg0, out);
    stg_strbuf_char(out, ',');
    draft->name(draft->user, atom.arg1, out);
    stg_strbuf_str(out, ").\n");
  }
}

stg_status stg_kb_draft_print(struct stg_kb_draft *draft, struct stg_kb_text *ret_text) {
  if (draft->status == STG_OK) {
    print_atoms(draft, &draft->facts, &ret_text->facts);
    print_atoms(draft, &draft->queries, &ret_text->queries);
    draft->status = stg_strbuf_status(&ret_text->facts, draft->err);
  }
  if (draft->status == STG_OK) {
    draft->status = stg_strbuf_status(&ret_text->queries, draft->err);
  }
  stg_free(draft->facts.list);
  stg_free(draft->queries.list);
  draft->facts = draft->queries = (struct stg_kb_atoms){0};
  return draft->status;
}

stg_status stg_kb_generate(enum stg_kb_kind kind, uint64_t seed, int64_t size,
                           struct stg_kb_text *ret_text, stg_error *reterr) {
  struct stg_kb_text text = {0};
  struct stg_kb_draft draft = {.seed = seed, .err = reterr};
  size = size == 0 ? kinds[kind].size : size;
  if (size < kinds[kind].least || size > STG_KB_MAX_SIZE) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "a knowledge base '%s' of %" PRId64 " constants, expected %d to %d",
                         kinds[kind].name, size, (int)kinds[kind].least, STG_KB_MAX_SIZE);
  }
  assert((size_t)kind < stg_embedded_kb_rules_count);
  stg_strbuf_mem(&text.rules, stg_embedded_kb_rules[kind].text, stg_embedded_kb_rules[kind].len);
  stg_status status = kinds[kind].make(&draft, (int32_t)size, &text);
  if (status == STG_OK) {
    status = stg_strbuf_status(&text.rules, reterr);
  }
  if (status == STG_OK) {
    *ret_text = text;
  } else {
    stg_kb_text_finish(&text);
  }
  return status;
}

void stg_kb_text_finish(struct stg_kb_text *text) {
  stg_strbuf_finish(&text->facts);
  stg_strbuf_finish(&text->rules);
  stg_strbuf_finish(&text->queries);
}
