/*
 * test_attn_refusals.c: what the attention side refuses, with which status and in which words; on
 * the CPU backend. What only a device can refuse is in test_attn_graphs.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/attn_objects.h"

static const int32_t all_of_them[] = {2, 0, 1};

#define KV(change, message)                                                                        \
  REFUSED(obj_kv_desc(), change, STG_E_INVALID, message,                                           \
          stg_kv_create(all.engine, &desc, &kv, &error))

static void caches(void **state) {
  struct objects all;
  stg_kv *kv = NULL;
  stg_kv_desc desc;
  float tensor[4];
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  KV(desc.struct_size = 8, "desc is NULL, or struct_size is not 80");
  KV(desc.batch = 0,
     "layers: 2, batch: 0; both are up to 2^31 - 1, and there is a sequence at least");
  KV(desc.kv_heads = 2000, "kv_heads: 2000 is not in 1..1024");
  KV(desc.dim = 7, "dim: 7 is not even and in 2..256");
  KV(desc.capacity = 0, "capacity: 0 is not in 1..2147483646");
  KV(desc.dtype = STG_DTYPE_NONE, "dtype: 0 is none of bf16 (1), f16 (2), f32 (3)");
  KV(desc.n_blocks = 4, "n_blocks: 4 and a block table at (nil) need a block of so many positions");
  KV((desc.block = 24, desc.n_blocks = 4), "block: 24 is no power of two from 8 to 1024");
  KV(desc.block = 16, "n_blocks: 0 is not in 1..2^31 - 1");
  KV(desc.capacity = 2147483647, "capacity: 2147483647 is not in 1..2147483646");
  KV((desc.capacity = 2147483646, desc.batch = 2147483647, desc.layers = 2147483647),
     "a cache of 2147483647 layers, 2147483647 sequences and 2147483646 positions is larger than "
     "any memory");
  stg_error error = STG_ERROR_INIT;
  desc = obj_kv_desc();
  desc.k = tensor;
  assert_int_equal(STG_E_INVALID, stg_kv_create(all.engine, &desc, &kv, &error));
  assert_non_null(strstr(error.message, "v: (nil); both are given, or neither"));
  desc.v = (char *)tensor + 1;
  assert_int_equal(STG_E_INVALID, stg_kv_create(all.engine, &desc, &kv, &error));
  assert_non_null(strstr(error.message, "one lies between its elements"));
  must_say(STG_E_INVALID, "stg_kv_create: engine or ret_kv is NULL",
           stg_kv_create(NULL, &desc, &kv, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_bytes: engine or ret_bytes is NULL",
           stg_kv_bytes(all.engine, &desc, NULL, &error), &error);
  assert_null(kv);
  obj_close(&all);
}

static void lengths_and_blocks(void **state) {
  static const uint32_t seqs[] = {0, 3, 0, 1}, twice[] = {1, 1};
  static const int32_t lens[] = {3, 4, 17, -1}, blocks[] = {0, 9};
  stg_kv_desc desc = obj_kv_desc();
  stg_kv *paged = NULL;
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  must_say(STG_E_INVALID, "stg_kv_set_len: kv, seqs or lens is NULL",
           stg_kv_set_len(all.kv, seqs, NULL, 1, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_set_len: 4 lengths of 3 sequences",
           stg_kv_set_len(all.kv, seqs, lens, 4, NULL, &error), &error);
  must_say(STG_E_INVALID, "seqs[1]: 3 is no sequence below 3",
           stg_kv_set_len(all.kv, seqs, lens, 2, NULL, &error), &error);
  must_say(STG_E_INVALID, "lens[0]: 17 is not in 0..16",
           stg_kv_set_len(all.kv, seqs, lens + 2, 1, NULL, &error), &error);
  must_say(STG_E_INVALID, "lens[0]: -1 is not in 0..16",
           stg_kv_set_len(all.kv, seqs, lens + 3, 1, NULL, &error), &error);
  must_say(STG_E_INVALID, "seqs[1]: 1 comes twice",
           stg_kv_set_len(all.kv, twice, lens, 2, NULL, &error), &error);
  must_say(STG_E_NOT_DECLARED, "stg_kv_set_blocks: the cache is dense; declare block and n_blocks",
           stg_kv_set_blocks(all.kv, 0, 0, blocks, 1, NULL, &error), &error);
  desc.block = 8;
  desc.n_blocks = 9;
  must(stg_kv_create(all.engine, &desc, &paged, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_set_blocks: kv or blocks is NULL",
           stg_kv_set_blocks(paged, 0, 0, NULL, 1, NULL, &error), &error);
  must_say(STG_E_INVALID, "seq: 3 is no sequence below 3",
           stg_kv_set_blocks(paged, 3, 0, blocks, 1, NULL, &error), &error);
  must_say(STG_E_INVALID, "first: 1 with 2 blocks; a sequence has 2 of 8 positions",
           stg_kv_set_blocks(paged, 0, 1, blocks, 2, NULL, &error), &error);
  must_say(STG_E_INVALID, "blocks[1]: 9 is no block below 9, nor -1",
           stg_kv_set_blocks(paged, 0, 0, blocks, 2, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_status: kv is NULL, or struct_size is not 56",
           stg_kv_status(NULL, NULL, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_advance: the rows are of another cache",
           stg_kv_advance(paged, all.rows, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_advance: the rows have had no step",
           stg_kv_advance(all.kv, all.rows, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_kv_advance: kv or rows is NULL",
           stg_kv_advance(all.kv, NULL, NULL, &error), &error);
  must(stg_kv_destroy(paged, &error), &error);
  obj_close(&all);
}

#define ROWS(change, message)                                                                      \
  REFUSED(obj_rows_desc(all.kv), change, STG_E_INVALID, message,                                   \
          stg_rows_create(all.engine, &desc, &rows, &error))

static void rows_of_steps(void **state) {
  struct objects all, other;
  stg_rows *rows = NULL;
  stg_rows_desc desc;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_open(&other, STG_BACKEND_CPU);
  ROWS(desc.struct_size = 1, "stg_rows_create: desc is NULL, or struct_size is not 24");
  ROWS(desc.max_rows = 1U << 25, "max_rows: 33554432 is more than 16777216");
  ROWS(desc.batch = 2,
       "batch: 2 with a cache; it is the cache's, or without one from 1 to 2^31 - 1");
  ROWS(desc.kv = NULL,
       "batch: 0 without a cache; it is the cache's, or without one from 1 to 2^31 - 1");
  ROWS(desc.kv = other.kv, "kv: the cache is of another engine");
  stg_error lone = STG_ERROR_INIT;
  desc = obj_rows_desc(all.kv);
  must_say(STG_E_INVALID, "stg_rows_create: engine or ret_rows is NULL",
           stg_rows_create(all.engine, &desc, NULL, &lone), &lone);
  obj_close(&other);
  obj_close(&all);
}

#define STEP(change, status, message)                                                              \
  REFUSED(good, change, status, message, stg_rows_step_set(all.rows, &desc, NULL, &error))

static void steps(void **state) {
  static const int32_t outside[] = {0, 3}, twice[] = {1, -1, 1}, pos[] = {0, -1, 2};
  static const int64_t far[] = {0, 0, 2147483647};
  const stg_rows_step good = {.struct_size = sizeof good, .rows = 3, .seq = all_of_them};
  const stg_rows_desc apart = {.struct_size = sizeof apart, .batch = 3};
  stg_rows_step desc;
  stg_rows *rows = NULL;
  stg_error lone = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  STEP(desc.struct_size = 0, STG_E_INVALID,
       "stg_rows_step_set: rows is NULL, or struct_size is not 48");
  STEP(desc.seq = NULL, STG_E_INVALID, "stg_rows_step_set: 3 rows with seq at (nil)");
  STEP(desc.rows = 13, STG_E_CAPACITY, "stg_rows_step_set: 13 rows, max_rows is declared as 12");
  STEP((desc.seq = outside, desc.rows = 2), STG_E_BAD_SLOT, "seq[1]: 3 is no sequence below 3");
  STEP(desc.seq = twice, STG_E_INVALID,
       "seq[2]: 1 comes twice; rows of one sequence need positions");
  STEP(desc.pos = pos, STG_E_INVALID, "pos[1]: -1 is not in 0..2147483646");
  STEP((desc.pos = far, desc.pos_is_64 = true), STG_E_INVALID,
       "pos[2]: 2147483647 is not in 0..2147483646");
  STEP(desc.on_device = true, STG_E_INVALID,
       "stg_rows_step_set: on_device with the cpu backend; give host arrays");
  desc = good;
  desc.pos = (const char *)pos + 2;
  assert_int_equal(STG_E_INVALID, stg_rows_step_set(all.rows, &desc, NULL, &lone));
  assert_non_null(strstr(lone.message, "lies between its elements"));
  must(stg_rows_create(all.engine, &apart, &rows, &lone), &lone);
  must_say(STG_E_INVALID, "stg_rows_step_set: without a cache rows have no lengths; give pos",
           stg_rows_step_set(rows, &good, NULL, &lone), &lone);
  must(stg_rows_destroy(rows, &lone), &lone);
  obj_close(&all);
}

#define ROPE(change, message)                                                                      \
  REFUSED(obj_rope_desc(all.kv), change, STG_E_INVALID, message,                                   \
          stg_rope_create(all.engine, &desc, &rope, &error))

static void ropes(void **state) {
  static const float table[4];
  struct objects all, other;
  stg_rope *rope = NULL;
  stg_rope_desc desc;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_open(&other, STG_BACKEND_CPU);
  ROPE(desc.struct_size = 3, "stg_rope_create: desc is NULL, or struct_size is not 144");
  ROPE(desc.layout = 4, "layout: 4 is not in 0..3");
  ROPE(desc.pairs = 2, "pairs: 2 is not in 0..1");
  ROPE(desc.round = 2, "round: 2 is not in 0..1");
  ROPE(desc.trig = 4, "trig: 4 is not in 0..3");
  ROPE(desc.scaling = 3, "scaling: 3 is not in 0..2");
  ROPE(desc.xpos = 3, "xpos: 3 is not in 0..2");
  ROPE(desc.order = 2, "order: 2 is not in 0..1");
  ROPE(desc.base = -1, "base: -1 is not finite and above 0");
  ROPE(desc.xpos_base = INFINITY, "xpos_base: inf is not finite and above 0");
  ROPE(desc.scaling = STG_SCALING_LINEAR, "factor: 0 is not finite and above 0");
  ROPE((desc.scaling = STG_SCALING_LLAMA3, desc.factor = 8, desc.low_freq = 4, desc.high_freq = 1,
        desc.original = 8192),
       "low_freq: 4, high_freq: 1, original: 8192; frequencies are above 0, the low one below the "
       "high one, and there is a position at least");
  ROPE(desc.base = 1e-30, "base: 1e-30, factor: 1: frequency 1 is 3.16228e+07, and none may be "
                          "above 1; give a larger base or factor");
  ROPE((desc.scaling = STG_SCALING_LINEAR, desc.factor = 1e-300),
       "base: 10000, factor: 1e-300: frequency 0 is inf, and none may be above 1; give a larger "
       "base or factor");
  ROPE(desc.table_positions = 2, "table_positions: 2 with a table at (nil)");
  ROPE((desc.table = table, desc.table_positions = 15),
       "table_positions: 15 are fewer than the 16 of the cache");
  ROPE(desc.kv = other.kv, "kv: the cache is of another engine");
  ROPE(desc.dim = 16, "kv_heads 2, dim 16, dtype f32; the cache has 2, 8, f32");
  ROPE(desc.heads = 3, "kv_heads: 2 does not divide the 3 heads");
  ROPE(desc.rot = 5, "rot: 5 is not even and in 2..8, the dim");
  ROPE(desc.layout = STG_QKV_INTERLEAVED,
       "layout: interleaved needs as many KV heads as heads, not 2 and 4");
  stg_error lone = STG_ERROR_INIT;
  desc = obj_rope_desc(all.kv);
  must_say(STG_E_INVALID, "stg_rope_create: engine or ret_rope is NULL",
           stg_rope_create(NULL, &desc, &rope, &lone), &lone);
  obj_close(&other);
  obj_close(&all);
}

#define TENSORS(change, message)                                                                   \
  REFUSED(obj_rope_tensors(&all, 0), change, STG_E_INVALID, message,                               \
          stg_rope_apply(all.rope, all.rows, &desc, NULL, &error))

static void tensors_of_a_rope(void **state) {
  struct objects all;
  stg_rope_tensors desc;
  stg_error lone = STG_ERROR_INIT;
  float k[1];
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  TENSORS((void)desc, "stg_rope_apply: the rows have had no step");
  obj_set_rows(&all, all_of_them, 3);
  TENSORS(desc.struct_size = 3, "stg_rope_apply: rope is NULL, or struct_size is not 104");
  TENSORS(desc.layer = 2, "layer: 2 is not below 2");
  TENSORS(desc.qkv = NULL, "qkv: (nil) is no address of f32 elements");
  TENSORS(desc.qkv_stride = 63, "qkv_stride: 63; what it steps over has 64");
  TENSORS(desc.q = NULL, "q: (nil) is no address of f32 elements");
  TENSORS(desc.q_stride = 31, "q_stride: 31; what it steps over has 32");
  TENSORS(desc.q_stride = INT64_MAX,
          "q_stride: 9223372036854775807; 3 such steps leave all memory; "
          "give a smaller one");
  desc = obj_rope_tensors(&all, 0);
  desc.k = k;
  assert_int_equal(STG_E_INVALID, stg_rope_apply(all.rope, all.rows, &desc, NULL, &lone));
  assert_non_null(strstr(lone.message, "v: (nil); K and V go to the cache of the rope"));
  desc = obj_rope_tensors(&all, 0);
  must_say(STG_E_INVALID, "stg_rope_apply: rows is NULL; with a cache they say where K and V go",
           stg_rope_apply(all.rope, NULL, &desc, NULL, &lone), &lone);
  must_say(STG_E_NOT_DECLARED, "stg_rope_backward: the rope does not declare backward",
           stg_rope_backward(all.rope, all.rows, &desc, NULL, &lone), &lone);
  const stg_heads_tensors heads = {.struct_size = sizeof heads, .heads = 1};
  must_say(STG_E_NOT_DECLARED, "stg_heads_transpose: the rope does not declare transpose",
           stg_heads_transpose(all.rope, &heads, NULL, &lone), &lone);
  obj_close(&all);
}

static void ropes_without_a_cache(void **state) {
  stg_rope_desc desc = {.struct_size = sizeof desc,
                        .heads = OBJ_HEADS,
                        .kv_heads = OBJ_KV_HEADS,
                        .dim = OBJ_DIM,
                        .dtype = STG_F32,
                        .transpose = true};
  const stg_heads_tensors heads = {.struct_size = sizeof heads, .heads = 0, .rows = 2};
  stg_rope *rope = NULL;
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  must(stg_rope_create(all.engine, &desc, &rope, &error), &error);
  stg_rope_tensors tensors = obj_rope_tensors(&all, 0);
  tensors.rows = 2;
  must_say(STG_E_INVALID, "stg_rope_apply: 2 rows with positions of 4 bytes at (nil)",
           stg_rope_apply(rope, NULL, &tensors, NULL, &error), &error);
  tensors.pos = all_of_them;
  must_say(STG_E_INVALID, "k: (nil) is no address of f32 elements",
           stg_rope_apply(rope, NULL, &tensors, NULL, &error), &error);
  tensors.k = all.out;
  tensors.v_stride = 3;
  must(stg_rope_apply(rope, NULL, &tensors, NULL, &error), &error); /* V stays where it is */
  tensors.v = all.out;
  must_say(STG_E_INVALID, "v_stride: 3; what it steps over has 16",
           stg_rope_apply(rope, NULL, &tensors, NULL, &error), &error);
  tensors.v = (char *)all.out + 1;
  assert_int_equal(STG_E_INVALID, stg_rope_apply(rope, NULL, &tensors, NULL, &error));
  assert_non_null(strstr(error.message, " is no address of f32 elements"));
  assert_memory_equal("v: ", error.message, 3);
  tensors.layer = 1;
  must_say(STG_E_INVALID, "layer: 1 is not below 1",
           stg_rope_apply(rope, NULL, &tensors, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_heads_transpose: 0 heads of 2 rows in order 0",
           stg_heads_transpose(rope, &heads, NULL, &error), &error);
  must_say(STG_E_INVALID, "stg_heads_transpose: rope is NULL, or struct_size is not 56",
           stg_heads_transpose(NULL, &heads, NULL, &error), &error);
  must(stg_rope_destroy(rope, &error), &error);
  obj_close(&all);
}

