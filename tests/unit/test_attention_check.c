/*
 * test_attention_check.c: what judges the run of a step finds an error in the part where it is.
 */
#include "tools/attention/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/alloc.h"
#include "tools/attention/bytes.h"

#define BATCH ((size_t)2)
#define HEADS 2
#define DIM ((size_t)8)
#define CAPACITY 4
#define LAYERS 2
#define LAYER_ELEMS (BATCH * CAPACITY * DIM)
#define ROW_ELEMS ((HEADS + 2) * DIM)

/* The last of two layers, so that lengths grow. */
static const char text[] =
    "{\"steergraph\": 1, \"family\": \"step\","
    " \"geometry\": {\"heads\": 2, \"kv_heads\": 1, \"dim\": 8, \"layers\": 2, \"dtype\": \"f32\"},"
    " \"rope\": {}, \"attend\": {},"
    " \"cache\": {\"batch\": 2, \"capacity\": 4, \"lengths\": [3, 1]},"
    " \"rows\": {\"layer\": 1, \"positions\": \"len\", \"requests\": [{\"repeat\": 2}]},"
    " \"input\": {\"qkv\": {\"random\": {\"seed\": 1}}, \"k\": {\"random\": {\"seed\": 2}},"
    " \"v\": {\"random\": {\"seed\": 3}}}}";

