/*
 * test_workload_control.c: control vectors of slots: which call stands at which block, with which
 * values, and what is said of the files.
 */
#include "specs/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/random.h"
#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/vector_bytes.h"

#define WIDTH 4
#define LAYERS 6

static stg_status try_parse(void **state, const char *slot, struct stg_workload *ret,
                            stg_error *err) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(
      &text,
      "{\"steergraph\": 1, \"family\": \"steer\", \"geometry\": {\"hidden_size\": %d, "
      "\"layers\": %d, \"dtype\": \"f32\"}, \"vectors\": {\"up\": {\"values\": [0, 1, 0, 0]}}, "
      "\"slots\": {\"s\": {%s}}, \"batch\": {\"requests\": []}, \"input\": {\"hidden\": "
      "{\"random\": {\"seed\": 1}}}}",
      WIDTH, LAYERS, slot);
  stg_status status = stg_strbuf_status(&text, err);
  if (status == STG_OK) {
    status = stg_workload_parse(temp_path(state, "w.json"), text.data, text.len, NULL, ret, err);
  }
  stg_strbuf_finish(&text);
  return status;
}

static struct stg_workload parse(void **state, const char *slot) {
  struct stg_workload workload = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = try_parse(state, slot, &workload, &err);
  if (status != STG_OK) {
    print_error("%s\n", err.message);
  }
  assert_int_equal(status, STG_OK);
  return workload;
}

/* The values of direction N of a file with that seed. */
static void direction(uint64_t seed, int n, float ret_values[WIDTH]) {
  stg_random_normal(seed, (uint64_t)n, 0, 1.0f, ret_values, WIDTH);
}

/* A control vector of directions `first` to `last`, named so, with the values above. */
static void write_gguf(void **state, const char *name, uint64_t seed, int first, int last) {
  struct gguf_bytes out = {0};
  const uint64_t width = WIDTH;
  gguf_header(&out, 3, (uint64_t)last - (uint64_t)first + 1, 1);
  gguf_key_text(&out, "general.architecture", "controlvector");
  for (int n = first; n <= last; n++) {
    char tensor[32];
    snprintf(tensor, sizeof tensor, "direction.%d", n);
    gguf_tensor(&out, tensor, 1, &width, GGUF_TENSOR_F32, ((uint64_t)n - (uint64_t)first) * 32);
  }
  gguf_pad(&out, 32);
  for (int n = first; n <= last; n++) {
    float values[WIDTH];
    direction(seed, n, values);
    stg_strbuf_mem(&out.text, values, sizeof values);
    gguf_pad(&out, 32);
  }
  assert_int_equal(stg_strbuf_status(&out.text, NULL), STG_OK);
  assert_int_equal(
      stg_file_write_atomic(temp_path(state, name), out.text.data, out.text.len, 0600, NULL),
      STG_OK);
  gguf_finish(&out);
}

static const struct stg_spec_chain *chain_of(const struct stg_workload *w, uint32_t layer) {
  for (size_t i = 0; i < w->slots[0].n_chains; i++) {
    if (w->slots[0].chains[i].layer == layer) {
      return &w->slots[0].chains[i];
    }
  }
  return NULL;
}

/* The values of the vector that call `index` at a layer has. */
static void values_of(const struct stg_workload *w, uint32_t layer, size_t index,
                      float ret_values[WIDTH]) {
  const struct stg_spec_chain *chain = chain_of(w, layer);
  assert_non_null(chain);
  assert_true(index < chain->n_ops);
  const struct stg_spec_op_call *call = &chain->ops[index];
  assert_true(call->n_args >= 1 && call->args[0].is_vector);
  assert_string_equal(call->args[0].name, "v");
  assert_int_equal(
      stg_workload_read_vector(w, call->args[0].vector, call->args[0].copy, ret_values, NULL),
      STG_OK);
}

static bool is_normalised(const struct stg_workload *w, const struct stg_spec_op_call *call) {
  bool normalize = false;
  assert_int_equal(stg_workload_resolve_normalize(w, call->args[0].vector, &normalize, NULL),
                   STG_OK);
  return normalize;
}

