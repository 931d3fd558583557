/*
 * test_signature.c: buckets, canonical text and keys: what moves them and what does not.
 */
#include "engine/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/steer_signature.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compile_op.h"

static int64_t row_bucket(int64_t rows) {
  const struct stg_buckets by_default = {0};
  int64_t bucket = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_row_bucket(&by_default, rows, &bucket, &error));
  return bucket;
}

static int64_t batch_bucket(int64_t requests) {
  const struct stg_buckets by_default = {0};
  int64_t bucket = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_batch_bucket(&by_default, requests, &bucket, &error));
  return bucket;
}

static void row_buckets_grow_as_documented(void **state) {
  (void)state;
  static const int64_t series[] = {1,  2,  4,   8,   16,  24,  32,  40,  48,  56,   64,
                                   80, 96, 112, 128, 160, 192, 224, 256, 512, 1024, 2048};
  size_t at = 0;
  for (int64_t rows = 1; rows <= 2048; rows++) {
    if (rows > series[at]) {
      at++;
    }
    assert_int_equal(series[at], row_bucket(rows));
  }
  assert_int_equal(1, row_bucket(0));
  assert_int_equal((int64_t)1 << 22, row_bucket(((int64_t)1 << 21) + 1));
}

static void batch_buckets_are_powers_of_two_from_eight(void **state) {
  (void)state;
  assert_int_equal(8, batch_bucket(0));
  assert_int_equal(8, batch_bucket(1));
  assert_int_equal(8, batch_bucket(8));
  assert_int_equal(16, batch_bucket(9));
  assert_int_equal(32, batch_bucket(32));
  assert_int_equal(64, batch_bucket(33));
}

static void a_given_list_is_used_and_has_an_end(void **state) {
  (void)state;
  static const int64_t sizes[] = {3, 50};
  const struct stg_buckets buckets = {sizes, 2};
  int64_t bucket = 77;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_row_bucket(&buckets, 0, &bucket, &error));
  assert_int_equal(3, bucket);
  assert_int_equal(STG_OK, stg_row_bucket(&buckets, 3, &bucket, &error));
  assert_int_equal(3, bucket);
  assert_int_equal(STG_OK, stg_batch_bucket(&buckets, 4, &bucket, &error));
  assert_int_equal(50, bucket);
  assert_int_equal(STG_E_CAPACITY, stg_row_bucket(&buckets, 51, &bucket, &error));
  assert_string_equal("rows: 51 is more than the largest bucket 50", error.message);
  assert_int_equal(STG_E_CAPACITY, stg_batch_bucket(&buckets, 51, &bucket, &error));
  assert_string_equal("requests: 51 is more than the largest bucket 50", error.message);
  assert_int_equal(50, bucket);
}

/* Ops alive as long as the arena, and a signature over some of them. */
struct fixture {
  struct stg_arena arena;
  const struct stg_op *ops[3];
  struct stg_steer_signature signature;
};

static void open_fixture(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  *f = (struct fixture){0};
  f->ops[0] = builtin_op(&f->arena, "add", &error);
  f->ops[1] = builtin_op(&f->arena, "projection_cap", &error);
  assert_non_null(f->ops[0]);
  assert_non_null(f->ops[1]);
  f->signature = (struct stg_steer_signature){
      .ops = f->ops,
      .n_ops = 2,
      .hidden_size = 4096,
      .dtype = STG_BF16,
      .bank_dtype = STG_F32,
      .prefill = true,
      .arch = "sm_90",
  };
}

static const struct stg_op *user_op(struct fixture *f, const char *name, const char *vector,
                                    const char *statement) {
  const struct stg_op *op = NULL;
  stg_error error = STG_ERROR_INIT;
  const struct test_op text = {.name = name, .vectors = {vector}, .body = {statement}};
  assert_int_equal(STG_OK, compile_op(&f->arena, &text, &op, &error));
  return op;
}

/* The text, in a buffer of the caller's. */
static void print(const struct stg_steer_signature *signature, char *ret_text, size_t capacity) {
  struct stg_strbuf text = {0};
  stg_steer_signature_print(signature, &text);
  assert_true(text.len < capacity);
  memcpy(ret_text, stg_strbuf_text(&text), text.len + 1);
  stg_strbuf_finish(&text);
}

