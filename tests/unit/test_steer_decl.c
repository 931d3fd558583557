/*
 * test_steer_decl.c: declarations: defaults, refusals by field and value, shapes, sizes, and which
 * factors the kernel's key follows from.
 */
#include "engine/steer_decl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/ops.h"

static int open_ops(void **state) {
  struct stg_op_table *ops = NULL;
  if (stg_op_table_create(&ops, NULL) != STG_OK) {
    return -1;
  }
  *state = ops;
  return 0;
}

static int close_ops(void **state) {
  stg_op_table_destroy(*state);
  return 0;
}

static stg_steer_desc plain_desc(void) {
  return (stg_steer_desc){
      .struct_size = sizeof(stg_steer_desc), .hidden_size = 4096, .dtype = STG_BF16};
}

static void init(struct stg_op_table *ops, const stg_steer_desc *desc,
                 struct stg_steer_decl *ret_decl) {
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_steer_decl_init(desc, ops, ret_decl, &error);
  assert_string_equal("", error.message);
  assert_int_equal(STG_OK, status);
}

static void zero_means_default(void **state) {
  struct stg_steer_decl decl;
  const stg_steer_desc desc = plain_desc();
  init(*state, &desc, &decl);
  assert_int_equal(4096, decl.hidden_size);
  assert_int_equal(1, decl.layers);
  assert_int_equal(STG_BF16, decl.bank_dtype);
  assert_false(decl.pair);
  assert_int_equal(2048, decl.max_rows);
  assert_int_equal(64, decl.max_slots);
  assert_int_equal(256, decl.max_vectors);
  assert_int_equal(4, decl.max_chain);
  assert_int_equal(8, decl.n_ops);
  assert_true(decl.tier0);
  assert_int_equal(0, decl.row_buckets.count);
  stg_steer_decl_finish(&decl);
}

static void many_slots_and_layers_default_to_the_most_vectors(void **state) {
  struct stg_steer_decl decl;
  stg_steer_desc desc = plain_desc();
  desc.layers = 1000;
  desc.max_slots = 60;
  init(*state, &desc, &decl);
  assert_int_equal(65536, decl.max_vectors);
  stg_steer_decl_finish(&decl);
}

static void named_ops_are_sorted_and_once(void **state) {
  static const char *const names[] = {"swap", "add", "swap", "ablation"};
  struct stg_steer_decl decl;
  stg_steer_desc desc = plain_desc();
  desc.ops = names;
  desc.n_ops = 4;
  init(*state, &desc, &decl);
  assert_int_equal(3, decl.n_ops);
  assert_string_equal("ablation", decl.ops[0]->name);
  assert_string_equal("add", decl.ops[1]->name);
  assert_string_equal("swap", decl.ops[2]->name);
  assert_false(decl.tier0);
  stg_steer_decl_finish(&decl);
}

static void lists_are_copied(void **state) {
  struct stg_steer_decl decl;
  stg_steer_desc desc = plain_desc();
  int64_t rows[] = {16, 64}, batches[] = {2};
  desc.row_buckets = rows;
  desc.n_row_buckets = 2;
  desc.batch_buckets = batches;
  desc.n_batch_buckets = 1;
  init(*state, &desc, &decl);
  rows[1] = 1;
  batches[0] = 1;
  assert_int_equal(64, decl.row_buckets.sizes[1]);
  assert_int_equal(2, decl.batch_buckets.sizes[0]);
  stg_steer_decl_finish(&decl);
}

static void expect_refused(struct stg_op_table *ops, const stg_steer_desc *desc, stg_status wanted,
                           const char *part) {
  struct stg_steer_decl decl = {.layers = 77};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(wanted, stg_steer_decl_init(desc, ops, &decl, &error));
  if (strstr(error.message, part) == NULL) {
    fail_msg("no '%s' in '%s'", part, error.message);
  }
  assert_int_equal(77, decl.layers);
}

