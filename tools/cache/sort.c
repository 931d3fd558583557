/*
 * cache/sort.c: see sort.h.
 */
#include "tools/cache/sort.h"

#include <stdlib.h>
#include <string.h>

#include <steergraph/cache.h>

static int by_path(const void *a, const void *b) {
  return strcmp(((const stg_cache_entry *)a)->path, ((const stg_cache_entry *)b)->path);
}

/* Largest, newest and slowest first; equals in path order, so that the list is stable. */
static int by_size(const void *a, const void *b) {
  uint64_t x = ((const stg_cache_entry *)a)->size_bytes;
  uint64_t y = ((const stg_cache_entry *)b)->size_bytes;
  return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

static int by_age(const void *a, const void *b) {
  int64_t x = ((const stg_cache_entry *)a)->created_unix;
  int64_t y = ((const stg_cache_entry *)b)->created_unix;
  return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

static int by_used(const void *a, const void *b) {
  int64_t x = ((const stg_cache_entry *)a)->used_unix;
  int64_t y = ((const stg_cache_entry *)b)->used_unix;
  return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

static int by_compile(const void *a, const void *b) {
  double x = ((const stg_cache_entry *)a)->compile_ms;
  double y = ((const stg_cache_entry *)b)->compile_ms;
  return x < y ? 1 : x > y ? -1 : by_path(a, b);
}

/* What is not ok has no text, and comes first. */
static int by_text(const char *x, const char *y, const void *a, const void *b) {
  int order = strcmp(x != NULL ? x : "", y != NULL ? y : "");
  return order != 0 ? order : by_path(a, b);
}

static int by_family(const void *a, const void *b) {
  return by_text(((const stg_cache_entry *)a)->family, ((const stg_cache_entry *)b)->family, a, b);
}

static int by_arch(const void *a, const void *b) {
  return by_text(((const stg_cache_entry *)a)->arch, ((const stg_cache_entry *)b)->arch, a, b);
}

static void swap(char *a, char *b, size_t size) {
  for (size_t i = 0; i < size; i++) {
    const char c = a[i];
    a[i] = b[i];
    b[i] = c;
  }
}

void stg_cache_sort(void *rows, size_t count, size_t row_bytes, const char *by, bool reverse) {
  static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
  } orders[] = {
      {"path", by_path},     {"size", by_size}, {"age", by_age},         {"used", by_used},
      {"family", by_family}, {"arch", by_arch}, {"compile", by_compile},
  };
  char *bytes = rows;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0] && count > 0; i++) {
    if (strcmp(by, orders[i].name) == 0) {
      qsort(rows, count, row_bytes, orders[i].compare);
    }
  }
  for (size_t i = 0; reverse && i < count / 2; i++) {
    swap(bytes + i * row_bytes, bytes + (count - 1 - i) * row_bytes, row_bytes);
  }
}
