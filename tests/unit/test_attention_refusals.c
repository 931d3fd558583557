/*
 * test_attention_refusals.c: the message for each thing that is wrong with a workload of rope,
 * decode or step, beside those of specs/bad.
 *
 * Each case is one edit of a small valid text, so that nothing else can be what is refused.
 */
#include "specs/spec.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/temp_folder.h"

#define GEOMETRY "\"geometry\":{\"heads\":4,\"kv_heads\":2,\"dim\":8,\"dtype\":\"f32\"}"
#define RANDOM(seed) "{\"random\":{\"seed\":" #seed "}}"

static const char rope[] =
    "{\"steergraph\":1,\"family\":\"rope\"," GEOMETRY ",\"rope\":{\"rot\":8},"
    "\"rows\":{\"requests\":[{\"rows\":3}]},\"input\":{\"qkv\":" RANDOM(1) "}}";
static const char decode[] =
    "{\"steergraph\":1,\"family\":\"decode\"," GEOMETRY ",\"attend\":{},\"cache\":{\"batch\":2,"
    "\"capacity\":16,\"lengths\":[3,5]},\"rows\":{\"layer\":0,\"requests\":[{\"seq\":0,\"rows\":3},"
    "{\"seq\":1,\"rows\":1}]},\"input\":{\"q\":" RANDOM(1) ",\"k\":" RANDOM(2) ",\"v\":" RANDOM(
        3) "}}";
static const char tokens[] =
    "{\"steergraph\":1,\"family\":\"decode\"," GEOMETRY ",\"attend\":{},\"tokens\":{\"batch\":2,"
    "\"window\":4},\"rows\":{\"requests\":[{\"rows\":4}]},\"input\":{\"q\":" RANDOM(
        1) ",\"k\":" RANDOM(2) ",\"v\":" RANDOM(3) "}}";
static const char step[] =
    "{\"steergraph\":1,\"family\":\"step\"," GEOMETRY ",\"rope\":{},\"attend\":{},\"cache\":{"
    "\"batch\":2,\"capacity\":16},\"rows\":{\"requests\":[{\"seq\":0,\"rows\":3}]},\"steer\":{"
    "\"geometry\":{\"hidden_size\":32,\"dtype\":\"f32\"},\"batch\":{\"requests\":[{\"slot\":null,"
    "\"rows\":3}]}},\"buckets\":{\"rows\":[4]},\"input\":{\"qkv\":" RANDOM(1) "}}";

struct refused {
  const char *find;
  const char *replace;
  const char *message;
};

static stg_status parse_edited(const char *path, const char *base, const char *find,
                               const char *replace, stg_error *err) {
  const char *at = strstr(base, find);
  struct stg_strbuf text = {0};
  struct stg_spec spec = {0};
  assert_non_null(at);
  stg_strbuf_mem(&text, base, (size_t)(at - base));
  stg_strbuf_str(&text, replace);
  stg_strbuf_str(&text, at + strlen(find));
  stg_status status = stg_spec_parse(path, stg_strbuf_text(&text), text.len, NULL, &spec, err);
  stg_spec_finish(&spec);
  stg_strbuf_finish(&text);
  return status;
}

static void assert_refused(const char *base, const struct refused *cases, size_t n,
                           stg_status expected) {
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(parse_edited("w.json", base, "", "", &err), STG_OK);
  for (size_t i = 0; i < n; i++) {
    err = (stg_error)STG_ERROR_INIT;
    stg_status status = parse_edited("w.json", base, cases[i].find, cases[i].replace, &err);
    assert_string_equal(err.message, cases[i].message);
    assert_int_equal(status, expected);
  }
}
#define ASSERT_REFUSED(base, cases, status)                                                        \
  assert_refused(base, cases, sizeof(cases) / sizeof *(cases), status)

