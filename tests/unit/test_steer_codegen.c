/*
 * test_steer_codegen.c: the text of a steer kernel, and the numbers that go with it.
 *
 * What the text says is pinned by tests/golden/cuda; whether it compiles by tests/nvrtc.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/steer_extents.h"
#include <stdlib.h>
#include <string.h>

#include "codegen/steer.h"
#include "runtime/base/alloc.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compile_op.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LINE_CHARS 100

static const int64_t hidden_sizes[] = {1,   7,    8,    9,    100,   511,   512,
                                       513, 4096, 4097, 8192, 16384, 40000, STG_STEER_MAX_HIDDEN};
static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};

static const struct stg_op *must_compile(struct stg_arena *arena, const struct test_op *text) {
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status = compile_op(arena, text, &op, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return op;
}

static const struct stg_op *must_find(struct stg_arena *arena, const char *name) {
  const struct stg_op *op = builtin_op(arena, name, NULL);
  assert_non_null(op);
  return op;
}

static struct stg_steer_geometry geometry_of(const struct stg_op *const *ops, size_t n_ops) {
  return (struct stg_steer_geometry){.hidden_size = 4096,
                                     .dtype = STG_BF16,
                                     .bank_dtype = STG_BF16,
                                     .turns = 2,
                                     .ops = ops,
                                     .n_ops = n_ops};
}

static struct stg_strbuf must_generate(const struct stg_steer_geometry *geometry,
                                       struct stg_launch_rule *ret_rule) {
  struct stg_strbuf source = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_steer_generate(geometry, &source, ret_rule, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return source;
}

static void equal_arguments_give_equal_bytes(void **state) {
  (void)state;
  struct stg_arena one = {0};
  struct stg_arena other = {0};
  const struct stg_op *ops[] = {must_find(&one, "add"), must_find(&one, "projection_cap")};
  const struct stg_op *again[] = {must_find(&other, "add"), must_find(&other, "projection_cap")};
  struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
  struct stg_launch_rule rule;
  struct stg_strbuf first = must_generate(&geometry, &rule);
  geometry.ops = again;

  struct stg_strbuf second = must_generate(&geometry, &rule);

  assert_int_equal(first.len, second.len);
  assert_memory_equal(first.data, second.data, first.len);
  stg_strbuf_finish(&first);
  stg_strbuf_finish(&second);
  stg_arena_finish(&one);
  stg_arena_finish(&other);
}

static void every_part_of_the_geometry_changes_the_text(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add"), must_find(&arena, "swap")};
  struct stg_steer_geometry variants[11];
  struct stg_strbuf texts[COUNT(variants)];
  struct stg_launch_rule rule;
  for (size_t i = 0; i < COUNT(variants); i++) {
    variants[i] = geometry_of(ops, COUNT(ops));
  }
  variants[1].hidden_size = 4095;
  variants[2].dtype = STG_F16;
  variants[3].bank_dtype = STG_F32;
  variants[4].pair = true;
  variants[5].turns = 1;
  variants[6].n_ops = 1;
  variants[7].pair = true;
  variants[7].epilogue = true;
  variants[8].windows = true;
  variants[9].probes = true;
  variants[10].counters = true;

  for (size_t i = 0; i < COUNT(variants); i++) {
    texts[i] = must_generate(&variants[i], &rule);
    for (size_t k = 0; k < i; k++) {
      assert_string_not_equal(stg_strbuf_text(&texts[i]), stg_strbuf_text(&texts[k]));
    }
  }

  for (size_t i = 0; i < COUNT(variants); i++) {
    stg_strbuf_finish(&texts[i]);
  }
  stg_arena_finish(&arena);
}

static void a_users_names_are_no_part_of_the_text(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op named = {.name = "secret_op",
                                .vectors = {"secret_vector"},
                                .params = {"secret_param"},
                                .require = {"secret_param > 0"},
                                .body = {"secret_value = dot(h, secret_vector)",
                                         "h += tanh(secret_param * secret_value) * secret_vector"}};
  const struct test_op renamed = {.name = "x",
                                  .vectors = {"v"},
                                  .params = {"p"},
                                  .body = {"t = dot(h, v)", "h += tanh(p * t) * v"}};
  const struct stg_op *ops[] = {must_compile(&arena, &named)};
  const struct stg_op *other[] = {must_compile(&arena, &renamed)};
  struct stg_steer_geometry geometry = geometry_of(ops, 1);
  struct stg_launch_rule rule;
  struct stg_strbuf text = must_generate(&geometry, &rule);
  geometry.ops = other;

  struct stg_strbuf same = must_generate(&geometry, &rule);

  assert_null(strstr(stg_strbuf_text(&text), "secret"));
  assert_non_null(strstr(stg_strbuf_text(&text), "// user-defined\n"));
  assert_string_equal(stg_strbuf_text(&text), stg_strbuf_text(&same));
  stg_strbuf_finish(&text);
  stg_strbuf_finish(&same);
  stg_arena_finish(&arena);
}

static void fixes_constants_by_their_bits(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct test_op text = {.vectors = {"v"}, .body = {"h += 0.1 * v"}};
  const struct stg_op *ops[] = {must_compile(&arena, &text)};
  const struct stg_steer_geometry geometry = geometry_of(ops, 1);
  struct stg_launch_rule rule;

  struct stg_strbuf source = must_generate(&geometry, &rule);

  assert_non_null(strstr(stg_strbuf_text(&source),
                         "const float v0 = __uint_as_float(0x3dcccccdu);  // const 0.1\n"));
  stg_strbuf_finish(&source);
  stg_arena_finish(&arena);
}

/* No tab, no blank at a line's end, no long line, balanced braces, one newline at the end. */
static void check_layout(const char *text) {
  int depth = 0;
  size_t column = 0;
  for (const char *c = text; *c != '\0'; c++) {
    depth += *c == '{' ? 1 : *c == '}' ? -1 : 0;
    column = *c == '\n' ? 0 : column + 1;
    assert_true(depth >= 0);
    assert_true(column <= MAX_LINE_CHARS);
    assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    assert_false(*c == '\n' && c > text && c[-1] == ' ');
  }
  assert_int_equal(depth, 0);
  assert_true(strlen(text) > 2 && strcmp(text + strlen(text) - 2, "}\n") == 0);
}

