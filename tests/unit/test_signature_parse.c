/*
 * test_signature_parse.c: signatures read back: what is printed is read as what it was, and nothing
 * else is taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/ops.h"
#include "engine/signature_parse.h"
#include "engine/steer_signature.h"

static const char *const user_ops[] = {
    "{\"op\": \"one\", \"vectors\": [\"v\"], \"body\": [\"h += 2 * v\"]}",
    "{\"op\": \"two\", \"vectors\": [\"v\"], \"body\": [\"h += 3 * v\"]}",
    "{\"op\": \"three\", \"body\": [\"h = 0.5 * h\"]}",
    "{\"op\": \"same_as_one\", \"vectors\": [\"w\"], \"body\": [\"h += 2 * w\"]}",
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

/* The next of a fixed series of numbers below `n`. */
static uint32_t draw(uint32_t n) {
  static uint64_t state = 20;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 33) % n);
}

static struct stg_op_table *open_ops(void) {
  struct stg_op_table *ops = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_op_table_create(&ops, &error), &error);
  for (size_t i = 0; i < sizeof user_ops / sizeof user_ops[0]; i++) {
    ok(stg_op_table_add(ops, "op.json", user_ops[i], strlen(user_ops[i]), &error), &error);
  }
  return ops;
}

static void print(const struct stg_steer_signature *kernel, const struct stg_graph_shape *shape,
                  struct stg_strbuf *out) {
  stg_steer_signature_print(kernel, out);
  stg_graph_shape_print(shape, out);
}

/* Any set of ops, sorted and each body once. */
static size_t draw_ops(struct stg_op_table *table, const struct stg_op **ret_ops) {
  const size_t count = stg_op_table_count(table);
  size_t n = 0;
  for (size_t i = 0; i < count; i++) {
    if (draw(2) == 0) {
      ret_ops[n++] = stg_op_table_at(table, i);
    }
  }
  if (n == 0) {
    ret_ops[n++] = stg_op_table_at(table, 0);
  }
  qsort(ret_ops, n, sizeof(struct stg_op *), stg_op_compare);
  size_t kept = 1;
  for (size_t i = 1; i < n; i++) {
    if (stg_op_compare(&ret_ops[kept - 1], &ret_ops[i]) != 0) {
      ret_ops[kept++] = ret_ops[i];
    }
  }
  return kept;
}

static void what_is_printed_reads_back_as_it_was(void **state) {
  (void)state;
  static const stg_dtype types[] = {STG_BF16, STG_F16, STG_F32};
  struct stg_op_table *table = open_ops();
  const struct stg_op *ops[32];
  for (int round = 0; round < 2000; round++) {
    const bool pair = draw(2) == 0, prefill = draw(2) == 0;
    const struct stg_steer_signature kernel = {
        .n_ops = draw_ops(table, ops),
        .ops = ops,
        .hidden_size = 1 + draw(1 << 20),
        .dtype = types[draw(3)],
        .bank_dtype = types[draw(3)],
        .pair = pair,
        .prefill = prefill,
        .epilogue = pair && draw(2) == 0 ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE,
        .windows = draw(2) == 0,
        .counters = draw(2) == 0,
        .probes = draw(2) == 0,
    };
    const struct stg_graph_shape shape = {
        .batch = 1 + draw(5000), .seq = prefill ? 2 + draw(5000) : 1, .rows = 1 + draw(1 << 22)};
    struct stg_strbuf text = {0}, again = {0};
    struct stg_arena arena = {0};
    struct stg_steer_signature read;
    struct stg_graph_shape read_shape;
    stg_error error = STG_ERROR_INIT;
    print(&kernel, &shape, &text);
    struct stg_signature_reader reader = {
        .text = stg_strbuf_text(&text), .ops = table, .arena = &arena, .err = &error};
    ok(stg_steer_signature_read(&reader, &read), &error);
    ok(stg_signature_take_shape(&reader, &read_shape), &error);
    print(&read, &read_shape, &again);
    assert_string_equal(stg_strbuf_text(&text), stg_strbuf_text(&again));
    assert_int_equal(kernel.n_ops, read.n_ops);
    for (size_t i = 0; i < kernel.n_ops; i++) {
      assert_int_equal(0, stg_op_compare(&ops[i], &read.ops[i]));
    }
    assert_int_equal(kernel.hidden_size, read.hidden_size);
    assert_int_equal(kernel.dtype, read.dtype);
    assert_int_equal(kernel.bank_dtype, read.bank_dtype);
    assert_int_equal(kernel.pair, read.pair);
    assert_int_equal(kernel.prefill, read.prefill);
    assert_int_equal(kernel.epilogue, read.epilogue);
    assert_int_equal(kernel.windows, read.windows);
    assert_int_equal(kernel.counters, read.counters);
    assert_int_equal(kernel.probes, read.probes);
    assert_null(read.arch);
    assert_memory_equal(&shape, &read_shape, sizeof shape);
    stg_arena_finish(&arena);
    stg_strbuf_finish(&text);
    stg_strbuf_finish(&again);
  }
  stg_op_table_destroy(table);
}

