/*
 * attn_bed.c: see attn_bed.h. Uses the public API alone, as a host does.
 */
#include "tools/bench/attn_bed.h"

#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"
#include "tools/report.h"

#define ALIGNMENT 256
#define N_TENSORS 5

static size_t bytes_of(const struct stg_attn_bed *bed, int64_t elems_of_row) {
  return (size_t)(stg_attn_rows(bed->work) * elems_of_row) * stg_dtype_bytes(bed->work->dtype);
}

size_t stg_attn_bed_pitch(const struct stg_attn_bed *bed, int64_t elems_of_row) {
  return stg_round_up(bytes_of(bed, elems_of_row), ALIGNMENT);
}

static void *set_of(const struct stg_attn_bed *bed, void *area, int64_t elems_of_row, size_t set) {
  return area != NULL ? (char *)area + set * stg_attn_bed_pitch(bed, elems_of_row) : NULL;
}

/* ---- tensors ---- */

struct tensor {
  bool is_there;
  int64_t elems_of_row;
  enum stg_attn_tensor content; /* 0: not filled */
  void **area;
};

static stg_status fill_sets(const struct stg_attn_bed *bed, const struct tensor *tensor,
                            stg_error *reterr) {
  const size_t bytes = bytes_of(bed, tensor->elems_of_row);
  void *host = stg_malloc(bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "a tensor of the bench", bytes);
  }
  stg_status status = STG_OK;
  stg_attn_fill(tensor->content, bed->work->dtype, 0,
                stg_attn_rows(bed->work) * tensor->elems_of_row, host);
  for (size_t set = 0; status == STG_OK && set < bed->sets; set++) {
    status = stg_mem_upload(bed->engine, set_of(bed, *tensor->area, tensor->elems_of_row, set),
                            host, bytes, reterr);
  }
  stg_free(host);
  return status;
}

static stg_status make_tensors(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const bool rope = stg_attn_has_rope(c), back = c->work == STG_ATTN_BACKWARD;
  const bool apart = rope && c->capacity == 0;
  const struct tensor tensors[N_TENSORS] = {
      {rope, stg_attn_packed(c), back ? 0 : STG_ATTN_QKV, &bed->qkv},
      {true, stg_attn_q_elems(c), back || !rope ? STG_ATTN_Q : 0, &bed->q},
      {apart, stg_attn_k_elems(c), back ? STG_ATTN_K : 0, &bed->k},
      {apart && !c->v_stays, stg_attn_k_elems(c), back ? STG_ATTN_V : 0, &bed->v},
      {stg_attn_has_attend(c), stg_attn_q_elems(c), 0, &bed->out},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < N_TENSORS; i++) {
    const struct tensor *tensor = &tensors[i];
    if (tensor->is_there) {
      const size_t pitch = stg_attn_bed_pitch(bed, tensor->elems_of_row);
      status = stg_mem_alloc(bed->engine, bed->sets * pitch, tensor->area, reterr);
      if (status == STG_OK && tensor->content != 0) {
        status = fill_sets(bed, tensor, reterr);
      }
    }
  }
  return status;
}

/* ---- the cache ---- */

/* Blocks of a paged cache stand in no order, as they do where requests came and went. */
static int32_t block_of(const struct stg_attn_case *c, uint32_t seq, int64_t block) {
  const int64_t blocks = c->capacity / c->block; /* a power of two, and so is their number */
  return (int32_t)(((int64_t)seq * blocks + block) * 4097 % (blocks * c->batch));
}

static stg_status set_blocks(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const int64_t blocks = c->capacity / c->block;
  int32_t *names = stg_calloc((size_t)blocks, sizeof *names);
  if (names == NULL) {
    return stg_error_memory(reterr, "a row of blocks", (size_t)blocks * sizeof *names);
  }
  stg_status status = STG_OK;
  for (uint32_t seq = 0; status == STG_OK && seq < c->batch; seq++) {
    for (int64_t block = 0; block < blocks; block++) {
      names[block] = block_of(c, seq, block);
    }
    status = stg_kv_set_blocks(bed->kv, seq, 0, names, (size_t)blocks, stg_mem_stream(bed->engine),
                               reterr);
    if (status == STG_OK) {
      status = stg_mem_synchronize(bed->engine, reterr);
    }
  }
  stg_free(names);
  return status;
}