static void the_text_is_tidy_in_every_geometry(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add_keep_norm"), must_find(&arena, "gated_add")};
  for (size_t i = 0; i < COUNT(hidden_sizes) * COUNT(dtypes) * 2; i++) {
    struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
    struct stg_launch_rule rule;
    geometry.hidden_size = hidden_sizes[i / COUNT(dtypes) % COUNT(hidden_sizes)];
    geometry.dtype = dtypes[i % COUNT(dtypes)];
    geometry.pair = i >= COUNT(hidden_sizes) * COUNT(dtypes);
    geometry.epilogue = geometry.pair && i % 2 == 0;
    geometry.turns = stg_steer_prefill_turns(geometry.hidden_size);

    struct stg_strbuf source = must_generate(&geometry, &rule);

    check_layout(stg_strbuf_text(&source));
    stg_strbuf_finish(&source);
  }
  stg_arena_finish(&arena);
}

static void threads_are_whole_warps_that_leave_no_chunk_out(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(hidden_sizes); i++) {
    const uint32_t threads = stg_steer_threads(hidden_sizes[i]);
    assert_int_equal(threads % 32, 0);
    assert_in_range(threads, 32, 512);
    /* no warp without a chunk of its own */
    assert_true((int64_t)(threads - 32) * 8 < hidden_sizes[i]);
  }
  assert_int_equal(stg_steer_threads(4096), 256);
}

static void the_launch_rule_depends_on_hidden_size_and_tile_alone(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add"), must_find(&arena, "swap")};
  for (size_t i = 0; i < COUNT(hidden_sizes) * COUNT(dtypes) * 8; i++) {
    struct stg_steer_geometry geometry = geometry_of(ops, 1 + i % 2);
    struct stg_launch_rule rule = {0};
    geometry.hidden_size = hidden_sizes[i / 8 % COUNT(hidden_sizes)];
    geometry.dtype = dtypes[i / 8 / COUNT(hidden_sizes)];
    geometry.bank_dtype = i % 8 < 4 ? geometry.dtype : STG_F32;
    geometry.pair = i % 3 == 0;
    geometry.epilogue = i % 6 == 0;
    geometry.turns = 1u << i % 4;

    struct stg_strbuf source = must_generate(&geometry, &rule);

    const uint32_t warps = stg_steer_threads(geometry.hidden_size) / 32;
    assert_int_equal(rule.threads, (warps + geometry.turns - 1) / geometry.turns * 32);
    assert_int_equal(rule.rows_per_block, 1);
    const struct stg_steer_extents extents = stg_steer_extents_of(&geometry);
    assert_int_equal(extents.vector_bytes % 16, 0);
    assert_int_equal(rule.resident_blocks, extents.resident_blocks);
    assert_int_equal(rule.stage_bytes,
                     extents.weight_bytes + (int64_t)rule.staged * extents.vector_bytes);
    assert_int_equal(rule.wide_stage_bytes,
                     extents.weight_bytes + (int64_t)rule.wide_staged * extents.vector_bytes);
    assert_true(rule.staged <= rule.wide_staged);
    /* with sums and the longest chain beside it, within the 99 KiB of the smaller architectures */
    assert_true(rule.wide_stage_bytes <= 64 * 1024);
    assert_true(extents.weight_bytes == 0 || geometry.epilogue);
    stg_strbuf_finish(&source);
  }
  stg_arena_finish(&arena);
}