static void every_number_is_checked_by_name(void **state) {
  stg_steer_desc desc = plain_desc();
  desc.struct_size--;
  expect_refused(*state, &desc, STG_E_INVALID, "struct_size is ");
  expect_refused(*state, NULL, STG_E_INVALID, "struct_size is 0");
  desc = plain_desc();
  desc.hidden_size = 0;
  expect_refused(*state, &desc, STG_E_INVALID, "hidden_size: 0 is not in 1..1048576");
  desc.hidden_size = -4096;
  expect_refused(*state, &desc, STG_E_INVALID, "hidden_size: -4096 is not in");
  desc.hidden_size = INT64_MAX;
  expect_refused(*state, &desc, STG_E_INVALID, "hidden_size: 9223372036854775807 is not in");
  desc = plain_desc();
  desc.layers = 1025;
  expect_refused(*state, &desc, STG_E_INVALID, "layers: 1025 is more than 1024");
  desc = plain_desc();
  desc.max_rows = UINT32_MAX;
  expect_refused(*state, &desc, STG_E_INVALID, "max_rows: 4294967295 is more than 4194304");
  desc = plain_desc();
  desc.max_slots = 65537;
  expect_refused(*state, &desc, STG_E_INVALID, "max_slots: 65537 is more than 65536");
  desc = plain_desc();
  desc.max_vectors = 65537;
  expect_refused(*state, &desc, STG_E_INVALID, "max_vectors: 65537 is more than 65536");
  desc = plain_desc();
  desc.max_chain = 3;
  expect_refused(*state, &desc, STG_E_INVALID, "max_chain: 3 is none of 1, 2, 4, 8, 16");
  desc.max_chain = 32;
  expect_refused(*state, &desc, STG_E_INVALID, "max_chain: 32 is more than 16");
}

static void every_type_is_checked_by_name(void **state) {
  stg_steer_desc desc = plain_desc();
  desc.dtype = STG_DTYPE_NONE;
  expect_refused(*state, &desc, STG_E_INVALID, "dtype: 0 is none of bf16 (1), f16 (2), f32 (3)");
  desc.dtype = (stg_dtype)9;
  expect_refused(*state, &desc, STG_E_INVALID, "dtype: 9 is none of");
  desc = plain_desc();
  desc.bank_dtype = STG_F16;
  expect_refused(*state, &desc, STG_E_INVALID, "bank_dtype: 2 is neither dtype (bf16) nor f32");
  desc = plain_desc();
  desc.state = (stg_state)2;
  expect_refused(*state, &desc, STG_E_INVALID,
                 "state: 2 is neither hidden (0) nor hidden+residual (1)");
}

static void every_list_is_checked_by_name(void **state) {
  static const char *const unknown[] = {"add", "twirl"}, *const null[] = {NULL};
  static const int64_t equal[] = {8, 8}, zero[] = {0}, huge[] = {INT64_MAX};
  stg_steer_desc desc = plain_desc();
  desc.ops = unknown;
  expect_refused(*state, &desc, STG_E_INVALID, "ops: an empty list");
  desc.n_ops = 2;
  expect_refused(*state, &desc, STG_E_NOT_FOUND, "ops[1]: unknown op 'twirl'");
  desc.ops = null;
  desc.n_ops = 1;
  expect_refused(*state, &desc, STG_E_INVALID, "ops[0]: is NULL");
  desc = plain_desc();
  desc.row_buckets = equal;
  desc.n_row_buckets = 2;
  expect_refused(*state, &desc, STG_E_INVALID, "row_buckets[1]: 8; buckets ascend");
  desc.row_buckets = NULL;
  expect_refused(*state, &desc, STG_E_INVALID, "row_buckets: NULL with a count of 2");
  desc = plain_desc();
  desc.batch_buckets = zero;
  desc.n_batch_buckets = 1;
  expect_refused(*state, &desc, STG_E_INVALID, "batch_buckets[0]: 0; buckets ascend");
  desc.batch_buckets = huge;
  expect_refused(*state, &desc, STG_E_INVALID, "batch_buckets[0]: 9223372036854775807;");
}

