/*
 * prove_bases.c: see prove_bases.h.
 */
#include "tests/support/prove_bases.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/strbuf.h"
#include "specs/random.h"

#define FACTS 6
#define RULES 4

static void assert_ok(stg_status status, const stg_error *err) {
  if (status != STG_OK) {
    fail_msg("%s", err->message);
  }
}

void prove_base_read(struct stg_kb *kb, const char *facts, const char *rules) {
  stg_error err = STG_ERROR_INIT;
  assert_ok(stg_kb_parse_facts(kb, "f", facts, strlen(facts), &err), &err);
  assert_ok(stg_kb_parse_rules(kb, "r", rules, strlen(rules), &err), &err);
}

static uint32_t draw(uint64_t seed, uint64_t *drawn, uint32_t below) {
  return (uint32_t)stg_random_between(seed, 99, (*drawn)++, 0, (int64_t)below - 1);
}

void prove_base_random(uint64_t seed, struct stg_kb *kb) {
  struct stg_strbuf facts = {0};
  struct stg_strbuf rules = {0};
  uint64_t drawn = 0;
  bool said[PROVE_RANDOM_PREDICATES][PROVE_RANDOM_CONSTANTS][PROVE_RANDOM_CONSTANTS] = {0};
  for (uint32_t i = 0; i < PROVE_RANDOM_CONSTANTS; i++) { /* all names, in order */
    stg_strbuf_printf(&facts, "p%u(c%u,c%u).\n", i % PROVE_RANDOM_PREDICATES, i, i);
    said[i % PROVE_RANDOM_PREDICATES][i][i] = true;
  }
  for (uint32_t i = 0; i < FACTS; i++) {
    const uint32_t p = draw(seed, &drawn, PROVE_RANDOM_PREDICATES);
    const uint32_t a = draw(seed, &drawn, PROVE_RANDOM_CONSTANTS);
    const uint32_t b = draw(seed, &drawn, PROVE_RANDOM_CONSTANTS);
    if (!said[p][a][b]) {
      stg_strbuf_printf(&facts, "p%u(c%u,c%u).\n", p, a, b);
      said[p][a][b] = true;
    }
  }
  for (uint32_t i = 0; i < RULES; i++) {
    const uint32_t n_body = 1 + draw(seed, &drawn, 2);
    stg_strbuf_printf(&rules, "r%u:1:", i);
    for (uint32_t k = 0; k <= n_body; k++) {
      const uint32_t p = draw(seed, &drawn, PROVE_RANDOM_PREDICATES);
      const uint32_t x = draw(seed, &drawn, 3);
      const uint32_t y = draw(seed, &drawn, 3);
      const uint32_t constant = draw(seed, &drawn, 12);
      stg_strbuf_printf(&rules, "%sp%u(v%u,", k == 0 ? "" : k < n_body ? ", " : " -> ", p, x);
      stg_strbuf_printf(&rules, constant < PROVE_RANDOM_CONSTANTS ? "'c%u')" : "v%u)",
                        constant < PROVE_RANDOM_CONSTANTS ? constant : y);
    }
    stg_strbuf_char(&rules, '\n');
  }
  prove_base_read(kb, facts.data, rules.data);
  stg_strbuf_finish(&facts);
  stg_strbuf_finish(&rules);
}

void prove_base_generate(enum stg_kb_kind kind, uint64_t seed, struct stg_kb *kb) {
  struct stg_kb_text text = {0};
  stg_error err = STG_ERROR_INIT;
  assert_ok(stg_kb_generate(kind, seed, 0, &text, &err), &err);
  prove_base_read(kb, text.facts.data, text.rules.data);
  assert_ok(stg_kb_parse_queries(kb, "q", text.queries.data, text.queries.len, &err), &err);
  stg_kb_text_finish(&text);
}

struct stg_prove_atom prove_atom_of(struct stg_kb_atom atom) {
  return (struct stg_prove_atom){atom.pred, atom.arg0, atom.arg1};
}

static struct stg_prove_atom *atoms_of(const struct stg_kb_atom *from, size_t n) {
  struct stg_prove_atom *atoms = calloc(n + 1, sizeof *atoms);
  assert_non_null(atoms);
  for (size_t i = 0; i < n; i++) {
    atoms[i] = prove_atom_of(from[i]);
  }
  return atoms;
}

