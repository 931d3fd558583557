/*
 * test_prover_workload.c: what workloads of the family prover become: knowledge, queries, the
 * policy and its weights, limits, and what is unsaid. Refusals are in specs/bad, those beside them
 * here.
 */
#include "specs/prover_pool.h"
#include "specs/spec.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/prover.h"
#include "runtime/base/alloc.h"
#include "tests/support/temp_folder.h"

#define HEAD "{\"steergraph\":1,\"family\":\"prover\","
#define FILES "\"knowledge\":{\"facts\":\"f.txt\",\"rules\":\"r.txt\"},"
#define FAMILY "\"knowledge\":{\"generate\":{\"kind\":\"family\",\"seed\":3,\"size\":60}},"
#define LIST "\"queries\":{\"list\":[\"grand(ann,cid).\",\" parent( bob , cid ). % known\"]},"
#define NET "\"embed\":2,\"hidden\":4,\"blocks\":1"
#define POLICY "\"policy\":{" NET ",\"weights\":{\"random\":{\"seed\":5}}},"
#define CORRUPT "\"corruptions\":{\"count\":2,\"seed\":1}"

static void write_text(void *const *state, const char *name, const char *text) {
  FILE *file = fopen(temp_path(state, name), "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static int setup(void **state) {
  const int code = temp_folder_setup(state);
  if (code == 0) {
    write_text(state, "f.txt", "parent(ann,bob).\nparent(bob,cid).\n");
    write_text(state, "r.txt", "r0:0.5:parent(a,h), parent(h,b) -> grand(a,b)\n");
    write_text(state, "q.txt", "grand(ann,cid).\n% two\nparent(ann,cid).\ngrand(bob,cid).\n");
  }
  return code;
}

static stg_status try_parse(void *const *state, const char *text, struct stg_spec *ret_spec,
                            stg_error *err) {
  return stg_spec_parse(temp_path(state, "w.json"), text, strlen(text), NULL, ret_spec, err);
}

static struct stg_spec parse(void *const *state, const char *text) {
  struct stg_spec spec = {0};
  stg_error err = STG_ERROR_INIT;
  if (try_parse(state, text, &spec, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  assert_int_equal(spec.kind, STG_SPEC_PROVER);
  return spec;
}

static void assert_atom(struct stg_kb_atom atom, int32_t pred, int32_t arg0, int32_t arg1) {
  assert_int_equal(atom.pred, pred);
  assert_int_equal(atom.arg0, arg0);
  assert_int_equal(atom.arg1, arg1);
}

static void fills_in_what_is_unsaid(void **state) {
  struct stg_spec spec = parse(state, HEAD FILES LIST
                               "\"policy\":{\"weights\":{\"random\":{\"seed\":5}}}," CORRUPT "}");
  const struct stg_prover_workload *w = &spec.of.prover;
  assert_non_null(strstr(w->file, "w.json"));
  assert_int_equal(w->sizes.predicates, 2);
  assert_int_equal(w->sizes.constants, 3);
  assert_int_equal(w->sizes.atoms, 6);
  assert_int_equal(w->sizes.embed, 250);
  assert_int_equal(w->sizes.hidden, 256);
  assert_int_equal(w->sizes.blocks, 8);
  assert_true(w->epsilon == 1e-5f);
  assert_int_equal(w->children, 120);
  assert_int_equal(w->depth, 20);
  assert_int_equal(w->corruptions.n_sides, 2);
  assert_int_equal(w->corruptions.sides[0], STG_PROVER_HEAD);
  assert_int_equal(w->corruptions.sides[1], STG_PROVER_TAIL);
  assert_true(w->corruptions.filter && !w->corruptions.of_argument && !w->sample);
  assert_int_equal(w->arithmetic, STG_PROVER_F32);
  assert_int_equal(w->capacity, 16384);
  assert_int_equal(w->warmup, 1);
  assert_int_equal(w->repeats, 3);
  assert_null(w->weights_path);
  stg_spec_finish(&spec);
}

static void what_is_said_is_kept(void **state) {
  struct stg_spec spec = parse(
      state, HEAD FILES LIST
      "\"policy\":{" NET ",\"epsilon\":0.25,\"weights\":{\"random\":{\"seed\":9}}},"
      "\"limits\":{\"atoms\":8,\"children\":128,\"depth\":64},\"corruptions\":{\"count\":7,"
      "\"seed\":9007199254740991,\"sides\":[\"tail\"],\"domain\":\"argument\",\"filter\":false},"
      "\"pick\":{\"sample\":{\"seed\":11}},\"arithmetic\":\"tf32x3\",\"capacity\":1048576,"
      "\"run\":{\"warmup\":0,\"repeats\":2}}");
  const struct stg_prover_workload *w = &spec.of.prover;
  assert_int_equal(w->sizes.embed, 2);
  assert_int_equal(w->sizes.hidden, 4);
  assert_int_equal(w->sizes.blocks, 1);
  assert_int_equal(w->sizes.atoms, 8);
  assert_true(w->epsilon == 0.25f);
  assert_int_equal(w->weights_seed, 9);
  assert_int_equal(w->children, 128);
  assert_int_equal(w->depth, 64);
  assert_int_equal(w->corruptions.count, 7);
  assert_true(w->corruptions.seed == 9007199254740991u);
  assert_int_equal(w->corruptions.n_sides, 1);
  assert_int_equal(w->corruptions.sides[0], STG_PROVER_TAIL);
  assert_true(!w->corruptions.filter && w->corruptions.of_argument && w->sample);
  assert_int_equal(w->sample_seed, 11);
  assert_int_equal(w->arithmetic, STG_PROVER_TF32X3);
  assert_int_equal(w->capacity, 1048576);
  assert_int_equal(w->warmup, 0);
  assert_int_equal(w->repeats, 2);
  stg_spec_finish(&spec);
  spec =
      parse(state, HEAD FILES LIST POLICY CORRUPT ",\"arithmetic\":\"tf32\",\"pick\":\"argmax\"}");
  assert_int_equal(spec.of.prover.arithmetic, STG_PROVER_TF32);
  assert_false(spec.of.prover.sample);
  stg_spec_finish(&spec);
}

static void queries_come_from_a_list_or_a_file(void **state) {
  struct stg_spec spec = parse(state, HEAD FILES LIST POLICY CORRUPT "}");
  const struct stg_prover_workload *w = &spec.of.prover;
  assert_int_equal(w->n_queries, 2);
  assert_atom(w->queries[0], 2, 1, 3);
  assert_atom(w->queries[1], 1, 2, 3);
  assert_int_equal(w->kb.facts.n, 2);
  assert_int_equal(w->kb.n_rules, 1);
  assert_non_null(strstr(w->paths.facts, "f.txt"));
  assert_non_null(strstr(w->paths.rules, "r.txt"));
  assert_null(w->paths.queries);
  stg_spec_finish(&spec);
  spec = parse(state, HEAD FILES "\"queries\":{\"file\":\"q.txt\"}," POLICY CORRUPT "}");
  assert_int_equal(spec.of.prover.n_queries, 3);
  assert_non_null(strstr(spec.of.prover.paths.queries, "q.txt"));
  stg_spec_finish(&spec);
  spec =
      parse(state, HEAD FILES "\"queries\":{\"file\":\"q.txt\",\"first\":2}," POLICY CORRUPT "}");
  assert_int_equal(spec.of.prover.n_queries, 2);
  assert_int_equal(spec.of.prover.kb.queries.n, 3); /* the third is still known to be true */
  stg_spec_finish(&spec);
}

static void a_base_that_is_made_up_has_queries_of_its_own(void **state) {
  struct stg_spec spec = parse(state, HEAD FAMILY POLICY CORRUPT "}");
  const struct stg_prover_workload *w = &spec.of.prover;
  const size_t own = w->kb.queries.n;
  assert_null(w->paths.facts);
  assert_true(own > 1 && own < 100);
  assert_int_equal(w->n_queries, own);
  stg_spec_finish(&spec);
  spec = parse(state, HEAD FAMILY "\"queries\":{\"first\":1}," POLICY CORRUPT "}");
  assert_int_equal(spec.of.prover.n_queries, 1);
  assert_ptr_equal(spec.of.prover.queries, spec.of.prover.kb.queries.list);
  stg_spec_finish(&spec);
  /* others are asked, and its own are still true */
  spec = parse(state, HEAD FAMILY "\"queries\":{\"list\":[\"aunt(p1,p2).\"]}," POLICY CORRUPT "}");
  assert_int_equal(spec.of.prover.n_queries, 1);
  assert_ptr_equal(spec.of.prover.queries, spec.of.prover.kb.queries.list + own);
  stg_spec_finish(&spec);
  spec =
      parse(state, HEAD
            "\"knowledge\":{\"generate\":{\"kind\":\"family\",\"size\":2000}}," POLICY CORRUPT "}");
  assert_true(spec.of.prover.kb.queries.n > 100);
  assert_int_equal(spec.of.prover.n_queries, 100);
  stg_spec_finish(&spec);
}

static void weights_come_from_a_seed_or_a_file_and_are_taken(void **state) {
  struct stg_spec spec = parse(state, HEAD FILES LIST POLICY CORRUPT "}");
  struct stg_prove_policy made = {0};
  struct stg_prove_policy expected = {0};
  struct stg_prove_policy read[2] = {{.n_tensors = 0}};
  assert_int_equal(stg_prover_take_policy(&spec.of.prover, &made, NULL), STG_OK);
  assert_int_equal(stg_prove_policy_random(5, &spec.of.prover.sizes, &expected, NULL), STG_OK);
  assert_int_equal(made.n_tensors, expected.n_tensors);
  assert_memory_equal(made.tensors[0].data, expected.tensors[0].data, 10 * sizeof(float));
  assert_int_equal(stg_safetensors_write(temp_path(state, "w.safetensors"), made.tensors,
                                         made.n_tensors, NULL, 0, NULL),
                   STG_OK);
  stg_spec_finish(&spec);
  spec = parse(state, HEAD FILES LIST "\"policy\":{" NET
                                      ",\"weights\":{\"file\":\"w.safetensors\"}}," CORRUPT "}");
  assert_non_null(strstr(spec.of.prover.weights_path, "w.safetensors"));
  for (int i = 0; i < 2; i++) { /* the first is taken over, the second read again */
    assert_int_equal(stg_prover_take_policy(&spec.of.prover, &read[i], NULL), STG_OK);
    assert_memory_equal(read[i].tensors[0].data, made.tensors[0].data, 10 * sizeof(float));
    stg_prove_policy_finish(&read[i]);
  }
  stg_prove_policy_finish(&made);
  stg_prove_policy_finish(&expected);
  stg_spec_finish(&spec);
}

struct refused {
  const char *members;
  const char *message;
  stg_status status;
};

static void refuses_what_the_bad_files_do_not_show(void **state) {
  static const struct refused cases[] = {
      {"\"knowledge\":{\"facts\":\"../f.txt\"}," LIST POLICY CORRUPT,
       "knowledge.facts: '../f.txt' is outside the spec's folder", STG_E_FORMAT},
      {"\"knowledge\":{\"facts\":\"f.txt\",\"rules\":\"no.txt\"}," LIST POLICY CORRUPT,
       "knowledge.rules: cannot open", STG_E_NOT_FOUND},
      {"\"knowledge\":{\"facts\":\"f.txt\",\"rules\":\"q.txt\"}," LIST POLICY CORRUPT,
       "w.json: knowledge.rules: ", STG_E_FORMAT},
      {FILES "\"queries\":{\"file\":\"r.txt\"}," POLICY CORRUPT,
       "w.json: queries.file: ", STG_E_FORMAT},
      {FILES "\"queries\":{\"list\":[\"% none\"]}," POLICY CORRUPT,
       "queries.list[0]: has 0 queries; give one, as \"aunt(ann, bob).\"", STG_E_FORMAT},
      {FILES "\"queries\":{\"list\":[7]}," POLICY CORRUPT, "queries.list[0]: expected a string",
       STG_E_FORMAT},
      {FILES "\"queries\":{\"first\":1}," POLICY CORRUPT,
       "queries: has 0 of 'file' and 'list'; give exactly one", STG_E_FORMAT},
      {FILES LIST "\"policy\":{" NET ",\"weights\":{\"file\":\"no.safetensors\"}}," CORRUPT,
       "policy.weights.file: cannot open", STG_E_NOT_FOUND},
      {FILES LIST "\"policy\":{" NET ",\"weights\":{\"random\":{\"seed\":-1}}}," CORRUPT,
       "policy.weights.random.seed: expected an integer from 0 to 9007199254740991, found -1",
       STG_E_FORMAT},
      {FILES LIST "\"policy\":{" NET ",\"weights\":{\"random\":{\"seed\":1,\"scale\":2}}}," CORRUPT,
       "policy.weights.random.scale: unknown member; allowed: 'seed'", STG_E_FORMAT},
      {FILES LIST POLICY CORRUPT ",\"pick\":3", "pick: expected an object, found 3", STG_E_FORMAT},
      {FILES LIST POLICY CORRUPT ",\"capacity\":1048577",
       "capacity: expected an integer from 1 to 1048576, found 1048577", STG_E_FORMAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_strbuf text = {0};
    struct stg_spec spec = {0};
    stg_error err = STG_ERROR_INIT;
    stg_strbuf_printf(&text, HEAD "%s}", cases[i].members);
    const stg_status status = try_parse(state, stg_strbuf_text(&text), &spec, &err);
    if (status != cases[i].status || strstr(err.message, cases[i].message) == NULL) {
      fail_msg("%zu: %d %s", i, (int)status, err.message);
    }
    stg_strbuf_finish(&text);
  }
}

static void the_examples_are_100_queries_of_100_corruptions(void **state) {
  static const char *const names[] = {"prove_countries", "prove_family"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    char path[512];
    struct stg_spec spec = {0};
    struct stg_prover_pool pool = {0};
    stg_error err = STG_ERROR_INIT;
    snprintf(path, sizeof path, "%s/%s.json", STG_SPECS_DIR, names[i]);
    if (stg_spec_load(path, NULL, &spec, &err) != STG_OK) {
      fail_msg("%s", err.message);
    }
    assert_int_equal(spec.kind, STG_SPEC_PROVER);
    assert_int_equal(stg_prover_pool_make(&spec.of.prover, &pool, NULL), STG_OK);
    assert_int_equal(spec.of.prover.n_queries, 100);
    assert_int_equal(pool.n_groups, 200);
    assert_int_equal(pool.candidates.n, 200 * 101);
    stg_prover_pool_finish(&pool);
    stg_spec_finish(&spec);
  }
}

static void limits_are_those_of_the_search(void **state) {
  (void)state;
  assert_int_equal(STG_PROVER_MAX_ATOMS, STG_PROVE_MAX_ATOMS);
  assert_int_equal(STG_PROVER_MAX_CHILDREN, STG_PROVE_MAX_CHILDREN);
  assert_int_equal(STG_PROVER_MAX_DEPTH, STG_PROVE_MAX_DEPTH);
  assert_int_equal(STG_KB_MAX_BODY, STG_PROVE_MAX_BODY);
}

static void running_out_of_memory_is_said_and_nothing_leaks(void **state) {
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  while (status == STG_E_NO_MEMORY) {
    struct stg_spec spec = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = try_parse(state, HEAD FILES LIST POLICY CORRUPT "}", &spec, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || strstr(err.message, "memory") != NULL);
    stg_spec_finish(&spec);
  }
  assert_int_equal(status, STG_OK);
  assert_true(nth > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fills_in_what_is_unsaid),
      cmocka_unit_test(what_is_said_is_kept),
      cmocka_unit_test(queries_come_from_a_list_or_a_file),
      cmocka_unit_test(a_base_that_is_made_up_has_queries_of_its_own),
      cmocka_unit_test(weights_come_from_a_seed_or_a_file_and_are_taken),
      cmocka_unit_test(refuses_what_the_bad_files_do_not_show),
      cmocka_unit_test(the_examples_are_100_queries_of_100_corruptions),
      cmocka_unit_test(limits_are_those_of_the_search),
      cmocka_unit_test(running_out_of_memory_is_said_and_nothing_leaks),
  };
  return cmocka_run_group_tests(tests, setup, temp_folder_teardown);
}
