/*
 * attention_rows.c: the member "rows": of which sequence each row of the step is, and where in it.
 *
 * Expands "repeat" and checks every sum before anything of its size is allocated. Must not know
 * what becomes of rows past the capacity.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "specs/attention_reader.h"

/* One entry of rows.requests, before its repetition: stretches of sequences that follow each
 * other, or of padding. */
struct entry {
  struct stg_spec_stretch stretch;
  bool has_position;
  int64_t repeat;
};

/* Positions [from, to) of a sequence. */
struct range {
  int32_t seq;
  int64_t from, to;
};

static int64_t max_batch(const struct stg_attention_workload *w) {
  return w->cache.exists ? (int64_t)w->cache.batch : STG_ATTENTION_MAX_BATCH;
}

/* "seq", or the one behind that of the entry before; null is padding. */
static stg_status read_seq(struct stg_attention_reader *reader, const struct stg_json *at,
                           int64_t next, struct entry *entry) {
  const int64_t batch = max_batch(reader->workload);
  struct stg_json member;
  int64_t seq = next;
  const bool given = stg_json_find(at, "seq", &member);
  if (given && stg_json_is_null(&member)) {
    entry->stretch.seq = -1;
    return STG_OK;
  }
  if (given) {
    stg_status status = stg_json_int(&member, 0, batch - 1, &seq, reader->spec.err);
    if (status != STG_OK) {
      return status;
    }
  }
  if (seq + entry->repeat > batch) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "sequences %" PRId64 " to %" PRId64 ", but there are %" PRId64, seq,
                          seq + entry->repeat - 1, batch);
  }
  entry->stretch.seq = (int32_t)seq;
  return STG_OK;
}

static stg_status read_position_list(struct stg_attention_reader *reader,
                                     const struct stg_json *list, struct stg_spec_stretch *ret) {
  stg_status status = stg_json_expect_array(list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = stg_json_count(list);
  int64_t *positions = stg_arena_alloc(reader->spec.arena, n, sizeof *positions);
  if (positions == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  struct stg_json item;
  bool more = stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = stg_json_int(&item, 0, STG_ATTENTION_MAX_POSITION, &positions[item.index],
                          reader->spec.err);
  }
  ret->positions = positions;
  ret->rows = (int64_t)n;
  return status;
}

/* Rows at "position" and behind it, or at each of "positions". */
static stg_status read_places(struct stg_attention_reader *reader, const struct stg_json *at,
                              struct entry *entry) {
  struct stg_spec_stretch *stretch = &entry->stretch;
  struct stg_json list;
  struct stg_json member;
  const bool has_rows = stg_json_find(at, "rows", &member);
  entry->has_position = stg_json_find(at, "position", &list);
  if (stg_json_find(at, "positions", &list)) {
    if (has_rows || entry->has_position) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &list,
                            "is instead of 'rows' and 'position'; leave those out");
    }
    return read_position_list(reader, &list, stretch);
  }
  stg_status status = stg_json_get(at, "rows", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_int(&member, 0, STG_WORKLOAD_MAX_ROWS, &stretch->rows, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "position", 0,
                                        STG_ATTENTION_MAX_POSITION -
                                            (stretch->rows > 0 ? stretch->rows - 1 : 0),
                                        &stretch->position);
  }
  return status;
}

/* A row where its sequence ends; padding may have several. */
static stg_status read_row_at_length(struct stg_attention_reader *reader, const struct stg_json *at,
                                     struct entry *entry) {
  static const char *const keys[] = {"position", "positions"};
  struct stg_json member;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (stg_json_find(at, keys[i], &member)) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "rows.positions is 'len': a row is where its sequence ends; leave it "
                            "out, or use 'i32'");
    }
  }
  entry->stretch.rows = 1;
  stg_status status = stg_spec_read_optional_int(&reader->spec, at, "rows", 0,
                                                 STG_WORKLOAD_MAX_ROWS, &entry->stretch.rows);
  if (status == STG_OK && entry->stretch.seq >= 0 && entry->stretch.rows > 1 &&
      stg_json_find(at, "rows", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " rows, but where rows.positions is 'len' a sequence has "
                            "one at most; use 'i32'",
                            entry->stretch.rows);
  }
  return status;
}

static stg_status read_entry(struct stg_attention_reader *reader, const struct stg_json *at,
                             int64_t next, struct entry *entry) {
  static const char *const keys[] = {"seq", "rows", "position", "positions", "repeat", NULL};
  entry->repeat = 1;
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, at, "repeat", 1, STG_WORKLOAD_MAX_REQUESTS,
                                        &entry->repeat);
  }
  if (status == STG_OK) {
    status = read_seq(reader, at, next, entry);
  }
  if (status != STG_OK) {
    return status;
  }
  return reader->workload->positions == STG_SPEC_POSITIONS_LEN
             ? read_row_at_length(reader, at, entry)
             : read_places(reader, at, entry);
}