#define OPS "steer v1 | ops=add,swap"
#define TYPES " chain<=16 | hidden=8 dtype=bf16 bank=f32 state=hidden"
#define VARIANT " | tile=decode epilogue=none"
#define EXTRAS " windows=0 counters=0 probes=0"
#define SHAPE " | batch<=8 seq<=1 rows<=4"
#define NO_HASH "00000000000000000000000000000000"

static void what_is_no_signature_is_refused_with_its_column(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "column 1: expected the name of a family of kernels, found the end"},
      {"steers v1 | ops=add",
       "column 1: expected the name of a family of kernels, found 'steers v1 | ops=add'"},
      {"steer v2 | ops=add", "column 1: expected 'steer v1 | ops=', found 'steer v2 | ops=add'"},
      {"steer v1 | ops=", "column 16: expected an op, found the end"},
      {"steer v1 | ops=adds", "column 16: 'adds' is no built-in op; a user op is user:<hash of its "
                              "body>"},
      {"steer v1 | ops=one",
       "column 16: 'one' is no built-in op; a user op is user:<hash of its body>"},
      {"steer v1 | ops=user:12ab",
       "column 16: 'user:12ab' has no hash of 32 lower-case hex digits"},
      {"steer v1 | ops=user:" NO_HASH,
       "column 16: no op with the body of 'user:" NO_HASH "' is defined; put it into user_ops"},
      {"steer v1 | ops=swap,add", "column 21: 'add' stands behind an op that it should stand "
                                  "before, or twice; ops ascend, built-ins first"},
      {"steer v1 | ops=add,add", "column 20: 'add' stands behind an op that it should stand "
                                 "before, or twice; ops ascend, built-ins first"},
      {"steer v1 | ops=add,", "column 20: expected an op, found the end"},
      {OPS, "column 24: expected ' chain<=', found the end"},
      {OPS " chain<=17", "column 32: 17 is more than 16"},
      {OPS " chain<=-1", "column 32: expected a number, found '-1'"},
      {OPS " chain<=8 | hidden=8 dtype=bf16 bank=f32 state=hidden" VARIANT EXTRAS SHAPE,
       "column 32: is '8 | hidden=8 dtype=bf16 ' where the canonical text has '16 | hidden=8 "
       "dtype=bf16'"},
      {OPS " chain<=16 | hidden=99999999999999999999 ", "column 44: 99999999999999999999 is more "
                                                        "than 1048576"},
      {OPS " chain<=16 | hidden=08 dtype=bf16 bank=f32 state=hidden" VARIANT EXTRAS SHAPE,
       "column 44: is '08 dtype=bf16 bank=f32 s' where the canonical text has '8 dtype=bf16 "
       "bank=f32 st'"},
      {OPS " chain<=16 | hidden=8 dtype=fp8", "column 52: expected bf16, f16 or f32, found 'fp8'"},
      {OPS " chain<=16 | hidden=8 dtype=bf16 bank=f32 state=residual",
       "column 72: expected hidden or hidden+residual, found 'residual'"},
      {OPS TYPES " | tile=wide", "column 86: expected decode or prefill, found 'wide'"},
      {OPS TYPES " | tile=decode epilogue=softmax",
       "column 102: expected none or add_rmsnorm, found 'softmax'"},
      {OPS TYPES VARIANT " windows=x", "column 115: expected a number, found 'x'"},
      {OPS TYPES VARIANT " windows=1 counters=0 probes=2" SHAPE, "column 135: 2 is more than 1"},
      {OPS TYPES VARIANT EXTRAS " | sm_90" SHAPE,
       "column 136: expected ' | batch<=', found ' | sm_90 | batch<=8 seq<=1 rows<=4'"},
      {OPS TYPES VARIANT EXTRAS, "column 136: expected ' | batch<=', found the end"},
      {OPS TYPES VARIANT EXTRAS " | batch<=0 seq<=1 rows<=4",
       "batch<=0 seq<=1 rows<=4: no bucket is 0"},
      {OPS TYPES VARIANT EXTRAS " | batch<=8 seq<=2 rows<=4",
       "tile=decode with seq<=2: seq<=1 is decode, more is prefill"},
      {OPS TYPES VARIANT EXTRAS " + add" SHAPE,
       "column 139: expected the name of a family of kernels, found 'add | batch<=8 seq<=1 "
       "rows<=4'"},
      {OPS TYPES VARIANT EXTRAS SHAPE " ", "column 162: expected the end, found ' '"},
  };
  struct stg_op_table *table = open_ops();
  struct stg_arena arena = {0};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_parsed parsed;
    stg_error error = STG_ERROR_INIT;
    stg_status status = stg_signature_parse(cases[i].text, table, &arena, &parsed, &error);
    assert_string_equal(cases[i].message, error.message);
    assert_int_equal(STG_E_FORMAT, status);
  }
  stg_arena_finish(&arena);
  stg_op_table_destroy(table);
}