/* From [batch, kv_heads, capacity, dim] to where the table has it. */
static void page(const struct stg_attn_case *c, const unsigned char *dense, unsigned char *paged) {
  const size_t piece = (size_t)c->block * c->dim * stg_dtype_bytes(c->dtype);
  const int64_t blocks = c->capacity / c->block;
  for (int64_t head = 0; head < (int64_t)c->batch * c->kv_heads; head++) {
    for (int64_t block = 0; block < blocks; block++) {
      const int64_t name = block_of(c, (uint32_t)(head / c->kv_heads), block);
      memcpy(paged + (size_t)(name * c->kv_heads + head % c->kv_heads) * piece,
             dense + (size_t)(head * blocks + block) * piece, piece);
    }
  }
}

static stg_status fill_cache(const struct stg_attn_bed *bed, enum stg_attn_tensor tensor, void *to,
                             stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const int64_t elems = (int64_t)c->batch * c->capacity * stg_attn_k_elems(c);
  const size_t unit = stg_dtype_bytes(c->dtype), bytes = (size_t)elems * unit;
  unsigned char *dense = stg_malloc(bytes);
  unsigned char *paged = c->block != 0 ? stg_malloc(bytes) : NULL;
  stg_status status = dense != NULL && (c->block == 0 || paged != NULL)
                          ? STG_OK
                          : stg_error_memory(reterr, "a layer of the cache", bytes);
  if (status == STG_OK) {
    stg_attn_fill(tensor, c->dtype, 0, elems, dense);
  }
  if (status == STG_OK && c->block != 0) {
    page(c, dense, paged);
  }
  for (size_t set = 0; status == STG_OK && set < bed->sets; set++) {
    char *layer = (char *)to + set * (size_t)bed->cache.layer_stride * unit;
    status = stg_mem_upload(bed->engine, layer, c->block != 0 ? paged : dense, bytes, reterr);
  }
  stg_free(dense);
  stg_free(paged);
  return status;
}

int64_t stg_attn_bed_place(const struct stg_attn_bed *bed, int64_t row, uint32_t head) {
  const struct stg_attn_case *c = bed->work;
  const uint32_t seq = (uint32_t)(row / c->rows_each);
  const int64_t position = stg_attn_position(c, row);
  const int64_t unit = c->block != 0 ? block_of(c, seq, position / c->block) : (int64_t)seq;
  const int64_t within = c->block != 0 ? position % c->block : position;
  return unit * bed->cache.seq_stride + head * bed->cache.head_stride + within * c->dim;
}

/* Each sequence as long as it was before its rows of the step. */
static stg_status set_lengths(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  struct stg_arena scratch = {0};
  uint32_t *seqs = stg_arena_alloc(&scratch, c->batch, sizeof *seqs);
  int32_t *lens = stg_arena_alloc(&scratch, c->batch, sizeof *lens);
  stg_status status = stg_arena_status(&scratch, reterr);
  for (uint32_t seq = 0; status == STG_OK && seq < c->batch; seq++) {
    seqs[seq] = seq;
    lens[seq] = (int32_t)(stg_attn_length(c, seq) - c->rows_each);
  }
  if (status == STG_OK) {
    status = stg_kv_set_len(bed->kv, seqs, lens, c->batch, stg_mem_stream(bed->engine), reterr);
  }
  if (status == STG_OK) {
    status = stg_mem_synchronize(bed->engine, reterr);
  }
  stg_arena_finish(&scratch);
  return status;
}

static stg_status make_cache(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const stg_kv_desc desc = {.struct_size = sizeof desc,
                            .layers = bed->sets,
                            .batch = c->batch,
                            .kv_heads = c->kv_heads,
                            .dim = c->dim,
                            .capacity = c->capacity,
                            .dtype = c->dtype,
                            .block = c->block,
                            .n_blocks =
                                c->block != 0 ? c->batch * (uint32_t)(c->capacity / c->block) : 0};
  stg_status status = stg_kv_create(bed->engine, &desc, &bed->kv, reterr);
  if (status == STG_OK) {
    bed->cache.struct_size = sizeof bed->cache;
    stg_kv_get_tensors(bed->kv, &bed->cache);
    status = set_lengths(bed, reterr);
  }
  if (status == STG_OK && c->block != 0) {
    status = set_blocks(bed, reterr);
  }
  if (status == STG_OK && stg_attn_has_attend(c)) {
    status = fill_cache(bed, STG_ATTN_K, bed->cache.k, reterr);
  }
  return status == STG_OK && stg_attn_has_attend(c)
             ? fill_cache(bed, STG_ATTN_V, bed->cache.v, reterr)
             : status;
}