/* With heads first a slice is all rows of a head, and of no rows there is none. */
static void a_step_of_no_rows_needs_no_tensors(void **state) {
  struct objects all;
  stg_rope *rope = NULL;
  stg_attend *attend = NULL;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_set_rows(&all, all_of_them, 0);
  for (int order = STG_ORDER_ROWS_FIRST; order <= STG_ORDER_HEADS_FIRST; order++) {
    stg_rope_desc of_rope = obj_rope_desc(all.kv);
    stg_attend_desc of_attend = obj_attend_desc(all.kv);
    of_rope.order = of_attend.order = (stg_order)order;
    of_rope.transpose = true;
    must(stg_rope_create(all.engine, &of_rope, &rope, &error), &error);
    must(stg_attend_create(all.engine, &of_attend, &attend, &error), &error);
    const stg_rope_tensors turned = {.struct_size = sizeof turned};
    const stg_attend_tensors read = {.struct_size = sizeof read};
    const stg_heads_tensors heads = {
        .struct_size = sizeof heads, .heads = OBJ_HEADS, .from_order = (stg_order)order};
    must(stg_rope_apply(rope, all.rows, &turned, NULL, &error), &error);
    must(stg_attend_apply(attend, all.rows, &read, NULL, &error), &error);
    must(stg_heads_transpose(rope, &heads, NULL, &error), &error);
    must(stg_attend_destroy(attend, &error), &error);
    must(stg_rope_destroy(rope, &error), &error);
  }
  obj_close(&all);
}

