/*
 * steer_bed.c: see steer_bed.h.
 */
#include "tests/support/steer_bed.h"

#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"

struct steer_bed *steer_bed_on(struct steer_env *env, stg_engine *engine,
                               const stg_steer_desc *desc) {
  struct steer_bed *bed = stg_calloc(1, sizeof *bed);
  stg_steer_desc sized = *desc;
  stg_error error = STG_ERROR_INIT;
  assert_non_null(bed);
  sized.struct_size = sizeof sized;
  bed->env = env;
  bed->engine = engine;
  bed->hidden_size = desc->hidden_size;
  bed->dtype = desc->dtype;
  bed->bank_dtype = desc->bank_dtype != STG_DTYPE_NONE ? desc->bank_dtype : desc->dtype;
  bed->pair = desc->state == STG_STATE_HIDDEN_PLUS_RESIDUAL;
  bed->norm = desc->epilogue == STG_EPILOGUE_ADD_RMSNORM;
  bed->epsilon = desc->epsilon;
  bed->windows = desc->windows;
  bed->probes = desc->probes;
  bed->max_slots = desc->max_slots != 0 ? desc->max_slots : STEER_BED_SLOTS;
  assert_true(bed->max_slots <= STEER_BED_SLOTS && desc->layers <= STEER_BED_LAYERS);
  expect_status(STG_OK, stg_steer_create(engine, &sized, &bed->steer, &error), &error);
  expect_status(STG_OK, stg_frame_create(bed->steer, &bed->frame, &error), &error);
  return bed;
}

struct steer_bed *steer_bed_create(struct steer_env *env, const stg_steer_desc *desc) {
  return steer_bed_on(env, env->engine, desc);
}

void steer_bed_destroy_table(struct steer_bed *bed) {
  stg_error error = STG_ERROR_INIT;
  stg_frame_destroy(bed->frame);
  bed->frame = NULL;
  /* drivers say late that graphs are gone; each call waits for a while */
  stg_status status = stg_steer_destroy(bed->steer, &error);
  for (int tries = 0; status == STG_E_BUSY && tries < 100; tries++) {
    status = stg_steer_destroy(bed->steer, &error);
  }
  expect_status(STG_OK, status, &error);
  bed->steer = NULL;
}

void steer_bed_destroy(struct steer_bed *bed) {
  stg_error error = STG_ERROR_INIT;
  steer_bed_destroy_table(bed);
  for (size_t k = 0; k < bed->n_vectors; k++) {
    expect_status(STG_OK, stg_vector_release(bed->engine, bed->vectors[k].id, &error), &error);
  }
  stg_arena_finish(&bed->arena);
  stg_free(bed);
}

stg_vector steer_bed_vector(struct steer_bed *bed, const float *values) {
  const size_t n = (size_t)bed->hidden_size;
  stg_error error = STG_ERROR_INIT;
  void *stored = stg_calloc(n, stg_dtype_bytes(bed->bank_dtype));
  double *wide = stg_arena_alloc(&bed->arena, n, sizeof *wide);
  stg_vector id = 0;
  assert_non_null(stored);
  assert_non_null(wide);
  assert_true(bed->n_vectors < STEER_BED_VECTORS);
  for (size_t j = 0; j < n; j++) {
    stg_store_f32(bed->bank_dtype, stored, j, values[j]);
    wide[j] = (double)stg_load_f32(bed->bank_dtype, stored, j);
  }
  expect_status(STG_OK, stg_vector_intern(bed->engine, bed->bank_dtype, stored, n, &id, &error),
                &error);
  stg_free(stored);
  bed->vectors[bed->n_vectors++] = (struct steer_bed_vector){id, wide};
  return id;
}

stg_vector steer_bed_direction(struct steer_bed *bed, uint64_t seed, double norm) {
  const size_t n = (size_t)bed->hidden_size;
  float *values = stg_calloc(n, sizeof *values);
  double square = 0;
  assert_non_null(values);
  stg_random_normal(seed, 7, 0, 1, values, n);
  for (size_t j = 0; j < n; j++) {
    square += (double)values[j] * (double)values[j];
  }
  for (size_t j = 0; j < n; j++) {
    values[j] = (float)((double)values[j] * norm / sqrt(square));
  }
  stg_vector id = steer_bed_vector(bed, values);
  stg_free(values);
  return id;
}

const double *steer_bed_wide(const struct steer_bed *bed, stg_vector vector) {
  for (size_t k = 0; k < bed->n_vectors; k++) {
    if (bed->vectors[k].id == vector) {
      return bed->vectors[k].wide;
    }
  }
  fail_msg("vector %llu is not of this bed", (unsigned long long)vector);
  return NULL;
}

