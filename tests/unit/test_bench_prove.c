/*
 * test_bench_prove.c: what the suite `prove` measures, and the files that its peer reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/spec.h"
#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/prove_peer_case.h"
#include "tools/prove/dense.h"

/* ---- names and extents ---- */

static void rows_have_names_of_their_own(void **state) {
  (void)state;
  char name[STG_PROVE_NAME_BYTES];
  stg_prove_pool_name(STG_PROVE_FAMILY, 16384, name);
  assert_string_equal("family, pool 16384", name);
  stg_prove_published_name(STG_PROVE_COUNTRIES, STG_PROVE_UNPADDED, name);
  assert_string_equal("countries, 110 unpadded", name);
  stg_prove_published_name(STG_PROVE_FAMILY, STG_PROVE_REPEATED, name);
  assert_string_equal("family, 512 repeated", name);
  stg_prove_published_name(STG_PROVE_FAMILY, STG_PROVE_EVALUATED, name);
  assert_string_equal("family, 10100 evaluated", name);
  assert_string_equal(STG_BENCH_OURS, stg_prove_series(STG_PROVER_F32));
  assert_string_equal("steergraph, tf32x3", stg_prove_series(STG_PROVER_TF32X3));
  assert_string_equal("steergraph, tf32", stg_prove_series(STG_PROVER_TF32));
}

static void pools_ascend_and_a_cpu_has_fewer(void **state) {
  (void)state;
  const struct stg_prove_extent gpu = stg_prove_extent_of(true, false);
  const struct stg_prove_extent cpu = stg_prove_extent_of(false, false);
  for (size_t i = 1; i < STG_PROVE_POOLS; i++) {
    assert_true(stg_prove_pools[i] > stg_prove_pools[i - 1]);
  }
  assert_int_equal(stg_prove_pools[STG_PROVE_POOLS - 1], gpu.largest);
  assert_int_equal(3, gpu.arithmetics);
  assert_int_equal(STG_PROVE_BATCH, cpu.largest);
  assert_int_equal(1, cpu.arithmetics);
  assert_int_equal(STG_PROVE_BASES, cpu.bases);
  assert_int_equal(1, stg_prove_extent_of(false, true).bases);
  for (int i = 0; i < 4; i++) {
    const struct stg_prove_extent extent = stg_prove_extent_of(i % 2 != 0, i / 2 != 0);
    assert_true(extent.repeats > 0 && extent.checked > 0 && extent.largest >= stg_prove_pools[0]);
  }
}

/* ---- workloads ---- */