static void records_beyond_what_offsets_reach_are_refused(void **state) {
  struct stg_steer_decl decl;
  struct stg_steer_limits limits;
  stg_error error = STG_ERROR_INIT;
  stg_steer_desc desc = plain_desc();
  desc.layers = 1024;
  desc.max_slots = 65536;
  desc.max_chain = 16;
  init(*state, &desc, &decl);
  assert_int_equal(STG_E_INVALID, stg_steer_limits(&decl, &limits, &error));
  assert_non_null(strstr(error.message, "65536 slots of 1024 layers with chains of 16 ops"));
  stg_steer_decl_finish(&decl);
}

/* User ops count too: an op with more vectors makes longer chains. */
static void bytes_are_said_without_a_device(void **state) {
  (void)state;
  static const char wide[] = "{\"op\": \"wide\", \"vectors\": [\"a\", \"b\", \"c\", \"d\"], "
                             "\"body\": [\"h += a + b + c + d\"]}";
  static const char *const names[] = {"wide"};
  stg_engine *engine = NULL;
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  assert_int_equal(STG_OK, stg_engine_create(&options, &engine, NULL));
  assert_int_equal(STG_OK, stg_op_register(engine, "wide.json", wide, sizeof wide - 1, NULL));
  size_t small = 0, large = 77;
  stg_error error = STG_ERROR_INIT;
  stg_steer_desc desc = plain_desc();
  desc.max_slots = 8;
  desc.max_vectors = 16;
  assert_int_equal(STG_OK, stg_steer_bytes(engine, &desc, &small, &error));
  assert_true(small >= (size_t)16 * 4096 * 2);
  desc.max_vectors = 17;
  assert_int_equal(STG_OK, stg_steer_bytes(engine, &desc, &large, &error));
  assert_int_equal(small + (size_t)4096 * 2, large);
  desc.max_vectors = 16;
  desc.layers = 2;
  assert_int_equal(STG_OK, stg_steer_bytes(engine, &desc, &large, &error));
  assert_true(large > small);
  desc.layers = 1;
  desc.ops = names;
  desc.n_ops = 1;
  assert_int_equal(STG_OK, stg_steer_bytes(engine, &desc, &large, &error));
  assert_true(large > small);
  desc.hidden_size = 0;
  large = 77;
  assert_int_equal(STG_E_INVALID, stg_steer_bytes(engine, &desc, &large, &error));
  assert_int_equal(77, large);
  assert_int_equal(STG_E_INVALID, stg_steer_bytes(engine, &desc, NULL, &error));
  assert_int_equal(STG_E_INVALID, stg_steer_bytes(NULL, &desc, &large, &error));
  assert_int_equal(STG_OK, stg_engine_destroy(engine, NULL));
}

static void the_longest_request_picks_the_tile(void **state) {
  struct stg_steer_decl decl;
  struct stg_graph_shape shape;
  enum stg_tile tile;
  stg_error error = STG_ERROR_INIT;
  const stg_steer_desc desc = plain_desc();
  init(*state, &desc, &decl);
  assert_int_equal(STG_OK, stg_steer_shape(&decl, 31, 31, 1, &shape, &tile, &error));
  assert_int_equal(STG_TILE_DECODE, tile);
  assert_int_equal(32, shape.rows);
  assert_int_equal(32, shape.batch);
  assert_int_equal(1, shape.seq);
  assert_int_equal(STG_OK, stg_steer_shape(&decl, 543, 32, 512, &shape, &tile, &error));
  assert_int_equal(STG_TILE_PREFILL, tile);
  assert_int_equal(1024, shape.rows);
  assert_int_equal(512, shape.seq);
  assert_int_equal(STG_OK, stg_steer_shape(&decl, 0, 0, 0, &shape, &tile, &error));
  assert_int_equal(STG_TILE_DECODE, tile);
  assert_int_equal(1, shape.rows);
  stg_steer_decl_finish(&decl);
  /* a list that starts above 1 still lets decode be decode */
  static const int64_t rows[] = {64};
  stg_steer_desc listed = plain_desc();
  listed.row_buckets = rows;
  listed.n_row_buckets = 1;
  init(*state, &listed, &decl);
  assert_int_equal(STG_OK, stg_steer_shape(&decl, 8, 8, 1, &shape, &tile, &error));
  assert_int_equal(STG_TILE_DECODE, tile);
  assert_int_equal(64, shape.rows);
  assert_int_equal(STG_E_CAPACITY, stg_steer_shape(&decl, 65, 1, 65, &shape, &tile, &error));
  assert_string_equal("rows: 65 is more than the largest bucket 64", error.message);
  stg_steer_decl_finish(&decl);
}

