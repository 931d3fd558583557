/*
 * test_workload.c: what a workload file becomes, and the message for each thing wrong with it.
 *
 * Most cases are one edit of a small valid file, so that nothing else can be what is refused.
 */
#include "specs/workload.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

static const char base[] =
    "{ \"steergraph\": 1, \"family\": \"steer\",\n"
    "  \"geometry\": { \"hidden_size\": 4, \"layers\": 3, \"dtype\": \"bf16\" },\n"
    "  \"vectors\": { \"axis\": { \"values\": [1, 0, 0, 0] },\n"
    "                 \"noise\": { \"random\": { \"seed\": 7 }, \"copies\": 3 } },\n"
    "  \"slots\": { \"calm\": { \"layers\": {\n"
    "    \"0\": [ { \"op\": \"projection_cap\", \"v\": \"axis\", \"max\": 0.5, \"min\": \"-inf\" "
    "},\n"
    "             { \"op\": \"swap\", \"a\": \"axis\", \"b\": \"noise[2]\" } ],\n"
    "    \"2\": [ { \"op\": \"add\", \"v\": \"noise[0]\", \"scale\": 2 } ] } } },\n"
    "  \"batch\": { \"layer\": 2, \"requests\": [\n"
    "    { \"slot\": \"calm\", \"rows\": 5, \"position\": 3 }, { \"slot\": null, \"rows\": 0 },\n"
    "    { \"slot\": \"calm\", \"rows\": 1, \"repeat\": 3, \"prompt_len\": 9 } ] },\n"
    "  \"input\": { \"hidden\": { \"random\": { \"seed\": 1 } } } }\n";

static stg_status parse(const char *text, struct stg_workload *ret_workload, stg_error *err) {
  return stg_workload_parse("w.json", text, strlen(text), NULL, ret_workload, err);
}

/* The base with the first `find` replaced; stg_free. */
static char *edit(const char *find, const char *replace) {
  const char *at = strstr(base, find);
  struct stg_strbuf text = {0};
  assert_non_null(at);
  stg_strbuf_mem(&text, base, (size_t)(at - base));
  stg_strbuf_str(&text, replace);
  stg_strbuf_str(&text, at + strlen(find));
  char *edited = stg_strbuf_take(&text);
  assert_non_null(edited);
  return edited;
}

struct refused {
  const char *find;
  const char *replace;
  const char *message;
};

static void assert_refused(const struct refused *cases, size_t n, stg_status expected) {
  for (size_t i = 0; i < n; i++) {
    struct stg_workload workload = {0};
    stg_error err = STG_ERROR_INIT;
    char *text = edit(cases[i].find, cases[i].replace);
    stg_status status = parse(text, &workload, &err);
    assert_string_equal(err.message, cases[i].message);
    assert_int_equal(status, expected);
    assert_null(workload.file);
    stg_free(text);
  }
}
#define ASSERT_REFUSED(cases, status) assert_refused(cases, sizeof(cases) / sizeof *(cases), status)

static void reads_everything_a_workload_says(void **state) {
  (void)state;
  struct stg_workload w = {0};
  assert_int_equal(parse(base, &w, NULL), STG_OK);
  assert_string_equal(w.file, "w.json");
  assert_int_equal(w.hidden_size, 4);
  assert_int_equal(w.layers, 3);
  assert_int_equal(w.n_vectors, 2);
  assert_string_equal(w.vectors[0].name, "axis");
  assert_int_equal(w.vectors[0].source.kind, STG_VECTOR_VALUES);
  assert_false(w.vectors[0].indexable);
  assert_int_equal(w.vectors[0].copies, 1);
  assert_int_equal(w.vectors[0].normalize, -1);
  assert_string_equal(w.vectors[1].where, "vectors.noise");
  assert_int_equal(w.vectors[1].copies, 3);
  assert_true(w.vectors[1].indexable);
  assert_int_equal(w.vectors[1].source.seed, 7);
  assert_int_equal(w.n_slots, 1);
  const struct stg_spec_slot *slot = &w.slots[0];
  assert_string_equal(slot->name, "calm");
  assert_int_equal(slot->n_chains, 2);
  assert_int_equal(slot->chains[1].layer, 2);
  assert_int_equal(slot->chains[0].n_ops, 2);
  const struct stg_spec_op_call *cap = &slot->chains[0].ops[0];
  assert_string_equal(cap->op, "projection_cap");
  assert_string_equal(cap->where, "slots.calm.layers.0[0]");
  assert_int_equal(cap->n_args, 3);
  assert_true(cap->args[0].is_vector);
  assert_string_equal(cap->args[1].name, "max");
  assert_true(cap->args[1].value == 0.5f);
  assert_true(cap->args[2].value < -1e38f);
  const struct stg_spec_op_call *swap = &slot->chains[0].ops[1];
  assert_int_equal(swap->args[1].vector, 1);
  assert_int_equal(swap->args[1].copy, 2);
  assert_int_equal(w.layer, 2);
  assert_int_equal(w.rows, 8);
  stg_workload_finish(&w);
}