static void a_text_of_no_family_is_told_what_there_is(void **state) {
  (void)state;
  static const struct refused format[] = {
      {"\"family\":\"rope\",", "",
       "w.json: rope: unknown member; allowed: 'steergraph', 'family', "
       "'geometry', 'ops', 'vectors', 'slots', 'batch', 'buckets', "
       "'input', 'run', 'epilogue'"},
      {"\"family\":\"rope\",\"geometry\":{\"heads\":4,\"kv_heads\":2,\"dim\":8,\"dtype\":\"f32\"},"
       "\"rope\":{\"rot\":8},\"rows\":{\"requests\":[{\"rows\":3}]},\"input\"",
       "\"input\"", "w.json: 'family' is missing"},
      {"\"steergraph\":1", "\"steergraph\":2", "w.json: steergraph: expected 1, found 2"},
  };
  static const struct refused unsupported[] = {
      {"\"family\":\"rope\"", "\"family\":\"prove\"",
       "w.json: family: 'prove' is not a family; use 'steer', 'rope', 'decode', 'step', "
       "'prover' or 'components'"},
      {"\"family\":\"rope\"", "\"family\":\"Rope\"",
       "w.json: family: 'Rope' is not a family; use 'steer', 'rope', 'decode', 'step', "
       "'prover' or 'components'"},
  };
  ASSERT_REFUSED(rope, format, STG_E_FORMAT);
  ASSERT_REFUSED(rope, unsupported, STG_E_UNSUPPORTED);
}

static void refuses_a_wrong_rope(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"rot\":8", "\"rotate\":8",
       "w.json: rope.rotate: unknown member; allowed: 'layout', 'rot', 'pairs', 'base', 'scaling', "
       "'xpos', 'round', 'trig', 'table', 'order', 'direction'"},
      {"\"rope\":{\"rot\":8},", "", "w.json: 'rope' is missing"},
      {"\"rot\":8", "\"pairs\":1", "w.json: rope.pairs: expected a string, found 1"},
      {"\"rot\":8", "\"pairs\":\"odd\"",
       "w.json: rope.pairs: 'odd' is not known; use 'half' or 'interleaved'"},
      {"\"rot\":8", "\"round\":\"once\"",
       "w.json: rope.round: 'once' is not known; use 'final' or 'each_op'"},
      {"\"rot\":8", "\"trig\":\"f64\"",
       "w.json: rope.trig: 'f64' is not known; use 'f32', 'dtype' or 'swapped_bf16'"},
      {"\"rot\":8", "\"order\":\"dims\"",
       "w.json: rope.order: 'dims' is not known; use 'rows' or 'heads'"},
      {"\"rot\":8", "\"direction\":\"back\"",
       "w.json: rope.direction: 'back' is not known; use 'forward' or 'backward'"},
      {"\"rot\":8", "\"base\":1e39",
       "w.json: rope.base: expected a number that fits float32 (at most 3.4e38), found 1e+39"},
      {"\"rot\":8", "\"scaling\":4", "w.json: rope.scaling: expected an object, found 4"},
      {"\"rot\":8", "\"scaling\":{\"factor\":4}", "w.json: rope.scaling: 'kind' is missing"},
      {"\"rot\":8", "\"scaling\":{\"kind\":\"linear\"}",
       "w.json: rope.scaling: 'factor' is missing"},
      {"\"rot\":8", "\"scaling\":{\"kind\":\"linear\",\"factor\":-1}",
       "w.json: rope.scaling.factor: -1; give a number above 0 that float32 holds"},
      {"\"rot\":8",
       "\"scaling\":{\"kind\":\"llama3\",\"factor\":8,\"low\":1,\"high\":4,\"original\":0}",
       "w.json: rope.scaling.original: expected an integer from 1 to 2147483647, found 0"},
      {"\"rot\":8", "\"xpos\":{\"order\":\"both\"}",
       "w.json: rope.xpos.order: 'both' is not known; use 'halves' or 'pairs'"},
      {"\"rot\":8", "\"xpos\":{\"order\":\"pairs\",\"base\":0}",
       "w.json: rope.xpos.base: 0; give a number above 0 that float32 holds"},
      {"\"rot\":8", "\"table\":{\"random\":{\"seed\":1}}",
       "w.json: rope.table: 'positions' is missing"},
      {"\"rot\":8", "\"table\":{\"positions\":4}",
       "w.json: rope.table: has 0 of 'file', 'values' and 'random'; give exactly one"},
      {"\"rot\":8",
       "\"scaling\":{\"kind\":\"linear\",\"factor\":2},\"table\":{\"positions\":4,\"random\":{"
       "\"seed\":1}}",
       "w.json: rope.scaling: a table has the angles already; leave it out"},
  };
  ASSERT_REFUSED(rope, cases, STG_E_FORMAT);
}