static void a_capture_takes_its_tile_from_the_row_bucket(void **state) {
  (void)state;
  assert_int_equal(STG_TILE_DECODE, stg_steer_capture_tile(1));
  assert_int_equal(STG_TILE_DECODE, stg_steer_capture_tile(256));
  assert_int_equal(STG_TILE_PREFILL, stg_steer_capture_tile(512));
}

static struct stg_key key_of(struct stg_op_table *ops, const stg_steer_desc *desc,
                             enum stg_tile tile, const char *arch, const char *options) {
  struct stg_steer_decl decl;
  struct stg_kernel_text kernel;
  stg_error error = STG_ERROR_INIT;
  init(ops, desc, &decl);
  assert_int_equal(STG_OK, stg_steer_kernel_init(&decl, tile, arch, options, &kernel, &error));
  const struct stg_key key = kernel.key;
  stg_kernel_text_finish(&kernel);
  stg_steer_decl_finish(&decl);
  return key;
}

static void every_factor_moves_the_kernel_key(void **state) {
  static const char *const two[] = {"add", "swap"};
  stg_steer_desc descs[6];
  struct stg_key keys[10];
  for (size_t i = 0; i < 6; i++) {
    descs[i] = plain_desc();
  }
  descs[1].hidden_size = 4097;
  descs[2].dtype = STG_F16;
  descs[3].bank_dtype = STG_F32;
  descs[4].state = STG_STATE_HIDDEN_PLUS_RESIDUAL;
  descs[5].ops = two;
  descs[5].n_ops = 2;
  for (size_t i = 0; i < 6; i++) {
    keys[i] = key_of(*state, &descs[i], STG_TILE_PREFILL, "sm_90", NULL);
  }
  keys[6] = key_of(*state, &descs[0], STG_TILE_DECODE, "sm_90", NULL);
  keys[7] = key_of(*state, &descs[0], STG_TILE_PREFILL, "sm_90a", NULL);
  keys[8] = key_of(*state, &descs[0], STG_TILE_PREFILL, "sm_90", "env:-lineinfo");
  keys[9] = key_of(*state, &descs[0], STG_TILE_PREFILL, "cpu", NULL);
  for (size_t i = 0; i < 10; i++) {
    for (size_t j = 0; j < i; j++) {
      assert_false(stg_key_equal(keys[i], keys[j]));
    }
  }
}

static void what_only_sizes_tables_does_not_move_the_kernel_key(void **state) {
  static const char *const shuffled[] = {
      "swap",           "scale_norm",       "gated_add", "add_keep_norm",
      "projection_cap", "add_norm_matched", "ablation",  "add"};
  static const int64_t rows[] = {7, 70};
  const stg_steer_desc plain = plain_desc();
  stg_steer_desc other = plain_desc();
  other.layers = 40;
  other.max_rows = 8192;
  other.max_slots = 3;
  other.max_vectors = 5;
  other.max_chain = 16;
  other.ops = shuffled;
  other.n_ops = 8;
  other.row_buckets = other.batch_buckets = rows;
  other.n_row_buckets = other.n_batch_buckets = 2;
  for (int tile = 0; tile < STG_TILE_COUNT; tile++) {
    const struct stg_key key = key_of(*state, &plain, (enum stg_tile)tile, "sm_80", NULL);
    assert_true(stg_key_equal(key, key_of(*state, &other, (enum stg_tile)tile, "sm_80", NULL)));
  }
}