static void fills_in_what_is_unsaid(void **state) {
  (void)state;
  struct stg_workload w = {0};
  assert_int_equal(parse(base, &w, NULL), STG_OK);
  assert_int_equal(w.bank_dtype, STG_BF16);
  assert_false(w.pair);
  assert_int_equal(w.row_stride, 4);
  assert_null(w.row_buckets);
  assert_null(w.batch_buckets);
  assert_int_equal(w.warmup, 10);
  assert_int_equal(w.repeats, 100);
  assert_true(w.hidden.scale == 1.0f);
  stg_workload_finish(&w);
}

static void expands_repeats_and_prompt_lengths(void **state) {
  (void)state;
  struct stg_workload w = {0};
  assert_int_equal(parse(base, &w, NULL), STG_OK);
  assert_int_equal(w.n_requests, 5);
  assert_int_equal(w.requests[0].position, 3);
  assert_int_equal(w.requests[0].prompt_len, 8); /* position + rows */
  assert_int_equal(w.requests[1].slot, -1);
  assert_int_equal(w.requests[1].rows, 0);
  for (size_t i = 2; i < 5; i++) {
    assert_int_equal(w.requests[i].slot, 0);
    assert_int_equal(w.requests[i].rows, 1);
    assert_int_equal(w.requests[i].prompt_len, 9);
  }
  stg_workload_finish(&w);
}

static void takes_optional_members_as_written(void **state) {
  (void)state;
  struct stg_workload w = {0};
  char *text =
      edit("\"dtype\": \"bf16\" }", "\"dtype\": \"f16\", \"bank_dtype\": \"f32\" }, \"run\": "
                                    "{ \"warmup\": 0, \"repeats\": 3 }, \"buckets\": { "
                                    "\"rows\": [8, 16], \"batch\": [32] }");
  assert_int_equal(parse(text, &w, NULL), STG_OK);
  assert_int_equal(w.dtype, STG_F16);
  assert_int_equal(w.bank_dtype, STG_F32);
  assert_int_equal(w.warmup, 0);
  assert_int_equal(w.repeats, 3);
  assert_int_equal(w.n_row_buckets, 2);
  assert_int_equal(w.row_buckets[1], 16);
  assert_int_equal(w.n_batch_buckets, 1);
  stg_workload_finish(&w);
  stg_free(text);
  text = edit("\"layer\": 2, ", "\"layer\": 2, \"row_stride\": 6, ");
  assert_int_equal(parse(text, &w, NULL), STG_OK);
  assert_int_equal(w.row_stride, 6);
  stg_workload_finish(&w);
  stg_free(text);
}

static void takes_an_empty_batch_and_no_slots(void **state) {
  (void)state;
  static const char text[] =
      "{\"steergraph\": 1, \"family\": \"steer\", \"geometry\": {\"hidden_size\": 1, \"dtype\": "
      "\"f32\"}, \"batch\": {\"requests\": []}, \"input\": {\"hidden\": {\"values\": []}}}";
  struct stg_workload w = {0};
  assert_int_equal(parse(text, &w, NULL), STG_OK);
  assert_int_equal(w.rows + (int64_t)w.n_requests + (int64_t)w.n_slots, 0);
  stg_workload_finish(&w);
}