/* ---- rows and parts ---- */

static stg_status set_rows(struct stg_attn_bed *bed, const int32_t *seq, const int32_t *pos,
                           stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const stg_rows_desc desc = {
      .struct_size = sizeof desc, .kv = bed->kv, .max_rows = (uint32_t)stg_attn_rows(c)};
  const stg_rows_step step = {.struct_size = sizeof step,
                              .rows = stg_attn_rows(c),
                              .seq = seq,
                              .pos = c->rows_each == 1 ? NULL : pos};
  stg_status status = stg_rows_create(bed->engine, &desc, &bed->rows, reterr);
  return status == STG_OK ? stg_rows_step_set(bed->rows, &step, stg_mem_stream(bed->engine), reterr)
                          : status;
}

static stg_status make_rows(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const int64_t rows = stg_attn_rows(c);
  struct stg_arena scratch = {0};
  int32_t *seq = stg_arena_alloc(&scratch, (size_t)rows, sizeof *seq);
  int32_t *pos = stg_arena_alloc(&scratch, (size_t)rows, sizeof *pos);
  stg_status status = stg_arena_status(&scratch, reterr);
  for (int64_t row = 0; status == STG_OK && row < rows; row++) {
    seq[row] = (int32_t)(row / c->rows_each);
    pos[row] = (int32_t)stg_attn_position(c, row);
  }
  if (status == STG_OK && bed->kv != NULL) {
    status = set_rows(bed, seq, pos, reterr);
  } else if (status == STG_OK) {
    void *memory = NULL;
    const size_t bytes = (size_t)rows * sizeof *pos;
    status = stg_mem_alloc(bed->engine, bytes, &memory, reterr);
    bed->pos = memory;
    status = status == STG_OK ? stg_mem_upload(bed->engine, memory, pos, bytes, reterr) : status;
  }
  stg_arena_finish(&scratch);
  return status;
}

static stg_status make_rope(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const stg_rope_desc desc = {.struct_size = sizeof desc,
                              .heads = c->heads,
                              .kv_heads = c->kv_heads,
                              .dim = c->dim,
                              .dtype = c->dtype,
                              .round = c->each_op ? STG_ROUND_EACH_OP : STG_ROUND_FINAL,
                              .base = STG_ATTN_ROPE_BASE,
                              .kv = bed->kv,
                              .backward = c->work == STG_ATTN_BACKWARD};
  return stg_rope_create(bed->engine, &desc, &bed->rope, reterr);
}

static stg_status make_steering(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  bed->mix = (struct stg_bench_mix){.name = c->name,
                                    .hidden_size = (uint32_t)stg_attn_q_elems(c),
                                    .n_requests = c->batch,
                                    .rows_each = c->rows_each,
                                    .n_ops = 1,
                                    .n_distinct = c->batch,
                                    .kind = STG_BENCH_ADD};
  stg_status status = stg_bench_batch_init(&bed->mix, &bed->batch, reterr);
  return status == STG_OK ? stg_bench_bed_init(bed->engine, &bed->batch, false, &bed->steer, reterr)
                          : status;
}

static stg_status make_block(struct stg_attn_bed *bed, stg_error *reterr) {
  stg_status status = bed->work->work == STG_ATTN_STEERED ? make_steering(bed, reterr) : STG_OK;
  const stg_block_desc desc = {.struct_size = sizeof desc,
                               .rope = bed->rope,
                               .attend = bed->attend,
                               .steer = bed->steer.steer,
                               .advance = bed->work->advance};
  if (status == STG_OK) {
    status = stg_block_create(bed->engine, &desc, &bed->block, reterr);
  }
  return status == STG_OK ? stg_block_step(bed->block, bed->rows, bed->steer.frame,
                                           stg_mem_stream(bed->engine), reterr)
                          : status;
}