/* Of rows that stay in registers, while it leaves room for vectors. */
static void an_epilogue_stages_its_weight(void **state) {
  (void)state;
  static const struct {
    int64_t hidden_size;
    stg_dtype dtype;
    uint32_t turns, bytes;
  } cases[] = {
      {4096, STG_BF16, 1, 8192},   {4096, STG_F32, 2, 16384}, {100, STG_F16, 1, 208},
      {16384, STG_BF16, 1, 32768}, {16384, STG_F32, 1, 0}, /* too long for shared memory */
      {65536, STG_BF16, 1, 0},                             /* and for registers */
  };
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add")};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct stg_steer_geometry geometry = geometry_of(ops, 1);
    struct stg_launch_rule rule = {0};
    geometry.hidden_size = cases[i].hidden_size;
    geometry.dtype = geometry.bank_dtype = cases[i].dtype;
    geometry.pair = geometry.epilogue = true;
    geometry.turns = cases[i].turns;

    struct stg_strbuf source = must_generate(&geometry, &rule);

    const int64_t vector_bytes = stg_steer_extents_of(&geometry).vector_bytes;
    assert_int_equal(rule.stage_bytes - rule.staged * vector_bytes, cases[i].bytes);
    assert_int_equal(rule.wide_stage_bytes - rule.wide_staged * vector_bytes, cases[i].bytes);
    stg_strbuf_finish(&source);
  }
  stg_arena_finish(&arena);
}

static void prefill_turns_are_a_power_of_two_that_leaves_no_warp_idle(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(hidden_sizes); i++) {
    const uint32_t turns = stg_steer_prefill_turns(hidden_sizes[i]);
    assert_true(turns >= 1 && (turns & (turns - 1)) == 0);
    assert_true(turns <= stg_steer_threads(hidden_sizes[i]) / 32);
  }
  assert_int_equal(stg_steer_prefill_turns(4096), 2);
  /* a row that fills the registers of all its threads leaves none for a second turn */
  assert_int_equal(stg_steer_prefill_turns(STG_STEER_MAX_HIDDEN), 1);
}

static void pads_a_bank_vector_to_whole_chunks_of_eight(void **state) {
  (void)state;
  static const int64_t padded[][2] = {
      {1, 8},     {7, 8},       {8, 8},       {9, 16},
      {100, 104}, {4096, 4096}, {4097, 4104}, {STG_STEER_MAX_HIDDEN, STG_STEER_MAX_HIDDEN},
  };
  for (size_t i = 0; i < COUNT(padded); i++) {
    assert_int_equal(stg_steer_padded(padded[i][0]), padded[i][1]);
  }
}

/* A refusal leaves the outputs alone. */
static void must_refuse(const struct stg_steer_geometry *geometry, const char *message) {
  struct stg_strbuf source = {0};
  struct stg_launch_rule rule = {.threads = 77, .rows_per_block = 78};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_steer_generate(geometry, &source, &rule, &err), STG_E_INVALID);
  assert_int_equal(err.code, STG_E_INVALID);
  assert_string_equal(err.message, message);
  assert_int_equal(source.len, 0);
  assert_int_equal(rule.threads, 77);
  assert_int_equal(rule.rows_per_block, 78);
  assert_int_equal(stg_steer_generate(geometry, &source, &rule, NULL), STG_E_INVALID);
  stg_strbuf_finish(&source);
}

static void refuses_a_hidden_size_out_of_range(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add")};
  struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
  geometry.hidden_size = 0;
  must_refuse(&geometry, "hidden_size: 0 is not in 1..1048576");
  geometry.hidden_size = -4096;
  must_refuse(&geometry, "hidden_size: -4096 is not in 1..1048576");
  geometry.hidden_size = STG_STEER_MAX_HIDDEN + 1;
  must_refuse(&geometry, "hidden_size: 1048577 is not in 1..1048576");
  geometry.hidden_size = INT64_MAX;
  must_refuse(&geometry, "hidden_size: 9223372036854775807 is not in 1..1048576");
  stg_arena_finish(&arena);
}

static void refuses_an_unknown_dtype(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add")};
  struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
  geometry.dtype = STG_DTYPE_NONE;
  must_refuse(&geometry, "dtype: 0 is none of bf16 (1), f16 (2), f32 (3)");
  geometry.dtype = STG_BF16;
  geometry.bank_dtype = STG_DTYPE_NONE;
  must_refuse(&geometry, "bank_dtype: 0 is none of bf16 (1), f16 (2), f32 (3)");
  stg_arena_finish(&arena);
}