static stg_status register_op(struct stg_op_table *ops, const char *json) {
  return stg_op_table_add(ops, "test.json", json, strlen(json), NULL);
}

static void names_in_a_user_op_do_not_move_the_kernel_key(void **state) {
  static const char *const one[] = {"mine"}, *const two[] = {"yours"}, *const three[] = {"hers"};
  assert_int_equal(
      STG_OK, register_op(*state, "{\"op\": \"mine\", \"vectors\": [\"v\"], \"params\": {\"s\": "
                                  "{\"default\": 1}}, \"body\": [\"h += s * v\"]}"));
  assert_int_equal(
      STG_OK, register_op(*state, "{\"op\": \"yours\", \"vectors\": [\"w\"], \"params\": {\"t\": "
                                  "{\"default\": 2}}, \"body\": [\"h += t * w\"]}"));
  assert_int_equal(
      STG_OK, register_op(*state, "{\"op\": \"hers\", \"vectors\": [\"w\"], \"params\": {\"t\": "
                                  "{\"default\": 2}}, \"body\": [\"h += 2 * t * w\"]}"));
  stg_steer_desc desc = plain_desc();
  desc.n_ops = 1;
  desc.ops = one;
  const struct stg_key mine = key_of(*state, &desc, STG_TILE_DECODE, "sm_90", NULL);
  desc.ops = two;
  assert_true(stg_key_equal(mine, key_of(*state, &desc, STG_TILE_DECODE, "sm_90", NULL)));
  desc.ops = three;
  assert_false(stg_key_equal(mine, key_of(*state, &desc, STG_TILE_DECODE, "sm_90", NULL)));
  /* a table that says nothing has the built-ins, whatever was registered */
  struct stg_steer_decl decl;
  const stg_steer_desc plain = plain_desc();
  init(*state, &plain, &decl);
  assert_int_equal(8, decl.n_ops);
  assert_true(decl.tier0);
  stg_steer_decl_finish(&decl);
}

/* One body under two names is one case of the kernel, and both names work. */
static void two_names_may_share_one_body(void **state) {
  static const char *const names[] = {"mine", "yours"};
  const char *body = "\"vectors\": [\"v\"], \"params\": {\"s\": {\"default\": 1}}, "
                     "\"body\": [\"h += s * v\"]}";
  for (int i = 0; i < 2; i++) {
    char json[256];
    snprintf(json, sizeof json, "{\"op\": \"%s\", %s", names[i], body);
    assert_int_equal(STG_OK, register_op(*state, json));
  }
  stg_steer_desc desc = plain_desc();
  desc.ops = names;
  desc.n_ops = 2;
  struct stg_steer_decl decl;
  init(*state, &desc, &decl);
  assert_int_equal(1, decl.n_ops);
  assert_int_equal(2, decl.n_named);
  assert_string_not_equal(decl.named[0]->name, decl.named[1]->name);
  stg_steer_decl_finish(&decl);
}

