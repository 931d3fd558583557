/*
 * test_workload_words.c: what a file of "vectors" says of itself is refused or said, once.
 */
#include "specs/workload.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/vector_bytes.h"
#include "tests/support/workload_text.h"

/* Vectors v, which `op` uses, w, which is added, and a weight, all of "c.gguf". */
static struct stg_workload parse(void **state, const char *model, const char *op) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(
      &text,
      "{\"steergraph\": 1, \"family\": \"steer\", \"geometry\": {\"hidden_size\": 4, "
      "\"dtype\": \"f32\", \"state\": \"hidden+residual\"%s}, "
      "\"vectors\": {\"v\": {\"file\": \"c.gguf\", \"tensor\": \"direction.1\"}, "
      "\"w\": {\"file\": \"c.gguf\", \"tensor\": \"direction.{}\"}}, "
      "\"slots\": {\"s\": {\"layers\": {\"0\": [%s, {\"op\": \"add\", \"v\": \"w[2]\"}]}}}, "
      "\"batch\": {\"requests\": []}, \"input\": {\"hidden\": {\"values\": []}, "
      "\"residual\": {\"values\": []}}, \"epilogue\": {\"kind\": \"add_rmsnorm\", "
      "\"eps\": 1e-6, \"weight\": {\"file\": \"c.gguf\", \"tensor\": \"direction.2\"}}}",
      model, op);
  return parse_workload(state, &text);
}

#define ADDED "{\"op\": \"add\", \"v\": \"v\"}"
#define TAKEN_OUT "{\"op\": \"ablation\", \"v\": \"v\"}"
#define QWEN ", \"model\": \"Qwen-2\""

static void write_file(void **state, const char *hint, const char *key, const char *value) {
  static const char *const names[] = {"direction.1", "direction.2"};
  struct gguf_bytes out = {0};
  gguf_write_control(&out, &(struct gguf_control){.architecture = "controlvector",
                                                  .model_hint = hint,
                                                  .layer_count = -1,
                                                  .key = key,
                                                  .value = value,
                                                  .names = names,
                                                  .n_names = 2,
                                                  .width = 4});
  assert_int_equal(
      stg_file_write_atomic(temp_path(state, "c.gguf"), out.text.data, out.text.len, 0600, NULL),
      STG_OK);
  gguf_finish(&out);
}

static void read_all(const struct stg_workload *w) {
  float values[4];
  for (int i = 0; i < 2; i++) { /* nothing is said twice */
    assert_int_equal(stg_workload_read_weight(w, values, NULL), STG_OK);
    assert_int_equal(stg_workload_read_vector(w, 0, 0, values, NULL), STG_OK);
    assert_int_equal(stg_workload_read_vector(w, 1, 2, values, NULL), STG_OK);
    assert_int_equal(stg_workload_read_vector(w, 1, 1, values, NULL), STG_OK);
  }
}

