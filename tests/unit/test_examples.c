/*
 * test_examples.c: the example workloads load, have the shape their names promise, and their
 * numbers can be read.
 */
#include "specs/workload.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

static struct stg_workload load(const char *name) {
  struct stg_workload workload = {0};
  struct stg_strbuf path = {0};
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_printf(&path, "%s/%s.json", STG_SPECS_DIR, name);
  stg_status status = stg_workload_load(stg_strbuf_text(&path), NULL, &workload, &err);
  if (status != STG_OK) {
    print_error("%s\n", err.message);
  }
  assert_int_equal(status, STG_OK);
  stg_strbuf_finish(&path);
  return workload;
}

static size_t count_unsteered(const struct stg_workload *w) {
  size_t n = 0;
  for (size_t i = 0; i < w->n_requests; i++) {
    n += w->requests[i].slot < 0;
  }
  return n;
}

/* A set of (vector, copy) pairs. */
struct refs {
  uint64_t seen[256];
  size_t count;
};

static void add_refs(struct refs *refs, const struct stg_spec_op_call *call) {
  for (size_t i = 0; i < call->n_args; i++) {
    const struct stg_spec_arg *arg = &call->args[i];
    uint64_t ref = (uint64_t)arg->vector << 32 | arg->copy;
    size_t k = 0;
    while (k < refs->count && refs->seen[k] != ref) {
      k++;
    }
    if (arg->is_vector && k == refs->count) {
      assert_true(k < sizeof refs->seen / sizeof *refs->seen);
      refs->seen[refs->count++] = ref;
    }
  }
}

/* Different vectors that the slots name. */
static size_t count_vectors_in_use(const struct stg_workload *w) {
  struct refs refs = {.count = 0};
  for (size_t s = 0; s < w->n_slots; s++) {
    for (size_t c = 0; c < w->slots[s].n_chains; c++) {
      const struct stg_spec_chain *chain = &w->slots[s].chains[c];
      for (size_t k = 0; k < chain->n_ops; k++) {
        add_refs(&refs, &chain->ops[k]);
      }
    }
  }
  return refs.count;
}

static bool every_slot_is_used(const struct stg_workload *w) {
  for (size_t s = 0; s < w->n_slots; s++) {
    bool used = false;
    for (size_t i = 0; i < w->n_requests; i++) {
      used = used || w->requests[i].slot == (int32_t)s;
    }
    if (!used) {
      return false;
    }
  }
  return true;
}

static void mixed_is_32_requests_of_64_rows_with_32_vectors(void **state) {
  (void)state;
  struct stg_workload w = load("steer_mixed");
  assert_int_equal(w.n_requests, 32);
  for (size_t i = 0; i < w.n_requests; i++) {
    assert_int_equal(w.requests[i].rows, 64);
  }
  assert_int_equal(w.hidden_size, 4096);
  assert_int_equal(w.dtype, STG_BF16);
  assert_int_equal(count_vectors_in_use(&w), 32);
  assert_int_equal(count_unsteered(&w), 8);
  assert_true(every_slot_is_used(&w));
  stg_workload_finish(&w);
}

static void uniform_gives_every_request_the_same_chain(void **state) {
  (void)state;
  struct stg_workload w = load("steer_uniform");
  assert_int_equal(w.n_requests, 32);
  assert_int_equal(w.rows, 2048);
  assert_int_equal(w.n_slots, 1);
  assert_int_equal(count_unsteered(&w), 0);
  stg_workload_finish(&w);
}

static void decode_is_one_generated_row_per_request(void **state) {
  (void)state;
  struct stg_workload w = load("steer_decode");
  assert_int_equal(w.n_requests, 32);
  assert_int_equal(w.rows, 32);
  for (size_t i = 0; i < w.n_requests; i++) {
    assert_true(w.requests[i].position >= w.requests[i].prompt_len);
  }
  assert_true(every_slot_is_used(&w));
  stg_workload_finish(&w);
}

static void step_is_31_decode_rows_and_one_prompt_chunk(void **state) {
  (void)state;
  struct stg_workload w = load("steer_step");
  size_t chunks = 0;
  assert_int_equal(w.n_requests, 32);
  for (size_t i = 0; i < w.n_requests; i++) {
    if (w.requests[i].rows == 512) {
      chunks++;
      assert_true(w.requests[i].position + 512 <= w.requests[i].prompt_len);
    } else {
      assert_int_equal(w.requests[i].rows, 1);
    }
  }
  assert_int_equal(chunks, 1);
  stg_workload_finish(&w);
}