/* A step that was done: `after` is where the CPU wrote. */
struct bed {
  struct stg_spec spec;
  struct stg_attention_job job;
  struct stg_attention_objects objects;
  struct stg_attention_tensors tensors;
  stg_kv_report refused;
  struct stg_attention_done done;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

/* A tensor of numbers, or of NaN; what it was is what it is. */
static void give(struct bed *bed, enum stg_attention_tensor_name name, size_t elems, bool nan) {
  struct stg_attention_tensor *t = &bed->tensors.of[name];
  t->bytes = elems * sizeof(float);
  t->before = stg_malloc(t->bytes);
  t->after = stg_malloc(t->bytes);
  assert_non_null(t->before);
  assert_non_null(t->after);
  memset(t->before, 0xff, t->bytes);
  for (size_t i = 0; i < elems && !nan; i++) {
    ((float *)(void *)t->before)[i] = (float)((i * 37 + 11 * (size_t)name) % 64) / 16 - 2;
  }
  memcpy(t->after, t->before, t->bytes);
}

static void *now(const struct bed *bed, enum stg_attention_tensor_name name) {
  return bed->tensors.of[name].after;
}

static void give_all(struct bed *bed) {
  static const int32_t lengths[BATCH] = {3, 1};
  const size_t rows = BATCH, layers = LAYERS;
  give(bed, STG_ATTENTION_QKV, rows * ROW_ELEMS, false);
  give(bed, STG_ATTENTION_Q, rows * HEADS * DIM, true);
  give(bed, STG_ATTENTION_OUT, rows * HEADS * DIM, true);
  give(bed, STG_ATTENTION_CACHE_K, layers * LAYER_ELEMS, false);
  give(bed, STG_ATTENTION_CACHE_V, layers * LAYER_ELEMS, false);
  give(bed, STG_ATTENTION_LENGTHS, rows, false);
  memcpy(bed->tensors.of[STG_ATTENTION_LENGTHS].before, lengths, sizeof lengths);
  memcpy(now(bed, STG_ATTENTION_LENGTHS), lengths, sizeof lengths);
  bed->tensors.seq = stg_calloc(BATCH, sizeof *bed->tensors.seq);
  assert_non_null(bed->tensors.seq);
  bed->tensors.seq[1] = 1;
}

static void describe(struct bed *bed) {
  struct stg_attention_job *job = &bed->job;
  job->workload = bed->spec.of.attention;
  job->has_kv = job->has_rope = job->has_attend = true;
  job->kv = (stg_kv_desc){.struct_size = sizeof job->kv,
                          .layers = LAYERS,
                          .batch = BATCH,
                          .kv_heads = 1,
                          .dim = DIM,
                          .capacity = CAPACITY,
                          .dtype = STG_F32};
  job->rope = (stg_rope_desc){.struct_size = sizeof job->rope, .heads = HEADS};
  job->attend = (stg_attend_desc){.struct_size = sizeof job->attend, .heads = HEADS};
}

static void create(struct bed *bed) {
  struct stg_attention_objects *o = &bed->objects;
  stg_engine *engine = bed->job.engine;
  stg_error error = STG_ERROR_INIT;
  stg_kv_desc kv = bed->job.kv;
  kv.k = now(bed, STG_ATTENTION_CACHE_K);
  kv.v = now(bed, STG_ATTENTION_CACHE_V);
  kv.len = now(bed, STG_ATTENTION_LENGTHS);
  ok(stg_kv_create(engine, &kv, &o->kv, &error), &error);
  stg_rope_desc rope = bed->job.rope;
  stg_attend_desc attend = bed->job.attend;
  rope.kv = attend.kv = o->kv;
  ok(stg_rope_create(engine, &rope, &o->rope, &error), &error);
  ok(stg_attend_create(engine, &attend, &o->attend, &error), &error);
  const stg_rows_desc rows = {.struct_size = sizeof rows, .kv = o->kv, .max_rows = BATCH};
  ok(stg_rows_create(engine, &rows, &o->rows, &error), &error);
  const stg_block_desc block = {
      .struct_size = sizeof block, .rope = o->rope, .attend = o->attend, .advance = true};
  ok(stg_block_create(engine, &block, &o->block, &error), &error);
  o->cache = (stg_kv_tensors){.struct_size = sizeof o->cache};
  stg_kv_get_tensors(o->kv, &o->cache);
}

static void apply(struct bed *bed) {
  struct stg_attention_objects *o = &bed->objects;
  stg_error error = STG_ERROR_INIT;
  const stg_rows_step step = {.struct_size = sizeof step, .rows = BATCH, .seq = bed->tensors.seq};
  ok(stg_rows_step_set(o->rows, &step, NULL, &error), &error);
  ok(stg_block_step(o->block, o->rows, NULL, NULL, &error), &error);
  const stg_rope_tensors rope = {.struct_size = sizeof rope,
                                 .qkv = now(bed, STG_ATTENTION_QKV),
                                 .q = now(bed, STG_ATTENTION_Q)};
  const stg_attend_tensors attend = {.struct_size = sizeof attend,
                                     .q = now(bed, STG_ATTENTION_Q),
                                     .out = now(bed, STG_ATTENTION_OUT)};
  const stg_block_tensors both = {
      .struct_size = sizeof both, .layer = 1, .rope = &rope, .attend = &attend};
  ok(stg_block_apply(o->block, &both, NULL, &error), &error);
  bed->refused = (stg_kv_report){.struct_size = sizeof bed->refused};
  ok(stg_kv_status(o->kv, NULL, &bed->refused, &error), &error);
}

static int open_bed(void **state) {
  struct bed *bed = stg_calloc(1, sizeof *bed);
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  assert_non_null(bed);
  const struct stg_workload_options reader = {.allow_outside = false};
  ok(stg_spec_parse("step.json", text, sizeof text - 1, &reader, &bed->spec, &error), &error);
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_mode = STG_CACHE_OFF;
  ok(stg_engine_create(&options, &bed->job.engine, &error), &error);
  describe(bed);
  give_all(bed);
  create(bed);
  apply(bed);
  bed->done = (struct stg_attention_done){&bed->job, &bed->objects, &bed->tensors, &bed->refused};
  *state = bed;
  return 0;
}

static int close_bed(void **state) {
  struct bed *bed = *state;
  stg_error error = STG_ERROR_INIT;
  stg_block_destroy(bed->objects.block);
  ok(stg_rows_destroy(bed->objects.rows, &error), &error);
  ok(stg_attend_destroy(bed->objects.attend, &error), &error);
  ok(stg_rope_destroy(bed->objects.rope, &error), &error);
  ok(stg_kv_destroy(bed->objects.kv, &error), &error);
  ok(stg_engine_destroy(bed->job.engine, &error), &error);
  for (size_t i = 0; i < STG_ATTENTION_TENSORS; i++) {
    stg_free(bed->tensors.of[i].before);
    stg_free(bed->tensors.of[i].after);
  }
  stg_free(bed->tensors.seq);
  stg_spec_finish(&bed->spec);
  stg_free(bed);
  return 0;
}

/* Change a number by what no bound allows. */
static void change(struct bed *bed, enum stg_attention_tensor_name name, size_t elem) {
  float *value = (float *)now(bed, name) + elem;
  *value += 0.01F;
}

static void what_was_done_right_is_ok(void **state) {
  struct bed *bed = *state;
  struct stg_attention_check check;
  uint64_t bytes = 0;
  stg_error error = STG_ERROR_INIT;
  ok(stg_attention_check(&bed->done, &check, &error), &error);
  assert_true(check.ok);
  assert_int_equal(3, check.n_parts);
  assert_string_equal("rope", check.parts[0].name);
  assert_string_equal("decode", check.parts[1].name);
  assert_string_equal("advance", check.parts[2].name);
  assert_int_equal(BATCH, check.rows);
  assert_true(check.mae > 0 && check.mae <= check.max_abs_err && check.worst_ratio <= 1);
  ok(stg_attention_bytes(&bed->done, &bytes, &error), &error);
  /* packed rows in and out, q and out, K and V of 4 and of 2 positions */
  assert_int_equal(4 * (2 * BATCH * ROW_ELEMS + 2 * BATCH * HEADS * DIM + 2 * DIM * (4 + 2)),
                   bytes);
}

/* The part that is not right, and what of it. */
static void expect_fault(struct bed *bed, const char *part, const char *in, int64_t row) {
  struct stg_attention_check check;
  stg_error error = STG_ERROR_INIT;
  size_t faults = 0;
  ok(stg_attention_check(&bed->done, &check, &error), &error);
  assert_false(check.ok);
  for (size_t i = 0; i < check.n_parts; i++) {
    const struct stg_attention_part *p = &check.parts[i];
    if (p->violations > 0 && faults++ == 0) {
      assert_string_equal(part, p->name);
      assert_string_equal(in, p->first_in);
      assert_int_equal(row, p->first_row);
    }
  }
  assert_true(faults > 0);
}

static void a_query_that_was_turned_wrongly_is_of_rope(void **state) {
  change(*state, STG_ATTENTION_Q, (HEADS * DIM) + 3);
  expect_fault(*state, "rope", "q", 1);
}

static void a_key_that_was_appended_wrongly_is_of_rope(void **state) {
  /* sequence 0 is at position 3 */
  change(*state, STG_ATTENTION_CACHE_K, LAYER_ELEMS + (3 * DIM));
  expect_fault(*state, "rope", "k", 0);
}

static void a_place_that_no_row_has_stays_as_it_was(void **state) {
  /* sequence 1 is at position 1: its position 3 is nobody's */
  change(*state, STG_ATTENTION_CACHE_V, LAYER_ELEMS + ((CAPACITY + 3) * DIM));
  expect_fault(*state, "rope", "v", 1);
}

static void an_output_that_is_wrong_is_of_attention(void **state) {
  change(*state, STG_ATTENTION_OUT, 5);
  expect_fault(*state, "decode", "out", 0);
}

static void a_length_that_did_not_grow_is_of_the_advance(void **state) {
  struct bed *bed = *state;
  ((int32_t *)now(bed, STG_ATTENTION_LENGTHS))[1]--;
  expect_fault(bed, "advance", "len", 1);
}

static void a_refusal_that_there_was_not_is_of_rope(void **state) {
  struct bed *bed = *state;
  bed->refused.full_rows = 1;
  bed->refused.full_row = 0;
  bed->refused.full_seq = 0;
  expect_fault(bed, "rope", "words", -1);
}

static void expect_corrupt(struct bed *bed, const char *message) {
  struct stg_attention_check check;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_CORRUPT, stg_attention_check(&bed->done, &check, &error));
  assert_string_equal(message, error.message);
}

static void what_is_only_read_stays(void **state) {
  change(*state, STG_ATTENTION_QKV, 7);
  expect_corrupt(*state, "step.json: qkv: what is only read was written");
}

static void other_layers_stay(void **state) {
  change(*state, STG_ATTENTION_CACHE_V, 0);
  expect_corrupt(*state, "step.json: cache: V: another layer was written");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_bed, close_bed)
int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(what_was_done_right_is_ok),
      CASE(a_query_that_was_turned_wrongly_is_of_rope),
      CASE(a_key_that_was_appended_wrongly_is_of_rope),
      CASE(a_place_that_no_row_has_stays_as_it_was),
      CASE(an_output_that_is_wrong_is_of_attention),
      CASE(a_length_that_did_not_grow_is_of_the_advance),
      CASE(a_refusal_that_there_was_not_is_of_rope),
      CASE(what_is_only_read_stays),
      CASE(other_layers_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