struct stg_oracle_chain steer_bed_chain(struct steer_bed *bed, const stg_op_call *calls,
                                        size_t n_calls) {
  struct stg_oracle_op *ops = stg_arena_alloc(&bed->arena, n_calls + 1, sizeof *ops);
  stg_error error = STG_ERROR_INIT;
  assert_non_null(ops);
  for (size_t k = 0; k < n_calls; k++) {
    const struct stg_op *op = NULL;
    expect_status(STG_OK, stg_engine_op_compiled(bed->engine, calls[k].op, &op, &error), &error);
    ops[k].op = op;
    for (size_t i = 0; i < op->n_vectors; i++) {
      ops[k].vectors[i] = steer_bed_wide(bed, calls[k].vectors[i]);
    }
    for (size_t i = 0; i < op->n_params; i++) {
      const bool given = (calls[k].params_given >> i & 1U) != 0;
      ops[k].params[i] = given ? calls[k].params[i] : op->params[i].default_value;
    }
  }
  return (struct stg_oracle_chain){.ops = ops, .n_ops = n_calls};
}

static void hide(struct steer_bed *bed, uint32_t slot) {
  bed->window[slot] = (stg_window){0};
  for (size_t layer = 0; layer < STEER_BED_LAYERS; layer++) {
    bed->shown[layer][slot] = (struct stg_oracle_chain){0};
  }
}

void steer_bed_set_layers(struct steer_bed *bed, uint32_t slot, const stg_chain *chains,
                          size_t n_chains) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_steer_slot_set(bed->steer, slot, chains, n_chains, &error), &error);
  hide(bed, slot);
  for (size_t i = 0; i < n_chains; i++) {
    bed->shown[chains[i].layer][slot] = steer_bed_chain(bed, chains[i].ops, chains[i].n_ops);
  }
}

void steer_bed_set(struct steer_bed *bed, uint32_t slot, const stg_op_call *calls, size_t n_calls) {
  const stg_chain chain = {.layer = 0, .ops = calls, .n_ops = n_calls};
  steer_bed_set_layers(bed, slot, &chain, 1);
}

void steer_bed_set_window(struct steer_bed *bed, uint32_t slot, const stg_op_call *calls,
                          size_t n_calls, const stg_window *window) {
  const stg_chain chain = {.layer = 0, .ops = calls, .n_ops = n_calls};
  stg_error error = STG_ERROR_INIT;
  stg_window sized = *window;
  sized.struct_size = sizeof sized;
  expect_status(STG_OK, stg_steer_slot_set_windowed(bed->steer, slot, &chain, 1, &sized, &error),
                &error);
  hide(bed, slot);
  bed->shown[0][slot] = steer_bed_chain(bed, calls, n_calls);
  bed->window[slot] = sized;
}

void steer_bed_clear(struct steer_bed *bed, uint32_t slot) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_steer_slot_clear(bed->steer, slot, &error), &error);
  hide(bed, slot);
}

void steer_bed_params(struct steer_bed *bed, uint32_t slot, uint32_t layer, size_t op,
                      const float *params, uint32_t given) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_steer_set_params(bed->steer, slot, layer, op, params, given, &error),
                &error);
  /* batches under way keep the chain they were stepped with */
  struct stg_oracle_chain *shown = &bed->shown[layer][slot];
  struct stg_oracle_op *ops = stg_arena_memdup(&bed->arena, shown->ops, shown->n_ops * sizeof *ops);
  assert_non_null(ops);
  for (size_t i = 0; i < STG_MAX_CALL_PARAMS; i++) {
    ops[op].params[i] = (given >> i & 1U) != 0 ? params[i] : ops[op].params[i];
  }
  shown->ops = ops;
}

static stg_op_call with_scale(const char *op, stg_vector v, float scale) {
  return (stg_op_call){.op = op, .vectors = {v}, .params = {scale}, .params_given = 1};
}

stg_op_call steer_add(stg_vector v, float scale) {
  return with_scale("add", v, scale);
}

stg_op_call steer_ablate(stg_vector v, float scale) {
  return with_scale("ablation", v, scale);
}

stg_op_call steer_cap_max(stg_vector v, float max) {
  return (stg_op_call){
      .op = "projection_cap", .vectors = {v}, .params = {0, max}, .params_given = 2};
}

stg_op_call steer_keep_norm(stg_vector v, float scale) {
  return with_scale("add_keep_norm", v, scale);
}

stg_op_call steer_scale(float scale) {
  return with_scale("scale_norm", 0, scale);
}

stg_op_call steer_probe(stg_vector v, uint32_t column) {
  return with_scale("probe", v, (float)column);
}
