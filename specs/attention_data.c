/*
 * attention_data.c: the numbers of a rope, decode or step workload: elements of its arrays, the
 * sequence and position of each row, and the blocks of a paged cache.
 */
#include "specs/attention_workload.h"

#include <string.h>

stg_status stg_attention_read(const struct stg_attention_workload *workload,
                              const struct stg_spec_array *array, int64_t first, size_t count,
                              stg_dtype dtype, void *ret_elems, stg_error *reterr) {
  return stg_spec_array_read(workload->open, array, first, count, dtype, ret_elems, reterr);
}

void stg_attention_fill_seq(const struct stg_attention_workload *workload, int32_t *ret_seq) {
  for (size_t i = 0; i < workload->n_stretches; i++) {
    for (int64_t k = 0; k < workload->stretches[i].rows; k++) {
      *ret_seq++ = workload->stretches[i].seq;
    }
  }
}

static int64_t position_of(const struct stg_spec_stretch *stretch, int64_t row) {
  if (stretch->seq < 0) {
    return 0;
  }
  return stretch->positions != NULL ? stretch->positions[row] : stretch->position + row;
}

void stg_attention_fill_positions(const struct stg_attention_workload *workload, void *ret_pos) {
  const bool wide = workload->positions == STG_SPEC_POSITIONS_I64;
  int32_t *narrow_pos = ret_pos;
  int64_t *wide_pos = ret_pos;
  size_t row = 0;
  for (size_t i = 0; i < workload->n_stretches; i++) {
    for (int64_t k = 0; k < workload->stretches[i].rows; k++, row++) {
      const int64_t position = position_of(&workload->stretches[i], k);
      if (wide) {
        wide_pos[row] = position;
      } else {
        narrow_pos[row] = (int32_t)position;
      }
    }
  }
}

int64_t stg_attention_table_row(const struct stg_attention_workload *workload) {
  const struct stg_spec_cache *cache = &workload->cache;
  return cache->block == 0 ? 0 : (cache->capacity + cache->block - 1) / cache->block;
}

/* Give out blocks for positions below `ends` where there are none, while the pool has some. */
static int32_t give_out(const struct stg_spec_cache *cache, int64_t row, const int32_t *ends,
                        int32_t next, int32_t *table) {
  for (int64_t j = 0; j < row; j++) {
    for (uint32_t seq = 0; seq < cache->batch; seq++) {
      int32_t *entry = &table[seq * row + j];
      if (*entry < 0 && j * cache->block < ends[seq] && next < (int32_t)cache->n_blocks) {
        *entry = next++;
      }
    }
  }
  return next;
}

void stg_attention_fill_table(const struct stg_attention_workload *workload, int32_t *ret_table) {
  const struct stg_spec_cache *cache = &workload->cache;
  const int64_t row = stg_attention_table_row(workload);
  for (int64_t i = 0; i < cache->batch * row; i++) {
    ret_table[i] = -1;
  }
  const int32_t next = give_out(cache, row, cache->filled, 0, ret_table);
  give_out(cache, row, cache->reach, next, ret_table);
}
