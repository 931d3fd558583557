/*
 * rows_step.c: one scheduling step: which sequence and position each row is, checked where the host
 * has it, and brought to the device in one copy.
 */
#include <string.h>

#include "engine/attn.h"
#include "runtime/nvtx.h"

/* What a step says of its batch. */
struct facts {
  uint32_t requests, longest;
  int64_t live;
};

static int64_t pos_at(const stg_rows_step *step, int64_t row) {
  return step->pos_is_64 ? ((const int64_t *)step->pos)[row]
                         : (int64_t)((const int32_t *)step->pos)[row];
}

static stg_status check_row(const stg_rows *rows, const stg_rows_step *step, int64_t row,
                            stg_error *reterr) {
  const int32_t seq = step->seq[row];
  if (seq >= (int64_t)rows->batch) {
    return stg_error_set(reterr, STG_E_BAD_SLOT, "seq[%lld]: %d is no sequence below %u",
                         (long long)row, seq, rows->batch);
  }
  if (step->pos == NULL && rows->counts[seq] > 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "seq[%lld]: %d comes twice; rows of one sequence need positions",
                         (long long)row, seq);
  }
  const int64_t pos = step->pos != NULL ? pos_at(step, row) : 0;
  if (pos < 0 || pos > STG_MAX_POSITION) {
    return stg_error_set(reterr, STG_E_INVALID, "pos[%lld]: %lld is not in 0..%lld", (long long)row,
                         (long long)pos, (long long)STG_MAX_POSITION);
  }
  return STG_OK;
}

/* Look at a host map. */
static stg_status look(stg_rows *rows, const stg_rows_step *step, struct facts *ret,
                       stg_error *reterr) {
  struct facts facts = {0};
  memset(rows->counts, 0, rows->batch * sizeof *rows->counts);
  for (int64_t row = 0; row < step->rows; row++) {
    const int32_t seq = step->seq[row];
    if (seq < 0) {
      continue;
    }
    stg_status status = check_row(rows, step, row, reterr);
    if (status != STG_OK) {
      return status;
    }
    const uint32_t count = ++rows->counts[seq];
    facts.requests += count == 1 ? 1 : 0;
    facts.longest = count > facts.longest ? count : facts.longest;
    facts.live++;
  }
  *ret = facts;
  return STG_OK;
}

static stg_status check_step(const stg_rows *rows, const stg_rows_step *step, stg_error *reterr) {
  if (rows == NULL || step == NULL || step->struct_size != sizeof *step) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rows_step_set: rows is NULL, or struct_size is not %zu",
                         sizeof *step);
  }
  if (step->rows < 0 || (step->rows > 0 && step->seq == NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_rows_step_set: %lld rows with seq at %p",
                         (long long)step->rows, (const void *)step->seq);
  }
  if (step->rows > (int64_t)rows->max_rows) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "stg_rows_step_set: %lld rows, max_rows is declared as %u",
                         (long long)step->rows, rows->max_rows);
  }
  if (step->pos == NULL && rows->kv == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rows_step_set: without a cache rows have no lengths; give pos");
  }
  if ((uintptr_t)step->seq % sizeof(int32_t) != 0 ||
      (uintptr_t)step->pos % (step->pos_is_64 ? sizeof(int64_t) : sizeof(int32_t)) != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rows_step_set: seq at %p or pos at %p lies between its elements",
                         (const void *)step->seq, step->pos);
  }
  if (step->on_device && !stg_engine_is_cuda(rows->object.engine)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rows_step_set: on_device with the cpu backend; give host arrays");
  }
  return STG_OK;
}

static stg_status check_stream(const stg_rows *rows, stg_stream stream, stg_error *reterr) {
  bool capturing = false;
  if (!stg_engine_is_cuda(rows->object.engine)) {
    return STG_OK;
  }
  stg_status status =
      stg_stream_is_capturing(rows->object.engine->device, stream, &capturing, reterr);
  if (status == STG_OK && capturing) {
    status = stg_error_set(reterr, STG_E_CAPTURING,
                           "stg_rows_step_set: the stream is capturing; step before the capture "
                           "begins");
  }
  return status;
}

static void keep_on_host(stg_rows *rows, const stg_rows_step *step) {
  if (step->rows > 0) {
    memcpy(rows->seq, step->seq, (size_t)step->rows * sizeof *rows->seq);
  }
  for (int64_t row = 0; row < step->rows && step->pos != NULL; row++) {
    rows->pos[row] = pos_at(step, row);
  }
}

/* The word of the map where positions begin. */
static size_t pos_word(int64_t rows) {
  const size_t end = STG_ROWS_HEADER_WORDS + (size_t)rows;
  return end + end % 2;
}

static size_t pos_bytes(const stg_rows_step *step) {
  return (size_t)step->rows * (step->pos_is_64 ? sizeof(int64_t) : sizeof(int32_t));
}

