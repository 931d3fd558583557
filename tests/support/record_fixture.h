/*
 * record_fixture.h: a declaration, a bank and a pool, without a device, and records of chains.
 *
 * After cmocka.h: what must not fail is asserted here.
 */
#ifndef STG_TESTS_SUPPORT_RECORD_FIXTURE_H
#define STG_TESTS_SUPPORT_RECORD_FIXTURE_H

#include <string.h>

#include "engine/ops.h"
#include "engine/record.h"

#define HIDDEN 6
#define VECTORS 5

/* A declaration, a bank and a pool, without a device; a pool is what makes records device records.
 */
struct fixture {
  struct stg_op_table *ops;
  struct stg_steer_decl decl;
  struct stg_vector_table *table;
  struct stg_bank bank;
  struct stg_pool pool;
  struct stg_record_store store;
  stg_vector vectors[VECTORS];
};

/* With ops of the test's own beside all built-ins that edit. */
static inline void open_fixture_with(struct fixture *f, bool device, const char *const *ops,
                                     size_t n_ops) {
  stg_steer_desc desc = {.struct_size = sizeof desc,
                         .hidden_size = HIDDEN,
                         .layers = 4,
                         .dtype = STG_F32,
                         .max_slots = 4,
                         .max_vectors = VECTORS};
  struct stg_steer_limits limits;
  stg_error error = STG_ERROR_INIT;
  *f = (struct fixture){0};
  assert_int_equal(STG_OK, stg_op_table_create(&f->ops, &error));
  for (size_t i = 0; i < n_ops; i++) {
    assert_int_equal(STG_OK, stg_op_table_add(f->ops, "<test>", ops[i], strlen(ops[i]), &error));
  }
  const char *names[32];
  for (size_t i = 0; n_ops > 0 && i < stg_op_table_count(f->ops); i++) {
    const struct stg_op *op = stg_op_table_at(f->ops, i);
    if (!op->has_output) {
      names[desc.n_ops++] = op->name;
      desc.ops = names;
    }
  }
  assert_int_equal(STG_OK, stg_steer_decl_init(&desc, f->ops, &f->decl, &error));
  assert_int_equal(STG_OK, stg_steer_limits(&f->decl, &limits, &error));
  assert_int_equal(STG_OK, stg_vector_table_create(&f->table, &error));
  assert_int_equal(STG_OK,
                   stg_bank_init(&f->bank, f->table, NULL, VECTORS, limits.bank_row_bytes, &error));
  assert_int_equal(STG_OK, stg_pool_init(&f->pool, limits.records, limits.record_bytes, &error));
  f->store = (struct stg_record_store){.decl = &f->decl,
                                       .vectors = f->table,
                                       .bank = &f->bank,
                                       .pool = device ? &f->pool : NULL,
                                       .chain_words = limits.chain_words};
  for (size_t k = 0; k < VECTORS; k++) {
    const float values[HIDDEN] = {1, (float)k, 0.5F, 0, 0, -2};
    assert_int_equal(
        STG_OK, stg_vector_table_intern(f->table, STG_F32, values, HIDDEN, &f->vectors[k], &error));
  }
}

static inline void open_fixture(struct fixture *f, bool device) {
  open_fixture_with(f, device, NULL, 0);
}

static inline void close_fixture(struct fixture *f) {
  struct stg_vector_counters counters;
  assert_int_equal(0, f->bank.places.used);
  assert_int_equal(0, f->pool.places.used);
  stg_bank_finish(&f->bank);
  stg_pool_finish(&f->pool);
  for (size_t k = 0; k < VECTORS; k++) {
    assert_int_equal(STG_OK, stg_vector_table_release(f->table, f->vectors[k], NULL));
  }
  stg_vector_table_counters(f->table, &counters);
  assert_int_equal(0, counters.live);
  stg_vector_table_destroy(f->table);
  stg_steer_decl_finish(&f->decl);
  stg_op_table_destroy(f->ops);
}

static inline struct stg_record *record_of(struct fixture *f, const stg_chain *chains, size_t n) {
  struct stg_record *record = NULL;
  stg_error error = STG_ERROR_INIT;
  const struct stg_record_source source = {.chains = chains, .n_chains = n};
  stg_status status = stg_record_create(&f->store, &source, &record, &error);
  assert_string_equal("", error.message);
  assert_int_equal(STG_OK, status);
  return record;
}

static inline stg_op_call add_call(const struct fixture *f, size_t vector, float scale) {
  return (stg_op_call){
      .op = "add", .vectors = {f->vectors[vector]}, .params = {scale}, .params_given = 1};
}

static inline stg_op_call gate_call(const struct fixture *f, size_t u, size_t v) {
  return (stg_op_call){.op = "gated_add",
                       .vectors = {f->vectors[u], f->vectors[v]},
                       .params = {0, 0.5F, 0},
                       .params_given = 2};
}

#endif