static void parse(enum stg_prove_base base, enum stg_prover_arithmetic arithmetic,
                  struct stg_spec *ret) {
  const struct stg_workload_options options = {0};
  struct stg_strbuf text = {0};
  stg_error error = STG_ERROR_INIT;
  stg_prove_case_print(base, arithmetic, &text);
  if (stg_spec_parse("bench", text.data, text.len, &options, ret, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  stg_strbuf_finish(&text);
}

/* As specs/prove_NAME.json has it. */
static void check_like(enum stg_prove_base base, const char *path) {
  const struct stg_workload_options options = {0};
  struct stg_spec spec, like;
  stg_error error = STG_ERROR_INIT;
  parse(base, STG_PROVER_TF32X3, &spec);
  assert_int_equal(STG_OK, stg_spec_load(path, &options, &like, &error));
  const struct stg_prover_workload *a = &spec.of.prover, *b = &like.of.prover;
  assert_int_equal(STG_PROVER_TF32X3, a->arithmetic);
  assert_memory_equal(&a->sizes, &b->sizes, sizeof a->sizes);
  assert_int_equal(b->children, a->children);
  assert_int_equal(b->depth, a->depth);
  assert_int_equal(b->n_queries, a->n_queries);
  assert_int_equal(b->capacity, a->capacity);
  assert_int_equal(b->weights_seed, a->weights_seed);
  assert_int_equal(b->corruptions.seed, a->corruptions.seed);
  assert_int_equal(b->corruptions.count, a->corruptions.count);
  assert_int_equal(b->corruptions.n_sides, a->corruptions.n_sides);
  assert_int_equal(b->kb.facts.n, a->kb.facts.n);
  assert_memory_equal(b->kb.facts.list, a->kb.facts.list, a->kb.facts.n * sizeof *a->kb.facts.list);
  stg_spec_finish(&spec);
  stg_spec_finish(&like);
}

static void workloads_are_those_of_the_specs(void **state) {
  (void)state;
  check_like(STG_PROVE_COUNTRIES, STG_SPECS_DIR "/prove_countries.json");
  check_like(STG_PROVE_FAMILY, STG_SPECS_DIR "/prove_family.json");
}

/* ---- figures ---- */

static void counts_operations_and_bytes(void **state) {
  (void)state;
  const struct stg_prove_sizes sizes = {.embed = 250, .hidden = 256, .blocks = 8};
  /* in, eight blocks, head, out */
  const double flop = 2.0 * 256 * 250 + 8 * 2.0 * 256 * 256 + 2.0 * 256 * 256 + 2.0 * 250 * 256;
  assert_true(stg_prove_flop_of_state(&sizes) == flop);
  assert_int_equal(stg_prove_dense_bytes(512, 120), 512 * 120 * 26 * 3 * 8);
}

static void floors_are_operations_over_their_peak(void **state) {
  (void)state;
  const struct stg_prove_peaks peaks = {.fma = 50, .tf32 = 200}, none = {0};
  assert_true(stg_prove_floor_us(&peaks, STG_PROVER_F32, 1000) == 20);
  assert_true(stg_prove_floor_us(&peaks, STG_PROVER_TF32, 1000) == 5);
  assert_true(stg_prove_floor_us(&peaks, STG_PROVER_TF32X3, 1000) == 15);
  assert_true(stg_prove_floor_us(&none, STG_PROVER_F32, 1000) == 0);
  assert_true(stg_prove_floor_us(&none, STG_PROVER_TF32, 1000) == 0);
}

static double extra(const struct stg_bench_row *row, const char *key) {
  const double *found = stg_bench_row_find_extra(row, key);
  assert_non_null(found);
  return *found;
}

static void tells_what_a_run_counted(void **state) {
  (void)state;
  const stg_prover_counts counts = {.slot_steps = 400,
                                    .query_steps = 100,
                                    .children = 250,
                                    .states = 240,
                                    .proofs = 7,
                                    .close = 2};
  const stg_prover_counts nothing = {0};
  struct stg_bench_row row = {0}, empty = {0};
  stg_prove_add_counts(&counts, 50, 200, &row);
  assert_true(extra(&row, "pool") == 50);
  assert_true(extra(&row, "us_each") == 4);
  assert_true(extra(&row, "candidates_per_s") == 250000);
  assert_true(extra(&row, "useful") == 0.25);
  assert_true(extra(&row, "steps_each") == 2);
  assert_true(extra(&row, "children_a_step") == 2.5);
  assert_true(extra(&row, "states") == 240);
  assert_true(extra(&row, "proved") == 7);
  assert_true(extra(&row, "close") == 2);
  stg_prove_add_counts(&nothing, 50, 200, &empty);
  assert_true(extra(&empty, "useful") == 0);
}

static void a_proof_that_depends_on_its_pool_is_named(void **state) {
  (void)state;
  stg_proof wanted[4] = {0}, found[3];
  const struct stg_prove_proofs all = {wanted, 4};
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < 4; i++) {
    wanted[i] = (stg_proof){
        .logp = -1.5F, .depth = 2, .outcome = STG_OUTCOME_FAILED, .actions = {1, 7, (uint8_t)i}};
  }
  for (int member = 0; member < 6; member++) {
    memcpy(found, wanted, sizeof found);
    stg_proof *other = &found[2];
    other->logp = member == 1 ? -1.5000001F : other->logp;
    other->depth = member == 2 ? 1 : other->depth;
    other->outcome = member == 3 ? STG_OUTCOME_PROVED : other->outcome;
    other->actions[1] = member == 4 ? 8 : 7;
    other->actions[2] = member == 5 ? 99 : 2; /* behind its depth: no step */
    const bool same = member == 0 || member == 5;
    assert_int_equal(same ? STG_OK : STG_E_CORRUPT, stg_prove_check_same(found, 3, &all, &error));
  }
  assert_string_equal("candidate 2 has another proof in a pool of 3 than in one of 4",
                      error.message);
}

/* ---- files of the peer ---- */

static void rows_of_the_peer_are_side_by_side_and_compile_last(void **state) {
  (void)state;
  bool published = false;
  for (size_t i = 1; i < STG_PROVE_PEER_ROWS; i++) {
    const struct stg_prove_peer_row *row = &stg_prove_peer_rows[i];
    assert_true(row->base >= stg_prove_peer_rows[i - 1].base);
    assert_false(published && row->pool > 0);
    published = row->pool == 0;
    assert_int_equal(published ? stg_prove_published_count(row->which) : row->pool,
                     stg_prove_peer_row_count(row));
  }
  assert_true(published);
}

#define N 110

/* Candidates and proofs of a base, with a policy that is small. */
struct small {
  struct stg_spec spec;
  struct stg_prove_policy policy;
  stg_atom queries[N];
  stg_proof proofs[N];
};

static struct stg_prove_peer_case small_init(struct small *small) {
  stg_error error = STG_ERROR_INIT;
  parse(STG_PROVE_COUNTRIES, STG_PROVER_F32, &small->spec);
  struct stg_prover_workload *w = &small->spec.of.prover;
  w->sizes.embed = w->sizes.hidden = 4;
  w->sizes.blocks = 1;
  assert_int_equal(STG_OK, stg_prove_policy_random(1, &w->sizes, &small->policy, &error));
  for (size_t i = 0; i < N; i++) {
    const struct stg_kb_atom atom = w->kb.facts.list[i];
    small->queries[i] = (stg_atom){atom.pred, atom.arg0, atom.arg1};
    small->proofs[i] = (stg_proof){.logp = -(float)i,
                                   .depth = (uint32_t)i % 20,
                                   .outcome = STG_OUTCOME_FAILED,
                                   .close = i == 3};
  }
  return (struct stg_prove_peer_case){.base = STG_PROVE_COUNTRIES,
                                      .workload = w,
                                      .policy = &small->policy,
                                      .queries = small->queries,
                                      .proofs = small->proofs,
                                      .n = N};
}

static void small_finish(struct small *small) {
  stg_prove_policy_finish(&small->policy);
  stg_spec_finish(&small->spec);
}

static char *text_of(void **state, const char *name) {
  char *text = NULL;
  size_t size = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_file_read(temp_path(state, name), 1 << 22, &text, &size, &error));
  return text;
}