static void refuses_a_wrong_frame(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"steergraph\": 1, ", "", "w.json: 'steergraph' is missing"},
      {"\"steergraph\": 1", "\"steergraph\": 2", "w.json: steergraph: expected 1, found 2"},
      {"\"batch\"", "\"bacth\"",
       "w.json: bacth: unknown member; allowed: 'steergraph', 'family', 'geometry', 'ops', "
       "'vectors', 'slots', 'batch', 'buckets', 'input', 'run', 'epilogue'"},
      {"\"family\": \"steer\",", "", "w.json: 'family' is missing"},
      {"{ \"steergraph\"", "[] { \"steergraph\"",
       "w.json:1:4: expected the end of the text after the value, found '{'"},
      {"\"input\": { \"hidden\": { \"random\": { \"seed\": 1 } } }", "\"input\": { }",
       "w.json: input: 'hidden' is missing"},
      {"\"seed\": 1 }", "\"seed\": 1 }, \"scale\": 2",
       "w.json: input.hidden.scale: unknown member; allowed: 'file', 'tensor', 'offset', 'count', "
       "'values', 'random'"},
      {"\"seed\": 1 }", "\"seed\": -1 }",
       "w.json: input.hidden.random.seed: expected an integer from 0 to 9007199254740991, found "
       "-1"},
      {"{ \"random\": { \"seed\": 1 } }", "{ \"values\": [1, 2, 3] }",
       "w.json: input.hidden: 3 values, but 8 rows of 4 need 32"},
      {"\"input\": {", "\"input\": { \"residual\": { \"random\": { \"seed\": 1 } },",
       "w.json: input.residual: geometry.state is 'hidden'; leave 'residual' out, or set the state "
       "to 'hidden+residual'"},
      {"\"dtype\": \"bf16\"", "\"dtype\": \"bf16\", \"state\": \"hidden+residual\"",
       "w.json: input: 'residual' is missing"},
      {"\"input\"", "\"run\": { \"repeats\": 0 }, \"input\"",
       "w.json: run.repeats: expected an integer from 1 to 1000000, found 0"},
  };
  ASSERT_REFUSED(cases, STG_E_FORMAT);
}

static void refuses_a_wrong_geometry(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"hidden_size\": 4, ", "", "w.json: geometry: 'hidden_size' is missing"},
      {"\"hidden_size\": 4", "\"hidden_size\": 0",
       "w.json: geometry.hidden_size: expected an integer from 1 to 1048576, found 0"},
      {"\"hidden_size\": 4", "\"hidden_size\": 4.5",
       "w.json: geometry.hidden_size: expected an integer from 1 to 1048576, found 4.5"},
      {"\"layers\": 3", "\"layers\": 1025",
       "w.json: geometry.layers: expected an integer from 1 to 1024, found 1025"},
      {"\"dtype\": \"bf16\"", "\"dtype\": \"fp8\"",
       "w.json: geometry.dtype: 'fp8' is not a dtype; use 'bf16', 'f16' or 'f32'"},
      {"\"dtype\": \"bf16\"", "\"dtype\": \"bf16\", \"bank_dtype\": \"f16\"",
       "w.json: geometry.bank_dtype: 'f16' with dtype 'bf16'; the bank has the same dtype, or "
       "'f32'"},
      {"\"dtype\": \"bf16\"", "\"dtype\": \"bf16\", \"state\": \"both\"",
       "w.json: geometry.state: 'both' is not a state; use 'hidden' or 'hidden+residual'"},
  };
  ASSERT_REFUSED(cases, STG_E_FORMAT);
}