static void direction_n_acts_at_block_n_as_it_is(void **state) {
  write_gguf(state, "a.gguf", 7, 1, LAYERS - 1);
  struct stg_workload w = parse(state, "\"control_vector\": [{\"file\": \"a.gguf\"}]");
  float values[WIDTH];
  float expected[WIDTH];
  assert_null(chain_of(&w, 0));
  assert_int_equal(w.slots[0].n_chains, LAYERS - 1);
  for (uint32_t block = 1; block < LAYERS; block++) {
    const struct stg_spec_chain *chain = chain_of(&w, block);
    assert_non_null(chain);
    assert_int_equal(chain->n_ops, 1);
    assert_string_equal(chain->ops[0].op, "add");
    assert_string_equal(chain->ops[0].where, "slots.s.control_vector");
    assert_int_equal(chain->ops[0].n_args, 1); /* scale 1 */
    assert_false(is_normalised(&w, &chain->ops[0]));
    values_of(&w, block, 0, values);
    direction(7, (int)block, expected);
    assert_memory_equal(values, expected, sizeof values);
  }
  assert_int_equal(w.n_notes, 0);
  assert_int_equal(w.n_files, 1);
  assert_string_equal(w.files[0].path, temp_path(state, "a.gguf"));
  assert_string_equal(w.files[0].where, "slots.s.control_vector[0]");
  assert_string_equal(w.vectors[1].where, "slots.s.control_vector block 1");
  stg_workload_finish(&w);
}

/* The loop of llama.cpp, one rounding after another. */
static void add_loop(volatile float *sum, const float *values, float scale) {
  for (size_t i = 0; i < WIDTH; i++) {
    volatile float product = values[i] * scale;
    sum[i] = sum[i] + product;
  }
}

static void sums_have_the_bits_of_a_float32_loop_in_the_order_of_the_list(void **state) {
  static const struct {
    const char *file;
    uint64_t seed;
    float scale;
  } order[2][3] = {{{"a.gguf", 1, 1.1f}, {"b.gguf", 2, -0.7f}, {"c.gguf", 3, 1e-3f}},
                   {{"c.gguf", 3, 1e-3f}, {"b.gguf", 2, -0.7f}, {"a.gguf", 1, 1.1f}}};
  for (size_t i = 0; i < 3; i++) {
    write_gguf(state, order[0][i].file, order[0][i].seed, 1, LAYERS - 1);
  }
  size_t n_differ = 0;
  float first[LAYERS][WIDTH];
  for (size_t k = 0; k < 2; k++) {
    char slot[256];
    snprintf(slot, sizeof slot,
             "\"control_vector\": [{\"file\": \"%s\", \"scale\": %.9g}, {\"file\": \"%s\", "
             "\"scale\": %.9g}, {\"file\": \"%s\", \"scale\": %.9g}]",
             order[k][0].file, (double)order[k][0].scale, order[k][1].file,
             (double)order[k][1].scale, order[k][2].file, (double)order[k][2].scale);
    struct stg_workload w = parse(state, slot);
    for (uint32_t block = 1; block < LAYERS; block++) {
      float values[WIDTH];
      float direct[WIDTH];
      float expected[WIDTH] = {0};
      for (size_t i = 0; i < 3; i++) {
        direction(order[k][i].seed, (int)block, direct);
        add_loop(expected, direct, order[k][i].scale);
      }
      assert_int_equal(chain_of(&w, block)->n_ops, 1);
      values_of(&w, block, 0, values);
      assert_memory_equal(values, expected, sizeof values);
      if (k == 0) {
        memcpy(first[block], values, sizeof values);
      }
      for (size_t i = 0; i < WIDTH; i++) {
        n_differ += k == 1 && !(first[block][i] == values[i]);
      }
    }
    stg_workload_finish(&w);
  }
  assert_true(n_differ > 0); /* else the order shows nothing */
}