/* Whatever is said differently, the caller of the second would get the first. */
static void a_used_name_takes_its_own_definition_only(void **state) {
  static const char head[] = "{\"op\": \"mine\", ";
  static const struct {
    const char *rest;
    stg_status wanted;
    const char *part;
  } cases[] = {
      {"\"vectors\": [\"v\"], \"params\": {\"s\": {\"default\": 1}}, \"require\": [\"s > 0\"], "
       "\"body\": [\"h += s * v\"]}",
       STG_OK, ""},
      {"\"vectors\": [\"v\"], \"params\": {\"s\": {\"default\": 1.0}}, \"require\": [\"(s) > 0\"], "
       "\"body\": [\"h += (s)*v\"], \"note\": \"the same\"}",
       STG_OK, ""},
      {"\"vectors\": [\"v\"], \"params\": {\"s\": {\"default\": 2}}, \"require\": [\"s > 0\"], "
       "\"body\": [\"h += s * v\"]}",
       STG_E_INVALID, "other vectors, parameters or requirements"},
      {"\"vectors\": [\"v\"], \"params\": {\"s\": {}}, \"require\": [\"s > 0\"], "
       "\"body\": [\"h += s * v\"]}",
       STG_E_INVALID, "other vectors, parameters or requirements"},
      {"\"vectors\": [\"v\"], \"params\": {\"t\": {\"default\": 1}}, \"require\": [\"t > 0\"], "
       "\"body\": [\"h += t * v\"]}",
       STG_E_INVALID, "other vectors, parameters or requirements"},
      {"\"vectors\": [\"w\"], \"params\": {\"s\": {\"default\": 1}}, \"require\": [\"s > 0\"], "
       "\"body\": [\"h += s * w\"]}",
       STG_E_INVALID, "other vectors, parameters or requirements"},
      {"\"vectors\": [\"v\"], \"params\": {\"s\": {\"default\": 1}}, \"require\": [\"s >= 0\"], "
       "\"body\": [\"h += s * v\"]}",
       STG_E_INVALID, "other vectors, parameters or requirements"},
      {"\"vectors\": [\"v\"], \"params\": {\"s\": {\"default\": 1}}, \"require\": [\"s > 0\"], "
       "\"body\": [\"h += 2 * s * v\"]}",
       STG_E_INVALID, "registered with another body"},
  };
  const size_t builtins = stg_op_table_count(*state);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char json[256];
    stg_error error = STG_ERROR_INIT;
    snprintf(json, sizeof json, "%s%s", head, cases[i].rest);
    assert_int_equal(cases[i].wanted,
                     stg_op_table_add(*state, "test.json", json, strlen(json), &error));
    assert_non_null(strstr(error.message, cases[i].part));
    assert_int_equal(builtins + 1, stg_op_table_count(*state));
  }
}

static void the_cpu_has_a_text_and_no_source(void **state) {
  struct stg_steer_decl decl;
  struct stg_kernel_text kernel;
  stg_error error = STG_ERROR_INIT;
  const stg_steer_desc desc = plain_desc();
  init(*state, &desc, &decl);
  assert_int_equal(STG_OK,
                   stg_steer_kernel_init(&decl, STG_TILE_DECODE, "cpu", NULL, &kernel, &error));
  const char *text = stg_strbuf_text(&kernel.signature);
  assert_string_equal(" | cpu", text + strlen(text) - 6);
  assert_null(kernel.request.source);
  assert_true(stg_key_equal(kernel.key, stg_key_of(text, strlen(text))));
  stg_kernel_text_finish(&kernel);
  stg_steer_decl_finish(&decl);
}

#define OPS_TEST(test) cmocka_unit_test_setup_teardown(test, open_ops, close_ops)

int main(void) {
  const struct CMUnitTest tests[] = {
      OPS_TEST(zero_means_default),
      OPS_TEST(many_slots_and_layers_default_to_the_most_vectors),
      OPS_TEST(named_ops_are_sorted_and_once),
      OPS_TEST(lists_are_copied),
      OPS_TEST(every_number_is_checked_by_name),
      OPS_TEST(every_type_is_checked_by_name),
      OPS_TEST(every_list_is_checked_by_name),
      OPS_TEST(records_beyond_what_offsets_reach_are_refused),
      OPS_TEST(bytes_are_said_without_a_device),
      OPS_TEST(the_longest_request_picks_the_tile),
      OPS_TEST(a_capture_takes_its_tile_from_the_row_bucket),
      OPS_TEST(every_factor_moves_the_kernel_key),
      OPS_TEST(what_only_sizes_tables_does_not_move_the_kernel_key),
      OPS_TEST(names_in_a_user_op_do_not_move_the_kernel_key),
      OPS_TEST(two_names_may_share_one_body),
      OPS_TEST(a_used_name_takes_its_own_definition_only),
      OPS_TEST(the_cpu_has_a_text_and_no_source),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
