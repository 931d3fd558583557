/*
 * prover_desc.c: what a prover is made of: its limits and sizes checked, its base copied to tables.
 */
#include <math.h>

#include "engine/prover.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

/* The public words are those of the search. */
_Static_assert(STG_PROVER_MAX_ATOMS == STG_PROVE_MAX_ATOMS, "atoms");
_Static_assert(STG_PROVER_MAX_CHILDREN == STG_PROVE_MAX_CHILDREN, "children");
_Static_assert(STG_PROVER_MAX_DEPTH == STG_PROVE_MAX_DEPTH, "depth");
_Static_assert((int)STG_OUTCOME_PROVED == (int)STG_PROVE_PROVED &&
                   (int)STG_OUTCOME_FAILED == (int)STG_PROVE_FAILED &&
                   (int)STG_OUTCOME_GAVE_UP == (int)STG_PROVE_GAVE_UP &&
                   (int)STG_OUTCOME_OUT_OF_STEPS == (int)STG_PROVE_OUT_OF_STEPS,
               "outcomes");
_Static_assert((int)STG_ARITHMETIC_F32 == (int)STG_PROVER_F32 &&
                   (int)STG_ARITHMETIC_TF32X3 == (int)STG_PROVER_TF32X3 &&
                   (int)STG_ARITHMETIC_TF32 == (int)STG_PROVER_TF32,
               "arithmetics");

#define DEFAULT_CAPACITY 16384

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
  return value != 0 ? value : otherwise;
}

/* What is an argument of the kernel, and no part of it. */
static stg_status check_arguments(const struct stg_prover_form *form, stg_error *reterr) {
  if (form->limits.depth > STG_PROVE_MAX_DEPTH) {
    return stg_error_set(reterr, STG_E_INVALID, "depth: %u is not in 1..%d", form->limits.depth,
                         STG_PROVE_MAX_DEPTH);
  }
  if (!isfinite(form->net.epsilon) || form->net.epsilon <= 0) {
    return stg_error_set(reterr, STG_E_INVALID, "epsilon: %g is not finite and above 0",
                         (double)form->net.epsilon);
  }
  if (form->capacity > STG_PROVER_MAX_CAPACITY) {
    return stg_error_set(reterr, STG_E_INVALID, "capacity: %u is not in 1..%d", form->capacity,
                         STG_PROVER_MAX_CAPACITY);
  }
  return STG_OK;
}

static stg_status check_list(const char *name, const void *list, size_t n, size_t most,
                             stg_error *reterr) {
  if (list == NULL && n > 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: NULL for %zu of them", name, n);
  }
  if (n > most) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %zu are more than %zu", name, n, most);
  }
  return STG_OK;
}

stg_status stg_prover_check_desc(const stg_prover_desc *desc, struct stg_prover_form *ret_form,
                                 stg_error *reterr) {
  const struct stg_prover_form form = {
      .limits = {.atoms = or_default(desc->atoms, 6),
                 .children = or_default(desc->children, 120),
                 .depth = or_default(desc->depth, 20)},
      .net = {.embed = or_default(desc->embed, 250),
              .hidden = or_default(desc->hidden, 256),
              .blocks = or_default(desc->blocks, 8),
              .epsilon = desc->epsilon != 0 ? desc->epsilon : 1e-5F},
      .arithmetic = (enum stg_prover_arithmetic)desc->arithmetic,
      .capacity = or_default(desc->capacity, DEFAULT_CAPACITY)};
  const struct stg_prover_kernel kernel = stg_prover_kernel_of(&form);
  stg_status status = stg_prover_check_kernel(&kernel, reterr);
  if (status == STG_OK) {
    status = check_arguments(&form, reterr);
  }
  if (status == STG_OK) {
    status = check_list("facts", desc->facts, desc->n_facts, STG_PROVE_MAX_FACTS, reterr);
  }
  if (status == STG_OK) {
    status = check_list("rules", desc->rules, desc->n_rules, STG_PROVE_MAX_RULES, reterr);
  }
  if (status == STG_OK) {
    *ret_form = form;
  }
  return status;
}

struct stg_prover_kernel stg_prover_kernel_of(const struct stg_prover_form *form) {
  return (struct stg_prover_kernel){
      .limits = form->limits, .net = form->net, .arithmetic = form->arithmetic};
}

/* The base in the words of the tables; bodies of rules lie one behind the other. */
struct copy {
  struct stg_prove_atom *facts, *bodies;
  struct stg_prove_rule *rules;
};

static stg_status count_bodies(const stg_prover_desc *desc, size_t *ret_n, stg_error *reterr) {
  size_t n = 0;
  for (size_t i = 0; i < desc->n_rules; i++) {
    const stg_prover_rule *rule = &desc->rules[i];
    if (rule->n_body > STG_PROVE_MAX_BODY) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "rules[%zu]: its body has %u atoms, must be 1 to %d", i, rule->n_body,
                           STG_PROVE_MAX_BODY);
    }
    if (rule->body == NULL && rule->n_body > 0) {
      return stg_error_set(reterr, STG_E_INVALID, "rules[%zu]: its body of %u atoms is NULL", i,
                           rule->n_body);
    }
    n += rule->n_body;
  }
  *ret_n = n;
  return STG_OK;
}

static void fill_copy(const stg_prover_desc *desc, struct copy *copy) {
  struct stg_prove_atom *body = copy->bodies;
  for (size_t i = 0; i < desc->n_facts; i++) {
    copy->facts[i] = stg_prover_atom(desc->facts[i]);
  }
  for (size_t i = 0; i < desc->n_rules; i++) {
    const stg_prover_rule *rule = &desc->rules[i];
    copy->rules[i] = (struct stg_prove_rule){.head = stg_prover_atom(rule->head),
                                             .body = body,
                                             .n_body = rule->n_body,
                                             .n_vars = rule->n_vars};
    for (uint32_t k = 0; k < rule->n_body; k++) {
      *body++ = stg_prover_atom(rule->body[k]);
    }
  }
}

stg_status stg_prover_make_tables(const stg_prover_desc *desc, struct stg_prove_tables *ret_tables,
                                  stg_error *reterr) {
  size_t n_bodies;
  stg_status status = count_bodies(desc, &n_bodies, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct copy copy = {.facts = stg_calloc(desc->n_facts + 1, sizeof *copy.facts),
                      .bodies = stg_calloc(n_bodies + 1, sizeof *copy.bodies),
                      .rules = stg_calloc(desc->n_rules + 1, sizeof *copy.rules)};
  if (copy.facts == NULL || copy.bodies == NULL || copy.rules == NULL) {
    status =
        stg_error_memory(reterr, "a copy of a knowledge base", desc->n_facts * sizeof *copy.facts);
  } else {
    fill_copy(desc, &copy);
    const struct stg_prove_source source = {.predicates = desc->predicates,
                                            .constants = desc->constants,
                                            .facts = copy.facts,
                                            .n_facts = desc->n_facts,
                                            .rules = copy.rules,
                                            .n_rules = desc->n_rules};
    status = stg_prove_tables_init(&source, ret_tables, reterr);
  }
  stg_free(copy.facts);
  stg_free(copy.bodies);
  stg_free(copy.rules);
  return status;
}