/* Read the entries and add up what they expand to. */
static stg_status read_entries(struct stg_attention_reader *reader, const struct stg_json *list,
                               struct entry *entries, int64_t *ret_stretches) {
  struct stg_attention_workload *w = reader->workload;
  struct stg_json item;
  int64_t stretches = 0;
  int64_t next = 0;
  bool more = stg_json_first(list, &item);
  for (; more; more = stg_json_next(&item)) {
    struct entry *entry = &entries[item.index];
    stg_status status = read_entry(reader, &item, next, entry);
    if (status != STG_OK) {
      return status;
    }
    next = entry->stretch.seq >= 0 ? entry->stretch.seq + entry->repeat : next;
    stretches += entry->repeat;
    w->rows += entry->repeat * entry->stretch.rows;
    if (stretches > STG_WORKLOAD_MAX_REQUESTS || w->rows > STG_WORKLOAD_MAX_ROWS) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &item,
                            "%" PRId64 " requests and %" PRId64 " rows up to here; at most %d and "
                            "%d",
                            stretches, w->rows, STG_WORKLOAD_MAX_REQUESTS, STG_WORKLOAD_MAX_ROWS);
    }
    w->batch = w->cache.exists || next <= w->batch ? w->batch : (uint32_t)next;
  }
  *ret_stretches = stretches;
  return STG_OK;
}

static stg_status expand(struct stg_attention_reader *reader, const struct entry *entries, size_t n,
                         int64_t total) {
  struct stg_attention_workload *w = reader->workload;
  struct stg_spec_stretch *stretches =
      stg_arena_alloc(reader->spec.arena, (size_t)total, sizeof *stretches);
  if (stretches == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  for (size_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < entries[i].repeat; k++) {
      struct stg_spec_stretch *stretch = &stretches[w->n_stretches++];
      *stretch = entries[i].stretch;
      stretch->seq += stretch->seq >= 0 ? (int32_t)k : 0;
      if (!entries[i].has_position && stretch->seq >= 0 && w->cache.exists) {
        stretch->position = w->cache.lengths[stretch->seq];
      }
    }
  }
  w->stretches = stretches;
  return STG_OK;
}

/* The positions of a sequence that have memory, as far as a stretch of its rows goes. */
static void note_reach(const struct stg_spec_cache *cache, const struct stg_spec_stretch *stretch,
                       int32_t *reach) {
  int64_t end = stretch->positions != NULL ? 0 : stretch->position + stretch->rows;
  for (int64_t k = 0; stretch->positions != NULL && k < stretch->rows; k++) {
    end = stretch->positions[k] + 1 > end ? stretch->positions[k] + 1 : end;
  }
  end = end < cache->capacity ? end : cache->capacity;
  *reach = end > *reach ? (int32_t)end : *reach;
}

/* Rows of each sequence, and the positions that they and the lengths reach. */
static stg_status count_rows(struct stg_attention_reader *reader, const struct stg_json *list) {
  struct stg_attention_workload *w = reader->workload;
  int64_t *counts = stg_arena_alloc(reader->spec.arena, w->batch, sizeof *counts);
  int32_t *reach = stg_arena_alloc(reader->spec.arena, w->batch, sizeof *reach);
  if (counts == NULL || reach == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  const struct stg_spec_cache *cache = &w->cache;
  if (cache->exists) {
    memcpy(reach, cache->lengths, cache->batch * sizeof *reach);
  }
  for (size_t i = 0; i < w->n_stretches; i++) {
    const struct stg_spec_stretch *stretch = &w->stretches[i];
    if (stretch->seq < 0 || stretch->rows == 0) {
      continue;
    }
    int64_t *count = &counts[stretch->seq];
    w->sequences += *count == 0;
    *count += stretch->rows;
    w->longest = *count > w->longest ? *count : w->longest;
    if (w->positions == STG_SPEC_POSITIONS_LEN && *count > 1) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, list,
                            "sequence %d has two rows, but where rows.positions is 'len' it has "
                            "one at most; use 'i32'",
                            stretch->seq);
    }
    note_reach(cache, stretch, &reach[stretch->seq]);
  }
  w->cache.reach = cache->exists ? reach : NULL;
  w->cache.filled =
      w->kind == STG_SPEC_DECODE && !cache->tokens ? w->cache.reach : w->cache.lengths;
  return STG_OK;
}

