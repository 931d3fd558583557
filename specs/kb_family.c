/*
 * kb_family.c: family trees: a founding couple, and what comes of it in three generations.
 *
 * Each child may marry somebody from outside, who has no parents here. Aunts, uncles, nieces and
 * nephews are so by blood. The first tree has one couple whose grandchildren are as many as the
 * largest bucket of the public set says; no other couple has more. A share of all facts are queries
 * instead, where all who are named in one still have facts.
 */
#include "specs/kb_draft.h"

#include "runtime/base/alloc.h"

enum {
  AUNT = 1,
  BROTHER,
  DAUGHTER,
  FATHER,
  HUSBAND,
  MOTHER,
  NEPHEW,
  NIECE,
  SISTER,
  SON,
  UNCLE,
  WIFE
};
static const char *const predicates[] = {"aunt",    "brother", "daughter", "father",
                                         "husband", "mother",  "nephew",   "niece",
                                         "sister",  "son",     "uncle",    "wife"};

#define GENERATIONS 3      /* of children */
#define MARRIED_PERCENT 45 /* of children who may have some of their own */
#define BOYS_PERCENT 55
#define MAX_GRANDCHILDREN 28 /* of a couple */
#define QUERY_OF 50          /* of so many facts one is a query */
#define LEAST_FACTS 3        /* that are left of whoever is in a query */

/* The first tree: so many children, each of whom but the last has so many, of whom 17 are boys. */
#define FIRST_CHILDREN 7
#define FIRST_BOYS 17
static const int32_t first_grandchildren[FIRST_CHILDREN] = {5, 5, 5, 5, 4, 4, 0};

/* How many children a couple has, in percent: of 0, of 1, ... */
static const uint32_t children_percent[] = {6, 18, 30, 23, 13, 7, 3};
#define CHILDREN_KINDS (sizeof children_percent / sizeof children_percent[0])

struct person {
  int32_t father; /* 0: not here */
  int32_t mother;
  int32_t spouse;
  int32_t first_child; /* children of a couple have numbers in a row */
  int32_t n_children;
  int32_t n_grandchildren;
  int32_t generation; /* 0: from outside, or a founder */
  bool is_man;
};

struct trees {
  struct stg_kb_draft *draft;
  int32_t size;
  int32_t n;
  struct person *people; /* of number i at i */
  uint32_t *mentions;    /* facts that name one */
};

static void print_name(const void *user, int32_t arg, struct stg_strbuf *out) {
  (void)user;
  stg_strbuf_printf(out, "p%d", (int)arg);
}

static bool draw_percent(struct trees *trees, uint32_t percent) {
  return stg_kb_draw(trees->draft, 100) < percent;
}

static int32_t add_person(struct trees *trees, struct person person) {
  trees->people[++trees->n] = person;
  return trees->n;
}

/* Person `parent` has a spouse. Of the grandchildren of a couple, counted one after the other, so
 * many of MAX_GRANDCHILDREN are boys; 0: as it is drawn. */
static void add_children(struct trees *trees, int32_t parent, int32_t wanted, int32_t boys) {
  struct person *a = &trees->people[parent];
  struct person *b = &trees->people[a->spouse];
  struct person *grandfather = &trees->people[a->father]; /* number 0 where there is none */
  const int32_t room = trees->size - trees->n;
  const int32_t n = wanted < room ? wanted : room;
  const struct person child = {.father = a->is_man ? parent : a->spouse,
                               .mother = a->is_man ? a->spouse : parent,
                               .generation = a->generation + 1};
  a->first_child = b->first_child = trees->n + 1;
  a->n_children = b->n_children = n;
  for (int32_t i = 0; i < n; i++) {
    const int32_t nth = grandfather->n_grandchildren++;
    const int32_t added = add_person(trees, child);
    trees->people[added].is_man =
        boys > 0 ? (nth + 1) * boys / MAX_GRANDCHILDREN > nth * boys / MAX_GRANDCHILDREN
                 : draw_percent(trees, BOYS_PERCENT);
  }
}

/* Somebody from outside; there is room for one. */
static void marry(struct trees *trees, int32_t person) {
  const struct person spouse = {.spouse = person, .is_man = !trees->people[person].is_man};
  trees->people[person].spouse = add_person(trees, spouse);
}

static int32_t draw_children(struct trees *trees) {
  uint32_t left = stg_kb_draw(trees->draft, 100);
  size_t n = 0;
  while (n + 1 < CHILDREN_KINDS && left >= children_percent[n]) {
    left -= children_percent[n++];
  }
  return (int32_t)n;
}

/* A child of the last generation but some may marry, and have children. */
static void grow(struct trees *trees, int32_t person) {
  const int32_t generation = trees->people[person].generation;
  if (generation == 0 || generation == GENERATIONS || trees->n == trees->size ||
      !draw_percent(trees, MARRIED_PERCENT)) {
    return;
  }
  const int32_t left =
      MAX_GRANDCHILDREN - trees->people[trees->people[person].father].n_grandchildren;
  const int32_t wanted = draw_children(trees);
  marry(trees, person);
  add_children(trees, person, wanted < left ? wanted : left, 0);
}

