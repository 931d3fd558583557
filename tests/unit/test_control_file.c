/*
 * test_control_file.c: what a control vector says of itself, by the keys that are in use.
 */
#include "specs/control_file.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX_PAIRS 6

/* The facts of a file with these keys and values. */
static stg_status read_pairs(const char *const *pairs, struct stg_control_facts *ret_facts,
                             stg_error *err) {
  struct stg_tensor_file file = {.path = "c.gguf", .metadata = pairs};
  while (pairs[2 * file.n_metadata] != NULL) {
    file.n_metadata++;
  }
  return stg_control_read(&file, ret_facts, err);
}

static void reads_what_general_tools_write(void **state) {
  static const char *const pairs[] = {"general.architecture",
                                      "controlvector",
                                      "controlvector.model_hint",
                                      "mistral",
                                      "controlvector.layer_count",
                                      "31",
                                      NULL};
  struct stg_control_facts facts;
  (void)state;
  assert_int_equal(read_pairs(pairs, &facts, NULL), STG_OK);
  assert_true(facts.declared);
  assert_string_equal(facts.architecture, "controlvector");
  assert_string_equal(facts.model_hint, "mistral");
  assert_int_equal(facts.layer_count, 31);
  assert_null(facts.mode);
  assert_null(facts.hook_point);
  assert_null(facts.structure);
  assert_null(facts.alpha);
  assert_true(stg_control_adds(&facts));
}

static void reads_the_keys_of_projections_and_of_converted_files(void **state) {
  static const char *const pairs[] = {"gguf.general.architecture",
                                      "controlvector",
                                      "gguf.glp.mode",
                                      "project",
                                      "gguf.glp.hook_point",
                                      "ffn_out_pre_residual",
                                      "glp.alpha_default",
                                      "1.5",
                                      "x.y.structure",
                                      "per-execution-step",
                                      NULL};
  struct stg_control_facts facts;
  (void)state;
  assert_int_equal(read_pairs(pairs, &facts, NULL), STG_OK);
  assert_true(facts.declared);
  assert_string_equal(facts.mode_key, "glp.mode");
  assert_string_equal(facts.mode, "project");
  assert_string_equal(facts.hook_point_key, "glp.hook_point");
  assert_string_equal(facts.hook_point, "ffn_out_pre_residual");
  assert_string_equal(facts.structure_key, "x.y.structure");
  assert_string_equal(facts.structure, "per-execution-step");
  assert_string_equal(facts.alpha_key, "glp.alpha_default");
  assert_string_equal(facts.alpha, "1.5");
  assert_int_equal(facts.layer_count, -1);
}

/* Other formats than GGUF have their keys behind "source.", and twice where they went twice. */
static void reads_what_was_converted_from_other_formats(void **state) {
  static const char *const pairs[] = {"source.controlvector.model_hint",
                                      "mistral",
                                      "source.source.controlvector.layer_count",
                                      "3",
                                      "source.general.mode",
                                      "chat",
                                      "source.glp.hook_point",
                                      "mlp",
                                      "source",
                                      "d.json",
                                      NULL};
  struct stg_control_facts facts;
  (void)state;
  assert_int_equal(read_pairs(pairs, &facts, NULL), STG_OK);
  assert_string_equal(facts.model_hint, "mistral");
  assert_int_equal(facts.layer_count, 3);
  assert_null(facts.mode); /* of the model, not of the vector */
  assert_string_equal(facts.hook_point_key, "glp.hook_point");
}

static void says_nothing_of_a_file_that_says_nothing(void **state) {
  static const char *const pairs[] = {NULL};
  struct stg_control_facts facts;
  (void)state;
  assert_int_equal(read_pairs(pairs, &facts, NULL), STG_OK);
  assert_false(facts.declared);
  assert_null(facts.architecture);
  assert_null(facts.model_hint);
  assert_true(stg_control_adds(&facts));
}

/* The first mode that is no addition counts, wherever it is; keys of the model are no modes. */
static void takes_no_mode_but_addition_for_one(void **state) {
  static const struct {
    const char *pairs[2 * MAX_PAIRS + 1];
    const char *mode_key; /* NULL: none */
    bool adds;
  } cases[] = {
      {{"glp.mode", "add"}, "glp.mode", true},
      {{"controlvector.mode", "Additive"}, "controlvector.mode", true},
      {{"mode", "ADDITION"}, "mode", true},
      {{"glp.mode", "project"}, "glp.mode", false},
      {{"other.mode", "adding"}, "other.mode", false},
      {{"glp.mode", ""}, "glp.mode", false},
      {{"a.mode", "add", "b.mode", "project", "c.mode", "ablate"}, "b.mode", false},
      {{"b.mode", "project", "a.mode", "add"}, "b.mode", false},
      {{"general.mode", "x", "tokenizer.mode", "y", "gguf.general.mode", "z"}, NULL, true},
      {{"glp.model", "x", "glp.mode.x", "y", "glpmode", "z"}, NULL, true},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_control_facts facts;
    assert_int_equal(read_pairs(cases[i].pairs, &facts, NULL), STG_OK);
    assert_string_equal(facts.mode_key != NULL ? facts.mode_key : "none",
                        cases[i].mode_key != NULL ? cases[i].mode_key : "none");
    assert_int_equal(stg_control_adds(&facts), cases[i].adds);
  }
}

static void refuses_what_is_no_line_and_no_count(void **state) {
  static const struct {
    const char *pairs[3];
    const char *message;
  } cases[] = {
      {{"controlvector.layer_count", "-1"}, "c.gguf: controlvector.layer_count '-1' is no count"},
      {{"controlvector.layer_count", "3x"}, "c.gguf: controlvector.layer_count '3x' is no count"},
      {{"controlvector.layer_count", ""}, "c.gguf: controlvector.layer_count '' is no count"},
      {{"controlvector.layer_count", "[u8 x 3]"},
       "c.gguf: controlvector.layer_count '[u8 x 3]' is no count"},
      {{"controlvector.layer_count", "99999999999999999999"},
       "c.gguf: controlvector.layer_count '99999999999999999999' is no count"},
      {{"controlvector.model_hint", "a\nb"}, "c.gguf: its model_hint holds control characters"},
      {{"general.architecture", "\x1b[2J"}, "c.gguf: its architecture holds control characters"},
      {{"glp.mode", "pro\tject"}, "c.gguf: its mode holds control characters"},
      {{"g\nlp.mode", "add"}, "c.gguf: its mode key holds control characters"},
      {{"glp.hook_point", "\r"}, "c.gguf: its hook_point holds control characters"},
      {{"glp.structure", "\x7f"}, "c.gguf: its structure holds control characters"},
      {{"glp.alpha_default", "1\n"}, "c.gguf: its alpha_default holds control characters"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_control_facts facts = {.layer_count = 77};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(read_pairs(cases[i].pairs, &facts, &err), STG_E_FORMAT);
    assert_null(strpbrk(err.message, "\r\n"));
    assert_string_equal(err.message, cases[i].message);
    assert_int_equal(facts.layer_count, 77);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_general_tools_write),
      cmocka_unit_test(reads_the_keys_of_projections_and_of_converted_files),
      cmocka_unit_test(reads_what_was_converted_from_other_formats),
      cmocka_unit_test(says_nothing_of_a_file_that_says_nothing),
      cmocka_unit_test(takes_no_mode_but_addition_for_one),
      cmocka_unit_test(refuses_what_is_no_line_and_no_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