static void text_has_its_fields_in_a_fixed_order(void **state) {
  (void)state;
  struct fixture f;
  char text[512];
  open_fixture(&f);
  print(&f.signature, text, sizeof text);
  assert_string_equal("steer v1 | ops=add,projection_cap chain<=16 | hidden=4096 dtype=bf16 "
                      "bank=f32 state=hidden | tile=prefill epilogue=none windows=0 counters=0 "
                      "probes=0 | sm_90",
                      text);
  f.signature.pair = true;
  f.signature.prefill = false;
  f.signature.arch = NULL;
  print(&f.signature, text, sizeof text);
  assert_string_equal("steer v1 | ops=add,projection_cap chain<=16 | hidden=4096 dtype=bf16 "
                      "bank=f32 state=hidden+residual | tile=decode epilogue=none windows=0 "
                      "counters=0 probes=0",
                      text);
  f.signature.windows = true;
  print(&f.signature, text, sizeof text);
  assert_non_null(strstr(text, " epilogue=none windows=1 counters=0 probes=0"));
  f.signature.windows = false;
  f.signature.probes = true;
  print(&f.signature, text, sizeof text);
  assert_non_null(strstr(text, " epilogue=none windows=0 counters=0 probes=1"));
  f.signature.probes = false;
  f.signature.counters = true;
  print(&f.signature, text, sizeof text);
  assert_non_null(strstr(text, " epilogue=none windows=0 counters=1 probes=0"));
  f.signature.counters = false;
  f.signature.epilogue = STG_EPILOGUE_ADD_RMSNORM;
  print(&f.signature, text, sizeof text);
  assert_string_equal("steer v1 | ops=add,projection_cap chain<=16 | hidden=4096 dtype=bf16 "
                      "bank=f32 state=hidden+residual | tile=decode epilogue=add_rmsnorm windows=0 "
                      "counters=0 probes=0",
                      text);
  stg_arena_finish(&f.arena);
}

static void every_factor_moves_the_text(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  struct stg_steer_signature variants[9];
  for (size_t i = 0; i < 9; i++) {
    variants[i] = f.signature;
  }
  variants[1].n_ops = 1;
  variants[2].hidden_size = 4097;
  variants[3].dtype = STG_F16;
  variants[4].bank_dtype = STG_BF16;
  variants[5].pair = true;
  variants[6].prefill = false;
  variants[7].arch = "sm_90a";
  variants[8].epilogue = STG_EPILOGUE_ADD_RMSNORM;
  char texts[9][512];
  for (size_t i = 0; i < 9; i++) {
    print(&variants[i], texts[i], sizeof texts[i]);
    for (size_t j = 0; j < i; j++) {
      assert_string_not_equal(texts[i], texts[j]);
    }
  }
  stg_arena_finish(&f.arena);
}

static void user_ops_stand_by_their_bodies_not_their_names(void **state) {
  (void)state;
  struct fixture f;
  char first[512], renamed[512], other[512];
  open_fixture(&f);
  f.signature.n_ops = 3;
  f.ops[2] = user_op(&f, "mine", "v", "h += 2 * v");
  print(&f.signature, first, sizeof first);
  f.ops[2] = user_op(&f, "yours", "w", "h  +=  2*w");
  print(&f.signature, renamed, sizeof renamed);
  f.ops[2] = user_op(&f, "mine", "v", "h += 3 * v");
  print(&f.signature, other, sizeof other);
  assert_non_null(strstr(first, "ops=add,projection_cap,user:"));
  assert_null(strstr(first, "mine"));
  assert_string_equal(first, renamed);
  assert_string_not_equal(first, other);
  stg_arena_finish(&f.arena);
}

static void a_set_has_one_order(void **state) {
  (void)state;
  struct fixture f;
  char text[512], shuffled[512];
  open_fixture(&f);
  const struct stg_op *user = user_op(&f, "aaa", "v", "h += 2 * v");
  const struct stg_op *one[] = {f.ops[0], f.ops[1], user}, *two[] = {user, f.ops[1], f.ops[0]};
  f.signature.n_ops = 3;
  qsort(one, 3, sizeof *one, stg_op_compare);
  qsort(two, 3, sizeof *two, stg_op_compare);
  f.signature.ops = one;
  print(&f.signature, text, sizeof text);
  f.signature.ops = two;
  print(&f.signature, shuffled, sizeof shuffled);
  assert_string_equal(text, shuffled);
  stg_arena_finish(&f.arena);
}

static void the_graph_key_moves_with_the_kernel_and_every_bucket(void **state) {
  (void)state;
  const struct stg_key kernels[] = {{1, 2}, {1, 3}};
  const struct stg_graph_shape shapes[] = {{8, 1, 32}, {16, 1, 32}, {8, 2, 32}, {8, 1, 40}};
  struct stg_key keys[5];
  for (size_t i = 0; i < 4; i++) {
    keys[i] = stg_graph_key(&kernels[0], 1, &shapes[i]);
  }
  keys[4] = stg_graph_key(&kernels[1], 1, &shapes[0]);
  for (size_t i = 0; i < 5; i++) {
    for (size_t j = 0; j < i; j++) {
      assert_false(stg_key_equal(keys[i], keys[j]));
    }
  }
  assert_true(stg_key_equal(keys[0], stg_graph_key(&kernels[0], 1, &shapes[0])));
  struct stg_strbuf text = {0};
  stg_graph_shape_print(&shapes[1], &text);
  assert_string_equal(" | batch<=16 seq<=1 rows<=32", stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(row_buckets_grow_as_documented),
      cmocka_unit_test(batch_buckets_are_powers_of_two_from_eight),
      cmocka_unit_test(a_given_list_is_used_and_has_an_end),
      cmocka_unit_test(text_has_its_fields_in_a_fixed_order),
      cmocka_unit_test(every_factor_moves_the_text),
      cmocka_unit_test(user_ops_stand_by_their_bodies_not_their_names),
      cmocka_unit_test(a_set_has_one_order),
      cmocka_unit_test(the_graph_key_moves_with_the_kernel_and_every_bucket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