static void refuses_wrong_rows(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"layer\":0", "\"layer\":1", "w.json: rows.layer: expected 0, found 1"},
      {"\"layer\":0", "\"positions\":\"i8\"",
       "w.json: rows.positions: 'i8' is not known; use 'len', 'i32' or 'i64'"},
      {"\"seq\":1,\"rows\":1", "\"seq\":\"1\",\"rows\":1",
       "w.json: rows.requests[1].seq: expected an integer from 0 to 1, found \"1\""},
      {"\"seq\":1,\"rows\":1", "\"seq\":1", "w.json: rows.requests[1]: 'rows' is missing"},
      {"\"seq\":1,\"rows\":1", "\"rows\":1,\"repeat\":2",
       "w.json: rows.requests[1]: sequences 1 to 2, but there are 2"},
      {"\"seq\":1,\"rows\":1", "\"rows\":1,\"positions\":[4]",
       "w.json: rows.requests[1].positions: is instead of 'rows' and 'position'; leave those out"},
      {"\"seq\":1,\"rows\":1", "\"position\":1,\"positions\":[4]",
       "w.json: rows.requests[1].positions: is instead of 'rows' and 'position'; leave those out"},
      {"\"seq\":1,\"rows\":1", "\"rows\":2,\"position\":2147483646",
       "w.json: rows.requests[1].position: expected an integer from 0 to 2147483645, found "
       "2.14748365e+09"},
      {"\"seq\":1,\"rows\":1", "\"positions\":[2147483647]",
       "w.json: rows.requests[1].positions[0]: expected an integer from 0 to 2147483646, found "
       "2.14748365e+09"},
      {"\"seq\":1,\"rows\":1", "\"positions\":4",
       "w.json: rows.requests[1].positions: expected an array, found 4"},
      {"\"seq\":1,\"rows\":1", "\"seq\":null,\"rows\":0,\"repeat\":65536",
       "w.json: rows.requests[1]: 65537 requests and 3 rows up to here; at most 65536 and 4194304"},
      {"\"seq\":1,\"rows\":1", "\"seq\":null,\"rows\":4194304",
       "w.json: rows.requests[1]: 2 requests and 4194307 rows up to here; at most 65536 and "
       "4194304"},
      {"\"layer\":0,\"requests\":[{\"seq\":0,\"rows\":3}",
       "\"positions\":\"len\",\"requests\":[{\"seq\":0,\"positions\":[1]}",
       "w.json: rows.requests[0].positions: rows.positions is 'len': a row is where its sequence "
       "ends; leave it out, or use 'i32'"},
      {"\"requests\":[{\"seq\":0,\"rows\":3},{\"seq\":1,\"rows\":1}]", "\"requests\":{}",
       "w.json: rows.requests: expected an array, found an object"},
  };
  ASSERT_REFUSED(decode, cases, STG_E_FORMAT);
}

