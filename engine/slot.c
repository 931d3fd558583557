/*
 * slot.c: what slots show: building records and replacing them. Nothing is sent to the device here
 * unless a buffer full of it waits (upload.c): the next step sends what slots show then.
 */
#include <string.h>

#include "engine/steer.h"
#include "runtime/nvtx.h"

static void reclaim(stg_steer *steer, bool wait) {
  struct stg_record_store store = stg_steer_store(steer);
  stg_frames_collect(steer, false); /* they name records too */
  for (stg_frame *frame = steer->frames; frame != NULL; frame = frame->next) {
    stg_staging_reclaim(&frame->staging, &store, wait);
  }
}

/* A lost device is said here already, though nothing would be sent to it; and what earlier changes
 * left to be sent goes out before it is more than a step should send. */
static stg_status prepare_device(stg_steer *steer, stg_error *reterr) {
  if (!stg_engine_is_cuda(steer->engine)) {
    return STG_OK;
  }
  stg_status status = stg_device_check(steer->engine->device, reterr);
  if (status == STG_OK) {
    status = stg_upload_when_full(steer, reterr);
  }
  if (status == STG_OK && steer->pool.places.used == steer->pool.places.capacity) {
    reclaim(steer, false);
  }
  return status;
}

/* Built-in ops run at once; others want the declared kernels, which may be on their way. */
static stg_status check_kernels(const stg_steer *steer, const struct stg_record *record,
                                stg_error *reterr) {
  if (!steer->kernels->beyond_general || !stg_engine_is_cuda(steer->engine)) {
    return STG_OK;
  }
  for (size_t c = 0; c < record->n_chains; c++) {
    for (size_t k = 0; k < record->chains[c].n_ops; k++) {
      const struct stg_op *op = record->chains[c].ops[k].op;
      if (!stg_op_is_builtin(op)) {
        return stg_kernels_check_user_op(steer->kernels, op->name, reterr);
      }
    }
  }
  return STG_OK;
}

stg_status stg_steer_build(stg_steer *steer, const struct stg_record_source *source,
                           struct stg_record **ret_record, stg_error *reterr) {
  struct stg_record_store store = stg_steer_store(steer);
  struct stg_record *record = NULL;
  stg_status status = prepare_device(steer, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_record_create(&store, source, &record, reterr);
  /* memory of records that only steps in flight still name comes back when those have passed */
  for (int wait = 0; wait < 2 && status == STG_E_CAPACITY; wait++) {
    reclaim(steer, wait != 0);
    status = stg_record_create(&store, source, &record, reterr);
  }
  if (status == STG_OK) {
    status = check_kernels(steer, record, reterr);
  }
  if (status != STG_OK) {
    stg_record_unref(&store, record);
    return status;
  }
  *ret_record = record;
  return STG_OK;
}

void stg_steer_show(stg_steer *steer, uint32_t slot, struct stg_record *record) {
  struct stg_record_store store = stg_steer_store(steer);
  stg_record_unref(&store, steer->slots[slot].record);
  steer->slots[slot].record = record;
  steer->serial++;
}

static stg_status check_slot(const stg_steer *steer, uint32_t slot, const char *call,
                             stg_error *reterr) {
  if (steer == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: steer is NULL", call);
  }
  stg_status status = stg_engine_check_process(steer->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (slot >= steer->decl.max_slots) {
    return stg_error_set(reterr, STG_E_CAPACITY, "%s: slot %u is not below the declared %u", call,
                         slot, steer->decl.max_slots);
  }
  return STG_OK;
}

stg_status stg_steer_slot_set(stg_steer *steer, uint32_t slot, const stg_chain *chains,
                              size_t n_chains, stg_error *reterr) {
  return stg_steer_slot_set_windowed(steer, slot, chains, n_chains, NULL, reterr);
}

stg_status stg_steer_slot_set_windowed(stg_steer *steer, uint32_t slot, const stg_chain *chains,
                                       size_t n_chains, const stg_window *window,
                                       stg_error *reterr) {
  stg_status status = check_slot(steer, slot, "stg_steer_slot_set", reterr);
  if (status != STG_OK) {
    return status;
  }
  if (chains == NULL && n_chains > 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_slot_set: chains is NULL with a count of %zu", n_chains);
  }
  struct stg_window_rule rule;
  status = stg_window_resolve(&steer->decl, window, &rule, reterr);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "slot %u: ", slot);
    return status;
  }
  const struct stg_record_source source = {chains, n_chains, &rule, slot};
  stg_nvtx_push("slot_set");
  pthread_mutex_lock(&steer->lock);
  struct stg_record *record = NULL;
  status = stg_steer_build(steer, &source, &record, reterr);
  if (status == STG_OK) {
    stg_steer_show(steer, slot, record);
  } else {
    stg_error_prefix(reterr, "slot %u: ", slot);
  }
  pthread_mutex_unlock(&steer->lock);
  stg_nvtx_pop();
  return status;
}