static void ranges_cut_what_a_file_has(void **state) {
  write_gguf(state, "a.gguf", 1, 1, LAYERS + 1); /* of a larger model */
  write_gguf(state, "b.gguf", 2, 2, 3);
  struct stg_workload w =
      parse(state, "\"control_vector\": [{\"file\": \"a.gguf\", \"first_layer\": 2, "
                   "\"last_layer\": 4}, {\"file\": \"b.gguf\"}]");
  float values[WIDTH];
  float expected[WIDTH];
  assert_int_equal(w.slots[0].n_chains, 3);
  assert_null(chain_of(&w, 1));
  assert_null(chain_of(&w, 5));
  values_of(&w, 4, 0, values);
  direction(1, 4, expected);
  assert_memory_equal(values, expected, sizeof values);
  values_of(&w, 2, 0, values);
  assert_memory_not_equal(values, expected, sizeof values);
  assert_int_equal(w.n_notes, 2);
  assert_string_equal(w.notes[0], "slots.s: a.gguf: directions 1, 5 to 7 are outside first_layer 2 "
                                  "to last_layer 4");
  assert_string_equal(w.notes[1], "slots.s: b.gguf has 2 to 3: blocks 1, 4 to 5 are not steered");
  stg_workload_finish(&w);
}

static void other_ops_are_calls_between_the_sums(void **state) {
  write_gguf(state, "a.gguf", 1, 1, LAYERS - 1);
  write_gguf(state, "b.gguf", 2, 2, 2);
  struct stg_workload w =
      parse(state,
            "\"layers\": {\"2\": [{\"op\": \"add\", \"v\": \"up\"}], \"0\": [{\"op\": \"add\", "
            "\"v\": \"up\"}]}, \"control_vector\": [{\"file\": \"a.gguf\"}, {\"file\": \"b.gguf\", "
            "\"op\": \"projection_cap\", \"max\": 0.5, \"min\": \"-inf\"}, {\"file\": \"a.gguf\", "
            "\"scale\": 2}, {\"file\": \"b.gguf\", \"op\": \"add\", \"scale\": 3}]");
  float values[WIDTH];
  float expected[WIDTH];
  const struct stg_spec_chain *chain = chain_of(&w, 2);
  assert_int_equal(w.slots[0].chains[0].layer, 2);
  assert_int_equal(chain->n_ops, 4);
  values_of(&w, 2, 0, values); /* of "layers" */
  assert_true(values[1] == 1);
  direction(1, 2, expected);
  values_of(&w, 2, 1, values);
  assert_memory_equal(values, expected, sizeof values);
  assert_string_equal(chain->ops[2].op, "projection_cap");
  assert_string_equal(chain->ops[2].where, "slots.s.control_vector[1]");
  assert_int_equal(chain->ops[2].n_args, 3);
  assert_string_equal(chain->ops[2].args[1].name, "max");
  assert_true(chain->ops[2].args[1].value == 0.5f);
  assert_true(isinf(chain->ops[2].args[2].value));
  assert_true(is_normalised(&w, &chain->ops[2]));
  direction(2, 2, expected);
  values_of(&w, 2, 2, values);
  assert_memory_equal(values, expected, sizeof values);
  float sum[WIDTH] = {0};
  direction(1, 2, values);
  add_loop(sum, values, 2);
  direction(2, 2, values);
  add_loop(sum, values, 3);
  values_of(&w, 2, 3, values);
  assert_memory_equal(values, sum, sizeof values);
  assert_int_equal(chain_of(&w, 0)->n_ops, 1);
  /* where the other op does not act, the additions before and behind it follow each other */
  assert_int_equal(chain_of(&w, 3)->n_ops, 1);
  memset(sum, 0, sizeof sum);
  direction(1, 3, values);
  add_loop(sum, values, 1);
  add_loop(sum, values, 2);
  values_of(&w, 3, 0, values);
  assert_memory_equal(values, sum, sizeof values);
  stg_workload_finish(&w);
}

