/*
 * program_builder.c: growing a scalar program, one shared instruction at a time.
 *
 * Knows what instructions compute, so far as exact folding needs it, and nothing of ops.
 */
#include "codegen/program_builder.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define MIN_CAPACITY 64

/* Grow `*array` to hold `needed` elements; false when the heap is exhausted. */
static bool reserve(void **array, uint32_t *capacity, size_t needed, size_t element_bytes) {
  if (needed <= *capacity) {
    return true;
  }
  size_t grown = stg_next_pow2(needed < MIN_CAPACITY ? MIN_CAPACITY : needed);
  size_t bytes = 0;
  if (grown > UINT32_MAX / 2 || !stg_mul_size(grown, element_bytes, &bytes)) {
    return false;
  }
  void *moved = stg_realloc(*array, bytes);
  if (moved == NULL) {
    return false;
  }
  *array = moved;
  *capacity = (uint32_t)grown;
  return true;
}

static uint32_t mix(uint32_t hash, uint32_t word) {
  hash ^= word;
  hash *= 0x9e3779b1u;
  return hash ^ (hash >> 15);
}

static uint32_t hash_instr(const struct stg_instr *instr, const uint32_t *args) {
  uint32_t hash = mix(0, (uint32_t)instr->kind);
  hash = mix(hash, (uint32_t)instr->i << 16 | instr->j);
  hash = mix(hash, stg_f32_bits(instr->imm));
  for (uint32_t i = 0; i < instr->n_args; i++) {
    hash = mix(hash, args[i]);
  }
  return hash;
}

/* Constants are equal by their bits: 0 and -0 are two constants. */
static bool equal_instr(const struct stg_program_builder *b, uint32_t at,
                        const struct stg_instr *instr, const uint32_t *args) {
  const struct stg_instr *other = &b->instrs[at];
  return other->kind == instr->kind && other->i == instr->i && other->j == instr->j &&
         stg_f32_bits(other->imm) == stg_f32_bits(instr->imm) && other->n_args == instr->n_args &&
         (instr->n_args == 0 ||
          memcmp(b->args + other->first_arg, args, instr->n_args * sizeof *args) == 0);
}

/* The bucket that holds `instr`, or the empty one where it belongs. */
static uint32_t *find_bucket(const struct stg_program_builder *b, const struct stg_instr *instr,
                             const uint32_t *args) {
  uint32_t mask = b->bucket_capacity - 1;
  uint32_t at = hash_instr(instr, args) & mask;
  while (b->buckets[at] != 0 && !equal_instr(b, b->buckets[at] - 1, instr, args)) {
    at = (at + 1) & mask;
  }
  return &b->buckets[at];
}

/* Keep the table at most half full. */
static bool reserve_buckets(struct stg_program_builder *b) {
  if (2 * ((size_t)b->n_instrs + 1) <= b->bucket_capacity) {
    return true;
  }
  size_t grown =
      b->bucket_capacity == 0 ? 2 * (size_t)MIN_CAPACITY : 2 * (size_t)b->bucket_capacity;
  uint32_t *buckets = grown <= UINT32_MAX / 2 ? stg_calloc(grown, sizeof *buckets) : NULL;
  if (buckets == NULL) {
    return false;
  }
  stg_free(b->buckets);
  b->buckets = buckets;
  b->bucket_capacity = (uint32_t)grown;
  for (uint32_t i = 0; i < b->n_instrs; i++) {
    *find_bucket(b, &b->instrs[i], b->args + b->instrs[i].first_arg) = i + 1;
  }
  return true;
}

/* The value of `instr`, appended unless an equal one is there. */
static uint32_t append(struct stg_program_builder *b, struct stg_instr instr,
                       const uint32_t *args) {
  if (b->failed) {
    return STG_NO_VALUE;
  }
  void *instrs = b->instrs;
  void *all_args = b->args;
  bool grown = reserve(&instrs, &b->instr_capacity, (size_t)b->n_instrs + 1, sizeof *b->instrs);
  b->instrs = instrs;
  grown = grown && reserve(&all_args, &b->arg_capacity, (size_t)b->n_args + instr.n_args + 1,
                           sizeof *b->args);
  b->args = all_args;
  if (!grown || !reserve_buckets(b)) {
    b->failed = true;
    return STG_NO_VALUE;
  }
  uint32_t *bucket = find_bucket(b, &instr, args);
  if (*bucket != 0) {
    return *bucket - 1;
  }
  instr.first_arg = b->n_args;
  for (uint32_t i = 0; i < instr.n_args; i++) {
    b->args[b->n_args++] = args[i];
  }
  b->instrs[b->n_instrs] = instr;
  *bucket = ++b->n_instrs;
  return b->n_instrs - 1;
}