static stg_status make_parts(struct stg_attn_bed *bed, stg_error *reterr) {
  const struct stg_attn_case *c = bed->work;
  const stg_attend_desc attend = {.struct_size = sizeof attend, .heads = c->heads, .kv = bed->kv};
  stg_status status = stg_attn_has_rope(c) ? make_rope(bed, reterr) : STG_OK;
  if (status == STG_OK && stg_attn_has_attend(c)) {
    status = stg_attend_create(bed->engine, &attend, &bed->attend, reterr);
  }
  return status == STG_OK && c->work >= STG_ATTN_BLOCK ? make_block(bed, reterr) : status;
}

stg_status stg_attn_bed_init(stg_engine *engine, const struct stg_attn_case *work, uint32_t sets,
                             struct stg_attn_bed *ret, stg_error *reterr) {
  *ret = (struct stg_attn_bed){.engine = engine, .work = work, .sets = sets};
  stg_status status = work->capacity != 0 ? make_cache(ret, reterr) : STG_OK;
  if (status == STG_OK) {
    status = make_rows(ret, reterr);
  }
  if (status == STG_OK) {
    status = make_tensors(ret, reterr);
  }
  return status == STG_OK ? make_parts(ret, reterr) : status;
}

/* That something is still in use would be a bug of the bench. */
static void note(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, error->message);
  }
}

void stg_attn_bed_finish(struct stg_attn_bed *bed) {
  stg_error err = STG_ERROR_INIT;
  stg_block_destroy(bed->block);
  stg_bench_bed_finish(&bed->steer);
  stg_bench_batch_finish(&bed->batch);
  note(stg_attend_destroy(bed->attend, &err), &err);
  note(stg_rope_destroy(bed->rope, &err), &err);
  note(stg_rows_destroy(bed->rows, &err), &err);
  note(stg_kv_destroy(bed->kv, &err), &err);
  void *const areas[] = {bed->pos, bed->qkv, bed->q, bed->k, bed->v, bed->out};
  for (size_t i = 0; bed->engine != NULL && i < sizeof areas / sizeof areas[0]; i++) {
    stg_mem_free(bed->engine, areas[i]);
  }
  *bed = (struct stg_attn_bed){0};
}

/* ---- launches ---- */

static stg_rope_tensors rope_tensors(const struct stg_attn_bed *bed, size_t set) {
  const struct stg_attn_case *c = bed->work;
  const int64_t k = stg_attn_k_elems(c);
  return (stg_rope_tensors){.struct_size = sizeof(stg_rope_tensors),
                            .layer = bed->kv != NULL ? (uint32_t)set : 0,
                            .qkv = set_of(bed, bed->qkv, stg_attn_packed(c), set),
                            .q = set_of(bed, bed->q, stg_attn_q_elems(c), set),
                            .k = set_of(bed, bed->k, k, set),
                            .v = set_of(bed, bed->v, k, set),
                            .pos = bed->pos,
                            .rows = bed->pos != NULL ? stg_attn_rows(c) : 0};
}

stg_status stg_attn_bed_launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                               stg_stream stream, stg_error *reterr) {
  const struct stg_attn_bed *bed = user;
  const size_t set = index % bed->sets;
  const int64_t width = stg_attn_q_elems(bed->work);
  const stg_rope_tensors rope = rope_tensors(bed, set);
  const stg_attend_tensors attend = {.struct_size = sizeof attend,
                                     .layer = (uint32_t)set,
                                     .q = set_of(bed, bed->q, width, set),
                                     .out = set_of(bed, bed->out, width, set)};
  const stg_block_tensors both = {
      .struct_size = sizeof both, .layer = (uint32_t)set, .rope = &rope, .attend = &attend};
  (void)buffers; /* a case has tensors of its own */
  switch (bed->work->work) {
  case STG_ATTN_ROPE:
    return stg_rope_apply(bed->rope, bed->rows, &rope, stream, reterr);
  case STG_ATTN_BACKWARD:
    return stg_rope_backward(bed->rope, bed->rows, &rope, stream, reterr);
  case STG_ATTN_ATTEND:
    return stg_attend_apply(bed->attend, bed->rows, &attend, stream, reterr);
  case STG_ATTN_BLOCK:
  case STG_ATTN_STEERED:
    break;
  }
  return stg_block_apply(bed->block, &both, stream, reterr);
}