static void layers_of_other_formats_act_at_their_number_and_shift(void **state) {
  float rows[LAYERS][WIDTH];
  for (int i = 0; i < LAYERS; i++) {
    direction(9, i, rows[i]);
  }
  const struct stg_tensor_out tensors[] = {
      {.name = "m", .dtype = STG_F32, .n_dims = 2, .shape = {LAYERS, WIDTH}, .data = rows},
      {.name = "l.0", .dtype = STG_F32, .n_dims = 1, .shape = {WIDTH}, .data = rows[0]},
      {.name = "l.3", .dtype = STG_F32, .n_dims = 1, .shape = {WIDTH}, .data = rows[3]},
  };
  assert_int_equal(
      stg_safetensors_write(temp_path(state, "t.safetensors"), tensors, 3, NULL, 0, NULL), STG_OK);
  assert_int_equal(stg_file_write_atomic(temp_path(state, "r.f32"), rows, sizeof rows, 0600, NULL),
                   STG_OK);
  static const struct {
    const char *entry;
    uint32_t block;
    int row;
  } cases[] = {
      {"\"file\": \"t.safetensors\", \"tensor\": \"l.{}\"", 0, 0},
      {"\"file\": \"t.safetensors\", \"tensor\": \"l.{}\"", 3, 3},
      {"\"file\": \"t.safetensors\", \"tensor\": \"l.{}\", \"layer_shift\": 1", 4, 3},
      {"\"file\": \"t.safetensors\", \"tensor\": \"m\", \"row\": \"{}\"", 5, 5},
      {"\"file\": \"t.safetensors\", \"tensor\": \"m\", \"row\": \"{}\", \"layer_shift\": -1", 4,
       5},
      {"\"file\": \"r.f32\", \"count\": 4, \"row\": \"{}\"", 2, 2},
      {"\"file\": \"r.f32\", \"count\": 4, \"offset\": 8, \"row\": \"{}\"", 2, 4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char slot[256];
    float values[WIDTH];
    snprintf(slot, sizeof slot, "\"control_vector\": [{%s}]", cases[i].entry);
    struct stg_workload w = parse(state, slot);
    values_of(&w, cases[i].block, 0, values);
    assert_memory_equal(values, rows[cases[i].row], sizeof values);
    stg_workload_finish(&w);
  }
}

/* However long the name of the file is that it is about. */
static void a_note_is_kept_whole(void **state) {
  struct stg_strbuf slot = {0};
  struct stg_strbuf note = {0};
  write_gguf(state, "a.gguf", 5, 1, 2);
  stg_strbuf_str(&slot, "\"control_vector\": [{\"file\": \"");
  stg_strbuf_str(&note, "slots.s: ");
  for (int i = 0; i < 300; i++) {
    stg_strbuf_str(&slot, "./");
    stg_strbuf_str(&note, "./");
  }
  stg_strbuf_str(&slot, "a.gguf\"}]");
  stg_strbuf_str(&note, "a.gguf has 1 to 2: blocks 3 to 5 are not steered");
  struct stg_workload w = parse(state, stg_strbuf_text(&slot));
  assert_int_equal(w.n_notes, 1);
  assert_string_equal(w.notes[0], stg_strbuf_text(&note));
  stg_workload_finish(&w);
  stg_strbuf_finish(&slot);
  stg_strbuf_finish(&note);
}

/* It would choose nothing of a direction, and is not passed over. */
static void a_row_of_a_direction_is_refused(void **state) {
  struct stg_workload w = {0};
  stg_error err = STG_ERROR_INIT;
  write_gguf(state, "a.gguf", 5, 1, LAYERS - 1);
  assert_int_equal(try_parse(state,
                             "\"control_vector\": [{\"file\": \"a.gguf\", \"tensor\": "
                             "\"direction.{}\", \"row\": 0}]",
                             &w, &err),
                   STG_E_FORMAT);
  assert_non_null(strstr(err.message, "slots.s.control_vector[0].row: the tensor of a layer is one "
                                      "direction; leave it out"));
}

static void a_scale_that_is_0_is_refused_by_what_was_written(void **state) {
  static const struct {
    const char *scale, *message;
  } cases[] = {
      {"-0.0", "scale: 0 leaves the file out; remove the entry"},
      {"-1e-46", "scale: -1e-46 is 0 in float32, which leaves the file out; give a larger one, or "
                 "remove the entry"},
  };
  write_gguf(state, "a.gguf", 5, 1, LAYERS - 1);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char slot[96];
    struct stg_workload w = {0};
    stg_error err = STG_ERROR_INIT;
    snprintf(slot, sizeof slot, "\"control_vector\": [{\"file\": \"a.gguf\", \"scale\": %s}]",
             cases[i].scale);
    assert_int_equal(try_parse(state, slot, &w, &err), STG_E_FORMAT);
    assert_non_null(strstr(err.message, cases[i].message));
  }
}

