/*
 * test_attention_workload.c: what workloads of rope, decode and step become: words, rows, lengths,
 * blocks, arrays, the steering of a step. Refusals are in test_attention_refusals.c.
 */
#include "specs/spec.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "specs/random.h"
#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"

#define GEOMETRY "\"geometry\":{\"heads\":4,\"kv_heads\":2,\"dim\":8,\"dtype\":\"f32\"}"
#define RANDOM(seed) "{\"random\":{\"seed\":" #seed "}}"
#define KV "\"k\":" RANDOM(2) ",\"v\":" RANDOM(3)

static struct stg_spec parse_at(const char *path, const char *text) {
  struct stg_spec spec = {0};
  stg_error err = STG_ERROR_INIT;
  if (stg_spec_parse(path, text, strlen(text), NULL, &spec, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return spec;
}

/* A rope workload of these members and rows. */
static struct stg_spec rope(const char *members, const char *rows) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text,
                    "{\"steergraph\":1,\"family\":\"rope\"," GEOMETRY
                    ",\"rope\":{%s},\"rows\":{%s},"
                    "\"input\":{\"qkv\":" RANDOM(1) "}}",
                    members, rows);
  struct stg_spec spec = parse_at("w.json", stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  return spec;
}

/* A decode workload with this cache and rows. */
static struct stg_spec decode(const char *cache, const char *rows) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text,
                    "{\"steergraph\":1,\"family\":\"decode\"," GEOMETRY ",\"attend\":{},%s,"
                    "\"rows\":{%s},\"input\":{\"q\":" RANDOM(1) "," KV "}}",
                    cache, rows);
  struct stg_spec spec = parse_at("w.json", stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  return spec;
}

static void fills_in_what_is_unsaid(void **state) {
  (void)state;
  struct stg_spec spec = rope("", "\"requests\":[{\"rows\":3},{\"rows\":2}]");
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_int_equal(spec.kind, STG_SPEC_ROPE);
  assert_int_equal(w->kind, STG_SPEC_ROPE);
  assert_string_equal(w->file, "w.json");
  assert_int_equal(w->layers, 1);
  assert_int_equal(w->rope.layout, STG_SPEC_LAYOUT_CONCAT);
  assert_int_equal(w->rope.rot, 8);
  assert_int_equal(w->rope.pairs, STG_SPEC_PAIRS_HALF);
  assert_int_equal(w->rope.round, STG_SPEC_ROUND_FINAL);
  assert_int_equal(w->rope.trig, STG_SPEC_TRIG_F32);
  assert_int_equal(w->rope.xpos, STG_SPEC_XPOS_NONE);
  assert_int_equal(w->rope.scaling, STG_SPEC_SCALING_NONE);
  assert_int_equal(w->rope.order, STG_SPEC_ORDER_ROWS);
  assert_true(w->rope.base == 10000);
  assert_false(w->rope.has_table || w->rope.backward || w->rope.to_cache || w->cache.exists);
  assert_int_equal(w->positions, STG_SPEC_POSITIONS_I32);
  assert_int_equal(w->rows, 5);
  assert_int_equal(w->batch, 2);
  assert_int_equal(w->sequences, 2);
  assert_int_equal(w->longest, 3);
  assert_int_equal(w->stretches[1].seq, 1);
  assert_int_equal(w->stretches[1].position, 0);
  assert_true(w->has_qkv && !w->has_q && !w->has_k && !w->has_v);
  assert_int_equal(w->qkv.elems, 5 * 64);
  assert_int_equal(w->warmup, 10);
  assert_int_equal(w->repeats, 100);
  assert_null(w->row_buckets);
  stg_spec_finish(&spec);
  spec = decode("\"cache\":{\"batch\":3,\"capacity\":16}", "\"requests\":[]");
  w = &spec.of.attention;
  assert_true(w->attend.scale == (float)(1.0 / sqrt(8.0)));
  assert_int_equal(w->attend.window, 0);
  assert_int_equal(w->cache.tail, STG_SPEC_TAIL_NAN);
  assert_int_equal(w->cache.block, 0);
  assert_int_equal(w->cache.lengths[2], 0);
  assert_int_equal(w->batch, 3);
  assert_int_equal(w->rows, 0);
  assert_int_equal(stg_attention_table_row(w), 0);
  stg_spec_finish(&spec);
}