/* True when value `x` is the constant of exactly these bits. */
static bool is_const(const struct stg_program_builder *b, uint32_t x, float value) {
  return b->instrs[x].kind == STG_INSTR_CONST &&
         stg_f32_bits(b->instrs[x].imm) == stg_f32_bits(value);
}

uint32_t stg_build_const(struct stg_program_builder *b, float value) {
  return append(b, (struct stg_instr){.kind = STG_INSTR_CONST, .imm = value}, NULL);
}

uint32_t stg_build_param(struct stg_program_builder *b, uint32_t op, uint32_t index) {
  return append(
      b, (struct stg_instr){.kind = STG_INSTR_PARAM, .i = (uint16_t)op, .j = (uint16_t)index},
      NULL);
}

uint32_t stg_build_dot(struct stg_program_builder *b, uint32_t vector) {
  return append(b, (struct stg_instr){.kind = STG_INSTR_DOT, .i = (uint16_t)vector}, NULL);
}

uint32_t stg_build_gram(struct stg_program_builder *b, uint32_t i, uint32_t j) {
  uint16_t low = (uint16_t)(i < j ? i : j);
  uint16_t high = (uint16_t)(i < j ? j : i);
  return append(b, (struct stg_instr){.kind = STG_INSTR_GRAM, .i = low, .j = high}, NULL);
}

uint32_t stg_build_norm2(struct stg_program_builder *b, const uint32_t *args) {
  return append(b, (struct stg_instr){.kind = STG_INSTR_NORM2, .n_args = 1 + b->n_vectors}, args);
}

uint32_t stg_build_op1(struct stg_program_builder *b, enum stg_instr_kind kind, uint32_t x) {
  assert(stg_instr_arity(kind) == 1);
  if (b->failed) {
    return STG_NO_VALUE;
  }
  if (kind == STG_INSTR_NEG && b->instrs[x].kind == STG_INSTR_CONST) {
    return stg_build_const(b, -b->instrs[x].imm);
  }
  if (kind == STG_INSTR_NEG && b->instrs[x].kind == STG_INSTR_NEG) {
    return b->args[b->instrs[x].first_arg];
  }
  return append(b, (struct stg_instr){.kind = kind, .n_args = 1}, &x);
}

uint32_t stg_build_op2(struct stg_program_builder *b, enum stg_instr_kind kind, uint32_t x,
                       uint32_t y) {
  assert(stg_instr_arity(kind) == 2);
  if (b->failed) {
    return STG_NO_VALUE;
  }
  bool is_mul = kind == STG_INSTR_MUL;
  bool is_add = kind == STG_INSTR_ADD;
  if (((is_mul || kind == STG_INSTR_DIV) && is_const(b, y, 1.0f)) ||
      (is_add && is_const(b, y, -0.0f)) || (kind == STG_INSTR_SUB && is_const(b, y, 0.0f))) {
    return x;
  }
  if ((is_mul && is_const(b, x, 1.0f)) || (is_add && is_const(b, x, -0.0f))) {
    return y;
  }
  return append(b, (struct stg_instr){.kind = kind, .n_args = 2}, (const uint32_t[]){x, y});
}

/* The truth of a comparison of two constants; false when `cond` is anything else. */
static bool fold_comparison(const struct stg_program_builder *b, uint32_t cond, bool *ret_truth) {
  const struct stg_instr *instr = &b->instrs[cond];
  if (instr->kind < STG_INSTR_LT || instr->kind > STG_INSTR_NE) {
    return false;
  }
  const struct stg_instr *left = &b->instrs[b->args[instr->first_arg]];
  const struct stg_instr *right = &b->instrs[b->args[instr->first_arg + 1]];
  if (left->kind != STG_INSTR_CONST || right->kind != STG_INSTR_CONST) {
    return false;
  }
  float x = left->imm;
  float y = right->imm;
  const bool truths[] = {x<y, x <= y, x> y, x >= y, x == y, x != y};
  *ret_truth = truths[instr->kind - STG_INSTR_LT];
  return true;
}

uint32_t stg_build_op3(struct stg_program_builder *b, enum stg_instr_kind kind, uint32_t x,
                       uint32_t y, uint32_t z) {
  assert(stg_instr_arity(kind) == 3);
  if (b->failed) {
    return STG_NO_VALUE;
  }
  bool truth = false;
  if (kind == STG_INSTR_SELECT && (y == z || fold_comparison(b, x, &truth))) {
    return truth ? y : z;
  }
  if (kind == STG_INSTR_FMA && (is_const(b, x, 1.0f) || is_const(b, y, 1.0f))) {
    return stg_build_op2(b, STG_INSTR_ADD, is_const(b, x, 1.0f) ? y : x, z);
  }
  return append(b, (struct stg_instr){.kind = kind, .n_args = 3}, (const uint32_t[]){x, y, z});
}