static void refuses_a_wrong_vector(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"[1, 0, 0, 0]", "[1, 0, 0]",
       "w.json: vectors.axis: 3 values, but geometry.hidden_size is 4"},
      {"[1, 0, 0, 0]", "[1, 0, 0, 0, 0]",
       "w.json: vectors.axis: 5 values, but geometry.hidden_size is 4"},
      {"[1, 0, 0, 0]", "[]", "w.json: vectors.axis: 0 values, but geometry.hidden_size is 4"},
      {"[1, 0, 0, 0]", "[1, 0, \"inf\", 0]",
       "w.json: vectors.axis.values[2]: expected a number, found \"inf\""},
      {"[1, 0, 0, 0]", "[1, 0, 1e39, 0]",
       "w.json: vectors.axis.values[2]: expected a number that fits float32 (at most 3.4e38), "
       "found "
       "1e+39"},
      {"\"values\": [1, 0, 0, 0]", "\"normalize\": true",
       "w.json: vectors.axis: has 0 of 'file', 'values' and 'random'; give exactly one"},
      {"\"values\": [1, 0, 0, 0]", "\"values\": [1, 0, 0, 0], \"random\": { \"seed\": 1 }",
       "w.json: vectors.axis: has 2 of 'file', 'values' and 'random'; give exactly one"},
      {"\"values\": [1, 0, 0, 0]", "\"values\": [1, 0, 0, 0], \"tensor\": \"t\"",
       "w.json: vectors.axis.tensor: 'tensor' goes with 'file'; leave it out"},
      {"\"values\": [1, 0, 0, 0]", "\"values\": [1, 0, 0, 0], \"copies\": 2",
       "w.json: vectors.axis.copies: 'copies' goes with 'random'; leave it out"},
      {"\"values\": [1, 0, 0, 0]", "\"values\": [1, 0, 0, 0], \"normalise\": true",
       "w.json: vectors.axis.normalise: unknown member; allowed: 'file', 'tensor', 'row', "
       "'offset', "
       "'count', 'values', 'random', 'copies', 'normalize'"},
      {"\"values\": [1, 0, 0, 0]", "\"values\": [1, 0, 0, 0], \"normalize\": 1",
       "w.json: vectors.axis.normalize: expected true or false, found 1"},
      {"\"copies\": 3", "\"copies\": 65537",
       "w.json: vectors.noise.copies: expected an integer from 1 to 65536, found 65537"},
      {"\"axis\": {", "\"a[0]\": {",
       "w.json: vectors[\"a[0]\"]: not a name; a name has 1 to 128 bytes, no brackets and no "
       "control characters, and is not 'inf' or '-inf'"},
      {"\"axis\": {", "\"\": {",
       "w.json: vectors[\"\"]: not a name; a name has 1 to 128 bytes, no brackets and no control "
       "characters, and is not 'inf' or '-inf'"},
      {"\"axis\": {", "\"noise\": {",
       "w.json: vectors.noise: this member is given twice; keep one"},
  };
  ASSERT_REFUSED(cases, STG_E_FORMAT);
}

static void refuses_a_wrong_reference(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"v\": \"axis\"", "\"v\": \"axes\"",
       "w.json: slots.calm.layers.0[0].v: unknown vector 'axes'; declared: 'axis', 'noise'"},
      {"\"v\": \"axis\"", "\"v\": \"axi\"",
       "w.json: slots.calm.layers.0[0].v: unknown vector 'axi'; declared: 'axis', 'noise'"},
      {"\"v\": \"axis\"", "\"v\": \"axis[0]\"",
       "w.json: slots.calm.layers.0[0].v: vector 'axis' has no copies; write 'axis' without an "
       "index"},
      {"\"noise[2]\"", "\"noise\"",
       "w.json: slots.calm.layers.0[1].b: vector 'noise' has copies; name one of them, as "
       "'noise[0]'"},
      {"\"noise[2]\"", "\"noise[3]\"",
       "w.json: slots.calm.layers.0[1].b: 'noise[3]': the copies of 'noise' are '[0]' to '[2]'"},
      {"\"noise[2]\"", "\"noise[02]\"",
       "w.json: slots.calm.layers.0[1].b: 'noise[02]': the copies of 'noise' are '[0]' to '[2]'"},
      {"\"noise[2]\"", "\"noise[2]x\"",
       "w.json: slots.calm.layers.0[1].b: 'noise[2]x': the copies of 'noise' are '[0]' to '[2]'"},
      {"\"noise[2]\"", "\"noise[99999999999]\"",
       "w.json: slots.calm.layers.0[1].b: 'noise[99999999999]': the copies of 'noise' are '[0]' to "
       "'[2]'"},
      {"\"slot\": \"calm\"", "\"slot\": \"clam\"",
       "w.json: batch.requests[0].slot: unknown slot 'clam'; declared: 'calm'"},
      {"\"slot\": \"calm\"", "\"slot\": 0",
       "w.json: batch.requests[0].slot: expected the name of a slot, or null for no steering, "
       "found 0"},
  };
  ASSERT_REFUSED(cases, STG_E_FORMAT);
}