static void every_word_has_its_value(void **state) {
  (void)state;
  static const struct {
    const char *members;
    struct stg_spec_rope rope;
  } cases[] = {
      {"\"layout\":\"concat\",\"pairs\":\"half\",\"round\":\"final\",\"trig\":\"f32\"", {0}},
      {"\"layout\":\"grouped\",\"pairs\":\"interleaved\",\"round\":\"each_op\"",
       {.layout = STG_SPEC_LAYOUT_GROUPED,
        .pairs = STG_SPEC_PAIRS_INTERLEAVED,
        .round = STG_SPEC_ROUND_EACH_OP,
        .trig = STG_SPEC_TRIG_DTYPE}},
      {"\"layout\":\"head_fastest\",\"trig\":\"swapped_bf16\",\"order\":\"heads\"",
       {.layout = STG_SPEC_LAYOUT_HEAD_FASTEST,
        .trig = STG_SPEC_TRIG_SWAPPED_BF16,
        .order = STG_SPEC_ORDER_HEADS}},
      {"\"round\":\"each_op\",\"trig\":\"f32\",\"xpos\":{\"order\":\"pairs\"}",
       {.round = STG_SPEC_ROUND_EACH_OP, .xpos = STG_SPEC_XPOS_PAIRS}},
      {"\"xpos\":{\"order\":\"halves\"},\"trig\":\"dtype\"",
       {.xpos = STG_SPEC_XPOS_HALVES, .trig = STG_SPEC_TRIG_DTYPE}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_spec spec = rope(cases[i].members, "\"requests\":[]");
    const struct stg_spec_rope *is = &spec.of.attention.rope;
    const struct stg_spec_rope *wanted = &cases[i].rope;
    assert_int_equal(is->layout, wanted->layout);
    assert_int_equal(is->pairs, wanted->pairs);
    assert_int_equal(is->round, wanted->round);
    assert_int_equal(is->trig, wanted->trig);
    assert_int_equal(is->xpos, wanted->xpos);
    assert_int_equal(is->order, wanted->order);
    assert_true(is->xpos_base == 512);
    stg_spec_finish(&spec);
  }
}

static void angles_keep_all_their_digits(void **state) {
  (void)state;
  struct stg_spec spec = rope("\"base\":500000.1,\"rot\":6,\"scaling\":{\"kind\":\"llama3\","
                              "\"factor\":8.1,\"low\":1,\"high\":4,\"original\":8192},"
                              "\"xpos\":{\"order\":\"halves\",\"base\":0.1}",
                              "\"requests\":[]");
  const struct stg_spec_rope *is = &spec.of.attention.rope;
  assert_true(is->base == 500000.1 && is->factor == 8.1 && is->low == 1 && is->high == 4);
  assert_true(is->xpos_base == 0.1);
  assert_int_equal(is->scaling, STG_SPEC_SCALING_LLAMA3);
  assert_int_equal(is->original, 8192);
  assert_int_equal(is->rot, 6);
  stg_spec_finish(&spec);
  spec = rope("\"scaling\":{\"kind\":\"linear\",\"factor\":2}", "\"requests\":[]");
  assert_int_equal(spec.of.attention.rope.scaling, STG_SPEC_SCALING_LINEAR);
  assert_true(spec.of.attention.rope.factor == 2);
  stg_spec_finish(&spec);
  spec =
      rope("\"rot\":4,\"table\":{\"positions\":2,\"values\":[1,2,3,4,5,6,7,8]}", "\"requests\":[]");
  const struct stg_attention_workload *w = &spec.of.attention;
  float element = 0;
  assert_true(w->rope.has_table);
  assert_int_equal(w->rope.table.shape[0], 2);
  assert_int_equal(w->rope.table.shape[1], 2);
  assert_int_equal(w->rope.table.shape[2], 2);
  assert_int_equal(stg_attention_read(w, &w->rope.table, 6, 1, STG_F32, &element, NULL), STG_OK);
  assert_true(element == 7);
  stg_spec_finish(&spec);
}

static void rows_have_a_sequence_and_a_position(void **state) {
  (void)state;
  static const int32_t seqs[] = {2, 2, 0, 1, 2, -1, -1, 3, 3, 3};
  static const int64_t positions[] = {5, 6, 9, 9, 9, 0, 0, 2147483646, 0, 7};
  for (int wide = 0; wide < 2; wide++) {
    struct stg_strbuf text = {0};
    stg_strbuf_printf(&text,
                      "\"positions\":\"%s\",\"requests\":[{\"seq\":2,\"rows\":2,\"position\":5},"
                      "{\"seq\":0,\"rows\":1,\"position\":9,\"repeat\":3},{\"seq\":null,\"rows\":2,"
                      "\"position\":8},{\"positions\":[2147483646,0,7]}]",
                      wide ? "i64" : "i32");
    struct stg_spec spec = rope("", stg_strbuf_text(&text));
    const struct stg_attention_workload *w = &spec.of.attention;
    int32_t seq[10];
    int32_t narrow[10];
    int64_t pos[10];
    assert_int_equal(w->rows, 10);
    assert_int_equal(w->batch, 4);
    assert_int_equal(w->sequences, 4);
    assert_int_equal(w->longest, 3);
    assert_int_equal(w->n_stretches, 6);
    stg_attention_fill_seq(w, seq);
    stg_attention_fill_positions(w, wide ? (void *)pos : narrow);
    for (size_t i = 0; i < 10; i++) {
      assert_int_equal(seq[i], seqs[i]);
      assert_int_equal(wide ? pos[i] : narrow[i], positions[i]);
    }
    stg_spec_finish(&spec);
    stg_strbuf_finish(&text);
  }
}

static void a_position_that_is_unsaid_is_behind_what_the_cache_has(void **state) {
  (void)state;
  struct stg_spec spec = decode("\"cache\":{\"batch\":3,\"capacity\":16,\"lengths\":[4,15,0]}",
                                "\"requests\":[{\"rows\":3},{\"rows\":2},{\"seq\":0,\"rows\":1,"
                                "\"position\":1}]");
  const struct stg_attention_workload *w = &spec.of.attention;
  int32_t pos[6];
  static const int32_t wanted[] = {4, 5, 6, 15, 16, 1};
  stg_attention_fill_positions(w, pos);
  assert_memory_equal(pos, wanted, sizeof pos);
  /* decode reads what the rows appended before it, as far as there is room */
  assert_int_equal(w->cache.filled[0], 7);
  assert_int_equal(w->cache.filled[1], 16);
  assert_int_equal(w->cache.filled[2], 0);
  assert_int_equal(w->longest, 4);
  stg_spec_finish(&spec);
}

static void lengths_are_one_or_many_or_random(void **state) {
  (void)state;
  struct stg_spec spec =
      decode("\"cache\":{\"batch\":2,\"capacity\":16,\"lengths\":7,\"tail\":\"zeros\"}",
             "\"positions\":\"len\",\"requests\":[{\"seq\":1}]");
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_int_equal(w->cache.lengths[0], 7);
  assert_int_equal(w->cache.lengths[1], 7);
  assert_int_equal(w->cache.filled[0], 7);
  assert_int_equal(w->cache.filled[1], 8);
  assert_int_equal(w->cache.tail, STG_SPEC_TAIL_ZEROS);
  assert_int_equal(w->positions, STG_SPEC_POSITIONS_LEN);
  stg_spec_finish(&spec);
  spec = decode("\"cache\":{\"batch\":64,\"capacity\":16,\"lengths\":{\"random\":{\"seed\":9,"
                "\"min\":3,\"max\":5}}}",
                "\"requests\":[]");
  w = &spec.of.attention;
  unsigned seen = 0;
  for (uint32_t i = 0; i < 64; i++) {
    assert_int_equal(w->cache.lengths[i], stg_random_between(9, (uint64_t)9 << 32, i, 3, 5));
    seen |= 1U << w->cache.lengths[i];
  }
  assert_int_equal(seen, 1U << 3 | 1U << 4 | 1U << 5);
  stg_spec_finish(&spec);
}

static void blocks_go_to_what_is_there_then_to_rows(void **state) {
  (void)state;
  /* 8 positions a block: 9 and 3 filled, rows reach 18, 4 and 9, and the pool ends */
  struct stg_spec spec = {0};
  static const char text[] =
      "{\"steergraph\":1,\"family\":\"rope\"," GEOMETRY ",\"rope\":{},\"cache\":{\"batch\":3,"
      "\"capacity\":30,\"block\":8,\"blocks\":5,\"lengths\":[9,3,0]},\"rows\":{\"requests\":["
      "{\"rows\":9},{\"rows\":1},{\"rows\":9}]},\"input\":{\"qkv\":" RANDOM(1) "}}";
  static const int32_t wanted[] = {0, 2, -1, -1, 1, -1, -1, -1, 3, 4, -1, -1};
  int32_t table[12];
  spec = parse_at("w.json", text);
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_int_equal(stg_attention_table_row(w), 4);
  assert_true(w->rope.to_cache);
  assert_int_equal(w->cache.reach[0], 18);
  assert_int_equal(w->cache.filled[0], 9);
  stg_attention_fill_table(w, table);
  assert_memory_equal(table, wanted, sizeof wanted);
  stg_spec_finish(&spec);
}

static void tokens_are_a_window_without_a_cache(void **state) {
  (void)state;
  struct stg_spec spec = decode("\"tokens\":{\"batch\":2,\"window\":3,\"lengths\":[3,1],"
                                "\"key_mask\":[1,0,1]}",
                                "\"requests\":[{\"rows\":3,\"position\":0,\"repeat\":2}]");
  const struct stg_attention_workload *w = &spec.of.attention;
  static const uint8_t mask[] = {1, 0, 1};
  assert_true(w->cache.exists && w->cache.tokens && w->cache.one_mask);
  assert_int_equal(w->cache.capacity, 3);
  assert_int_equal(w->cache.filled[1], 1);
  assert_memory_equal(w->cache.key_mask, mask, sizeof mask);
  assert_int_equal(w->k.shape[2], 3);
  stg_spec_finish(&spec);
  spec =
      decode("\"tokens\":{\"batch\":2,\"window\":3,\"key_mask\":[1,0,1,0,0,1]}", "\"requests\":[]");
  w = &spec.of.attention;
  static const uint8_t masks[] = {1, 0, 1, 0, 0, 1};
  assert_false(w->cache.one_mask);
  assert_memory_equal(w->cache.key_mask, masks, sizeof masks);
  assert_int_equal(w->cache.lengths[0], 3);
  stg_spec_finish(&spec);
}

static void any_part_of_random_values_is_the_whole_s(void **state) {
  (void)state;
  struct stg_spec spec =
      decode("\"cache\":{\"batch\":2,\"capacity\":300}", "\"requests\":[{\"rows\":2}]");
  const struct stg_attention_workload *w = &spec.of.attention;
  const struct stg_spec_array *arrays[] = {&w->q, &w->k, &w->v};
  static const uint64_t streams[] = {5, 6, 7};
  enum { ELEMS = 1200 };
  float wanted[ELEMS];
  float is[ELEMS];
  assert_int_equal(w->k.elems, 2 * 2 * 300 * 8);
  assert_int_equal(w->q.elems, 2 * 4 * 8);
  for (size_t i = 0; i < 3; i++) {
    const size_t n = arrays[i]->elems < ELEMS ? (size_t)arrays[i]->elems - 3 : ELEMS;
    stg_random_normal(i + 1, streams[i] << 32, 3, 1, wanted, n);
    assert_int_equal(stg_attention_read(w, arrays[i], 3, n, STG_F32, is, NULL), STG_OK);
    assert_memory_equal(is, wanted, n * sizeof *is);
  }
  stg_spec_finish(&spec);
}

/* A decode workload whose q is that tensor of t.safetensors. */
static struct stg_spec of_file(void **state, const char *tensor) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text,
                    "{\"steergraph\":1,\"family\":\"decode\"," GEOMETRY ",\"attend\":{},\"cache\":{"
                    "\"batch\":1,\"capacity\":8},\"rows\":{\"requests\":[{\"rows\":2}]},\"input\":{"
                    "\"q\":{\"file\":\"t.safetensors\",\"tensor\":\"%s\"}," KV "}}",
                    tensor);
  struct stg_spec spec = parse_at(temp_path(state, "w.json"), stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  return spec;
}

