/*
 * test_record_gram.c: which entries of its Gram matrix a record has, and that nothing reads others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/record_fixture.h"

/* Vectors j and k of the fixture; never 0. */
static float dot_of(size_t j, size_t k) {
  return 5.25F + (float)(j * k);
}

static void the_gram_matrix_is_that_of_the_vectors(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f, false);
  stg_op_call norm = {.op = "add_norm_matched", .vectors = {f.vectors[2]}};
  const stg_op_call calls[] = {gate_call(&f, 2, 3), norm};
  struct stg_record *record = record_of(&f, &(stg_chain){.ops = calls, .n_ops = 2}, 1);
  const struct stg_record_chain *chain = stg_record_find(record, 0);
  static const size_t vectors[] = {2, 3, 2};
  for (size_t i = 0; i < 3; i++) {
    for (size_t j = 0; j < 3; j++) {
      assert_true(chain->gram[i * 3 + j] == dot_of(vectors[i], vectors[j]));
    }
  }
  assert_int_equal(2, f.bank.places.used);
  stg_record_unref(&f.store, record);
  close_fixture(&f);
}

/* A cap reads its own dot, which nothing changed before: no pair. The second one's dot has followed
 * what the first added; the first one's was done with by then. */
static void a_pair_that_nothing_reads_costs_no_dot(void **state) {
  (void)state;
  struct fixture f;
  struct stg_vector_counters counters;
  open_fixture(&f, false);
  stg_op_call cap = {.op = "projection_cap", .vectors = {f.vectors[1]}, .params = {-1, 1}};
  cap.params_given = 3;
  const stg_op_call calls[] = {cap, add_call(&f, 2, 1), cap};
  struct stg_record *one = record_of(&f, &(stg_chain){.ops = calls, .n_ops = 1}, 1);
  stg_vector_table_counters(f.table, &counters);
  assert_int_equal(0, counters.gram_pairs);
  assert_true(stg_record_find(one, 0)->gram[0] == 0);
  struct stg_record *three = record_of(&f, &(stg_chain){.ops = calls, .n_ops = 3}, 1);
  const float expected[9] = {0, 0, dot_of(1, 1), 0, 0, dot_of(2, 1), dot_of(1, 1), dot_of(2, 1), 0};
  assert_memory_equal(expected, stg_record_find(three, 0)->gram, sizeof expected);
  stg_vector_table_counters(f.table, &counters);
  assert_int_equal(2, counters.gram_pairs);
  stg_record_unref(&f.store, one);
  stg_record_unref(&f.store, three);
  close_fixture(&f);
}

/* What a chain's program, of which only live instructions are kept, reads of its Gram matrix. */
static void mark_reads(const struct stg_program *program, bool *ret_reads) {
  const uint32_t n = program->n_vectors;
  memset(ret_reads, 0, sizeof *ret_reads * n * n);
  for (uint32_t at = 0; at < program->n_instrs; at++) {
    const struct stg_instr *instr = &program->instrs[at];
    if (instr->kind == STG_INSTR_GRAM) {
      ret_reads[instr->i * n + instr->j] = true;
      ret_reads[instr->j * n + instr->i] = true;
    } else if (instr->kind == STG_INSTR_NORM2) {
      memset(ret_reads, 1, sizeof *ret_reads * n * n);
    }
  }
}

/* The fixture's op `index` in a chain: every built-in, and the test's own. */
static stg_op_call any_call(const struct fixture *f, size_t index, uint32_t draw) {
  const struct stg_op *op = f->decl.named[index];
  stg_op_call call = {.op = op->name, .params_given = (1u << op->n_params) - 1};
  for (size_t m = 0; m < op->n_vectors; m++) {
    call.vectors[m] = f->vectors[(draw >> 3 * m) % VECTORS];
  }
  for (size_t p = 0; p < op->n_params; p++) {
    call.params[p] = 1;
  }
  return call;
}

/* Every entry that is read is there; whether one is not there. */
static bool expect_entries(const struct stg_record_chain *chain, const stg_op_call *calls,
                           const struct fixture *f) {
  bool reads[STG_CHAIN_MAX_VECTORS * STG_CHAIN_MAX_VECTORS];
  size_t numbers[STG_CHAIN_MAX_VECTORS], n = 0;
  for (size_t k = 0; k < chain->n_ops; k++) {
    for (size_t m = 0; m < chain->ops[k].op->n_vectors; m++, n++) {
      for (numbers[n] = 0; f->vectors[numbers[n]] != calls[k].vectors[m];) {
        numbers[n]++;
      }
    }
  }
  assert_int_equal(n, chain->n_vectors);
  mark_reads(&chain->program, reads);
  bool skipped = false;
  for (size_t i = 0; i < n * n; i++) {
    const float dot = dot_of(numbers[i / n], numbers[i % n]);
    assert_true(chain->gram[i] == dot || (chain->gram[i] == 0 && !reads[i]));
    skipped = skipped || chain->gram[i] == 0;
  }
  return skipped;
}

/* The rule goes by ops, as the kernel does; the chain's program says the same another way. */
static void no_entry_is_missing_that_the_chain_program_reads(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "{\"op\": \"unit_add\", \"vectors\": [\"v\"], \"params\": {},"
      " \"body\": [\"h += v / norm(v)\"]}",
      "{\"op\": \"reject\", \"vectors\": [\"u\", \"v\"], \"params\": {},"
      " \"body\": [\"h += dot(h, v) * (u - dot(u, v) * v)\"]}",
      "{\"op\": \"twice\", \"vectors\": [\"u\", \"v\"], \"params\": {},"
      " \"body\": [\"h = h - dot(h, u) * u\", \"h += dot(h, v) * v\"]}",
  };
  struct fixture f;
  open_fixture_with(&f, false, bodies, sizeof bodies / sizeof bodies[0]);
  uint32_t draw = 1;
  size_t whole = 0, skipped = 0;
  for (size_t round = 0; round < 2000; round++) {
    stg_op_call calls[4];
    const size_t n_calls = 1 + round % 4;
    for (size_t k = 0; k < n_calls; k++) {
      draw = draw * 1664525u + 1013904223u;
      calls[k] = any_call(&f, (draw >> 8) % f.decl.n_named, draw >> 16);
    }
    struct stg_record *record = record_of(&f, &(stg_chain){.ops = calls, .n_ops = n_calls}, 1);
    if (expect_entries(stg_record_find(record, 0), calls, &f)) {
      skipped++;
    } else {
      whole++;
    }
    stg_record_unref(&f.store, record);
  }
  assert_true(whole > 100 && skipped > 100);
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_gram_matrix_is_that_of_the_vectors),
      cmocka_unit_test(a_pair_that_nothing_reads_costs_no_dot),
      cmocka_unit_test(no_entry_is_missing_that_the_chain_program_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
