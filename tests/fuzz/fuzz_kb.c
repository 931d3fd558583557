/*
 * fuzz_kb.c: the libFuzzer target of what reads knowledge bases.
 *
 * An input is facts, rules and queries, with a line "%%" between them. It is tried as all three,
 * and its facts as each of them alone. What is read is counted, found again and printed, and what
 * is printed reads as the same. Finds crashes, leaks, hangs, messages that break the rule of one
 * line, numbers without names, and texts that cost more than their size allows.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/strbuf.h"
#include "specs/kb_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

#define FREE_BYTES 65536
#define BYTES_PER_BYTE 64 /* of our heap, the names, atoms and tables of a short line */

struct part {
  const char *text;
  size_t len;
};

typedef stg_status (*parse_fn)(struct stg_kb *kb, const char *path, const char *text, size_t len,
                               stg_error *reterr);

static void check(bool holds) {
  if (!holds) {
    abort();
  }
}

static bool parse(struct stg_kb *kb, parse_fn fn, struct part part) {
  stg_error err = STG_ERROR_INIT;
  const stg_status status = fn(kb, "kb.txt", part.text, part.len, &err);
  check(status == STG_OK || (status == STG_E_FORMAT && err.code == status &&
                             strncmp(err.message, "kb.txt:", strlen("kb.txt:")) == 0 &&
                             strpbrk(err.message, "\r\n") == NULL));
  return status == STG_OK;
}

static void check_atom(const struct stg_kb *kb, struct stg_kb_atom atom, int32_t least) {
  check(atom.pred > 0 && (size_t)atom.pred <= kb->predicates.n);
  check(atom.arg0 >= least && atom.arg0 != 0 && atom.arg0 <= (int32_t)kb->constants.n);
  check(atom.arg1 >= least && atom.arg1 != 0 && atom.arg1 <= (int32_t)kb->constants.n);
}

static void check_names(const struct stg_kb_names *names) {
  for (size_t i = 0; i < names->n; i++) {
    check(stg_kb_names_find(names, names->list[i], strlen(names->list[i])) == (int32_t)i + 1);
  }
}

static void check_rules(const struct stg_kb *kb) {
  for (size_t i = 0; i < kb->n_rules; i++) {
    const struct stg_kb_rule *rule = &kb->rules[i];
    check(rule->n_body >= 1 && rule->n_body <= STG_KB_MAX_BODY);
    check(rule->n_vars <= STG_KB_MAX_RULE_VARS && rule->confidence >= 0 && rule->confidence <= 1);
    check_atom(kb, rule->head, -(int32_t)rule->n_vars);
    for (uint32_t k = 0; k < rule->n_body; k++) {
      check_atom(kb, rule->body[k], -(int32_t)rule->n_vars);
    }
  }
}

/* Each fact lies in its bucket of each side once. */
static void check_side(const struct stg_kb *kb, enum stg_kb_side side) {
  struct stg_kb_index index = {0};
  size_t n = 0;
  check(stg_kb_index_init(kb, side, &index, NULL) == STG_OK);
  for (size_t i = 0; i < index.n_buckets; i++) {
    const struct stg_kb_bucket *bucket = &index.buckets[i];
    check(stg_kb_index_find(&index, bucket->pred, bucket->arg) == bucket);
    for (uint32_t k = 0; k < bucket->count; k++) {
      const struct stg_kb_atom fact = kb->facts.list[index.facts[bucket->first + k]];
      const int32_t arg = side == STG_KB_BY_ARG0 ? fact.arg0 : fact.arg1;
      check(fact.pred == bucket->pred && (side == STG_KB_BY_PRED || arg == bucket->arg));
      check(k == 0 || index.facts[bucket->first + k - 1] < index.facts[bucket->first + k]);
    }
    n += bucket->count;
  }
  check(n == kb->facts.n);
  stg_kb_index_finish(&index);
}

/* Names come back through quotes: of two kinds, one is free, since a text has quoted it. */
static void print_name(const struct stg_kb_names *names, int32_t number, struct stg_strbuf *out) {
  const char *name = stg_kb_names_text(names, number);
  const char quote = strchr(name, '\'') == NULL ? '\'' : '"';
  stg_strbuf_char(out, quote);
  stg_strbuf_str(out, name);
  stg_strbuf_char(out, quote);
}

static void check_printed(const struct stg_kb *kb) {
  struct stg_strbuf text = {0};
  struct stg_kb again = {0};
  for (size_t i = 0; i < kb->facts.n; i++) {
    print_name(&kb->predicates, kb->facts.list[i].pred, &text);
    stg_strbuf_char(&text, '(');
    print_name(&kb->constants, kb->facts.list[i].arg0, &text);
    stg_strbuf_char(&text, ',');
    print_name(&kb->constants, kb->facts.list[i].arg1, &text);
    stg_strbuf_str(&text, ").\n");
  }
  check(parse(&again, stg_kb_parse_facts, (struct part){stg_strbuf_text(&text), text.len}));
  check(again.facts.n == kb->facts.n);
  check(kb->facts.n == 0 ||
        memcmp(again.facts.list, kb->facts.list, kb->facts.n * sizeof *kb->facts.list) == 0);
  stg_strbuf_finish(&text);
  stg_kb_finish(&again);
}

static void check_kb(const struct stg_kb *kb) {
  struct stg_kb_stats stats;
  check_names(&kb->predicates);
  check_names(&kb->constants);
  for (size_t i = 0; i < kb->facts.n; i++) {
    check_atom(kb, kb->facts.list[i], 1);
    check(stg_kb_find_fact(kb, kb->facts.list[i]) == i);
  }
  for (size_t i = 0; i < kb->queries.n; i++) {
    check_atom(kb, kb->queries.list[i], 1);
  }
  check_rules(kb);
  for (int side = 0; side < STG_KB_SIDES; side++) {
    check_side(kb, (enum stg_kb_side)side);
  }
  check_printed(kb);
  check(stg_kb_count(kb, &stats, NULL) == STG_OK && stats.facts == kb->facts.n);
}

/* What stands before the next line "%%"; the rest stays. */
static struct part take_part(struct part *rest) {
  static const char line[] = "%%\n";
  struct part part = *rest;
  for (size_t i = 0; i + strlen(line) <= rest->len; i++) {
    if ((i == 0 || rest->text[i - 1] == '\n') && memcmp(rest->text + i, line, strlen(line)) == 0) {
      part.len = i;
      rest->text += i + strlen(line);
      rest->len -= i + strlen(line);
      return part;
    }
  }
  *rest = (struct part){"", 0};
  return part;
}

static void read_alone(parse_fn fn, struct part part) {
  struct stg_kb kb = {0};
  stg_alloc_asked_bytes(true);
  const bool is_read = parse(&kb, fn, part);
  check(stg_alloc_asked_bytes(true) <= FREE_BYTES + BYTES_PER_BYTE * part.len);
  if (is_read) {
    check_kb(&kb);
  }
  stg_kb_finish(&kb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  struct part rest = {(const char *)data, size};
  const struct part facts = take_part(&rest);
  const struct part rules = take_part(&rest);
  struct stg_kb kb = {0};
  if (parse(&kb, stg_kb_parse_facts, facts) && parse(&kb, stg_kb_parse_rules, rules) &&
      parse(&kb, stg_kb_parse_queries, rest)) {
    check_kb(&kb);
  }
  stg_kb_finish(&kb);
  read_alone(stg_kb_parse_facts, facts);
  read_alone(stg_kb_parse_rules, facts);
  read_alone(stg_kb_parse_queries, facts);
  return 0;
}
