/*
 * once.c: the one-shot form: a batch by lengths, a chain per request, slots borrowed for the call.
 */
#include <string.h>

#include "engine/steer.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

/* What the call works with. `slots[i]` is the slot of request i, or -1. */
struct once_job {
  int32_t *slots;
  int32_t *row_map;
  int32_t *places;    /* zeros, for a table with windows: its chains here have none */
  uint32_t *borrowed; /* slots to give back */
  size_t n_borrowed;
};

static stg_status check_once(const stg_steer *steer, const stg_once *once, stg_error *reterr) {
  if (steer == NULL || once == NULL || once->struct_size != sizeof *once) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_once: steer is NULL, or struct_size is not %zu", sizeof *once);
  }
  if (once->rows < 0 || (once->n_requests > 0 && (once->lengths == NULL || once->chains == NULL))) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_once: %zu requests over %lld rows without lengths or chains",
                         once->n_requests, (long long)once->rows);
  }
  if (once->rows > (int64_t)steer->decl.max_rows) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "stg_steer_once: %lld rows, the table declares max_rows %u",
                         (long long)once->rows, steer->decl.max_rows);
  }
  int64_t sum = 0;
  for (size_t i = 0; i < once->n_requests; i++) {
    if (once->lengths[i] < 0 || once->lengths[i] > once->rows) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_once: lengths[%zu] is %lld, with %lld rows in all", i,
                           (long long)once->lengths[i], (long long)once->rows);
    }
    sum += once->lengths[i];
    if (once->chains[i].n_ops > 0 && once->chains[i].ops == NULL) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_once: chains[%zu].ops is NULL with a count of %zu", i,
                           once->chains[i].n_ops);
    }
    if (once->chains[i].n_ops > 0 && once->chains[i].layer != once->apply.layer) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_once: chains[%zu].layer is %u, apply.layer is %u", i,
                           once->chains[i].layer, once->apply.layer);
    }
  }
  if (sum > once->rows) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_once: lengths sum to %lld, the tensors have %lld rows",
                         (long long)sum, (long long)once->rows);
  }
  return STG_OK;
}

/* Equal to the last bit: 0 and -0 are different parameters, a NaN is equal to itself. */
static bool same_params(const float *a, const float *b) {
  for (size_t i = 0; i < STG_MAX_CALL_PARAMS; i++) {
    if (stg_f32_bits(a[i]) != stg_f32_bits(b[i])) {
      return false;
    }
  }
  return true;
}

static bool same_call(const stg_op_call *a, const stg_op_call *b) {
  return a->op != NULL && b->op != NULL && strcmp(a->op, b->op) == 0 &&
         a->params_given == b->params_given &&
         memcmp(a->vectors, b->vectors, sizeof a->vectors) == 0 &&
         same_params(a->params, b->params);
}

static bool same_chain(const stg_chain *a, const stg_chain *b) {
  bool same = a->n_ops == b->n_ops;
  for (size_t k = 0; same && k < a->n_ops; k++) {
    same = same_call(&a->ops[k], &b->ops[k]);
  }
  return same;
}

/* The slot of an earlier request with the same chain, or -1. */
static int32_t find_earlier(const stg_once *once, const struct once_job *job, size_t request) {
  for (size_t i = 0; i < request; i++) {
    if (job->slots[i] >= 0 && same_chain(&once->chains[i], &once->chains[request])) {
      return job->slots[i];
    }
  }
  return -1;
}

static int32_t find_free(const stg_steer *steer) {
  for (uint32_t s = 0; s < steer->decl.max_slots; s++) {
    if (steer->slots[s].record == NULL) {
      return (int32_t)s;
    }
  }
  return -1;
}

/* Put every distinct chain into a free slot. The table's lock is held. */
static stg_status borrow_slots(stg_steer *steer, const stg_once *once, struct once_job *job,
                               stg_error *reterr) {
  for (size_t i = 0; i < once->n_requests; i++) {
    job->slots[i] = -1;
    if (once->chains[i].n_ops == 0) {
      continue;
    }
    job->slots[i] = find_earlier(once, job, i);
    if (job->slots[i] >= 0) {
      continue;
    }
    int32_t slot = find_free(steer);
    if (slot < 0) {
      return stg_error_set(
          reterr, STG_E_CAPACITY,
          "stg_steer_once: chains[%zu]: no free slot of %u; declare more or clear some", i,
          steer->decl.max_slots);
    }
    struct stg_record *record = NULL;
    const struct stg_record_source source = {
        .chains = &once->chains[i], .n_chains = 1, .slot = STG_RECORD_NO_SLOT};
    stg_status status = stg_steer_build(steer, &source, &record, reterr);
    if (status != STG_OK) {
      stg_error_prefix(reterr, "stg_steer_once: request %zu: ", i);
      return status;
    }
    stg_steer_show(steer, (uint32_t)slot, record);
    job->slots[i] = slot;
    job->borrowed[job->n_borrowed++] = (uint32_t)slot;
  }
  return STG_OK;
}