void prove_base_tables(const struct stg_kb *kb, struct stg_prove_tables *tables) {
  struct stg_prove_atom *facts = atoms_of(kb->facts.list, kb->facts.n);
  struct stg_prove_rule *rules = calloc(kb->n_rules + 1, sizeof *rules);
  struct stg_prove_atom **bodies = calloc(kb->n_rules + 1, sizeof *bodies);
  stg_error err = STG_ERROR_INIT;
  assert_non_null(rules);
  assert_non_null(bodies);
  for (size_t i = 0; i < kb->n_rules; i++) {
    const struct stg_kb_rule *rule = &kb->rules[i];
    bodies[i] = atoms_of(rule->body, rule->n_body);
    rules[i] = (struct stg_prove_rule){.head = prove_atom_of(rule->head),
                                       .body = bodies[i],
                                       .n_body = rule->n_body,
                                       .n_vars = rule->n_vars};
  }
  const struct stg_prove_source source = {.predicates = (int)kb->predicates.n,
                                          .constants = (int)kb->constants.n,
                                          .facts = facts,
                                          .n_facts = kb->facts.n,
                                          .rules = rules,
                                          .n_rules = kb->n_rules};
  assert_ok(stg_prove_tables_init(&source, tables, &err), &err);
  for (size_t i = 0; i < kb->n_rules; i++) {
    free(bodies[i]);
  }
  free(bodies);
  free(rules);
  free(facts);
}

static const float *tensor(const struct prove_policy *policy, size_t index) {
  return policy->tensors.tensors[index].data;
}

/* Layer `index`; its weight is tensor `at` of the list. */
static struct stg_prove_layer layer(struct prove_policy *policy, size_t index, size_t at,
                                    bool normed) {
  float(*vectors)[PROVE_POLICY_WIDTH] = policy->vectors[index];
  for (size_t i = 0; i < PROVE_POLICY_WIDTH; i++) {
    vectors[0][i] = (float)((int)((11 * i + 7 * index) % 5) - 2) / 16;
    vectors[1][i] = 1 + (float)((int)((5 * i + index) % 3) - 1) / 8;
    vectors[2][i] = (float)((int)((7 * i + 3 * index) % 7) - 3) / 32;
  }
  return (struct stg_prove_layer){.weight = tensor(policy, at),
                                  .bias = vectors[0],
                                  .gain = normed ? vectors[1] : NULL,
                                  .shift = normed ? vectors[2] : NULL};
}

void prove_policy_random(const struct stg_kb *kb, uint64_t seed, uint32_t atoms,
                         struct stg_prove_net net, struct prove_policy *policy) {
  const struct stg_prove_sizes sizes = {.predicates = (uint32_t)kb->predicates.n,
                                        .constants = (uint32_t)kb->constants.n,
                                        .atoms = atoms,
                                        .embed = net.embed,
                                        .hidden = net.hidden,
                                        .blocks = net.blocks};
  stg_error err = STG_ERROR_INIT;
  assert_in_range(net.blocks, 1, PROVE_POLICY_BLOCKS);
  assert_true(net.embed <= PROVE_POLICY_WIDTH && net.hidden <= PROVE_POLICY_WIDTH);
  *policy = (struct prove_policy){.net = net};
  assert_ok(stg_prove_policy_random(seed, &sizes, &policy->tensors, &err), &err);
  const size_t last = STG_PROVE_BLOCKS + 4 * (size_t)net.blocks;
  for (size_t b = 0; b < net.blocks; b++) {
    policy->blocks[b] = layer(policy, 1 + b, STG_PROVE_BLOCKS + 4 * b, true);
  }
  policy->weights =
      (struct stg_prove_weights){.predicates = tensor(policy, STG_PROVE_PREDICATE),
                                 .arguments = tensor(policy, STG_PROVE_ENTITY),
                                 .in = layer(policy, 0, STG_PROVE_IN, true),
                                 .blocks = policy->blocks,
                                 .head = layer(policy, net.blocks + 1, last, false),
                                 .out = layer(policy, net.blocks + 2, last + 2, false)};
}

void prove_policy_finish(struct prove_policy *policy) {
  stg_prove_policy_finish(&policy->tensors);
}