#define ATTEND(change, message)                                                                    \
  REFUSED(obj_attend_desc(all.kv), change, STG_E_INVALID, message,                                 \
          stg_attend_create(all.engine, &desc, &attend, &error))

static void attends(void **state) {
  struct objects all, other;
  stg_attend *attend = NULL;
  stg_attend_desc desc;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_open(&other, STG_BACKEND_CPU);
  ATTEND(desc.struct_size = 3,
         "stg_attend_create: engine, desc or ret_attend is NULL, or struct_size is not 72");
  ATTEND(desc.batch = 3, "batch 3, kv_heads 0, dim 0, tokens 0, dtype 0: with a cache they are its "
                         "own; leave them 0");
  ATTEND(desc.kv = other.kv, "kv: the cache is of another engine");
  ATTEND(desc.kv = NULL, "batch: 0, tokens: 0; both are from 1 to 2^31 - 1");
  ATTEND(desc.scale = NAN, "scale: nan is not finite");
  ATTEND(desc.window = -1, "window: -1 is below 0");
  ATTEND(desc.order = 2, "order: 2 is not in 0..1");
  ATTEND(desc.heads = 3, "heads: 3 are not a multiple of 2 KV heads");
  obj_close(&other);
  obj_close(&all);
}

#define KEYS(change, message)                                                                      \
  REFUSED(obj_attend_tensors(&all, 0), change, STG_E_INVALID, message,                             \
          stg_attend_apply(all.attend, all.rows, &desc, NULL, &error))