static void refuses_turns_that_are_no_small_power_of_two(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add")};
  struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
  geometry.turns = 0;
  must_refuse(&geometry, "turns: 0 is not a power of two up to 16");
  geometry.turns = 3;
  must_refuse(&geometry, "turns: 3 is not a power of two up to 16");
  geometry.turns = 32;
  must_refuse(&geometry, "turns: 32 is not a power of two up to 16");
  stg_arena_finish(&arena);
}

static void refuses_an_epilogue_without_a_residual(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add")};
  struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
  geometry.epilogue = true;
  must_refuse(&geometry, "epilogue: it needs the state hidden+residual");
  stg_arena_finish(&arena);
}

static void refuses_an_empty_set_of_ops(void **state) {
  (void)state;
  const struct stg_steer_geometry geometry = geometry_of(NULL, 0);
  must_refuse(&geometry, "ops: none; a kernel needs at least one");
}

static void the_prelude_defines_before_it_uses(void **state) {
  (void)state;
  static const char *const in_order[] = {"float stg_math_tanh(float x)", "struct stg_steer_args {",
                                         "struct stg_chain_run {", "struct stg_row {",
                                         "void stg_steer_run("};
  struct stg_strbuf prelude = {0};

  stg_steer_prelude(&prelude);

  assert_int_equal(stg_strbuf_status(&prelude, NULL), STG_OK);
  assert_int_equal(strlen(stg_strbuf_text(&prelude)), prelude.len);
  const char *at = stg_strbuf_text(&prelude);
  for (size_t i = 0; i < COUNT(in_order); i++) {
    at = strstr(at, in_order[i]);
    assert_non_null(at);
  }
  stg_strbuf_finish(&prelude);
}

static void the_prelude_and_the_host_agree_on_maps_and_chains(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int value;
  } constants[] = {
      {"STG_MAP_HEADER", STG_MAP_HEADER_WORDS},
      {"STG_OP_WORDS", STG_RECORD_OP_WORDS},
  };
  struct stg_strbuf prelude = {0};

  stg_steer_prelude(&prelude);

  for (size_t i = 0; i < COUNT(constants); i++) {
    struct stg_strbuf line = {0};
    stg_strbuf_printf(&line, "\n#define %s %d\n", constants[i].name, constants[i].value);
    assert_non_null(strstr(stg_strbuf_text(&prelude), stg_strbuf_text(&line)));
    stg_strbuf_finish(&line);
  }
  stg_strbuf_finish(&prelude);
}

static void says_so_when_memory_runs_out(void **state) {
  (void)state;
  struct stg_arena arena = {0};
  const struct stg_op *ops[] = {must_find(&arena, "add"), must_find(&arena, "swap")};
  const struct stg_steer_geometry geometry = geometry_of(ops, COUNT(ops));
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  for (size_t n = 1; status == STG_E_NO_MEMORY; n++) {
    struct stg_strbuf source = {0};
    struct stg_launch_rule rule = {.threads = 77};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(n);
    status = stg_steer_generate(&geometry, &source, &rule, &err);
    stg_alloc_fail_at(0);
    if (status != STG_OK) {
      assert_int_equal(status, STG_E_NO_MEMORY);
      assert_int_equal(rule.threads, 77);
      failures++;
    }
    stg_strbuf_finish(&source);
  }
  assert_int_equal(status, STG_OK);
  assert_true(failures > 10);
  stg_arena_finish(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_arguments_give_equal_bytes),
      cmocka_unit_test(every_part_of_the_geometry_changes_the_text),
      cmocka_unit_test(a_users_names_are_no_part_of_the_text),
      cmocka_unit_test(fixes_constants_by_their_bits),
      cmocka_unit_test(the_text_is_tidy_in_every_geometry),
      cmocka_unit_test(threads_are_whole_warps_that_leave_no_chunk_out),
      cmocka_unit_test(the_launch_rule_depends_on_hidden_size_and_tile_alone),
      cmocka_unit_test(an_epilogue_stages_its_weight),
      cmocka_unit_test(prefill_turns_are_a_power_of_two_that_leaves_no_warp_idle),
      cmocka_unit_test(pads_a_bank_vector_to_whole_chunks_of_eight),
      cmocka_unit_test(refuses_a_hidden_size_out_of_range),
      cmocka_unit_test(refuses_an_unknown_dtype),
      cmocka_unit_test(refuses_turns_that_are_no_small_power_of_two),
      cmocka_unit_test(refuses_an_epilogue_without_a_residual),
      cmocka_unit_test(refuses_an_empty_set_of_ops),
      cmocka_unit_test(the_prelude_defines_before_it_uses),
      cmocka_unit_test(the_prelude_and_the_host_agree_on_maps_and_chains),
      cmocka_unit_test(says_so_when_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
