/*
 * test_control_plan.c: which direction acts at which block, what is refused, and what is said.
 */
#include "specs/control_plan.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/vector_bytes.h"

#define MAX_BLOCKS 64
#define NAME_BYTES 24

/* A file direction.FIRST to direction.LAST of four elements, and a use of it. */
struct bed {
  char names[MAX_BLOCKS][NAME_BYTES];
  const char *name_list[MAX_BLOCKS];
  struct gguf_control control;
  struct gguf_bytes bytes;
  struct stg_tensor_file file;
  struct stg_arena arena;
  struct stg_control_use use;
  struct stg_control_plan plan;
};

static void set_names(struct bed *bed, int first, int last) {
  bed->control.n_names = 0;
  for (int i = first; i <= last; i++) {
    size_t n = bed->control.n_names++;
    snprintf(bed->names[n], NAME_BYTES, "direction.%d", i);
    bed->name_list[n] = bed->names[n];
  }
}

/* direction.1 to direction.7 of a model of eight blocks. */
static struct bed *make_bed(void) {
  struct bed *bed = stg_calloc(1, sizeof *bed);
  assert_non_null(bed);
  set_names(bed, 1, 7);
  bed->control.architecture = "controlvector";
  bed->control.layer_count = -1;
  bed->control.names = bed->name_list;
  bed->control.width = 4;
  bed->use = (struct stg_control_use){
      .name = "h.gguf", .hidden_size = 4, .layers = 8, .first_block = -1, .last_block = -1};
  return bed;
}

static void open_bed(struct bed *bed) {
  stg_tensor_file_close(&bed->file);
  gguf_write_control(&bed->bytes, &bed->control);
  assert_int_equal(stg_tensor_file_parse("h.gguf", bed->bytes.text.data, bed->bytes.text.len, NULL,
                                         &bed->file, NULL),
                   STG_OK);
}

static void free_bed(struct bed *bed) {
  stg_tensor_file_close(&bed->file);
  stg_arena_finish(&bed->arena);
  gguf_finish(&bed->bytes);
  stg_free(bed);
}

static void assert_planned(struct bed *bed) {
  stg_error err = STG_ERROR_INIT;
  open_bed(bed);
  if (stg_control_plan(&bed->file, &bed->use, &bed->arena, &bed->plan, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
}

/* The blocks that are steered, as "1-7" for 1 to 7, and by the tensor that the number says. */
static void assert_steered(const struct bed *bed, int32_t first, int32_t last) {
  for (int32_t block = 0; block < bed->use.layers; block++) {
    const struct stg_tensor_info *tensor = bed->plan.at[block].tensor;
    if (block < first || block > last) {
      assert_null(tensor);
      continue;
    }
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "direction.%d", (int)(block - bed->use.layer_shift));
    assert_non_null(tensor);
    assert_string_equal(tensor->name, name);
  }
}

static void assert_refused(struct bed *bed, stg_status status, const char *message) {
  stg_error err = STG_ERROR_INIT;
  open_bed(bed);
  assert_int_equal(stg_control_plan(&bed->file, &bed->use, &bed->arena, &bed->plan, &err), status);
  assert_string_equal(err.message, message);
  assert_null(bed->plan.at);
  free_bed(bed);
}

static void assert_notes(struct bed *bed, const char *const *notes) {
  size_t n = 0;
  for (; notes[n] != NULL; n++) {
    assert_true(n < bed->plan.n_notes);
    assert_string_equal(bed->plan.notes[n], notes[n]);
  }
  assert_int_equal(bed->plan.n_notes, n);
  free_bed(bed);
}

static void direction_n_acts_at_block_n(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  assert_planned(bed);
  assert_int_equal(bed->plan.first_block, 1);
  assert_int_equal(bed->plan.last_block, 7);
  assert_steered(bed, 1, 7);
  assert_notes(bed, (const char *const[]){NULL});
}

static void a_range_is_inclusive_at_both_ends(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  bed->use.first_block = 2;
  bed->use.last_block = 5;
  assert_planned(bed);
  assert_steered(bed, 2, 5);
  assert_notes(bed,
               (const char *const[]){
                   "h.gguf: directions 1, 6 to 7 are outside first_layer 2 to last_layer 5", NULL});
  bed = make_bed();
  bed->use.first_block = 7;
  assert_planned(bed);
  assert_steered(bed, 7, 7);
  free_bed(bed);
}

static void says_what_a_default_range_leaves_out(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 2, 5);
  assert_planned(bed);
  assert_steered(bed, 2, 5);
  assert_notes(bed,
               (const char *const[]){"h.gguf has 2 to 5: blocks 1, 6 to 7 are not steered", NULL});
}