void stg_build_output(struct stg_program_builder *b, uint32_t column, uint32_t value) {
  if (b->failed) {
    return;
  }
  assert(b->n_outputs < STG_CHAIN_MAX_OPS);
  b->outputs[b->n_outputs++] = (struct stg_program_output){column, value};
}

/* Number the instructions that the outputs need, in order; the others get STG_NO_VALUE. */
static uint32_t number_live(const struct stg_program_builder *b, uint32_t scale,
                            const uint32_t *coef, uint32_t *ret_number) {
  for (uint32_t i = 0; i < b->n_instrs; i++) {
    ret_number[i] = STG_NO_VALUE;
  }
  if (scale != STG_NO_VALUE) {
    ret_number[scale] = 0;
  }
  for (uint32_t i = 0; i < b->n_vectors; i++) {
    if (coef[i] != STG_NO_VALUE) {
      ret_number[coef[i]] = 0;
    }
  }
  for (uint32_t i = 0; i < b->n_outputs; i++) {
    ret_number[b->outputs[i].column] = 0;
    ret_number[b->outputs[i].value] = 0;
  }
  for (uint32_t i = b->n_instrs; i-- > 0;) {
    const struct stg_instr *instr = &b->instrs[i];
    for (uint32_t k = 0; ret_number[i] == 0 && k < instr->n_args; k++) {
      uint32_t arg = b->args[instr->first_arg + k];
      if (arg != STG_NO_VALUE) {
        ret_number[arg] = 0;
      }
    }
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->n_instrs; i++) {
    ret_number[i] = ret_number[i] == 0 ? n++ : STG_NO_VALUE;
  }
  return n;
}

static uint32_t renumber(const uint32_t *number, uint32_t value) {
  return value == STG_NO_VALUE ? STG_NO_VALUE : number[value];
}

/* Copy the live instructions into the arrays of `program`, which are large enough. */
static void copy_live(const struct stg_program_builder *b, const uint32_t *number,
                      struct stg_instr *instrs, uint32_t *args, struct stg_program *program) {
  for (uint32_t i = 0; i < b->n_instrs; i++) {
    if (number[i] == STG_NO_VALUE) {
      continue;
    }
    struct stg_instr instr = b->instrs[i];
    uint32_t first = program->n_args;
    for (uint32_t k = 0; k < instr.n_args; k++) {
      args[program->n_args++] = renumber(number, b->args[instr.first_arg + k]);
    }
    instr.first_arg = first;
    instrs[program->n_instrs++] = instr;
  }
  program->instrs = instrs;
  program->args = args;
}

stg_status stg_build_finish(struct stg_program_builder *b, struct stg_arena *arena, uint32_t scale,
                            const uint32_t *coef, struct stg_program *ret_program,
                            stg_error *reterr) {
  struct stg_program program = {.n_vectors = b->n_vectors, .n_ops = b->n_ops};
  size_t number_bytes = ((size_t)b->n_instrs + 1) * sizeof(uint32_t);
  if (b->failed) {
    return stg_error_memory(reterr, "a scalar program", number_bytes);
  }
  uint32_t *number = stg_malloc(number_bytes);
  if (number == NULL) {
    return stg_error_memory(reterr, "a scalar program", number_bytes);
  }
  uint32_t n_live = number_live(b, scale, coef, number);
  struct stg_instr *instrs = stg_arena_alloc(arena, (size_t)n_live + 1, sizeof *instrs);
  uint32_t *args = stg_arena_alloc(arena, (size_t)b->n_args + 1, sizeof *args);
  stg_status status = stg_arena_status(arena, reterr);
  if (status == STG_OK) {
    copy_live(b, number, instrs, args, &program);
    program.scale = renumber(number, scale);
    for (uint32_t i = 0; i < b->n_vectors; i++) {
      program.coef[i] = renumber(number, coef[i]);
    }
    program.n_outputs = b->n_outputs;
    for (uint32_t i = 0; i < b->n_outputs; i++) {
      program.outputs[i] =
          (struct stg_program_output){number[b->outputs[i].column], number[b->outputs[i].value]};
    }
    status = stg_program_check(&program, reterr);
  }
  stg_free(number);
  if (status == STG_OK) {
    *ret_program = program;
  }
  return status;
}

void stg_build_abandon(struct stg_program_builder *b) {
  stg_free(b->instrs);
  stg_free(b->args);
  stg_free(b->buckets);
  *b = (struct stg_program_builder){.n_vectors = b->n_vectors, .n_ops = b->n_ops};
}
