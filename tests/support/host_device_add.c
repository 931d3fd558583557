/*
 * host_device_add.c: what the steer kernel does with chains of `add` over float32 rows, in place:
 * from the map by the records to the bank, all in device memory. Where there are counters, rows are
 * counted, without the largest update.
 */
#include "codegen/steer.h"
#include "tests/support/host_device.h"

#define CODE_SCALE_WORD STG_RECORD_PARAM_WORD

static bool has_windows;

void host_device_windows(bool windows) {
  has_windows = windows;
}

static const void *at(uint64_t address) {
  return (const void *)(uintptr_t)address;
}

/* Whether a row is in the window that stands ahead of its record's chains. */
static bool in_window(const uint32_t *record, const int32_t *map, int64_t row) {
  const int32_t *place = map + map[2] + (map[3] == 1 ? 2 : 1) * row;
  const int32_t position = place[0], prompt_len = place[map[3]];
  const int32_t from = (int32_t)record[1], to = (int32_t)record[2];
  const uint32_t phase = position < prompt_len ? STG_RECORD_PROMPT : STG_RECORD_GENERATION;
  return (record[0] & phase) != 0 && position >= (from < 0 ? from + prompt_len : from) &&
         position < (to < 0 ? to + prompt_len : to);
}

/* The record of a row, or NULL: not steered. */
static const uint32_t *record_of(const struct stg_steer_args *args, int64_t row) {
  const int32_t *map = at(args->row_map);
  int32_t entry = map[STG_MAP_HEADER_WORDS + row];
  if (map[0] == STG_MAP_OF_SLOTS && entry >= 0) {
    entry = ((const int32_t *)at(args->table))[entry];
  }
  if (row >= map[1] || entry < 0) {
    return NULL;
  }
  const uint32_t *record = at(args->records + (uint64_t)16 * (uint32_t)entry);
  if (has_windows && !in_window(record, map, row)) {
    return NULL;
  }
  return record;
}

static bool has_head(const struct stg_steer_args *args) {
  return has_windows || args->counts != 0;
}

static void count(const struct stg_steer_args *args, const uint32_t *record, bool changed) {
  const uint32_t slot = record[3];
  if (args->counts != 0 && slot < args->slots) {
    struct stg_steer_counts *counts = (struct stg_steer_counts *)(uintptr_t)args->counts;
    counts[(size_t)slot * args->layers + args->layer].touched++;
    counts[(size_t)slot * args->layers + args->layer].changed += changed;
  }
}

static float as_float(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } word = {.bits = bits};
  return word.value;
}

void host_device_add_chains(const struct stg_steer_args *args) {
  const int64_t n = args->row_stride; /* the tests' rows have no gaps, and are whole chunks */
  for (int64_t row = 0; row < args->rows; row++) {
    const uint32_t *record = record_of(args, row);
    if (record == NULL) {
      continue; /* there may be no tensor */
    }
    const uint32_t *chain = record + (has_head(args) ? STG_RECORD_HEAD_WORDS : 0) +
                            (size_t)args->layer * args->chain_words;
    bool changed = false;
    float *h = (float *)(uintptr_t)args->hidden + row * n;
    const uint32_t n_ops = chain[0] & 0xffu;
    for (uint32_t k = 0; k < n_ops; k++) {
      const uint32_t *op = chain + (chain[2] & 0xffffu) + (size_t)k * STG_RECORD_OP_WORDS;
      const float scale = as_float(op[CODE_SCALE_WORD]);
      const float *v = (const float *)at(args->bank) +
                       (size_t)chain[STG_RECORD_HEADER_WORDS + op[1]] * (size_t)n;
      for (int64_t j = 0; j < n; j++) {
        changed = changed || scale * v[j] != 0;
        h[j] += scale * v[j];
      }
    }
    if (n_ops > 0) {
      count(args, record, changed);
    }
  }
}