stg_status stg_steer_slot_clear(stg_steer *steer, uint32_t slot, stg_error *reterr) {
  stg_status status = check_slot(steer, slot, "stg_steer_slot_clear", reterr);
  if (status == STG_OK) {
    pthread_mutex_lock(&steer->lock);
    stg_steer_show(steer, slot, NULL);
    stg_counters_reset(&steer->counters, slot);
    pthread_mutex_unlock(&steer->lock);
  }
  return status;
}

/* New values for some parameters of one op. */
struct change {
  uint32_t layer;
  size_t op_index;
  const float *params;
  uint32_t given;
};

static void copy_call(const struct stg_record_op *from, const struct change *change,
                      stg_op_call *to) {
  to->op = from->op->name;
  /* bits past the op's parameters stay: a record refuses them */
  to->params_given = ((1u << from->op->n_params) - 1) | (change != NULL ? change->given : 0);
  memcpy(to->vectors, from->vectors, sizeof to->vectors);
  memcpy(to->params, from->params, sizeof to->params);
  for (size_t i = 0; change != NULL && i < from->op->n_params; i++) {
    to->params[i] = change->given >> i & 1u ? change->params[i] : to->params[i];
  }
}

/* A record's chains as calls again, changed: so new values take the same way in as a new chain. */
static stg_status changed_chains(struct stg_arena *arena, const struct stg_record *record,
                                 const struct change *change, stg_chain **ret_chains,
                                 stg_error *reterr) {
  bool found = false;
  size_t n_chains = record != NULL ? record->n_chains : 0;
  stg_chain *chains = stg_arena_alloc(arena, n_chains + 1, sizeof *chains);
  for (size_t i = 0; chains != NULL && i < n_chains; i++) {
    const struct stg_record_chain *from = &record->chains[i];
    stg_op_call *calls = stg_arena_alloc(arena, from->n_ops, sizeof *calls);
    for (size_t k = 0; calls != NULL && k < from->n_ops; k++) {
      bool here = from->layer == change->layer && k == change->op_index;
      copy_call(&from->ops[k], here ? change : NULL, &calls[k]);
      found = found || here;
    }
    chains[i] = (stg_chain){.layer = from->layer, .ops = calls, .n_ops = from->n_ops};
  }
  stg_status status = stg_arena_status(arena, reterr);
  if (status == STG_OK && !found) {
    status = stg_error_set(reterr, STG_E_NOT_FOUND, "layer %u has no op %zu", change->layer,
                           change->op_index);
  }
  *ret_chains = chains;
  return status;
}

stg_status stg_steer_set_params(stg_steer *steer, uint32_t slot, uint32_t layer, size_t op_index,
                                const float *params, uint32_t given, stg_error *reterr) {
  stg_status status = check_slot(steer, slot, "stg_steer_set_params", reterr);
  if (status != STG_OK) {
    return status;
  }
  if (params == NULL && given != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_set_params: params is NULL, given is 0x%x", given);
  }
  const struct change change = {layer, op_index, params, given};
  struct stg_arena arena = {0};
  stg_chain *chains = NULL;
  struct stg_record *record = NULL;
  stg_nvtx_push("set_params");
  pthread_mutex_lock(&steer->lock);
  const struct stg_record *old = steer->slots[slot].record;
  status = changed_chains(&arena, old, &change, &chains, reterr);
  if (status == STG_OK) {
    const struct stg_record_source source = {chains, old->n_chains, &old->window, slot};
    status = stg_steer_build(steer, &source, &record, reterr);
  }
  if (status == STG_OK) {
    stg_steer_show(steer, slot, record);
  } else {
    stg_error_prefix(reterr, "slot %u: ", slot);
  }
  pthread_mutex_unlock(&steer->lock);
  stg_nvtx_pop();
  stg_arena_finish(&arena);
  return status;
}

stg_status stg_steer_digest(const stg_steer *steer, uint32_t slot, unsigned char ret_digest[16],
                            stg_error *reterr) {
  stg_status status = check_slot(steer, slot, "stg_steer_digest", reterr);
  if (status != STG_OK) {
    return status;
  }
  if (ret_digest == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_steer_digest: ret_digest is NULL");
  }
  /* the lock, and a digest that is known from now on, are not what a reader may not change */
  stg_steer *table = (stg_steer *)(uintptr_t)steer;
  const struct stg_record_store store = stg_steer_store(table);
  struct stg_key digest = {0};
  pthread_mutex_lock(&table->lock);
  struct stg_record *record = table->slots[slot].record;
  if (record != NULL && record->n_chains > 0) {
    status = stg_record_digest(&store, record, &digest, reterr);
  }
  pthread_mutex_unlock(&table->lock);
  if (status != STG_OK) {
    return status;
  }
  for (int i = 0; i < 8; i++) {
    ret_digest[i] = (unsigned char)(digest.high >> (56 - 8 * i));
    ret_digest[8 + i] = (unsigned char)(digest.low >> (56 - 8 * i));
  }
  return STG_OK;
}