static void a_tensor_has_the_shape_or_joins_heads(void **state) {
  float elems[64];
  float is[2] = {0};
  for (size_t i = 0; i < 64; i++) {
    elems[i] = (float)i;
  }
  const struct stg_tensor_out tensors[] = {
      {"exact", STG_F32, 3, {2, 4, 8}, elems},
      {"joined", STG_F32, 2, {2, 32}, elems},
      {"turned", STG_F32, 3, {4, 2, 8}, elems},
      {"flat", STG_F32, 1, {64}, elems},
  };
  assert_int_equal(
      stg_safetensors_write(temp_path(state, "t.safetensors"), tensors, 4, NULL, 0, NULL), STG_OK);
  for (size_t i = 0; i < 4; i++) {
    struct stg_spec spec = of_file(state, tensors[i].name);
    const struct stg_attention_workload *w = &spec.of.attention;
    stg_error err = STG_ERROR_INIT;
    stg_status status = stg_attention_read(w, &w->q, 33, 2, STG_F32, is, &err);
    if (i < 2) {
      assert_int_equal(status, STG_OK);
      assert_true(is[0] == 33 && is[1] == 34);
    } else {
      assert_int_equal(status, STG_E_FORMAT);
      assert_non_null(strstr(err.message, i == 2 ? "input.q: tensor 'turned' has shape [4, 2, 8]; "
                                                   "needed: [2, 4, 8]"
                                                 : "input.q: tensor 'flat' has shape [64]; needed: "
                                                   "[2, 4, 8]"));
    }
    stg_spec_finish(&spec);
  }
  struct stg_spec spec = of_file(state, "none");
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(
      stg_attention_read(&spec.of.attention, &spec.of.attention.q, 0, 1, STG_F32, is, &err),
      STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "w.json: input.q: "));
  stg_spec_finish(&spec);
}