static void ragged_has_every_length_from_1_to_64_once(void **state) {
  (void)state;
  struct stg_workload w = load("steer_ragged");
  bool seen[65] = {0};
  assert_int_equal(w.n_requests, 64);
  assert_int_equal(w.rows, 2080);
  for (size_t i = 0; i < w.n_requests; i++) {
    assert_in_range(w.requests[i].rows, 1, 64);
    assert_false(seen[w.requests[i].rows]);
    seen[w.requests[i].rows] = true;
  }
  stg_workload_finish(&w);
}

static void pair_has_a_residual(void **state) {
  (void)state;
  struct stg_workload w = load("steer_pair");
  assert_true(w.pair);
  assert_int_equal(w.residual.kind, STG_VECTOR_RANDOM);
  assert_true(every_slot_is_used(&w));
  stg_workload_finish(&w);
}

static void norm_is_32_requests_of_one_op_and_32_vectors_behind_an_epilogue(void **state) {
  (void)state;
  struct stg_workload w = load("steer_norm");
  assert_true(w.pair && w.epilogue);
  assert_true(w.epsilon == 1e-6F);
  assert_int_equal(w.hidden_size, 4096);
  assert_int_equal(w.dtype, STG_BF16);
  assert_int_equal(w.n_requests, 32);
  assert_int_equal(w.rows, 2048);
  assert_int_equal(count_vectors_in_use(&w), 32);
  assert_int_equal(count_unsteered(&w), 0);
  assert_true(every_slot_is_used(&w));
  for (size_t i = 0; i < w.n_slots; i++) {
    assert_int_equal(w.slots[i].chains[0].n_ops, 1);
  }
  float *weight = stg_malloc((size_t)w.hidden_size * sizeof *weight);
  assert_int_equal(stg_workload_read_weight(&w, weight, NULL), STG_OK);
  stg_free(weight);
  stg_workload_finish(&w);
}

static void chain8_has_eight_ops_in_every_chain_and_every_builtin(void **state) {
  (void)state;
  struct stg_workload w = load("steer_chain8");
  assert_int_equal(w.n_requests, 32);
  assert_int_equal(w.rows, 2048);
  for (size_t i = 0; i < w.n_slots; i++) {
    assert_int_equal(w.slots[i].n_chains, 1);
    assert_int_equal(w.slots[i].chains[0].n_ops, 8);
  }
  for (size_t i = 0; i < stg_builtin_op_count(); i++) {
    bool used = false;
    if (strcmp(stg_builtin_op(i)->stem, "probe") == 0) {
      continue; /* it edits nothing */
    }
    for (size_t k = 0; k < 8; k++) {
      used = used || strcmp(w.slots[0].chains[0].ops[k].op, stg_builtin_op(i)->stem) == 0;
    }
    assert_true(used);
  }
  stg_workload_finish(&w);
}

static void files_fills_its_rows_from_a_tensor(void **state) {
  (void)state;
  struct stg_workload w = load("steer_files");
  size_t count = (size_t)(w.rows * w.hidden_size);
  uint16_t *rows = stg_malloc(count * sizeof *rows);
  assert_int_equal(w.layer, 2);
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  double square = 0.0;
  for (size_t i = 0; i < count; i++) {
    double value = (double)stg_f16_to_f32(rows[i]);
    square += value * value / (double)count;
  }
  assert_true(fabs(square - 1.0) < 0.1);
  stg_free(rows);
  stg_workload_finish(&w);
}

static void user_op_declares_its_own_op(void **state) {
  (void)state;
  struct stg_workload w = load("steer_user_op");
  assert_int_equal(w.n_ops, 1);
  assert_string_equal(w.ops[0]->name, "soft_cap");
  stg_workload_finish(&w);
}

static void window_cuts_a_prompt_and_has_every_kind(void **state) {
  (void)state;
  struct stg_workload w = load("steer_window");
  assert_int_equal(w.n_slots, 3);
  assert_int_equal(w.slots[0].window->phase, STG_SPEC_PHASE_PROMPT);
  assert_true(w.slots[1].window->from == -16 && !w.slots[1].window->has_to);
  assert_true(w.slots[2].window->to == 160 && !w.slots[2].window->has_from);
  assert_int_equal(w.requests[0].rows, w.requests[1].position);
  assert_int_equal(w.requests[1].prompt_len, w.requests[1].position + 1);
  assert_true(every_slot_is_used(&w));
  stg_workload_finish(&w);
}