static void refuses_a_wrong_slot(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"0\": [", "\"3\": [",
       "w.json: slots.calm.layers.3: '3' is not a layer; geometry.layers is 3, so the last is "
       "\"2\""},
      {"\"0\": [", "\"00\": [",
       "w.json: slots.calm.layers.00: '00' is not a layer; geometry.layers is 3, so the last is "
       "\"2\""},
      {"\"0\": [", "\"first\": [",
       "w.json: slots.calm.layers.first: 'first' is not a layer; geometry.layers is 3, so the last "
       "is \"2\""},
      {"[ { \"op\": \"add\", \"v\": \"noise[0]\", \"scale\": 2 } ]", "[]",
       "w.json: slots.calm.layers.2: a chain of no ops; leave the layer out instead"},
      {"[ { \"op\": \"add\", \"v\": \"noise[0]\", \"scale\": 2 } ]", "{}",
       "w.json: slots.calm.layers.2: expected an array, found an object"},
      {"{ \"op\": \"add\", \"v\": \"noise[0]\", \"scale\": 2 }", "\"add\"",
       "w.json: slots.calm.layers.2[0]: expected an object, found \"add\""},
      {"\"op\": \"add\", ", "", "w.json: slots.calm.layers.2[0]: 'op' is missing"},
      {"\"op\": \"add\"", "\"op\": \"addd\"",
       "w.json: slots.calm.layers.2[0].op: unknown op 'addd'; did you mean 'add'?"},
      {"\"op\": \"add\"", "\"op\": \"quantize\"",
       "w.json: slots.calm.layers.2[0].op: unknown op 'quantize'; see 'steergraph ops', or name "
       "its "
       "file in \"ops\""},
      {"\"scale\": 2", "\"scale\": null",
       "w.json: slots.calm.layers.2[0].scale: expected the name of a vector, or a number, found "
       "null"},
      {"\"scale\": 2", "\"scale\": 1e39",
       "w.json: slots.calm.layers.2[0].scale: expected a number that fits float32 (at most "
       "3.4e38), "
       "found 1e+39"},
      {"\"calm\": { \"layers\"", "\"calm\": { \"layer\"",
       "w.json: slots.calm.layer: unknown member; allowed: 'layers', 'phase', 'window', "
       "'control_vector'"},
      {"\"slots\": {", "\"slots\": { \"idle\": { \"layers\": {} },",
       "w.json: slots.idle.layers: no layer; a request that is not steered has \"slot\": null"},
      {"\"slots\": {", "\"slots\": { \"idle\": {},", "w.json: slots.idle: 'layers' is missing"},
  };
  ASSERT_REFUSED(cases, STG_E_FORMAT);
}

static void refuses_a_wrong_batch(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"layer\": 2", "\"layer\": 3",
       "w.json: batch.layer: expected an integer from 0 to 2, found 3"},
      {"\"layer\": 2", "\"row_stride\": 3",
       "w.json: batch.row_stride: 3 is less than geometry.hidden_size 4"},
      {"\"rows\": 5", "\"rows\": -1",
       "w.json: batch.requests[0].rows: expected an integer from 0 to 4194304, found -1"},
      {"\"rows\": 5, ", "", "w.json: batch.requests[0]: 'rows' is missing"},
      {"\"position\": 3", "\"position\": -3",
       "w.json: batch.requests[0].position: expected an integer from 0 to 2143289343, found -3"},
      {"\"prompt_len\": 9", "\"prompt_len\": 0",
       "w.json: batch.requests[2].prompt_len: expected an integer from 1 to 2147483647, found 0"},
      {"\"repeat\": 3", "\"repeat\": 0",
       "w.json: batch.requests[2].repeat: expected an integer from 1 to 65536, found 0"},
      {"\"repeat\": 3", "\"repeat\": 65536",
       "w.json: batch.requests[2]: the batch has 65538 requests up to here; at most 65536"},
      {"\"rows\": 5", "\"rows\": 4194304",
       "w.json: batch.requests[2]: the batch has 4194307 rows up to here; at most 4194304"},
      {"\"rows\": 1, \"repeat\": 3", "\"rows\": 4194304, \"repeat\": 65000",
       "w.json: batch.requests[2]: the batch has 272629760005 rows up to here; at most 4194304"},
      {"\"rows\": 5, ", "\"rows\": 5, \"row\": 5, ",
       "w.json: batch.requests[0].row: unknown member; allowed: 'slot', 'rows', 'position', "
       "'prompt_len', 'repeat'"},
      {"\"slot\": null, ", "", "w.json: batch.requests[1]: 'slot' is missing"},
      {"\"input\"", "\"buckets\": { \"rows\": [4] }, \"input\"",
       "w.json: buckets.rows: the batch has 8, but the largest bucket is 4; add a larger one"},
      {"\"input\"", "\"buckets\": { \"batch\": [4] }, \"input\"",
       "w.json: buckets.batch: the batch has 5, but the largest bucket is 4; add a larger one"},
      {"\"input\"", "\"buckets\": { \"rows\": [0, 8] }, \"input\"",
       "w.json: buckets.rows[0]: expected an integer from 1 to 4194304, found 0"},
      {"\"input\"", "\"buckets\": { \"rows\": [16, 8] }, \"input\"",
       "w.json: buckets.rows[1]: 8 comes after 16; write buckets in ascending order"},
      {"\"input\"", "\"buckets\": { \"rows\": [] }, \"input\"",
       "w.json: buckets.rows: 0 buckets; give 1 to 64, or leave 'rows' out"},
  };
  ASSERT_REFUSED(cases, STG_E_FORMAT);
}

