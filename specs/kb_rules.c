/*
 * kb_rules.c: rules: lines of `name:confidence:body(a, h), body(h, b) -> head(a, b)`.
 *
 * An argument is a variable of the rule, whatever its letters, unless it stands in quotes: then it
 * is a constant. A predicate need have no facts: others may derive it.
 */
#include "specs/kb.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "specs/kb_scan.h"

#define FIRST_CAPACITY 16

/* A rule while it is read, and the names of its variables. */
struct reading {
  struct stg_kb *kb;
  struct stg_kb_scan scan;
  struct stg_kb_word name;
  double confidence;
  struct stg_kb_atom body[STG_KB_MAX_BODY];
  uint32_t n_body;
  struct stg_kb_atom head;
  struct stg_kb_word vars[STG_KB_MAX_RULE_VARS];
  uint32_t n_vars;
};

/* Bodies and heads are bounded, so the variables are. */
_Static_assert(STG_KB_MAX_RULE_VARS >= 2 * (STG_KB_MAX_BODY + 1), "each argument has room");

static int32_t variable_of(struct reading *r, const struct stg_kb_word *word) {
  uint32_t i = 0;
  while (i < r->n_vars &&
         (r->vars[i].len != word->len || memcmp(r->vars[i].text, word->text, word->len) != 0)) {
    i++;
  }
  if (i == r->n_vars) {
    r->vars[r->n_vars++] = *word;
  }
  return -(int32_t)i - 1;
}

static stg_status take_arg(struct reading *r, const struct stg_kb_word *word, int32_t *ret_arg) {
  if (word->quoted) {
    return stg_kb_names_add(&r->kb->constants, &r->kb->arena, word->text, word->len, ret_arg,
                            r->scan.err);
  }
  *ret_arg = variable_of(r, word);
  return STG_OK;
}

static stg_status take_atom(struct reading *r, struct stg_kb_atom *ret_atom) {
  struct stg_kb_atom_words words;
  struct stg_kb_atom atom = {0};
  stg_status status = stg_kb_scan_atom(&r->scan, &words);
  if (status == STG_OK) {
    status = stg_kb_names_add(&r->kb->predicates, &r->kb->arena, words.pred.text, words.pred.len,
                              &atom.pred, r->scan.err);
  }
  if (status == STG_OK) {
    status = take_arg(r, &words.args[0], &atom.arg0);
  }
  if (status == STG_OK) {
    status = take_arg(r, &words.args[1], &atom.arg1);
  }
  if (status == STG_OK) {
    *ret_atom = atom;
  }
  return status;
}

static stg_status take_body(struct reading *r) {
  do {
    if (r->n_body == STG_KB_MAX_BODY) {
      return stg_kb_scan_fail(&r->scan, r->scan.at, "a body of more than %d atoms",
                              STG_KB_MAX_BODY);
    }
    stg_status status = take_atom(r, &r->body[r->n_body]);
    if (status != STG_OK) {
      return status;
    }
    r->n_body++;
  } while (stg_kb_scan_try(&r->scan, ","));
  return stg_kb_scan_sign(&r->scan, "->", "',' and another atom, or '->' and the head");
}

static stg_status take_rule(struct reading *r) {
  stg_status status = stg_kb_scan_name(&r->scan, "a rule's name", &r->name);
  if (status == STG_OK) {
    status = stg_kb_scan_sign(&r->scan, ":", "':' behind the rule's name");
  }
  if (status == STG_OK) {
    status = stg_kb_scan_share(&r->scan, "a confidence", &r->confidence);
  }
  if (status == STG_OK) {
    status = stg_kb_scan_sign(&r->scan, ":", "':' behind the confidence");
  }
  if (status == STG_OK) {
    status = take_body(r);
  }
  if (status == STG_OK) {
    status = take_atom(r, &r->head);
  }
  if (status == STG_OK) {
    status = stg_kb_scan_end(&r->scan);
  }
  return status;
}

static stg_status add_rule(struct reading *r) {
  struct stg_kb *kb = r->kb;
  if (kb->n_rules == kb->rules_capacity) {
    const size_t capacity = kb->rules_capacity == 0 ? FIRST_CAPACITY : 2 * kb->rules_capacity;
    struct stg_kb_rule *rules = stg_realloc(kb->rules, capacity * sizeof *rules);
    if (rules == NULL) {
      return stg_error_memory(r->scan.err, "the rules of a knowledge base",
                              capacity * sizeof *rules);
    }
    kb->rules = rules;
    kb->rules_capacity = capacity;
  }
  kb->rules[kb->n_rules++] = (struct stg_kb_rule){
      .name = stg_arena_strndup(&kb->arena, r->name.text, r->name.len),
      .confidence = r->confidence,
      .head = r->head,
      .body = stg_arena_memdup(&kb->arena, r->body, r->n_body * sizeof r->body[0]),
      .n_body = r->n_body,
      .n_vars = r->n_vars,
  };
  return stg_arena_status(&kb->arena, r->scan.err);
}

stg_status stg_kb_parse_rules(struct stg_kb *kb, const char *path, const char *text, size_t len,
                              stg_error *reterr) {
  struct reading r = {.kb = kb, .scan = stg_kb_scan_begin(path, text, len, reterr)};
  while (stg_kb_scan_line(&r.scan)) {
    r.n_body = 0;
    r.n_vars = 0;
    stg_status status = take_rule(&r);
    if (status == STG_OK) {
      status = add_rule(&r);
    }
    if (status != STG_OK) {
      return status;
    }
  }
  return STG_OK;
}
