/*
 * cache/page/groups.c: see groups.h. Must not know how groups are drawn.
 */
#include "tools/cache/page/groups.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/cache/page/parts.h"

/* The words of a signature that tell kernels of one family apart as their users do. */
static const char *const words[] = {
    "work",    "heads", "dim",      "tile", "hidden", "dtype", "d_in",  "d_out",     "components",
    "weights", "state", "epilogue", "sink", "cache",  "dir",   "embed", "arithmetic"};
#define N_WORDS (sizeof words / sizeof words[0])

static bool same_word(const char *a, const char *b, const char *word) {
  const char *x = NULL;
  const char *y = NULL;
  const size_t x_len = stg_page_word(a, word, &x);
  const size_t y_len = stg_page_word(b, word, &y);
  return x_len == y_len && (x_len == 0 || memcmp(x, y, x_len) == 0);
}

static bool are_one(const stg_cache_entry *a, const stg_cache_entry *b, enum stg_page_grouping by) {
  bool same = strcmp(a->family, b->family) == 0 && strcmp(a->arch, b->arch) == 0;
  if (by == STG_PAGE_BY_ENTRY) {
    return false;
  }
  if (by == STG_PAGE_BY_FAMILY) {
    return same && strcmp(a->compiler, b->compiler) == 0;
  }
  for (size_t i = 0; i < N_WORDS && same; i++) {
    same = same_word(a->signature, b->signature, words[i]);
  }
  return same;
}

static void merge(struct stg_page_group *into, const struct stg_page_group *group) {
  into->min_ms = into->count == 0 || group->min_ms < into->min_ms ? group->min_ms : into->min_ms;
  into->max_ms = into->count == 0 || group->max_ms > into->max_ms ? group->max_ms : into->max_ms;
  into->ms += group->ms;
  into->count += group->count;
  into->bytes += group->bytes;
  into->cubin_bytes += group->cubin_bytes;
  into->source_bytes += group->source_bytes;
}

/* Find the group of an entry among `count`, or begin it. */
static void add(struct stg_page_group *groups, size_t *count, const struct stg_cache_page *page,
                size_t number, enum stg_page_grouping by) {
  const stg_cache_entry *entry = &page->entries[number].entry;
  const double ms = entry->compile_ms > 0 && entry->compile_ms < 1e12 ? entry->compile_ms : 0;
  const struct stg_page_group alone = {.first = entry,
                                       .number = number,
                                       .count = 1,
                                       .bytes = entry->size_bytes,
                                       .cubin_bytes = entry->cubin_bytes,
                                       .source_bytes = entry->source_bytes,
                                       .ms = ms,
                                       .min_ms = ms,
                                       .max_ms = ms};
  size_t at = 0;
  while (at < *count && !are_one(groups[at].first, entry, by)) {
    at++;
  }
  if (at == *count) {
    groups[(*count)++] = alone;
  } else {
    merge(&groups[at], &alone);
  }
}

/* More than `max` groups: stops with max + 1. */
static size_t collect(const struct stg_cache_page *page, enum stg_page_grouping by, size_t max,
                      struct stg_page_group *groups) {
  size_t count = 0;
  for (size_t i = 0; i < page->count && count <= max; i++) {
    if (page->entries[i].entry.ok) {
      add(groups, &count, page, i, by);
    }
  }
  return count;
}

double stg_page_group_mean_ms(const struct stg_page_group *group) {
  return group->count > 0 ? group->ms / (double)group->count : 0;
}

static int by_bytes(const void *a, const void *b) {
  const struct stg_page_group *x = a;
  const struct stg_page_group *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1)
                              : (x->number > y->number) - (x->number < y->number);
}

static int by_mean(const void *a, const void *b) {
  const struct stg_page_group *x = a;
  const struct stg_page_group *y = b;
  const double first = stg_page_group_mean_ms(x);
  const double second = stg_page_group_mean_ms(y);
  return first < second   ? 1
         : first > second ? -1
                          : (x->number > y->number) - (x->number < y->number);
}

/* The last place is for all that are left when there are more. */
static void take(const struct stg_page_group *groups, size_t count, struct stg_page_groups *ret) {
  const size_t whole = count <= STG_PAGE_MAX_GROUPS ? count : STG_PAGE_MAX_GROUPS - 1;
  memcpy(ret->groups, groups, whole * sizeof *groups);
  ret->count = whole;
  if (whole < count) {
    struct stg_page_group *rest = &ret->groups[ret->count++];
    *rest = (struct stg_page_group){0};
    for (size_t i = whole; i < count; i++) {
      merge(rest, &groups[i]);
    }
  }
}

stg_status stg_page_groups_make(const struct stg_cache_page *page, bool by_time,
                                struct stg_page_groups *ret, stg_error *reterr) {
  struct stg_page_group *groups = stg_calloc(page->count + 1, sizeof *groups);
  if (groups == NULL) {
    return stg_error_memory(reterr, "the groups of a chart", page->count * sizeof *groups);
  }
  size_t count = STG_PAGE_MAX_GROUPS + 1;
  for (ret->by = STG_PAGE_BY_ENTRY; ret->by < STG_PAGE_BY_FAMILY; ret->by++) {
    count = collect(page, ret->by, STG_PAGE_MAX_GROUPS, groups);
    if (count <= STG_PAGE_MAX_GROUPS) {
      break;
    }
  }
  if (count > STG_PAGE_MAX_GROUPS) {
    count = collect(page, STG_PAGE_BY_FAMILY, page->count, groups);
  }
  qsort(groups, count, sizeof *groups, by_time ? by_mean : by_bytes);
  take(groups, count, ret);
  stg_free(groups);
  return STG_OK;
}

static void print_words(const stg_cache_entry *entry, struct stg_strbuf *out) {
  for (size_t i = 0; i < N_WORDS; i++) {
    const char *value = NULL;
    const size_t len = stg_page_word(entry->signature, words[i], &value);
    /* "hidden+residual" is "+residual": that there are hidden states goes without saying */
    const size_t said = len >= 6 && memcmp(value, "hidden", 6) == 0 ? 6 : 0;
    if (len > said && strncmp(value, "none", len) != 0) {
      stg_strbuf_char(out, ' ');
      stg_strbuf_mem(out, value + said, len - said);
    }
  }
}

void stg_page_group_print(const struct stg_page_groups *groups, const struct stg_page_group *group,
                          struct stg_strbuf *out) {
  const stg_cache_entry *entry = group->first;
  if (entry == NULL) {
    stg_strbuf_str(out, "all others");
  } else if (groups->by == STG_PAGE_BY_FAMILY) {
    stg_strbuf_printf(out, "%s %s %s", entry->family, entry->arch, entry->compiler);
  } else if (groups->by == STG_PAGE_BY_SHAPE) {
    stg_strbuf_str(out, entry->family);
    print_words(entry, out);
    stg_strbuf_printf(out, " %s", entry->arch);
  } else {
    stg_strbuf_printf(out, "%.8s", entry->key);
    print_words(entry, out);
  }
}
