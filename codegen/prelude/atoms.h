/*
 * prelude/atoms.h: atoms, and the tables in which a proof search looks its knowledge base up.
 *
 * Plain enough to be CUDA as well: a kernel that includes it finds what the CPU finds, in the same
 * order. Rows are read 16 bytes at a time. Hash tables are open: a slot has 1 + an index, 0 ends a
 * search, and there are at least twice as many slots, a power of two, as entries.
 * It must not know of states, nor of what is derived.
 */
#ifndef STG_CODEGEN_PRELUDE_ATOMS_H
#define STG_CODEGEN_PRELUDE_ATOMS_H

#ifdef __CUDACC__

#define STG_ATOM static __device__ __forceinline__
#define STG_ATOM_ROW alignas(16)

#else

#include <stdbool.h>

#define STG_ATOM static inline
#define STG_ATOM_ROW _Alignas(16)

#endif

#define STG_ATOM_NO_FACT 0xffffffffu

/* pred(arg0, arg1). Constants from 1 on, variables above them; in a rule an argument below 0 is
 * the rule's variable number -arg - 1. Predicate 0: no atom. */
struct stg_prove_atom {
  int pred;
  int arg0;
  int arg1;
};

struct stg_prove_row {
  STG_ATOM_ROW int pred;
  int arg0;
  int arg1;
  int padding;
};

/* Facts that have a predicate and an argument: count of them from `first` on, in file order. */
struct stg_prove_bucket {
  STG_ATOM_ROW int pred;
  int arg; /* 0 where it is by predicate */
  unsigned first;
  unsigned count;
};

struct stg_prove_side {
  const struct stg_prove_bucket *buckets;
  const unsigned *slots;
  const unsigned *facts; /* their indices, bucket after bucket */
  unsigned mask;         /* slots, less 1 */
};

/* A rule without its predicate, which is whose list it is in. */
struct stg_prove_template {
  STG_ATOM_ROW int arg0;
  int arg1;
  unsigned first_body;
  unsigned n_body;
};

struct stg_prove_base {
  const struct stg_prove_row *facts;
  const unsigned *fact_slots;
  struct stg_prove_side by_pred, by_arg0, by_arg1;
  const struct stg_prove_template *rules; /* by predicate, then in file order */
  const unsigned *rule_first; /* [predicates + 1]: of predicate p from p - 1 on, up to that of p */
  const struct stg_prove_row *bodies;
  unsigned fact_mask; /* fact_slots, less 1 */
  int predicates;
  int constants;
};

/* The facts that can unify with a goal. */
struct stg_prove_span {
  const unsigned *facts; /* 0: the only one is `first` itself */
  unsigned first;
  unsigned count;
};

/* 64 bits, all of which depend on each number. */
STG_ATOM unsigned long long stg_atom_mix(int pred, int arg0, int arg1) {
  unsigned long long x = (unsigned)arg0 | (unsigned long long)(unsigned)arg1 << 32;
  x ^= (unsigned)pred * 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

STG_ATOM bool stg_atom_is_variable(const struct stg_prove_base *base, int arg) {
  return arg > base->constants;
}

STG_ATOM bool stg_atom_is_equal(struct stg_prove_atom a, struct stg_prove_atom b) {
  return a.pred == b.pred && a.arg0 == b.arg0 && a.arg1 == b.arg1;
}

/** The index of a fact, or STG_ATOM_NO_FACT. */
STG_ATOM unsigned stg_atom_find_fact(const struct stg_prove_base *base,
                                     struct stg_prove_atom atom) {
  unsigned at = (unsigned)stg_atom_mix(atom.pred, atom.arg0, atom.arg1) & base->fact_mask;
  for (;;) {
    const unsigned slot = base->fact_slots[at];
    if (slot == 0) {
      return STG_ATOM_NO_FACT;
    }
    const struct stg_prove_row fact = base->facts[slot - 1];
    if (fact.pred == atom.pred && fact.arg0 == atom.arg0 && fact.arg1 == atom.arg1) {
      return slot - 1;
    }
    at = (at + 1) & base->fact_mask;
  }
}

/** Facts of a bucket; of one that there is not, none. */
STG_ATOM struct stg_prove_span stg_atom_find_bucket(const struct stg_prove_side *side, int pred,
                                                    int arg) {
  struct stg_prove_span span;
  unsigned at = (unsigned)stg_atom_mix(pred, arg, 0) & side->mask;
  span.facts = side->facts;
  span.first = 0;
  span.count = 0;
  for (;;) {
    const unsigned slot = side->slots[at];
    if (slot == 0) {
      return span;
    }
    const struct stg_prove_bucket bucket = side->buckets[slot - 1];
    if (bucket.pred == pred && bucket.arg == arg) {
      span.first = bucket.first;
      span.count = bucket.count;
      return span;
    }
    at = (at + 1) & side->mask;
  }
}

/** Facts for a goal: one look-up where it is ground, else those of what it knows. */
STG_ATOM struct stg_prove_span stg_atom_find_facts(const struct stg_prove_base *base,
                                                   struct stg_prove_atom goal) {
  const bool open0 = stg_atom_is_variable(base, goal.arg0);
  const bool open1 = stg_atom_is_variable(base, goal.arg1);
  if (!open0 && !open1) {
    struct stg_prove_span span;
    span.facts = 0;
    span.first = stg_atom_find_fact(base, goal);
    span.count = span.first != STG_ATOM_NO_FACT ? 1 : 0;
    return span;
  }
  if (!open0) {
    return stg_atom_find_bucket(&base->by_arg0, goal.pred, goal.arg0);
  }
  if (!open1) {
    return stg_atom_find_bucket(&base->by_arg1, goal.pred, goal.arg1);
  }
  return stg_atom_find_bucket(&base->by_pred, goal.pred, 0);
}

/** Fact `i` of a span. */
STG_ATOM struct stg_prove_atom stg_atom_fact(const struct stg_prove_base *base,
                                             const struct stg_prove_span *span, unsigned i) {
  const unsigned index = span->facts != 0 ? span->facts[span->first + i] : span->first;
  const struct stg_prove_row row = base->facts[index];
  struct stg_prove_atom atom;
  atom.pred = row.pred;
  atom.arg0 = row.arg0;
  atom.arg1 = row.arg1;
  return atom;
}

#endif