static void tensors_of_an_attend(void **state) {
  struct objects all;
  stg_attend_tensors desc;
  stg_error lone = STG_ERROR_INIT;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  obj_set_rows(&all, all_of_them, 3);
  KEYS(desc.struct_size = 3, "stg_attend_apply: attend is NULL, or struct_size is not 112");
  KEYS(desc.layer = 2, "layer: 2 is not below 2");
  KEYS(desc.q = NULL, "q: (nil) is no address of f32 elements");
  KEYS(desc.out = NULL, "out: (nil) is no address of f32 elements");
  KEYS(desc.out_stride = 8, "out_stride: 8; what it steps over has 32");
  desc = obj_attend_tensors(&all, 0);
  must_say(STG_E_INVALID, "stg_attend_apply: rows is NULL",
           stg_attend_apply(all.attend, NULL, &desc, NULL, &lone), &lone);
  desc.k = all.q;
  assert_int_equal(STG_E_INVALID, stg_attend_apply(all.attend, all.rows, &desc, NULL, &lone));
  assert_non_null(strstr(lone.message, "the attend reads those of its cache"));
  desc = obj_attend_tensors(&all, 0);
  desc.key_mask = (const uint8_t *)all.q;
  assert_int_equal(STG_E_INVALID, stg_attend_apply(all.attend, all.rows, &desc, NULL, &lone));
  assert_non_null(strstr(lone.message, "the attend declares none"));
  obj_close(&all);
}