static void refuses_a_wrong_cache(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"batch\":2,", "", "w.json: cache: 'batch' is missing"},
      {"\"batch\":2", "\"batch\":65537",
       "w.json: cache.batch: expected an integer from 1 to 65536, found 65537"},
      {"\"capacity\":16", "\"capacity\":1073741825",
       "w.json: cache.capacity: expected an integer from 1 to 1073741824, found 1.07374182e+09"},
      {"\"lengths\":[3,5]", "\"lengths\":\"full\"",
       "w.json: cache.lengths: expected a length, a list of them, or {\"random\": ...}, found "
       "\"full\""},
      {"\"lengths\":[3,5]", "\"lengths\":17",
       "w.json: cache.lengths: expected an integer from 0 to 16, found 17"},
      {"\"lengths\":[3,5]", "\"lengths\":{}", "w.json: cache.lengths: 'random' is missing"},
      {"\"lengths\":[3,5]", "\"lengths\":{\"random\":{\"min\":1}}",
       "w.json: cache.lengths.random: 'seed' is missing"},
      {"\"lengths\":[3,5]", "\"lengths\":{\"random\":{\"seed\":1,\"min\":5,\"max\":4}}",
       "w.json: cache.lengths.random.max: expected an integer from 5 to 16, found 4"},
      {"\"lengths\":[3,5]", "\"block\":4,\"blocks\":8",
       "w.json: cache.block: expected an integer from 8 to 1024, found 4"},
      {"\"attend\":{}", "\"attend\":{\"order\":\"dims\"}",
       "w.json: attend.order: 'dims' is not known; use 'rows' or 'heads'"},
      {"\"attend\":{}", "\"attend\":{\"causal\":true}",
       "w.json: attend.causal: unknown member; allowed: 'scale', 'window', 'order'"},
      {"\"q\":" RANDOM(1), "\"qkv\":" RANDOM(1),
       "w.json: input.qkv: unknown member; allowed: 'q', 'k', 'v'"},
      {"\"q\":" RANDOM(1), "\"q\":{\"values\":[]}",
       "w.json: input.q: 0 values, but [4, 4, 8] has 128 elements"},
      {"\"q\":" RANDOM(1), "\"q\":{\"random\":{\"seed\":1},\"row\":1}",
       "w.json: input.q.row: unknown member; allowed: 'file', 'tensor', 'offset', 'count', "
       "'values', 'random'"},
  };
  static const struct refused capacity[] = {
      {"\"batch\":2,\"capacity\":16,\"lengths\":[3,5]",
       "\"batch\":65536,\"capacity\":1073741824,\"block\":8,\"blocks\":8",
       "w.json: cache.block: a table of 65536 x 134217728 blocks; at most 67108864 entries, so "
       "give larger blocks"},
  };
  ASSERT_REFUSED(decode, cases, STG_E_FORMAT);
  ASSERT_REFUSED(decode, capacity, STG_E_CAPACITY);
}

static void refuses_wrong_tokens(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"window\":4", "\"window\":4,\"capacity\":4",
       "w.json: tokens.capacity: unknown member; allowed: 'batch', 'window', 'lengths', "
       "'key_mask', 'tail'"},
      {"\"window\":4", "\"window\":4,\"key_mask\":[1,2,1,1]",
       "w.json: tokens.key_mask[1]: expected an integer from 0 to 1, found 2"},
      {"\"window\":4", "\"window\":4,\"key_mask\":1",
       "w.json: tokens.key_mask: expected an array, found 1"},
      {"\"window\":4", "\"window\":4,\"lengths\":5",
       "w.json: tokens.lengths: expected an integer from 0 to 4, found 5"},
      {"\"requests\"", "\"positions\":\"len\",\"requests\"",
       "w.json: rows.positions: 'len' is the length of a sequence in a cache, and there is none; "
       "use 'i32' or 'i64'"},
      {"\"dim\":8", "\"dim\":8,\"layers\":2",
       "w.json: geometry.layers: 2 layers are those of a cache, and there is none; leave it out"},
  };
  ASSERT_REFUSED(tokens, cases, STG_E_FORMAT);
}