static void gradients_stand_as_the_order_says(void **state) {
  (void)state;
  struct stg_spec spec = parse_at(
      "w.json", "{\"steergraph\":1,\"family\":\"rope\"," GEOMETRY ",\"rope\":{\"direction\":"
                "\"backward\",\"order\":\"heads\"},\"rows\":{\"requests\":[{\"rows\":5}]},"
                "\"input\":{\"q\":" RANDOM(1) "," KV "}}");
  const struct stg_attention_workload *w = &spec.of.attention;
  assert_true(w->rope.backward && w->has_q && w->has_k && w->has_v && !w->has_qkv);
  assert_int_equal(w->q.shape[0], 4);
  assert_int_equal(w->q.shape[1], 5);
  assert_int_equal(w->k.shape[0], 2);
  assert_int_equal(w->v.shape[2], 8);
  stg_spec_finish(&spec);
}

static void the_steering_of_a_step_is_that_of_a_steer_workload(void **state) {
  (void)state;
#define PART                                                                                       \
  "\"geometry\":{\"hidden_size\":32,\"dtype\":\"f32\",\"layers\":3},\"vectors\":{\"axis\":"        \
  "{\"random\":{\"seed\":4},\"copies\":2}},\"slots\":{\"calm\":{\"layers\":{\"2\":[{\"op\":"       \
  "\"add\",\"v\":\"axis[1]\",\"scale\":2}]},\"phase\":\"generation\"}},\"batch\":{\"layer\":2,"    \
  "\"requests\":[{\"slot\":\"calm\",\"rows\":1,\"position\":9},{\"slot\":null,\"rows\":1}]}"
  struct stg_spec spec = parse_at(
      "w.json", "{\"steergraph\":1,\"family\":\"step\"," GEOMETRY ",\"rope\":{},\"attend\":{},"
                "\"cache\":{\"batch\":2,\"capacity\":8},\"rows\":{\"positions\":\"len\","
                "\"requests\":[{\"repeat\":2}]},\"steer\":{" PART "},\"buckets\":{\"rows\":[2,4],"
                "\"batch\":[2]},\"input\":{\"qkv\":" RANDOM(1) "},\"run\":{\"warmup\":1,"
                                                               "\"repeats\":2}}");
  struct stg_spec alone = parse_at("w.json", "{\"steergraph\":1,\"family\":\"steer\"," PART
                                             ",\"input\":{\"hidden\":" RANDOM(1) "}}");
  const struct stg_attention_workload *w = &spec.of.attention;
  float is[32];
  float wanted[32];
  assert_true(w->steered && w->advance && w->rope.to_cache);
  assert_false(w->has_k || w->has_v); /* nothing is in the cache before */
  assert_int_equal(w->n_row_buckets, 2);
  assert_int_equal(w->n_batch_buckets, 1);
  assert_int_equal(w->warmup, 1);
  assert_int_equal(w->repeats, 2);
  assert_int_equal(w->steer.hidden_size, 32);
  assert_int_equal(w->steer.layer, 2);
  assert_int_equal(w->steer.n_requests, 2);
  assert_string_equal(w->steer.slots[0].chains[0].ops[0].where, "steer.slots.calm.layers.2[0]");
  assert_int_equal(w->steer.slots[0].window->phase, STG_SPEC_PHASE_GENERATION);
  assert_int_equal(stg_workload_read_vector(&w->steer, 0, 1, is, NULL), STG_OK);
  assert_int_equal(stg_workload_read_vector(&alone.of.steer, 0, 1, wanted, NULL), STG_OK);
  assert_memory_equal(is, wanted, sizeof is);
  stg_spec_finish(&alone);
  stg_spec_finish(&spec);
}