static int compare_ranges(const void *a, const void *b) {
  const struct range *left = a;
  const struct range *right = b;
  if (left->seq != right->seq) {
    return left->seq < right->seq ? -1 : 1;
  }
  return left->from < right->from ? -1 : left->from > right->from;
}

/* No place of the cache is appended to twice: which row it would hold is left open. */
static stg_status check_appends(struct stg_attention_reader *reader, const struct stg_json *list) {
  const struct stg_attention_workload *w = reader->workload;
  size_t n = 0;
  for (size_t i = 0; i < w->n_stretches; i++) {
    n += w->stretches[i].positions != NULL ? (size_t)w->stretches[i].rows : 1;
  }
  struct range *ranges = stg_arena_alloc(reader->spec.arena, n, sizeof *ranges);
  if (ranges == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  n = 0;
  for (size_t i = 0; i < w->n_stretches; i++) {
    const struct stg_spec_stretch *s = &w->stretches[i];
    for (int64_t k = 0; s->positions != NULL && k < s->rows; k++) {
      ranges[n++] = (struct range){s->seq, s->positions[k], s->positions[k] + 1};
    }
    if (s->positions == NULL && s->rows > 0) {
      ranges[n++] = (struct range){s->seq, s->position, s->position + s->rows};
    }
  }
  if (n > 1) {
    qsort(ranges, n, sizeof *ranges, compare_ranges);
  }
  for (size_t i = 1; i < n; i++) {
    if (ranges[i].seq >= 0 && ranges[i].seq == ranges[i - 1].seq &&
        ranges[i].from < ranges[i - 1].to) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, list,
                            "sequence %d has two rows at position %" PRId64
                            "; a cache holds one of them",
                            ranges[i].seq, ranges[i].from);
    }
  }
  return STG_OK;
}

/* The blocks that hold what is in the cache already. */
static stg_status check_blocks(struct stg_attention_reader *reader, const struct stg_json *root) {
  const struct stg_spec_cache *cache = &reader->workload->cache;
  struct stg_json object;
  struct stg_json blocks;
  int64_t needed = 0;
  for (uint32_t i = 0; cache->block > 0 && i < cache->batch; i++) {
    needed += ((int64_t)cache->filled[i] + cache->block - 1) / cache->block;
  }
  if (needed > cache->n_blocks && stg_json_find(root, "cache", &object) &&
      stg_json_find(&object, "blocks", &blocks)) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &blocks,
                          "%u, but what the cache holds before the step needs %" PRId64,
                          cache->n_blocks, needed);
  }
  return STG_OK;
}

static stg_status read_requests(struct stg_attention_reader *reader, const struct stg_json *list) {
  struct stg_attention_workload *w = reader->workload;
  stg_status status = stg_json_expect_array(list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = stg_json_count(list);
  struct entry *entries = stg_arena_alloc(reader->spec.arena, n, sizeof *entries);
  if (entries == NULL) {
    return stg_arena_status(reader->spec.arena, reader->spec.err);
  }
  int64_t total = 0;
  status = read_entries(reader, list, entries, &total);
  if (status == STG_OK) {
    status = expand(reader, entries, n, total);
  }
  if (status == STG_OK) {
    status = count_rows(reader, list);
  }
  return status == STG_OK && w->cache.exists && w->kind != STG_SPEC_DECODE &&
                 w->positions != STG_SPEC_POSITIONS_LEN
             ? check_appends(reader, list)
             : status;
}

static stg_status read_form(struct stg_attention_reader *reader, const struct stg_json *rows) {
  static const char *const words[] = {"len", "i32", "i64", NULL};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json member;
  unsigned form = STG_SPEC_POSITIONS_I32;
  stg_status status = stg_spec_read_word(&reader->spec, rows, "positions", words, &form);
  if (status == STG_OK && form == STG_SPEC_POSITIONS_LEN && (!w->cache.exists || w->cache.tokens) &&
      stg_json_find(rows, "positions", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'len' is the length of a sequence in a cache, and there is none; use "
                            "'i32' or 'i64'");
  }
  w->positions = (enum stg_spec_positions)form;
  return status;
}

stg_status stg_attention_read_rows(struct stg_attention_reader *reader,
                                   const struct stg_json *root) {
  static const char *const keys[] = {"layer", "positions", "requests", NULL};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json rows;
  struct stg_json list;
  int64_t layer = 0;
  stg_status status = stg_json_get(root, "rows", &rows, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&rows, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, &rows, "layer", 0, w->layers - 1, &layer);
  }
  w->layer = (uint32_t)layer;
  if (status == STG_OK) {
    status = read_form(reader, &rows);
  }
  if (status == STG_OK) {
    status = stg_json_get(&rows, "requests", &list, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_requests(reader, &list);
  }
  return status == STG_OK ? check_blocks(reader, root) : status;
}