static void refuses_a_wrong_step(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"rope\":{}", "\"rope\":{\"order\":\"rows\"}",
       "w.json: rope.order: unknown member; allowed: 'layout', 'rot', 'pairs', 'base', 'scaling', "
       "'xpos', 'round', 'trig', 'table'"},
      {"\"rope\":{},", "", "w.json: 'rope' is missing"},
      {"\"cache\":{\"batch\":2,\"capacity\":16},", "", "w.json: 'cache' is missing"},
      {"\"buckets\"", "\"advance\":1,\"buckets\"",
       "w.json: advance: expected true or false, found 1"},
      {"\"rows\":[4]", "\"rows\":[2]",
       "w.json: buckets.rows: the batch has 3, but the largest bucket is 2; add a larger one"},
      {"\"steer\":{", "\"steer\":{\"family\":\"steer\",",
       "w.json: steer.family: unknown member; allowed: 'geometry', 'ops', 'vectors', 'slots', "
       "'batch'"},
      {"\"hidden_size\":32,\"dtype\":\"f32\"",
       "\"hidden_size\":32,\"dtype\":\"f32\",\"state\":\"hidden+residual\"",
       "w.json: steer.geometry.state: a step has no residual; leave it out, or use 'hidden'"},
      {"{\"slot\":null,\"rows\":3}", "{\"slot\":\"calm\",\"rows\":3}",
       "w.json: steer.batch.requests[0].slot: unknown slot 'calm'; declared: none"},
      {"\"steer\":{\"geometry\":{\"hidden_size\":32,\"dtype\":\"f32\"},\"batch\":{\"requests\":[{"
       "\"slot\":null,\"rows\":3}]}}",
       "\"steer\":{}", "w.json: steer: 'geometry' is missing"},
      {"\"capacity\":16", "\"capacity\":16,\"lengths\":[0,1]", "w.json: input: 'k' is missing"},
      {"\"qkv\":" RANDOM(1), "\"qkv\":" RANDOM(1) ",\"v\":" RANDOM(2),
       "w.json: input: 'k' is missing"},
      {"\"requests\":[{\"seq\":0,\"rows\":3}]", "\"requests\":[{\"positions\":[4,1,4]}]",
       "w.json: rows.requests: sequence 0 has two rows at position 4; a cache holds one of them"},
  };
  ASSERT_REFUSED(step, cases, STG_E_FORMAT);
}

static void refuses_caches_beyond_all_memory(void **state) {
  (void)state;
  static const struct refused cases[] = {
      {"\"batch\":2,\"capacity\":16", "\"batch\":65536,\"capacity\":1073741824",
       "w.json: cache: K of 1 layers would have 70368744177664 positions of 2 heads of 8; at most "
       "1099511627776 elements"},
  };
  stg_error err = STG_ERROR_INIT;
  ASSERT_REFUSED(step, cases, STG_E_CAPACITY);
  /* as many positions, of blocks that there are */
  assert_int_equal(parse_edited("w.json", step, "\"batch\":2,\"capacity\":16",
                                "\"batch\":2,\"capacity\":1073741824,\"block\":1024,\"blocks\":9",
                                &err),
                   STG_OK);
}

static void the_count_of_a_raw_file_is_that_of_the_array(void **state) {
  FILE *file = fopen(temp_path(state, "q.f32"), "w");
  assert_non_null(file);
  assert_int_equal(fclose(file), 0);
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(parse_edited(temp_path(state, "w.json"), decode, RANDOM(1),
                                "{\"file\":\"q.f32\",\"count\":127}", &err),
                   STG_E_FORMAT);
  assert_non_null(
      strstr(err.message, "w.json: input.q.count: 127, but [4, 4, 8] has 128 elements"));
  assert_int_equal(parse_edited(temp_path(state, "w.json"), decode, RANDOM(1),
                                "{\"file\":\"q.f32\",\"count\":128}", &err),
                   STG_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_of_no_family_is_told_what_there_is),
      cmocka_unit_test(refuses_a_wrong_rope),
      cmocka_unit_test(refuses_wrong_rows),
      cmocka_unit_test(refuses_a_wrong_cache),
      cmocka_unit_test(refuses_wrong_tokens),
      cmocka_unit_test(refuses_a_wrong_step),
      cmocka_unit_test(refuses_caches_beyond_all_memory),
      cmocka_unit_test_setup_teardown(the_count_of_a_raw_file_is_that_of_the_array,
                                      temp_folder_setup, temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