static void speaks_of_one_block_as_of_one(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 1, 6);
  bed->control.zero_names = 1;
  assert_planned(bed);
  assert_notes(bed, (const char *const[]){"h.gguf has 1 to 6: block 7 is not steered",
                                          "h.gguf: the direction at block 1 is zero: that block is "
                                          "not steered",
                                          NULL});
  bed = make_bed();
  bed->use.first_block = 2;
  assert_planned(bed);
  assert_notes(bed, (const char *const[]){
                        "h.gguf: direction 1 is outside first_layer 2 to last_layer 7", NULL});
}

static void a_last_block_leaves_out_what_a_larger_model_has(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 1, 31);
  bed->use.last_block = 7;
  assert_planned(bed);
  assert_steered(bed, 1, 7);
  assert_notes(bed,
               (const char *const[]){
                   "h.gguf: directions 8 to 31 are outside first_layer 1 to last_layer 7", NULL});
}

static void passes_over_zero_directions_and_says_so(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  bed->control.zero_names = 3;
  assert_planned(bed);
  assert_steered(bed, 4, 7);
  assert_notes(bed, (const char *const[]){
                        "h.gguf: directions at blocks 1 to 3 are zero: those blocks are not "
                        "steered",
                        NULL});
  bed = make_bed();
  bed->control.zero_names = 7;
  assert_refused(bed, STG_E_FORMAT,
                 "'h.gguf': all directions in blocks 1 to 7 are zero; remove the entry");
}

static void says_what_a_file_says_and_nobody_checked(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  bed->control.model_hint = "mistral";
  bed->control.layer_count = 31;
  assert_planned(bed);
  assert_notes(bed, (const char *const[]){
                        "h.gguf is for model 'mistral' by its own word; geometry.model is not "
                        "given",
                        "h.gguf says layer_count 31, has 7 directions", NULL});
  bed = make_bed();
  bed->control.model_hint = "Qwen4-exp";
  bed->control.layer_count = 7;
  bed->use.model = "qwen4_EXP";
  assert_planned(bed);
  assert_notes(bed, (const char *const[]){NULL});
}

static void refuses_another_model(void **state) {
  static const char *const models[] = {"qwen2", "qwen4expx", "qwen4ex", ""};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    char message[192];
    struct bed *bed = make_bed();
    bed->control.model_hint = "qwen4_exp";
    bed->use.model = models[i];
    snprintf(message, sizeof message,
             "'h.gguf' is for model 'qwen4_exp' (its model_hint), geometry.model is "
             "'%s'; use one made for it",
             models[i]);
    assert_refused(bed, STG_E_UNSUPPORTED, message);
  }
  struct bed *bed = make_bed();
  bed->control.architecture = "llama";
  assert_refused(bed, STG_E_FORMAT,
                 "'h.gguf' is a model (general.architecture 'llama'), not a control vector; name a "
                 "tensor in \"vectors\"");
}

static void takes_another_way_only_by_name(void **state) {
  static const struct {
    const char *key, *value, *message; /* NULL: accepted */
    bool op_named, scale_named;
  } cases[] = {
      {"glp.mode", "add", NULL, false, false},
      {"glp.mode", "project",
       "'h.gguf' says glp.mode 'project', which is no addition; name the op, as \"op\": "
       "\"ablation\"",
       false, true},
      {"glp.mode", "project", NULL, true, false},
      {"glp.hook_point", "residual_stream_post_layer", NULL, false, false},
      {"glp.hook_point", "ffn_out_pre_residual",
       "'h.gguf' says glp.hook_point 'ffn_out_pre_residual', not the end of a block; name its "
       "tensors in \"vectors\"",
       true, true},
      {"glp.structure", "per-layer", NULL, false, false},
      {"glp.structure", "per-execution-step",
       "'h.gguf' says glp.structure 'per-execution-step', not per-layer; name its tensors in "
       "\"vectors\"",
       true, true},
      {"glp.alpha_default", "1.5",
       "'h.gguf' says glp.alpha_default 1.5; give \"scale\", which is 1 - alpha for ablation", true,
       false},
      {"glp.alpha_default", "1.5", NULL, false, true},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct bed *bed = make_bed();
    bed->control.key = cases[i].key;
    bed->control.value = cases[i].value;
    bed->use.op_named = cases[i].op_named;
    bed->use.scale_named = cases[i].scale_named;
    if (cases[i].message != NULL) {
      assert_refused(bed, STG_E_UNSUPPORTED, cases[i].message);
    } else {
      assert_planned(bed);
      free_bed(bed);
    }
  }
}