#define STEER OPS TYPES VARIANT EXTRAS

static void what_nobody_declares_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
    stg_status status;
  } cases[] = {
      {OPS " chain<=16 | hidden=8 dtype=bf16 bank=f16 state=hidden" VARIANT EXTRAS SHAPE,
       "bank_dtype: 2 is neither dtype (bf16) nor f32", STG_E_INVALID},
      {OPS " chain<=16 | hidden=0 dtype=bf16 bank=f32 state=hidden" VARIANT EXTRAS SHAPE,
       "hidden_size: 0 is not in 1..1048576", STG_E_INVALID},
      {STEER " + " STEER SHAPE,
       "column 139: 'steer' in a signature that has a kernel of several that stand in for one "
       "another already; there can be one",
       STG_E_FORMAT},
  };
  struct stg_op_table *table = open_ops();
  struct stg_arena arena = {0};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_parsed parsed;
    stg_error error = STG_ERROR_INIT;
    assert_int_equal(cases[i].status,
                     stg_signature_parse(cases[i].text, table, &arena, &parsed, &error));
    assert_string_equal(cases[i].message, error.message);
  }
  stg_arena_finish(&arena);
  stg_op_table_destroy(table);
}

/* No text that differs from a good one in one character reads as what it was. */
static void one_other_character_is_another_signature_or_none(void **state) {
  (void)state;
  static const char good[] = OPS TYPES VARIANT EXTRAS SHAPE;
  struct stg_op_table *table = open_ops();
  for (size_t at = 0; at + 1 < sizeof good; at++) {
    for (int c = 32; c < 127; c++) {
      char text[sizeof good];
      struct stg_arena arena = {0};
      struct stg_parsed parsed;
      memcpy(text, good, sizeof good);
      text[at] = (char)c;
      if (stg_signature_parse(text, table, &arena, &parsed, NULL) == STG_OK) {
        struct stg_strbuf again = {0};
        stg_parsed_print(&parsed, &again);
        assert_string_equal(text, stg_strbuf_text(&again));
        stg_strbuf_finish(&again);
      }
      stg_arena_finish(&arena);
    }
  }
  stg_op_table_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_printed_reads_back_as_it_was),
      cmocka_unit_test(what_is_no_signature_is_refused_with_its_column),
      cmocka_unit_test(what_nobody_declares_is_refused),
      cmocka_unit_test(one_other_character_is_another_signature_or_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