/* A sum of a hundred slots moves the table of vectors; references must stay. */
static void many_slots_keep_their_vectors(void **state) {
  struct stg_strbuf slot = {0};
  write_gguf(state, "a.gguf", 5, 1, LAYERS - 1);
  stg_strbuf_str(&slot, "\"layers\": {\"0\": [{\"op\": \"ablation\", \"v\": \"up\"}]}}");
  for (int i = 0; i < 100; i++) {
    stg_strbuf_printf(
        &slot, ", \"n%d\": {\"control_vector\": [{\"file\": \"a.gguf\", \"scale\": %d}]", i, i + 1);
    stg_strbuf_str(&slot, i < 99 ? "}" : "");
  }
  struct stg_workload w = parse(state, stg_strbuf_text(&slot));
  stg_strbuf_finish(&slot);
  assert_int_equal(w.n_slots, 101);
  assert_int_equal(w.n_vectors, 1 + 100 * (LAYERS - 1));
  assert_string_equal(w.vectors[0].used_unit, "slots.s.layers.0[0]");
  for (int i = 0; i < 100; i++) {
    const struct stg_spec_chain *chain = &w.slots[i + 1].chains[LAYERS - 2];
    float values[WIDTH];
    float expected[WIDTH];
    assert_int_equal(chain->layer, LAYERS - 1);
    assert_int_equal(stg_workload_read_vector(&w, chain->ops[0].args[0].vector, 0, values, NULL),
                     STG_OK);
    direction(5, LAYERS - 1, expected);
    for (size_t k = 0; k < WIDTH; k++) {
      assert_true(values[k] == expected[k] * (float)(i + 1));
    }
  }
  stg_workload_finish(&w);
}

/* As many slots as there are vectors for; one more is refused. */
static void vectors_of_a_workload_are_bounded(void **state) {
  write_gguf(state, "a.gguf", 5, 1, LAYERS - 1);
  for (int n_slots = 13106; n_slots <= 13107; n_slots++) {
    struct stg_workload w = {0};
    struct stg_strbuf slot = {0};
    stg_error err = STG_ERROR_INIT;
    stg_strbuf_str(&slot, "\"control_vector\": [{\"file\": \"a.gguf\"}]");
    for (int i = 0; i < n_slots; i++) {
      stg_strbuf_printf(&slot, "}, \"n%d\": {\"control_vector\": [{\"file\": \"a.gguf\"}]", i);
    }
    stg_status status = try_parse(state, stg_strbuf_text(&slot), &w, &err);
    stg_strbuf_finish(&slot);
    if (n_slots == 13106) {
      assert_int_equal(status, STG_OK);
      assert_int_equal(w.n_vectors, 1 + 13107 * (LAYERS - 1));
    } else {
      assert_int_equal(status, STG_E_CAPACITY);
      assert_non_null(strstr(err.message, "w.json: slots.n13106.control_vector: more than 65536 "
                                          "vectors, or 1024 MiB of them, in one workload"));
    }
    stg_workload_finish(&w);
  }
}

static void reports_every_failed_allocation(void **state) {
  write_gguf(state, "a.gguf", 1, 1, 3);
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    struct stg_workload w = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    status = try_parse(state,
                       "\"control_vector\": [{\"file\": \"a.gguf\"}, {\"file\": \"a.gguf\", "
                       "\"op\": \"projection_cap\", \"max\": 1}]",
                       &w, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    stg_workload_finish(&w);
    assert_true(nth < 400);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(direction_n_acts_at_block_n_as_it_is),
      TEST(sums_have_the_bits_of_a_float32_loop_in_the_order_of_the_list),
      TEST(ranges_cut_what_a_file_has),
      TEST(other_ops_are_calls_between_the_sums),
      TEST(layers_of_other_formats_act_at_their_number_and_shift),
      TEST(a_note_is_kept_whole),
      TEST(a_row_of_a_direction_is_refused),
      TEST(a_scale_that_is_0_is_refused_by_what_was_written),
      TEST(many_slots_keep_their_vectors),
      TEST(vectors_of_a_workload_are_bounded),
      TEST(reports_every_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
