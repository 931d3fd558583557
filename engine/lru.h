/*
 * lru.h: a list of what is idle, the one that was used longest ago first. Knows no types: a node is
 * a member of what it lists.
 */
#ifndef STG_ENGINE_LRU_H
#define STG_ENGINE_LRU_H

#include <stddef.h>

/* {NULL, NULL}: in no list. */
struct stg_lru_node {
  struct stg_lru_node *before, *after;
};

struct stg_lru {
  struct stg_lru_node *oldest, *newest;
};

/** Append a node that is in no list. */
static inline void stg_lru_push(struct stg_lru *lru, struct stg_lru_node *node) {
  *node = (struct stg_lru_node){.before = lru->newest};
  if (lru->newest != NULL) {
    lru->newest->after = node;
  } else {
    lru->oldest = node;
  }
  lru->newest = node;
}

/** Take a node out of the list that it is in. */
static inline void stg_lru_remove(struct stg_lru *lru, struct stg_lru_node *node) {
  if (node->before != NULL) {
    node->before->after = node->after;
  } else {
    lru->oldest = node->after;
  }
  if (node->after != NULL) {
    node->after->before = node->before;
  } else {
    lru->newest = node->before;
  }
  *node = (struct stg_lru_node){NULL, NULL};
}

#endif