static void check_texts(void **state, const struct small *small) {
  const struct stg_kb *kb = &small->spec.of.prover.kb;
  struct stg_strbuf first = {0};
  char *numbers = text_of(state, "case.json");
  assert_non_null(strstr(numbers, "\"children\": 120"));
  assert_non_null(strstr(numbers, "\"countries, pool 64\""));
  assert_null(strstr(numbers, "\"countries, pool 512\"")); /* of which there are too few */
  assert_null(strstr(numbers, "family"));
  stg_free(numbers);
  stg_strbuf_printf(&first, "%s(%s,%s).\n",
                    stg_kb_names_text(&kb->predicates, small->queries[0].pred),
                    stg_kb_names_text(&kb->constants, small->queries[0].arg0),
                    stg_kb_names_text(&kb->constants, small->queries[0].arg1));
  char *candidates = text_of(state, "candidates.txt");
  char *facts = text_of(state, "facts.txt");
  assert_memory_equal(candidates, stg_strbuf_text(&first), first.len);
  assert_memory_equal(facts, stg_strbuf_text(&first), first.len);
  stg_free(candidates);
  stg_free(facts);
  char *rules = text_of(state, "rules.txt");
  assert_non_null(strstr(rules, "-> in_region(x,z)"));
  stg_free(rules);
  stg_strbuf_finish(&first);
}

static const float *values_of(struct stg_tensor_file *file, const char *name) {
  const struct stg_tensor_info *found = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_tensor_find(file, name, &found, &error));
  assert_int_equal(N, found->shape[0]);
  return (const float *)found->data;
}

static void a_base_is_written_with_its_proofs(void **state) {
  struct small small;
  struct stg_tensor_file file = {0};
  stg_error error = STG_ERROR_INIT;
  const struct stg_prove_peer_case c = small_init(&small);
  assert_int_equal(STG_OK, stg_prove_peer_case_write(&c, temp_path(state, "."), &error));
  check_texts(state, &small);
  assert_int_equal(
      STG_OK, stg_tensor_file_open(temp_path(state, "expected.safetensors"), NULL, &file, &error));
  assert_int_equal(4, file.n_tensors);
  assert_true(values_of(&file, "logp")[7] == -7.0F);
  assert_true(values_of(&file, "depth")[21] == 1.0F);
  assert_true(values_of(&file, "outcome")[0] == (float)STG_OUTCOME_FAILED);
  assert_true(values_of(&file, "close")[3] == 1.0F && values_of(&file, "close")[4] == 0.0F);
  stg_tensor_file_close(&file);
  struct stg_prove_policy again;
  assert_int_equal(STG_OK, stg_prove_policy_load(temp_path(state, "weights.safetensors"),
                                                 &c.workload->sizes, &again, &error));
  assert_memory_equal(small.policy.tensors[STG_PROVE_IN].data, again.tensors[STG_PROVE_IN].data,
                      16 * sizeof(float));
  stg_prove_policy_finish(&again);
  small_finish(&small);
}

static void a_folder_that_is_not_there_is_said(void **state) {
  struct small small;
  stg_error error = STG_ERROR_INIT;
  const struct stg_prove_peer_case c = small_init(&small);
  assert_int_equal(STG_E_IO, stg_prove_peer_case_write(&c, temp_path(state, "none"), &error));
  assert_non_null(strstr(error.message, "none"));
  small_finish(&small);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_have_names_of_their_own),
      cmocka_unit_test(pools_ascend_and_a_cpu_has_fewer),
      cmocka_unit_test(workloads_are_those_of_the_specs),
      cmocka_unit_test(counts_operations_and_bytes),
      cmocka_unit_test(floors_are_operations_over_their_peak),
      cmocka_unit_test(tells_what_a_run_counted),
      cmocka_unit_test(a_proof_that_depends_on_its_pool_is_named),
      cmocka_unit_test(rows_of_the_peer_are_side_by_side_and_compile_last),
      cmocka_unit_test_setup_teardown(a_base_is_written_with_its_proofs, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_said, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
