/*
 * test_oracle_derive.c: one step of the proof search, by its reference: every numbered rule of
 * oracle/derive.h on bases worked out by hand, and what others got wrong.
 */
#include "engine/oracle/derive.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/strbuf.h"

static const struct stg_prove_limits limits = {.atoms = 6, .children = 120, .depth = 20};
static const struct stg_oracle_path nowhere = {.n = 0};
#define NO_QUERY ((struct stg_kb_atom){0, 0, 0})

static void read_base(struct stg_kb *kb, const char *facts, const char *rules) {
  stg_error err = STG_ERROR_INIT;
  if (stg_kb_parse_facts(kb, "f", facts, strlen(facts), &err) != STG_OK ||
      stg_kb_parse_rules(kb, "r", rules, strlen(rules), &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
}

static int32_t number_of(const struct stg_kb_names *names, const char *text, size_t len) {
  const int32_t number = stg_kb_names_find(names, text, len);
  assert_true(number > 0);
  return number;
}

/* "p a X1; q X1 b": X and a digit is a variable, "-" a hole, "True" a word. */
static struct stg_oracle_state state_of(const struct stg_kb *kb, const char *text) {
  struct stg_oracle_state state = {0};
  while (*text != '\0') {
    struct stg_kb_atom atom = {0};
    int32_t *parts[] = {&atom.pred, &atom.arg0, &atom.arg1};
    for (int i = 0; i < 3 && *text != ';' && *text != '\0'; i++) {
      const size_t len = strcspn(text, " ;");
      if (text[0] == 'X') {
        *parts[i] = (int32_t)kb->constants.n + text[1] - '0';
      } else if (text[0] != '-') {
        *parts[i] = number_of(i == 0 ? &kb->predicates : &kb->constants, text, len);
      }
      text += len;
      text += *text == ' ';
    }
    state.atoms[state.n++] = atom;
    text += strspn(text, "; ");
  }
  return state;
}

static struct stg_kb_atom atom_of(const struct stg_kb *kb, const char *text) {
  return state_of(kb, text).atoms[0];
}

static void print_arg(const struct stg_kb *kb, int32_t arg, struct stg_strbuf *out) {
  if (arg > (int32_t)kb->constants.n) {
    stg_strbuf_printf(out, " X%d", (int)(arg - (int32_t)kb->constants.n));
  } else if (arg > 0) {
    stg_strbuf_printf(out, " %s", stg_kb_names_text(&kb->constants, arg));
  }
}

/* "p a X1; q X1 b | True": states apart by "|". */
static void print_children(const struct stg_kb *kb, const struct stg_oracle_children *children,
                           struct stg_strbuf *out) {
  static const char *const words[] = {"True", "False", "Endf"};
  for (uint32_t i = 0; i < children->n; i++) {
    const struct stg_oracle_state *state = &children->states[i];
    stg_strbuf_str(out, i > 0 ? " | " : "");
    for (uint32_t k = 0; k < state->n; k++) {
      const struct stg_kb_atom atom = state->atoms[k];
      const int32_t word = atom.pred - (int32_t)kb->predicates.n;
      stg_strbuf_printf(out, "%s%s", k > 0 ? "; " : "",
                        word > 0 ? words[word - 1] : stg_kb_names_text(&kb->predicates, atom.pred));
      print_arg(kb, atom.arg0, out);
      print_arg(kb, atom.arg1, out);
    }
  }
}

static void assert_derives_from(const struct stg_kb *kb, const struct stg_oracle_state *state,
                                const struct stg_prove_limits *within, struct stg_kb_atom query,
                                const struct stg_oracle_path *path, const char *expected) {
  struct stg_oracle_children children;
  struct stg_strbuf text = {0};
  stg_oracle_derive(kb, within, query, path, state, &children);
  print_children(kb, &children, &text);
  assert_string_equal(stg_strbuf_text(&text), expected);
  stg_strbuf_finish(&text);
}

static void assert_derives(const struct stg_kb *kb, const char *state, const char *expected) {
  const struct stg_oracle_state from = state_of(kb, state);
  assert_derives_from(kb, &from, &limits, NO_QUERY, &nowhere, expected);
}

static const char family_facts[] = "parent(ann,bob).\nparent(bob,cid).\nparent(bob,dan).\n"
                                   "male(bob,bob).\nlikes(cid,cid).\nlikes(ann,cid).\n";
static const char family_rules[] = "r0:1:parent(a,h), parent(h,b) -> grand(a,b)\n"
                                   "r1:1:likes(b,a) -> likes(a,b)\n"
                                   "r2:1:male(z,z) -> same(z,z)\n"
                                   "r3:1:parent('ann',x) -> heir('ann',x)\n";

static void words_derive_words(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  struct stg_oracle_state word = stg_oracle_word(&kb, STG_PROVE_TRUE);
  assert_derives_from(&kb, &word, &limits, NO_QUERY, &nowhere, "True");
  word = stg_oracle_word(&kb, STG_PROVE_FALSE);
  assert_derives_from(&kb, &word, &limits, NO_QUERY, &nowhere, "False");
  word = stg_oracle_word(&kb, STG_PROVE_ENDF);
  assert_derives_from(&kb, &word, &limits, NO_QUERY, &nowhere, "False");
  assert_derives(&kb, "", "False");
  assert_derives(&kb, "-; -", "False");
  stg_kb_finish(&kb);
}

static void facts_bind_the_rest_in_the_order_of_the_file(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  assert_derives(&kb, "parent bob X1; likes ann X1; same X1 X1",
                 "same cid cid | likes ann dan; same dan dan | Endf");
  assert_derives(&kb, "parent X1 dan; same X1 X2", "same bob X1 | Endf");
  assert_derives(&kb, "parent X1 X2; same X2 X1; same X1 X1",
                 "same bob ann; same ann ann | same cid bob; same bob bob | "
                 "same dan bob; same bob bob | Endf");
  assert_derives(&kb, "male X1 X1; same X1 X2", "same bob X1 | Endf");
  assert_derives(&kb, "parent X1 X1; same X1 X2", "False");
  stg_kb_finish(&kb);
}

static void rules_bring_their_bodies_with_fresh_variables(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  assert_derives(&kb, "grand X1 X2", "parent X1 X2; parent X2 X3 | Endf");
  assert_derives(&kb, "grand ann X1; same X1 X2", "parent ann X1; parent X1 X2; same X2 X3 | Endf");
  assert_derives(&kb, "grand X1 X1; same X2 X1", "parent X1 X2; parent X2 X1; same X3 X1 | Endf");
  stg_kb_finish(&kb);
}

static void bindings_are_followed_and_only_constants_clash(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  assert_derives(&kb, "same cid X1; likes X1 dan", "male cid cid; likes cid dan | Endf");
  assert_derives(&kb, "same X1 X2; likes X1 X2", "male X1 X1; likes X1 X1 | Endf");
  assert_derives(&kb, "same cid dan", "False");
  assert_derives(&kb, "heir X1 X2; same X1 X2", "parent ann X1; same ann X1 | Endf");
  assert_derives(&kb, "heir bob X1", "False");
  stg_kb_finish(&kb);
}

static void ground_facts_are_dropped_and_nothing_left_is_a_proof(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  assert_derives(&kb, "parent ann bob", "True");
  assert_derives(&kb, "parent ann X1", "True");
  assert_derives(&kb, "same bob X1; parent ann bob", "True");
  assert_derives(&kb, "grand ann cid; male bob bob", "parent ann X1; parent X1 cid | Endf");
  /* of two children one has nothing left, whichever it is */
  assert_derives(&kb, "parent bob X1; likes X1 X1", "True");
  assert_derives(&kb, "likes X1 cid; parent X1 bob", "True");
  stg_kb_finish(&kb);
}

static void the_query_itself_is_no_fact(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  struct stg_oracle_state from = state_of(&kb, "parent ann bob");
  assert_derives_from(&kb, &from, &limits, from.atoms[0], &nowhere, "False");
  from = state_of(&kb, "likes cid ann");
  const struct stg_kb_atom query = atom_of(&kb, "likes ann cid");
  assert_derives_from(&kb, &from, &limits, query, &nowhere, "likes ann cid | Endf");
  from = state_of(&kb, "male bob X1; likes ann cid");
  assert_derives_from(&kb, &from, &limits, query, &nowhere, "likes ann cid | Endf");
  from = state_of(&kb, "likes ann X1; same X1 X2");
  assert_derives_from(&kb, &from, &limits, query, &nowhere, "likes X1 ann; same X1 X2 | Endf");
  stg_kb_finish(&kb);
}

static void facts_come_before_rules_and_the_first_are_kept(void **state) {
  static const struct stg_prove_limits few = {.atoms = 6, .children = 3, .depth = 20};
  static const struct stg_prove_limits two = {.atoms = 6, .children = 2, .depth = 20};
  struct stg_kb kb = {0};
  struct stg_oracle_children children;
  (void)state;
  read_base(&kb, family_facts, family_rules);
  struct stg_oracle_state from = state_of(&kb, "likes X1 X2; same X1 X2");
  assert_derives_from(&kb, &from, &limits, NO_QUERY, &nowhere,
                      "same cid cid | same ann cid | likes X1 X2; same X2 X1 | Endf");
  assert_derives_from(&kb, &from, &few, NO_QUERY, &nowhere, "same cid cid | same ann cid | Endf");
  assert_derives_from(&kb, &from, &two, NO_QUERY, &nowhere, "same cid cid | Endf");
  stg_oracle_derive(&kb, &two, NO_QUERY, &nowhere, &from, &children);
  assert_int_equal(children.unified, 3);
  assert_int_equal(children.sources[0], STG_SOURCE_FACT);
  assert_int_equal(children.indices[0], 4);
  stg_kb_finish(&kb);
}

/* What comes after the cut is not kept in place of what is dropped later. */
static void the_cut_is_made_before_anything_is_dropped(void **state) {
  static const struct stg_prove_limits two = {.atoms = 6, .children = 2, .depth = 20};
  struct stg_kb kb = {0};
  struct stg_oracle_path path = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  struct stg_oracle_state seen = state_of(&kb, "same cid cid");
  stg_oracle_path_add(&path, &seen);
  const struct stg_oracle_state from = state_of(&kb, "likes X1 X2; same X1 X2");
  assert_derives_from(&kb, &from, &two, NO_QUERY, &path, "same ann cid | Endf");
  seen = state_of(&kb, "same ann cid");
  stg_oracle_path_add(&path, &seen);
  assert_derives_from(&kb, &from, &two, NO_QUERY, &path, "False");
  stg_kb_finish(&kb);
}

/* S, S - 1 and S + 1 facts; the last place is that of giving up. */
static void the_last_child_of_a_full_list_is_giving_up(void **state) {
  (void)state;
  for (uint32_t n = 118; n <= 122; n++) {
    struct stg_strbuf facts = {0};
    struct stg_kb kb = {0};
    struct stg_oracle_children children;
    for (uint32_t i = 0; i < n; i++) {
      stg_strbuf_printf(&facts, "p(a,c%u).\n", (unsigned)i);
    }
    read_base(&kb, facts.data, "r:1:p(x,y)->q(x,y)");
    const struct stg_oracle_state from = state_of(&kb, "p a X1; q X1 X1");
    stg_oracle_derive(&kb, &limits, NO_QUERY, &nowhere, &from, &children);
    assert_int_equal(children.n, n < 119 ? n + 1 : 120);
    assert_int_equal(children.unified, n);
    assert_true(stg_oracle_is_word(&kb, &children.states[children.n - 1], STG_PROVE_ENDF));
    stg_kb_finish(&kb);
    stg_strbuf_finish(&facts);
  }
}

/* Others cut it to what fits, and proved what does not follow. */
static void a_child_with_too_many_atoms_is_rejected_and_not_cut(void **state) {
  static const char rules[] = "long:1:p(a,h), p(h,i), p(i,b) -> q(a,b)\nshort:1:p(a,b) -> q(a,b)\n";
  struct stg_kb kb = {0};
  struct stg_oracle_children children;
  (void)state;
  read_base(&kb, "p(a,b).\nr(a,a).\n", rules);
  struct stg_oracle_state from = state_of(&kb, "q X1 X2; r X1 X3; r X2 X3; r X3 X3");
  assert_derives_from(&kb, &from, &limits, NO_QUERY, &nowhere,
                      "p X1 X2; p X2 X3; p X3 X4; r X1 X5; r X4 X5; r X5 X5 | "
                      "p X1 X2; r X1 X3; r X2 X3; r X3 X3 | Endf");
  from = state_of(&kb, "q X1 X2; r X1 X3; r X2 X3; r X3 X3; r X3 X4");
  assert_derives_from(&kb, &from, &limits, NO_QUERY, &nowhere,
                      "p X1 X2; r X1 X3; r X2 X3; r X3 X3; r X3 X4 | Endf");
  stg_oracle_derive(&kb, &limits, NO_QUERY, &nowhere, &from, &children);
  assert_int_equal(children.rejected, 1);
  /* it is counted behind the dropping of what is given */
  from = state_of(&kb, "q X1 X2; r X1 X3; r X2 X3; r a a; r X3 X3");
  assert_derives_from(&kb, &from, &limits, NO_QUERY, &nowhere,
                      "p X1 X2; p X2 X3; p X3 X4; r X1 X5; r X4 X5; r X5 X5 | "
                      "p X1 X2; r X1 X3; r X2 X3; r X3 X3 | Endf");
  stg_kb_finish(&kb);
  memset(&kb, 0, sizeof kb);
  read_base(&kb, "p(a,b).\nr(a,a).\n", "long:1:p(a,h), p(h,i), p(i,b) -> q(a,b)\n");
  from = state_of(&kb, "q X1 X2; r X1 X3; r X2 X3; r X3 X3; r X3 X4");
  assert_derives_from(&kb, &from, &limits, NO_QUERY, &nowhere, "False");
  stg_kb_finish(&kb);
}

/* Others took a hole in front for the end of the state, and so for a failure. */
static void a_hole_is_no_end(void **state) {
  struct stg_kb kb = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  assert_derives(&kb, "-; parent bob X1; -; same X1 X1", "same cid cid | same dan dan | Endf");
  assert_derives(&kb, "-; -; parent ann bob", "True");
  stg_kb_finish(&kb);
}

static void states_of_the_path_do_not_come_again(void **state) {
  struct stg_kb kb = {0};
  struct stg_oracle_path path = {0};
  (void)state;
  read_base(&kb, family_facts, family_rules);
  const struct stg_oracle_state start = state_of(&kb, "likes dan bob");
  stg_oracle_path_add(&path, &start);
  assert_derives_from(&kb, &start, &limits, start.atoms[0], &path, "likes bob dan | Endf");
  const struct stg_oracle_state back = state_of(&kb, "likes bob dan");
  stg_oracle_path_add(&path, &back);
  assert_derives_from(&kb, &back, &limits, start.atoms[0], &path, "False");
  /* the order of atoms does not count, the numbers of variables do */
  struct stg_oracle_state one = state_of(&kb, "likes ann bob; same X1 X2");
  struct stg_oracle_state other = state_of(&kb, "same X1 X2; likes ann bob");
  assert_true(stg_oracle_hash(&one) == stg_oracle_hash(&other));
  other = state_of(&kb, "same X2 X1; likes ann bob");
  assert_true(stg_oracle_hash(&one) != stg_oracle_hash(&other));
  other = state_of(&kb, "same X1 X2; likes bob ann");
  assert_true(stg_oracle_hash(&one) != stg_oracle_hash(&other));
  stg_kb_finish(&kb);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_derive_words),
      cmocka_unit_test(facts_bind_the_rest_in_the_order_of_the_file),
      cmocka_unit_test(rules_bring_their_bodies_with_fresh_variables),
      cmocka_unit_test(bindings_are_followed_and_only_constants_clash),
      cmocka_unit_test(ground_facts_are_dropped_and_nothing_left_is_a_proof),
      cmocka_unit_test(the_query_itself_is_no_fact),
      cmocka_unit_test(facts_come_before_rules_and_the_first_are_kept),
      cmocka_unit_test(the_cut_is_made_before_anything_is_dropped),
      cmocka_unit_test(the_last_child_of_a_full_list_is_giving_up),
      cmocka_unit_test(a_child_with_too_many_atoms_is_rejected_and_not_cut),
      cmocka_unit_test(a_hole_is_no_end),
      cmocka_unit_test(states_of_the_path_do_not_come_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
