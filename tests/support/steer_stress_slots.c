/*
 * steer_stress_slots.c: what a thread of the stress does to its slots: set, parameters, clear,
 * digest. What it put there is kept in its place.
 */
#include "tests/support/steer_stress_work.h"

#include <string.h>

#include "runtime/base/dtype.h"

static bool intern(struct stress_work *work, const struct stress_place *place, uint32_t number,
                   struct stress_held *held) {
  float values[STRESS_HIDDEN], stored[STRESS_HIDDEN];
  stg_error error = STG_ERROR_INIT;
  const stg_dtype dtype = place->declared->dtype;
  stress_vector(number, stress_is_exact(place), values);
  for (size_t j = 0; j < STRESS_HIDDEN; j++) {
    stg_store_f32(dtype, stored, j, values[j]);
  }
  stg_status status = stg_vector_intern(work->engine, dtype, stored, STRESS_HIDDEN,
                                        &held->vectors[held->count], &error);
  held->count += status == STG_OK ? 1 : 0;
  return stress_good(work, "stg_vector_intern", status, &error);
}

bool stress_release(struct stress_work *work, const struct stress_held *held) {
  bool ok = true;
  for (size_t i = 0; i < held->count; i++) {
    stg_error error = STG_ERROR_INIT;
    ok = stress_good(work, "stg_vector_release",
                     stg_vector_release(work->engine, held->vectors[i], &error), &error) &&
         ok;
  }
  return ok;
}

bool stress_make_calls(struct stress_work *work, const struct stress_place *place,
                       const struct stress_chain *chain, stg_op_call *calls,
                       struct stress_held *held) {
  for (size_t k = 0; k < chain->n_ops; k++) {
    const struct stress_op *op = &chain->ops[k];
    const size_t first = held->count;
    for (uint32_t i = 0; i < stress_n_vectors(op->kind); i++) {
      if (!intern(work, place, op->vectors[i], held)) {
        return false;
      }
    }
    calls[k] = stress_call(op, &held->vectors[first]);
  }
  return true;
}

/* Idle frames of other threads may hold what a table has room for: then the slot stays as it is. */
static bool took(struct stress_work *work, const char *what, stg_status status,
                 const stg_error *error, bool *ret_refused) {
  *ret_refused = status == STG_E_CAPACITY;
  work->worker->sets++;
  work->worker->refused += *ret_refused ? 1 : 0;
  return *ret_refused || stress_good(work, what, status, error);
}

/* New chains at one layer or at all of them. */
static bool set_slot(struct stress_work *work, struct stress_place *place, uint32_t own) {
  struct stress_chain drawn[STRESS_LAYERS] = {0};
  stg_op_call calls[STRESS_LAYERS][STRESS_MAX_OPS];
  stg_chain chains[STRESS_LAYERS];
  struct stress_held held = {.count = 0};
  size_t n_chains = 0;
  bool ok = true, refused = false;
  for (uint32_t layer = stress_draw(&work->random, 2); layer < STRESS_LAYERS && ok; layer++) {
    stress_chain_draw(&work->random, place->declared->kinds, stress_is_exact(place), &drawn[layer]);
    ok = stress_make_calls(work, place, &drawn[layer], calls[layer], &held);
    chains[n_chains++] =
        (stg_chain){.layer = layer, .ops = calls[layer], .n_ops = drawn[layer].n_ops};
  }
  if (ok) {
    stg_error error = STG_ERROR_INIT;
    stg_status status =
        stg_steer_slot_set(place->steer, place->first_slot + own, chains, n_chains, &error);
    ok = took(work, "stg_steer_slot_set", status, &error, &refused);
  }
  if (ok && !refused) {
    memcpy(place->shown[own], drawn, sizeof drawn);
  }
  return stress_release(work, &held) && ok;
}

static bool clear_slot(struct stress_work *work, struct stress_place *place, uint32_t own) {
  stg_error error = STG_ERROR_INIT;
  memset(place->shown[own], 0, sizeof place->shown[own]);
  return stress_good(work, "stg_steer_slot_clear",
                     stg_steer_slot_clear(place->steer, place->first_slot + own, &error), &error);
}

static bool change_parameter(struct stress_work *work, struct stress_place *place, uint32_t own) {
  const uint32_t layer = stress_draw(&work->random, STRESS_LAYERS);
  struct stress_chain *chain = &place->shown[own][layer];
  if (chain->n_ops == 0) {
    return true;
  }
  const uint32_t k = stress_draw(&work->random, (uint32_t)chain->n_ops);
  const int param = stress_param(chain->ops[k].kind);
  if (param < 0) {
    return true;
  }
  const float value = stress_value_draw(&work->random, chain->ops[k].kind, stress_is_exact(place));
  float params[STG_MAX_CALL_PARAMS] = {0};
  stg_error error = STG_ERROR_INIT;
  bool refused = false;
  params[param] = value;
  stg_status status = stg_steer_set_params(place->steer, place->first_slot + own, layer, k, params,
                                           1U << param, &error);
  const bool ok = took(work, "stg_steer_set_params", status, &error, &refused);
  if (ok && !refused) {
    chain->ops[k].value = value;
  }
  return ok;
}

/* Zeros for an empty slot, and for no other. */
static bool ask_digest(struct stress_work *work, const struct stress_place *place, uint32_t own) {
  static const unsigned char zeros[16];
  unsigned char digest[16];
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_steer_digest(place->steer, place->first_slot + own, digest, &error);
  const bool empty = place->shown[own][0].n_ops == 0 && place->shown[own][1].n_ops == 0;
  if (status == STG_OK && empty != (memcmp(digest, zeros, sizeof digest) == 0)) {
    status = stg_error_set(&error, STG_E_INVALID, "slot %u is %s, its digest is not",
                           place->first_slot + own, empty ? "empty" : "set");
  }
  return stress_good(work, "stg_steer_digest", status, &error);
}

bool stress_change_slots(struct stress_work *work, struct stress_place *place) {
  bool ok = true;
  for (uint32_t n = 1 + stress_draw(&work->random, 2); n > 0 && ok; n--) {
    const uint32_t own = stress_draw(&work->random, STRESS_OWN_SLOTS);
    const uint32_t what = stress_draw(&work->random, 8);
    ok = what < 4    ? set_slot(work, place, own)
         : what == 4 ? clear_slot(work, place, own)
         : what < 7  ? change_parameter(work, place, own)
                     : ask_digest(work, place, own);
  }
  return ok;
}