static void what_a_file_says_otherwise_is_noted_once(void **state) {
  static const struct {
    const char *key, *value, *op, *note;
  } cases[] = {
      {"glp.mode", "project", ADDED,
       "vectors.v: c.gguf says glp.mode 'project', which is no addition; slots.s.layers.0[0] does "
       "what its op says"},
      {"glp.mode", "project", TAKEN_OUT,
       "vectors.w: c.gguf says glp.mode 'project', which is no addition; slots.s.layers.0[1] does "
       "what its op says"},
      {"glp.mode", "add", ADDED, NULL},
      {"glp.hook_point", "attn_out", TAKEN_OUT,
       "vectors.v: c.gguf says glp.hook_point 'attn_out', not the end of a block; it acts where "
       "the slot's layers say"},
      {"glp.hook_point", "residual_stream_post_layer", ADDED, NULL},
      {"glp.structure", "shared", ADDED,
       "vectors.v: c.gguf says glp.structure 'shared', not per-layer; it acts where the slot's "
       "layers say"},
      {"glp.structure", "per-layer", ADDED, NULL},
      {"glp.alpha_default", "0.25", ADDED,
       "vectors.v: c.gguf says glp.alpha_default '0.25'; the parameters of each call decide"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_file(state, NULL, cases[i].key, cases[i].value);
    struct stg_workload w = parse(state, QWEN, cases[i].op);
    assert_null(stg_workload_file_note(&w, 0));
    read_all(&w);
    if (cases[i].note != NULL) {
      assert_non_null(stg_workload_file_note(&w, 0));
      assert_string_equal(stg_workload_file_note(&w, 0), cases[i].note);
      assert_null(stg_workload_file_note(&w, 1));
    } else {
      assert_null(stg_workload_file_note(&w, 0));
    }
    stg_workload_finish(&w);
  }
}

static void a_model_is_compared_or_noted(void **state) {
  write_file(state, "qwen2", NULL, NULL);
  struct stg_workload w = parse(state, QWEN, ADDED);
  read_all(&w);
  assert_null(stg_workload_file_note(&w, 0));
  stg_workload_finish(&w);
  w = parse(state, "", ADDED);
  read_all(&w);
  assert_string_equal(stg_workload_file_note(&w, 0),
                      "epilogue.weight: c.gguf is for model 'qwen2' by its own word; "
                      "geometry.model is not given");
  assert_null(stg_workload_file_note(&w, 1));
  stg_workload_finish(&w);
}

static void another_model_is_refused_wherever_its_vectors_are_read(void **state) {
  write_file(state, "mistral", NULL, NULL);
  struct stg_workload w = parse(state, QWEN, ADDED);
  static const char fault[] =
      "'c.gguf' is for model 'mistral' (its model_hint), geometry.model is 'Qwen-2'; use one made "
      "for it";
  static const char *const places[] = {"vectors.v: ", "vectors.w: 'w[1]': ", "epilogue.weight: "};
  for (uint32_t i = 0; i < 3; i++) {
    float values[4];
    stg_error err = STG_ERROR_INIT;
    stg_status status = i == 2 ? stg_workload_read_weight(&w, values, &err)
                               : stg_workload_read_vector(&w, i, i, values, &err);
    assert_int_equal(status, STG_E_UNSUPPORTED);
    const char *at = strstr(err.message, "w.json: ");
    assert_non_null(at);
    at += strlen("w.json: ");
    assert_memory_equal(at, places[i], strlen(places[i]));
    assert_string_equal(at + strlen(places[i]), fault);
  }
  assert_null(stg_workload_file_note(&w, 0));
  stg_workload_finish(&w);
}

static void words_that_are_no_line_are_refused(void **state) {
  write_file(state, NULL, "glp.mode", "a\nb");
  struct stg_workload w = parse(state, QWEN, ADDED);
  float values[4];
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, &err), STG_E_FORMAT);
  assert_non_null(strstr(err.message, "w.json: vectors.v: "));
  assert_non_null(strstr(err.message, "c.gguf: its mode holds control characters"));
  stg_workload_finish(&w);
}

static void reports_every_failed_allocation(void **state) {
  write_file(state, "qwen2", "glp.mode", "project");
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  for (size_t nth = 1; status != STG_OK; nth++) {
    struct stg_workload w = parse(state, "", ADDED);
    float values[4];
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    status = stg_workload_read_vector(&w, 0, 0, values, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    if (status == STG_OK) {
      assert_non_null(stg_workload_file_note(&w, 1));
    }
    failures += status != STG_OK;
    stg_workload_finish(&w);
  }
  assert_true(failures >= 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_a_file_says_otherwise_is_noted_once),
      TEST(a_model_is_compared_or_noted),
      TEST(another_model_is_refused_wherever_its_vectors_are_read),
      TEST(words_that_are_no_line_are_refused),
      TEST(reports_every_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
