/*
 * kb_read.c: facts and queries: lines of `pred(a, b).`, all arguments constants.
 *
 * A fact that is there twice would be derived twice, so it is refused. A query brings no names of
 * its own: one that no fact and no rule knows is a slip of the pen.
 */
#include "specs/kb.h"

#include <string.h>

#include "specs/kb_scan.h"

/* The atom and its end, a point, on a line of their own. */
static stg_status scan_line(struct stg_kb_scan *scan, struct stg_kb_atom_words *ret_words) {
  stg_status status = stg_kb_scan_atom(scan, ret_words);
  if (status == STG_OK) {
    status = stg_kb_scan_sign(scan, ".", "'.' behind the atom");
  }
  if (status == STG_OK) {
    status = stg_kb_scan_end(scan);
  }
  return status;
}

static stg_status add_names(struct stg_kb *kb, const struct stg_kb_atom_words *words,
                            struct stg_kb_atom *ret_atom, stg_error *reterr) {
  stg_status status = stg_kb_names_add(&kb->predicates, &kb->arena, words->pred.text,
                                       words->pred.len, &ret_atom->pred, reterr);
  if (status == STG_OK) {
    status = stg_kb_names_add(&kb->constants, &kb->arena, words->args[0].text, words->args[0].len,
                              &ret_atom->arg0, reterr);
  }
  if (status == STG_OK) {
    status = stg_kb_names_add(&kb->constants, &kb->arena, words->args[1].text, words->args[1].len,
                              &ret_atom->arg1, reterr);
  }
  return status;
}

stg_status stg_kb_parse_facts(struct stg_kb *kb, const char *path, const char *text, size_t len,
                              stg_error *reterr) {
  struct stg_kb_scan scan = stg_kb_scan_begin(path, text, len, reterr);
  while (stg_kb_scan_line(&scan)) {
    struct stg_kb_atom_words words;
    struct stg_kb_atom atom = {0};
    bool added = false;
    stg_status status = scan_line(&scan, &words);
    if (status == STG_OK) {
      status = add_names(kb, &words, &atom, reterr);
    }
    if (status == STG_OK) {
      status = stg_kb_add_fact(kb, atom, &added, reterr);
    }
    if (status != STG_OK) {
      return status;
    }
    if (!added) {
      return stg_kb_scan_fail(&scan, words.pred.at,
                              "fact %zu is there again, as fact %zu; remove one",
                              stg_kb_find_fact(kb, atom) + 1, kb->facts.n + 1);
    }
  }
  return STG_OK;
}

/* The number of a name that facts or rules have. */
static stg_status find_name(const struct stg_kb_scan *scan, const struct stg_kb_names *names,
                            const struct stg_kb_word *word, const char *what, int32_t *ret) {
  char text[STG_KB_MAX_NAME_BYTES + 1];
  *ret = stg_kb_names_find(names, word->text, word->len);
  if (*ret != 0) {
    return STG_OK;
  }
  memcpy(text, word->text, word->len);
  text[word->len] = '\0';
  const char *near = stg_kb_names_suggest(names, text);
  return near == NULL
             ? stg_kb_scan_fail(scan, word->at, "no fact and no rule has the %s '%s'", what, text)
             : stg_kb_scan_fail(scan, word->at,
                                "no fact and no rule has the %s '%s'; did you mean '%s'?", what,
                                text, near);
}

static stg_status find_names(const struct stg_kb *kb, const struct stg_kb_scan *scan,
                             const struct stg_kb_atom_words *words, struct stg_kb_atom *ret_atom) {
  stg_status status = find_name(scan, &kb->predicates, &words->pred, "predicate", &ret_atom->pred);
  if (status == STG_OK) {
    status = find_name(scan, &kb->constants, &words->args[0], "constant", &ret_atom->arg0);
  }
  return status == STG_OK
             ? find_name(scan, &kb->constants, &words->args[1], "constant", &ret_atom->arg1)
             : status;
}

stg_status stg_kb_parse_queries(struct stg_kb *kb, const char *path, const char *text, size_t len,
                                stg_error *reterr) {
  struct stg_kb_scan scan = stg_kb_scan_begin(path, text, len, reterr);
  while (stg_kb_scan_line(&scan)) {
    struct stg_kb_atom_words words;
    struct stg_kb_atom atom = {0};
    stg_status status = scan_line(&scan, &words);
    if (status == STG_OK) {
      status = find_names(kb, &scan, &words, &atom);
    }
    if (status == STG_OK) {
      status = stg_kb_atoms_add(&kb->queries, atom, reterr);
    }
    if (status != STG_OK) {
      return status;
    }
  }
  return STG_OK;
}

stg_status stg_kb_parse_query(const struct stg_kb *kb, const char *path, const char *text,
                              size_t len, struct stg_kb_atom *ret_atom, stg_error *reterr) {
  struct stg_kb_scan scan = stg_kb_scan_begin(path, text, len, reterr);
  struct stg_kb_atom_words words;
  struct stg_kb_atom atom = {0};
  scan.is_word = true;
  if (!stg_kb_scan_line(&scan)) {
    return stg_kb_scan_fail(&scan, scan.at, "no query; give one, as 'aunt(ann, bob)'");
  }
  stg_status status = stg_kb_scan_atom(&scan, &words);
  if (status == STG_OK) {
    (void)stg_kb_scan_try(&scan, ".");
    status = stg_kb_scan_end(&scan);
  }
  if (status == STG_OK) {
    status = find_names(kb, &scan, &words, &atom);
  }
  if (status == STG_OK && stg_kb_scan_line(&scan)) {
    status = stg_kb_scan_fail(&scan, scan.at, "more than one query; give one");
  }
  if (status == STG_OK) {
    *ret_atom = atom;
  }
  return status;
}