static void refuses_other_names_and_shapes(void **state) {
  static const struct {
    const char *name, *message;
  } cases[] = {
      {"direction.0", "'h.gguf': tensor 'direction.0': block 0 is never steered by a control "
                      "vector; name it in \"vectors\" if it is meant"},
      {"direction.3.1", "'h.gguf': tensor 'direction.3.1' is no direction.N; a control vector "
                        "holds nothing else"},
      {"direction.01", "'h.gguf': tensor 'direction.01' is no direction.N; a control vector holds "
                       "nothing else"},
      {"output.weight", "'h.gguf': tensor 'output.weight' is no direction.N; a control vector "
                        "holds nothing else"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct bed *bed = make_bed();
    bed->name_list[4] = cases[i].name;
    assert_refused(bed, STG_E_FORMAT, cases[i].message);
  }
  struct bed *bed = make_bed();
  bed->control.width = 5;
  assert_refused(
      bed, STG_E_FORMAT,
      "'h.gguf': tensor 'direction.1' has shape [5]; needed: [4], by geometry.hidden_size");
}

static void refuses_ranges_that_the_file_does_not_have(void **state) {
  static const struct {
    int32_t first, last, has_first, has_last;
    const char *message;
  } cases[] = {
      {2, 6, 1, 4,
       "'h.gguf' has no direction.5, and blocks 2 to 6 were asked for; narrow the range, or leave "
       "last_layer out"},
      {2, -1, 4, 6,
       "'h.gguf' has no direction.2, and blocks 2 to 7 were asked for; narrow the range, or leave "
       "last_layer out"},
      {6, 7, 1, 4, "'h.gguf' has no direction in blocks 6 to 7 (it has 1 to 4)"},
      {5, -1, 1, 4, "'h.gguf' has no direction in blocks 5 to 7 (it has 1 to 4)"},
      {-1, -1, 1, 8,
       "'h.gguf' has direction.8, but the last block is 7; is it of a larger model? A last_layer "
       "leaves it out"},
      {-1, -1, 1, 0, "'h.gguf' has no direction; see 'steergraph vectors ls'"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct bed *bed = make_bed();
    set_names(bed, cases[i].has_first, cases[i].has_last);
    bed->use.first_block = cases[i].first;
    bed->use.last_block = cases[i].last;
    assert_refused(bed, STG_E_FORMAT, cases[i].message);
  }
  struct bed *bed = make_bed();
  bed->use.layers = 1;
  assert_refused(bed, STG_E_FORMAT,
                 "'h.gguf': no block from 1 to 0; geometry.layers is 1, give the number of the "
                 "model's blocks");
  bed = make_bed();
  bed->use.last_block = 0;
  assert_refused(bed, STG_E_FORMAT, "'h.gguf': no block from 1 to 0; geometry.layers is 8");
}

/* A first block alone leaves the other end to the file. */
static void an_end_that_is_not_given_is_the_files(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 1, 5);
  bed->use.first_block = 3;
  assert_planned(bed);
  assert_steered(bed, 3, 5);
  assert_notes(bed,
               (const char *const[]){
                   "h.gguf has 1 to 5: blocks 6 to 7 are not steered",
                   "h.gguf: directions 1 to 2 are outside first_layer 3 to last_layer 7", NULL});
}

static void a_pattern_takes_other_files_from_block_0(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 0, 7);
  bed->control.architecture = "anything";
  bed->use.pattern = "direction.{}";
  assert_planned(bed);
  assert_steered(bed, 0, 7);
  assert_notes(bed, (const char *const[]){NULL});
  bed = make_bed(); /* numbers that count hidden states from the embeddings */
  set_names(bed, 1, 8);
  bed->name_list[bed->control.n_names++] = "bias";
  bed->use.pattern = "direction.{}";
  bed->use.layer_shift = -1;
  assert_planned(bed);
  assert_steered(bed, 0, 7);
  free_bed(bed);
}

/* What was asked for, since the names in the file may be nearly that. */
static void a_pattern_that_fits_no_name_is_said(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  bed->use.pattern = "directions.{}";
  assert_refused(bed, STG_E_FORMAT,
                 "'h.gguf' has no tensor 'directions.{}' with a layer's number for {}; see "
                 "'steergraph vectors ls'");
}