static void refuses_what_this_version_does_not_support(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"family\": \"steer\"", "\"family\": \"rope\"",
       "w.json: family: 'rope' where steering is read; use 'steer'"},
      {"\"family\": \"steer\"", "\"family\": \"prove\"",
       "w.json: family: 'prove' is not a family; use 'steer', 'rope', 'decode', 'step', "
       "'prover' or 'components'"},
      {"\"values\": [1, 0, 0, 0]", "\"file\": \"v.ckpt\"",
       "w.json: vectors.axis.file: 'v.ckpt' is a PyTorch file, a pickle, which is never read; "
       "convert it with tools/pt_to_safetensors.py"},
      {"\"values\": [1, 0, 0, 0]", "\"file\": \"v.pkl\"",
       "w.json: vectors.axis.file: 'v.pkl' is a pickle, which is never read; convert it to "
       "safetensors"},
  };
  ASSERT_REFUSED(cases, STG_E_UNSUPPORTED);
}

/* References are looked up in a sorted table: 2e4 vectors and as many calls, each used once. */
static void stays_fast_on_many_vectors_and_references(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, "{\"steergraph\":1,\"family\":\"steer\",\"geometry\":{\"hidden_size\":1,"
                        "\"dtype\":\"f32\"},\"vectors\":{");
  for (int i = 0; i < COUNT; i++) {
    stg_strbuf_printf(&text, "%s\"v%d\":{\"values\":[1]}", i > 0 ? "," : "", i);
  }
  stg_strbuf_str(&text, "},\"slots\":{\"s\":{\"layers\":{\"0\":[");
  for (int i = 0; i < COUNT; i++) {
    stg_strbuf_printf(&text, "%s{\"op\":\"add\",\"v\":\"v%d\"}", i > 0 ? "," : "", i);
  }
  stg_strbuf_str(&text, "]}}},\"batch\":{\"requests\":[]},\"input\":{\"hidden\":{\"random\":{"
                        "\"seed\":1}}}}");
  struct stg_workload w = {0};
  assert_int_equal(parse(stg_strbuf_text(&text), &w, NULL), STG_OK);
  for (uint32_t i = 0; i < COUNT; i++) {
    assert_int_equal(w.slots[0].chains[0].ops[i].args[0].vector, i);
  }
  stg_workload_finish(&w);
  stg_strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_everything_a_workload_says),
      cmocka_unit_test(fills_in_what_is_unsaid),
      cmocka_unit_test(expands_repeats_and_prompt_lengths),
      cmocka_unit_test(takes_optional_members_as_written),
      cmocka_unit_test(takes_an_empty_batch_and_no_slots),
      cmocka_unit_test(refuses_a_wrong_frame),
      cmocka_unit_test(refuses_a_wrong_geometry),
      cmocka_unit_test(refuses_a_wrong_vector),
      cmocka_unit_test(refuses_a_wrong_reference),
      cmocka_unit_test(refuses_a_wrong_slot),
      cmocka_unit_test(refuses_a_wrong_batch),
      cmocka_unit_test(refuses_what_this_version_does_not_support),
      cmocka_unit_test(stays_fast_on_many_vectors_and_references),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