/* Strides whose last place has no address: by each of the three, and only by their sum. */
static void refuse_far_keys(stg_attend *attend, stg_rows *rows, stg_attend_tensors tensors) {
  const int64_t far = INT64_MAX / 4;
  const int64_t strides[][3] = {{far, 8, 8}, {8, far, 8}, {8, 8, far}, {far / 3, far / 3, far / 9}};
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
    tensors.seq_stride = strides[i][0];
    tensors.head_stride = strides[i][1];
    tensors.pos_stride = strides[i][2];
    assert_int_equal(STG_E_INVALID, stg_attend_apply(attend, rows, &tensors, NULL, &error));
    assert_non_null(strstr(error.message, "; 2 sequences, 2 heads and 4 positions leave all "
                                          "memory; give smaller ones"));
  }
}

/* Of tensors, with a mask. */
static void attends_without_a_cache(void **state) {
  const stg_attend_desc desc = {.struct_size = sizeof desc,
                                .heads = OBJ_HEADS,
                                .key_mask = true,
                                .batch = 2,
                                .kv_heads = OBJ_KV_HEADS,
                                .dim = OBJ_DIM,
                                .tokens = 4,
                                .dtype = STG_F32};
  const stg_rows_desc wanted = {.struct_size = sizeof wanted, .batch = 2, .max_rows = 4};
  const stg_rows_step step = {
      .struct_size = sizeof step, .rows = 2, .seq = all_of_them + 1, .pos = all_of_them + 1};
  stg_attend *attend = NULL;
  stg_rows *rows = NULL;
  stg_error error = STG_ERROR_INIT;
  struct objects all;
  (void)state;
  obj_open(&all, STG_BACKEND_CPU);
  must(stg_attend_create(all.engine, &desc, &attend, &error), &error);
  must(stg_rows_create(all.engine, &wanted, &rows, &error), &error);
  must(stg_rows_step_set(rows, &step, NULL, &error), &error);
  stg_attend_tensors tensors = obj_attend_tensors(&all, 0);
  must_say(STG_E_INVALID, "stg_attend_apply: the rows are of 3 sequences, the tensors of 2",
           stg_attend_apply(attend, all.rows, &tensors, NULL, &error), &error);
  must_say(STG_E_INVALID, "k: (nil), v: (nil), len: (nil); one is no address of its elements",
           stg_attend_apply(attend, rows, &tensors, NULL, &error), &error);
  tensors.k = tensors.v = all.qkv;
  must_say(STG_E_INVALID, "key_mask: (nil); the attend declares one",
           stg_attend_apply(attend, rows, &tensors, NULL, &error), &error);
  tensors.key_mask = (const uint8_t *)all.qkv;
  tensors.mask_stride = 3;
  must_say(STG_E_INVALID, "mask_stride: 3; a sequence has 4 positions",
           stg_attend_apply(attend, rows, &tensors, NULL, &error), &error);
  tensors.mask_stride = INT64_MAX;
  must_say(STG_E_INVALID,
           "mask_stride: 9223372036854775807; 2 sequences leave all memory; give a smaller one",
           stg_attend_apply(attend, rows, &tensors, NULL, &error), &error);
  tensors.mask_stride = 0;
  refuse_far_keys(attend, rows, tensors);
  tensors.pos_stride = -8;
  must_say(STG_E_INVALID, "seq_stride: 0, head_stride: 0, pos_stride: -8; one is below 0",
           stg_attend_apply(attend, rows, &tensors, NULL, &error), &error);
  must(stg_rows_destroy(rows, &error), &error);
  must(stg_attend_destroy(attend, &error), &error);
  obj_close(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(caches),
      cmocka_unit_test(lengths_and_blocks),
      cmocka_unit_test(rows_of_steps),
      cmocka_unit_test(steps),
      cmocka_unit_test(ropes),
      cmocka_unit_test(tensors_of_a_rope),
      cmocka_unit_test(ropes_without_a_cache),
      cmocka_unit_test(a_step_of_no_rows_needs_no_tensors),
      cmocka_unit_test(attends),
      cmocka_unit_test(tensors_of_an_attend),
      cmocka_unit_test(attends_without_a_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