static void write_header(const stg_rows_step *step, int32_t *map) {
  map[0] = (int32_t)step->rows;
  map[1] = (int32_t)(step->pos == NULL ? STG_ROWS_AT_LEN
                     : step->pos_is_64 ? STG_ROWS_AT_POS64
                                       : STG_ROWS_AT_POS32);
  map[2] = (int32_t)pos_word(step->rows);
  map[3] = 0;
}

/* All of a host map in one copy. Entries behind it are not read: the header says where it ends. */
static stg_status upload_host(stg_rows *rows, const stg_rows_step *step, int32_t *staged,
                              stg_stream stream, stg_error *reterr) {
  const size_t at = pos_word(step->rows) * sizeof(int32_t);
  size_t bytes = STG_ROWS_HEADER_WORDS * sizeof(int32_t);
  write_header(step, staged);
  if (step->rows > 0) {
    memcpy(staged + STG_ROWS_HEADER_WORDS, step->seq, (size_t)step->rows * sizeof *step->seq);
    bytes += (size_t)step->rows * sizeof *step->seq;
  }
  if (step->rows > 0 && step->pos != NULL) {
    memcpy((char *)staged + at, step->pos, pos_bytes(step));
    bytes = at + pos_bytes(step);
  }
  return stg_copy_to_device(rows->object.engine->device, rows->map, staged, bytes, stream, reterr);
}

static stg_status upload_device(stg_rows *rows, const stg_rows_step *step, int32_t *staged,
                                stg_stream stream, stg_error *reterr) {
  struct stg_device *device = rows->object.engine->device;
  const size_t header = STG_ROWS_HEADER_WORDS * sizeof(int32_t);
  write_header(step, staged);
  stg_status status = stg_copy_to_device(device, rows->map, staged, header, stream, reterr);
  if (status == STG_OK && step->rows > 0) {
    status = stg_copy_on_device(device, rows->map + header, stg_attn_address(step->seq),
                                (size_t)step->rows * sizeof *step->seq, stream, reterr);
  }
  if (status == STG_OK && step->rows > 0 && step->pos != NULL) {
    status = stg_copy_on_device(device, rows->map + pos_word(step->rows) * sizeof(int32_t),
                                stg_attn_address(step->pos), pos_bytes(step), stream, reterr);
  }
  return status;
}

static stg_status upload(stg_rows *rows, const stg_rows_step *step, stg_stream stream,
                         stg_error *reterr) {
  struct stg_staging_buffer *buffer = NULL;
  stg_status status = stg_staging_acquire(&rows->staging, NULL, &buffer, reterr);
  if (status != STG_OK) {
    return status;
  }
  rows->stepped = false; /* until all of it is queued */
  status = step->on_device ? upload_device(rows, step, buffer->host, stream, reterr)
                           : upload_host(rows, step, buffer->host, stream, reterr);
  stg_status committed =
      stg_staging_commit(&rows->staging, buffer, stream, status == STG_OK ? reterr : NULL);
  return status != STG_OK ? status : committed;
}

/* What the host does not say of a map on the device. */
static struct facts facts_of_device(const stg_rows_step *step) {
  const uint32_t rows = (uint32_t)step->rows;
  return step->pos == NULL ? (struct facts){rows, 1, step->rows}
                           : (struct facts){1, rows, step->rows};
}

static stg_status step_set(stg_rows *rows, const stg_rows_step *step, stg_stream stream,
                           stg_error *reterr) {
  struct stg_engine *engine = rows->object.engine;
  struct facts facts = facts_of_device(step);
  struct stg_graph_shape shape;
  stg_status status = check_stream(rows, stream, reterr);
  if (status == STG_OK && !step->on_device) {
    status = look(rows, step, &facts, reterr);
  }
  facts.requests = step->requests != 0 ? step->requests : facts.requests;
  facts.longest = step->longest != 0 ? step->longest : facts.longest;
  if (status == STG_OK) {
    status = stg_attn_shape(step->rows, facts.requests, facts.longest, &shape, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = upload(rows, step, stream, reterr);
  } else if (status == STG_OK) {
    keep_on_host(rows, step);
  }
  if (status != STG_OK) {
    return status;
  }
  rows->rows = step->rows;
  rows->shape = shape;
  rows->has_pos = step->pos != NULL;
  rows->stream = stream;
  rows->stepped = rows->fresh = true;
  rows->n_counted = 0;
  stg_attn_object_refill(&rows->object);
  atomic_fetch_add_explicit(&engine->counters.steps, 1, memory_order_relaxed);
  stg_usage_step(&engine->usage, facts.live, facts.requests, &shape);
  return STG_OK;
}

stg_status stg_rows_step_set(stg_rows *rows, const stg_rows_step *step, stg_stream stream,
                             stg_error *reterr) {
  stg_status status = check_step(rows, step, reterr);
  if (status == STG_OK) {
    status = stg_engine_check_process(rows->object.engine, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_nvtx_push("rows");
  status = step_set(rows, step, stream, reterr);
  stg_nvtx_pop();
  return status;
}