static void reports_every_failed_allocation_and_leaks_nothing(void **state) {
  (void)state;
  static const char text[] =
      "{\"steergraph\":1,\"family\":\"step\"," GEOMETRY ",\"rope\":{\"table\":{\"positions\":16,"
      "\"random\":{\"seed\":1}}},\"attend\":{},\"cache\":{\"batch\":4096,\"capacity\":16,\"block\":"
      "8,\"blocks\":9000,\"lengths\":1},\"rows\":{\"requests\":[{\"positions\":[2,3,4,5]},"
      "{\"rows\":0,\"repeat\":2000}]},\"steer\":{" PART "},\"input\":{\"qkv\":" RANDOM(1) "," KV
                                                                                          "}}";
  struct stg_strbuf four = {0};
  stg_strbuf_str(&four, text);
  char *edited = stg_strbuf_take(&four);
  /* of the second request of PART */
  char *at = strstr(edited, "null,\"rows\":1");
  at[strlen("null,\"rows\":")] = '3';
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  while (status != STG_OK) {
    struct stg_spec spec = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(failures + 1);
    status = stg_spec_parse("w.json", edited, strlen(edited), NULL, &spec, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    failures += status != STG_OK;
    stg_spec_finish(&spec);
  }
  assert_true(failures >= 10);
  stg_free(edited);
}

#define in_temp_folder(test)                                                                       \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fills_in_what_is_unsaid),
      cmocka_unit_test(every_word_has_its_value),
      cmocka_unit_test(angles_keep_all_their_digits),
      cmocka_unit_test(rows_have_a_sequence_and_a_position),
      cmocka_unit_test(a_position_that_is_unsaid_is_behind_what_the_cache_has),
      cmocka_unit_test(lengths_are_one_or_many_or_random),
      cmocka_unit_test(blocks_go_to_what_is_there_then_to_rows),
      cmocka_unit_test(tokens_are_a_window_without_a_cache),
      cmocka_unit_test(any_part_of_random_values_is_the_whole_s),
      in_temp_folder(a_tensor_has_the_shape_or_joins_heads),
      cmocka_unit_test(gradients_stand_as_the_order_says),
      cmocka_unit_test(the_steering_of_a_step_is_that_of_a_steer_workload),
      cmocka_unit_test(reports_every_failed_allocation_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