static void probe_reads_before_and_behind_an_edit(void **state) {
  (void)state;
  struct stg_workload w = load("steer_probe");
  const struct stg_spec_chain *chain = &w.slots[0].chains[0];
  assert_int_equal(chain->n_ops, 3);
  assert_string_equal(chain->ops[0].op, "probe");
  assert_string_equal(chain->ops[1].op, "projection_cap");
  assert_string_equal(chain->ops[2].op, "probe");
  assert_true(every_slot_is_used(&w));
  stg_workload_finish(&w);
}

static void gguf_steers_the_blocks_that_its_files_have(void **state) {
  (void)state;
  struct stg_workload w = load("steer_gguf");
  assert_string_equal(w.model, "mistral");
  assert_int_equal(w.n_files, 4);
  assert_int_equal(w.n_notes, 4);
  assert_int_equal(w.slots[0].n_chains, 24); /* 1 to 24 of calm, 8 to 24 of happy among them */
  assert_int_equal(w.slots[1].n_chains, 13); /* 4 to 16 of calm */
  assert_int_equal(w.slots[1].chains[0].n_ops, 3);
  assert_string_equal(w.slots[1].chains[0].ops[0].op, "scale_norm");
  assert_string_equal(w.slots[1].chains[0].ops[1].op, "add");
  assert_string_equal(w.slots[1].chains[0].ops[2].op, "projection_cap");
  assert_true(every_slot_is_used(&w));
  stg_workload_finish(&w);
}

/* Every vector of every example can be read and, where the workload wants it, normalised. */
static void vectors_of_all_examples_can_be_read(void **state) {
  (void)state;
  static const char *const names[] = {
      "steer_mixed",    "steer_uniform", "steer_decode", "steer_step",    "steer_ragged",
      "steer_pair",     "steer_chain8",  "steer_files",  "steer_user_op", "steer_norm",
      "steer_window",   "steer_probe",   "steer_npy",    "steer_raw",     "steer_directions",
      "steer_patterns", "steer_gguf"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct stg_workload w = load(names[i]);
    float *values = stg_malloc((size_t)w.hidden_size * sizeof *values);
    for (size_t v = 0; v < w.n_vectors; v++) {
      bool normalize = false;
      stg_error err = STG_ERROR_INIT;
      assert_int_equal(stg_workload_resolve_normalize(&w, v, &normalize, &err), STG_OK);
      /* of the layers of a file, the examples' files have the first four */
      uint32_t copies = w.vectors[v].source.layer_in != STG_LAYER_IN_NONE ? 4 : w.vectors[v].copies;
      for (uint32_t copy = 0; copy < copies; copy++) {
        assert_int_equal(stg_workload_read_vector(&w, v, copy, values, &err), STG_OK);
        assert_int_equal(stg_normalize(values, (size_t)w.hidden_size, &err), STG_OK);
      }
    }
    stg_free(values);
    stg_workload_finish(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mixed_is_32_requests_of_64_rows_with_32_vectors),
      cmocka_unit_test(uniform_gives_every_request_the_same_chain),
      cmocka_unit_test(decode_is_one_generated_row_per_request),
      cmocka_unit_test(step_is_31_decode_rows_and_one_prompt_chunk),
      cmocka_unit_test(ragged_has_every_length_from_1_to_64_once),
      cmocka_unit_test(pair_has_a_residual),
      cmocka_unit_test(norm_is_32_requests_of_one_op_and_32_vectors_behind_an_epilogue),
      cmocka_unit_test(chain8_has_eight_ops_in_every_chain_and_every_builtin),
      cmocka_unit_test(files_fills_its_rows_from_a_tensor),
      cmocka_unit_test(user_op_declares_its_own_op),
      cmocka_unit_test(window_cuts_a_prompt_and_has_every_kind),
      cmocka_unit_test(probe_reads_before_and_behind_an_edit),
      cmocka_unit_test(gguf_steers_the_blocks_that_its_files_have),
      cmocka_unit_test(vectors_of_all_examples_can_be_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