static void what_a_shift_moves_is_said_in_blocks(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 0, 6); /* 0 are the embeddings */
  bed->use.pattern = "direction.{}";
  bed->use.layer_shift = -1;
  assert_planned(bed);
  assert_steered(bed, 0, 5);
  assert_notes(bed, (const char *const[]){"h.gguf has 0 to 5: blocks 6 to 7 are not steered",
                                          "h.gguf: direction 0, moved by layer_shift -1, is "
                                          "outside blocks 0 to 7",
                                          NULL});
  bed = make_bed();
  bed->use.pattern = "direction.{}";
  bed->use.layer_shift = 1;
  assert_refused(bed, STG_E_FORMAT,
                 "'h.gguf' has direction.7, which layer_shift puts at block 8, but the last block "
                 "is 7; is it of a larger model? A last_layer leaves it out");
}

static void rows_of_a_matrix_are_blocks(void **state) {
  static const float values[] = {1, 2, 0, 0, 5, 6, 7, 8};
  const struct stg_tensor_hint hint = {.width_elems = 2};
  struct stg_tensor_file file = {0};
  struct stg_control_plan plan;
  struct stg_arena arena = {0};
  stg_error err = STG_ERROR_INIT;
  (void)state;
  assert_int_equal(stg_tensor_file_parse("v.f32", values, sizeof values, &hint, &file, NULL),
                   STG_OK);
  struct stg_control_use use = {.name = "v.f32",
                                .hidden_size = 2,
                                .layers = 4,
                                .rows = &file.tensors[0],
                                .first_block = -1,
                                .last_block = -1};
  assert_int_equal(stg_control_plan(&file, &use, &arena, &plan, NULL), STG_OK);
  assert_int_equal(plan.at[3].row, 3);
  assert_ptr_equal(plan.at[3].tensor, &file.tensors[0]);
  assert_null(plan.at[1].tensor); /* zero */
  use.layers = 3;
  assert_int_equal(stg_control_plan(&file, &use, &arena, &plan, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "'v.f32' has row 3, but the last block is 2; is it of a larger "
                                   "model? A last_layer leaves it out");
  use.hidden_size = 3;
  assert_int_equal(stg_control_plan(&file, &use, &arena, &plan, &err), STG_E_FORMAT);
  assert_string_equal(
      err.message,
      "'v.f32': tensor 'raw' has shape [4, 2]; needed: [layers, 3], by geometry.hidden_size");
  stg_arena_finish(&arena);
  stg_tensor_file_close(&file);
}

/* A list of blocks does not grow with the model. */
static void cuts_a_long_list(void **state) {
  struct bed *bed = make_bed();
  (void)state;
  set_names(bed, 1, 30);
  for (size_t i = 0; i < 30; i++) {
    snprintf(bed->names[i], NAME_BYTES, "direction.%d", (int)(2 * i + 2));
  }
  bed->use.layers = 61;
  assert_planned(bed);
  assert_notes(bed, (const char *const[]){
                        "h.gguf has 2 to 60: blocks 1, 3, 5, 7, 9, 11, 13, 15, ... are not "
                        "steered",
                        NULL});
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  struct bed *bed = make_bed();
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  bed->control.model_hint = "m";
  bed->control.zero_names = 2;
  open_bed(bed);
  while (status != STG_OK) {
    struct stg_arena arena = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = stg_control_plan(&bed->file, &bed->use, &arena, &bed->plan, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    stg_arena_finish(&arena);
    assert_true(nth < 100);
  }
  assert_true(nth > 2);
  free_bed(bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(direction_n_acts_at_block_n),
      cmocka_unit_test(a_range_is_inclusive_at_both_ends),
      cmocka_unit_test(says_what_a_default_range_leaves_out),
      cmocka_unit_test(speaks_of_one_block_as_of_one),
      cmocka_unit_test(a_last_block_leaves_out_what_a_larger_model_has),
      cmocka_unit_test(passes_over_zero_directions_and_says_so),
      cmocka_unit_test(says_what_a_file_says_and_nobody_checked),
      cmocka_unit_test(refuses_another_model),
      cmocka_unit_test(takes_another_way_only_by_name),
      cmocka_unit_test(refuses_other_names_and_shapes),
      cmocka_unit_test(refuses_ranges_that_the_file_does_not_have),
      cmocka_unit_test(an_end_that_is_not_given_is_the_files),
      cmocka_unit_test(a_pattern_takes_other_files_from_block_0),
      cmocka_unit_test(a_pattern_that_fits_no_name_is_said),
      cmocka_unit_test(what_a_shift_moves_is_said_in_blocks),
      cmocka_unit_test(rows_of_a_matrix_are_blocks),
      cmocka_unit_test(cuts_a_long_list),
      cmocka_unit_test(gives_no_memory_when_any_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