/* Rows of requests in order; what is left is padding. Returns the longest request. */
static uint32_t fill_map(const stg_once *once, struct once_job *job) {
  int64_t at = 0, longest = 0;
  for (size_t i = 0; i < once->n_requests; i++) {
    longest = once->lengths[i] > longest ? once->lengths[i] : longest;
    for (int64_t r = 0; r < once->lengths[i]; r++) {
      job->row_map[at++] = job->slots[i] >= 0 ? job->slots[i] : STG_ROW_UNSTEERED;
    }
  }
  while (at < once->rows) {
    job->row_map[at++] = STG_ROW_PADDING;
  }
  return (uint32_t)longest;
}

/* The frame of all calls, made by the first. Calls on different streams follow each other by its
 * event: the host sees no frame that it could order. */
static stg_status once_frame(stg_steer *steer, stg_frame **ret_frame, stg_error *reterr) {
  if (steer->once == NULL) {
    stg_status status = stg_frame_create(steer, &steer->once, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  if (stg_engine_is_cuda(steer->engine) && steer->once->used == NULL) {
    stg_status status = stg_event_create(steer->engine->device, false, &steer->once->used, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  *ret_frame = steer->once;
  return STG_OK;
}

/*
 * Borrow slots, step, and give the slots back, all under the table's lock: no other thread sees
 * them borrowed, or takes one meanwhile. The frame's snapshot holds the records until the apply is
 * over.
 */
static stg_status step_once(stg_steer *steer, const stg_once *once, struct once_job *job,
                            stg_frame *frame, stg_stream stream, stg_error *reterr) {
  pthread_mutex_lock(&steer->lock);
  stg_status status = borrow_slots(steer, once, job, reterr);
  if (status == STG_OK) {
    const stg_step step = {
        .struct_size = sizeof step,
        .rows = once->rows,
        .row_map = job->row_map,
        .longest = fill_map(once, job),
        .requests = (uint32_t)once->n_requests,
        .positions = job->places,
        .prompt_lens = job->places,
    };
    status = stg_steer_step_held(frame, &step, stream, reterr);
  }
  for (size_t i = 0; i < job->n_borrowed; i++) {
    stg_steer_show(steer, job->borrowed[i], NULL);
  }
  pthread_mutex_unlock(&steer->lock);
  return status;
}

/*
 * Note what the next call must wait for. The rows have been steered by now, and who is told of a
 * failure asks again, which would steer them twice: where the event cannot be had, this waits.
 */
static stg_status note_use(const stg_frame *frame, stg_stream stream, stg_error *reterr) {
  struct stg_device *device = frame->steer->engine->device;
  return stg_event_record(device, frame->used, stream, NULL) == STG_OK
             ? STG_OK
             : stg_stream_synchronize(device, stream, reterr);
}

/* The apply, and after it what the next call must wait for. */
static stg_status apply_once(stg_frame *frame, const stg_once *once, stg_stream stream,
                             stg_error *reterr) {
  stg_steer *steer = frame->steer;
  stg_status status = stg_steer_apply(frame, &once->apply, stream, reterr);
  stg_status recorded = STG_OK;
  pthread_mutex_lock(&steer->lock);
  if (frame->used != NULL) {
    /* also after an apply that failed: the step was queued */
    recorded = note_use(frame, stream, status == STG_OK ? reterr : NULL);
  }
  if (recorded == STG_OK) {
    stg_frame_let_go(frame, stream);
  }
  pthread_mutex_unlock(&steer->lock);
  return status != STG_OK ? status : recorded;
}

stg_status stg_steer_once(stg_steer *steer, const stg_once *once, stg_stream stream,
                          stg_error *reterr) {
  stg_status status = check_once(steer, once, reterr);
  if (status == STG_OK) {
    status = stg_engine_check_process(steer->engine, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_arena arena = {0};
  struct once_job job = {
      .slots = stg_arena_alloc(&arena, once->n_requests + 1, sizeof(int32_t)),
      .row_map = stg_arena_alloc(&arena, (size_t)once->rows + 1, sizeof(int32_t)),
      .places = steer->decl.windows
                    ? stg_arena_alloc(&arena, (size_t)once->rows + 1, sizeof(int32_t))
                    : NULL,
      .borrowed = stg_arena_alloc(&arena, once->n_requests + 1, sizeof(uint32_t)),
  };
  stg_frame *frame = NULL;
  status = stg_arena_status(&arena, reterr);
  pthread_mutex_lock(&steer->once_lock);
  if (status == STG_OK) {
    status = once_frame(steer, &frame, reterr);
  }
  if (status == STG_OK) {
    status = step_once(steer, once, &job, frame, stream, reterr);
  }
  if (status == STG_OK) {
    status = apply_once(frame, once, stream, reterr);
  }
  pthread_mutex_unlock(&steer->once_lock);
  stg_arena_finish(&arena);
  return status;
}