/* There is room for two. */
static int32_t add_founders(struct trees *trees) {
  const int32_t man = add_person(trees, (struct person){.is_man = true});
  marry(trees, man);
  return man;
}

static void add_first_tree(struct trees *trees) {
  const int32_t founder = add_founders(trees);
  add_children(trees, founder, FIRST_CHILDREN, 0);
  const int32_t first = trees->people[founder].first_child;
  for (int32_t i = 0; i < trees->people[founder].n_children && trees->n < trees->size; i++) {
    if (first_grandchildren[i] > 0) {
      marry(trees, first + i);
      add_children(trees, first + i, first_grandchildren[i], FIRST_BOYS);
    }
  }
  for (int32_t i = first + FIRST_CHILDREN; i <= trees->n; i++) {
    grow(trees, i);
  }
}

/* Who is left alone at the end marries into a tree. */
static void add_last(struct trees *trees) {
  int32_t single = trees->n;
  while (trees->people[single].spouse != 0) {
    single--;
  }
  marry(trees, single);
}

static void add_trees(struct trees *trees) {
  add_first_tree(trees);
  while (trees->n + 1 < trees->size) {
    const int32_t founder = add_founders(trees);
    add_children(trees, founder, draw_children(trees), 0);
    for (int32_t i = founder; i <= trees->n; i++) {
      grow(trees, i);
    }
  }
  if (trees->n < trees->size) {
    add_last(trees);
  }
}

static void say(struct trees *trees, int32_t pred, int32_t a, int32_t b) {
  trees->mentions[a]++;
  trees->mentions[b]++;
  stg_kb_say(trees->draft, &trees->draft->facts, pred, a, b);
}

/* Of a parent's brothers and sisters. */
static void say_aunts(struct trees *trees, int32_t child, int32_t parent) {
  const struct person *grandfather = &trees->people[trees->people[parent].father];
  const bool is_man = trees->people[child].is_man;
  for (int32_t i = 0; i < grandfather->n_children; i++) {
    const int32_t other = grandfather->first_child + i;
    if (other != parent) {
      say(trees, trees->people[other].is_man ? UNCLE : AUNT, other, child);
      say(trees, is_man ? NEPHEW : NIECE, child, other);
    }
  }
}

static void say_child(struct trees *trees, int32_t child) {
  const struct person *person = &trees->people[child];
  const struct person *father = &trees->people[person->father];
  say(trees, FATHER, person->father, child);
  say(trees, MOTHER, person->mother, child);
  say(trees, person->is_man ? SON : DAUGHTER, child, person->father);
  say(trees, person->is_man ? SON : DAUGHTER, child, person->mother);
  for (int32_t i = 0; i < father->n_children; i++) {
    const int32_t other = father->first_child + i;
    if (other != child) {
      say(trees, trees->people[other].is_man ? BROTHER : SISTER, other, child);
    }
  }
  say_aunts(trees, child, person->father);
  say_aunts(trees, child, person->mother);
}

static void say_all(struct trees *trees) {
  for (int32_t i = 1; i <= trees->n; i++) {
    const struct person *person = &trees->people[i];
    if (person->father != 0) {
      say_child(trees, i);
    }
    if (person->spouse != 0 && person->is_man) {
      say(trees, HUSBAND, i, person->spouse);
      say(trees, WIFE, person->spouse, i);
    }
  }
}

/* Facts that become queries. */
static void take_queries(struct trees *trees) {
  struct stg_kb_atoms *facts = &trees->draft->facts;
  const size_t n = facts->n;
  facts->n = 0;
  for (size_t i = 0; i < n; i++) {
    const struct stg_kb_atom atom = facts->list[i];
    uint32_t *a = &trees->mentions[atom.arg0];
    uint32_t *b = &trees->mentions[atom.arg1];
    if (stg_kb_draw(trees->draft, QUERY_OF) == 0 && *a > LEAST_FACTS && *b > LEAST_FACTS) {
      *a -= 1;
      *b -= 1;
      stg_kb_say(trees->draft, &trees->draft->queries, atom.pred, atom.arg0, atom.arg1);
    } else {
      facts->list[facts->n++] = atom;
    }
  }
}

stg_status stg_kb_make_family(struct stg_kb_draft *draft, int32_t size,
                              struct stg_kb_text *ret_text) {
  struct trees trees = {.draft = draft, .size = size};
  const size_t n = (size_t)size + 1;
  trees.people = stg_calloc(n, sizeof *trees.people);
  trees.mentions = stg_calloc(n, sizeof *trees.mentions);
  draft->predicates = predicates;
  draft->name = print_name;
  draft->user = &trees;
  if (trees.people == NULL || trees.mentions == NULL) {
    draft->status = stg_error_memory(draft->err, "family trees", n * sizeof *trees.people);
  } else {
    add_trees(&trees);
    say_all(&trees);
    stg_kb_shuffle(draft, &draft->facts);
    take_queries(&trees);
  }
  stg_status status = stg_kb_draft_print(draft, ret_text);
  stg_free(trees.people);
  stg_free(trees.mentions);
  return status;
}
