/*
 * fuzz_tensors.c: the libFuzzer target of what reads vector files, built once for each format.
 *
 * STG_FUZZ_FORMAT is the format whose suffix the input gets, and whose bound of memory holds; what
 * an input is, its content says as ever. It is parsed, then all of it is found, read, measured,
 * compared and mapped to layers. Finds crashes, leaks, hangs, messages that break the rule of one
 * line, tensors outside the input, wrong facts, and files that cost more than their size allows.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "specs/control_plan.h"
#include "specs/tensor_layers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

#define FREE_BYTES 65536   /* that any file may cost */
#define HINT_BYTES 4       /* in front of a raw file: offset, count, width, and one more */
#define PIECE_ELEMS 100    /* no divisor of what tensor_elems.c takes at a time */
#define LAYERS 48          /* of the model that a control vector is tried on */
#define NEAR 1e-9          /* between a norm and the naive one */
#define NAIVE_LEAST 1e-140 /* where squares neither vanish nor overflow */
#define NAIVE_MOST 1e140

/* What a byte of the input may cost of our heap; the tree of cJSON is not in it. */
static const struct {
  const char *path;
  size_t bytes_per_byte;
} formats[] = {
    [STG_FILE_SAFETENSORS] = {"v.safetensors", 16},
    [STG_FILE_GGUF] = {"v.gguf", 8},
    [STG_FILE_NPY] = {"v.npy", 0},
    [STG_FILE_RAW] = {"v.f32", 0},
    [STG_FILE_DIRECTIONS] = {"v.json", 48},
};

static void check(bool holds) {
  if (!holds) {
    abort();
  }
}

static void check_error(stg_status status, const stg_error *err) {
  check(status == STG_OK ||
        (err->code == status && err->message[0] != '\0' && strpbrk(err->message, "\r\n") == NULL));
}

static bool is_near(double a, double b) {
  return fabs(a - b) <= NEAR * fmax(fabs(a), fabs(b));
}

/* An element, by another way than the one that is tested. */
static double naive(const struct stg_tensor_info *tensor, size_t index) {
  const unsigned char *at =
      (const unsigned char *)tensor->data + index * stg_elem_bytes(tensor->elem);
  if (tensor->elem == STG_ELEM_F64) {
    double value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  if (tensor->elem == STG_ELEM_F32) {
    float value;
    memcpy(&value, at, sizeof value);
    return (double)value;
  }
  const unsigned bits = at[0] | (unsigned)at[1] << 8;
  const unsigned exponent_bits = tensor->elem == STG_ELEM_F16 ? 5 : 8;
  const unsigned fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const double fraction =
      (double)(bits & ((1u << fraction_bits) - 1)) / (double)(1u << fraction_bits);
  double value = exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
  if (exponent == (1 << exponent_bits) - 1) {
    value = fraction == 0 ? (double)INFINITY : (double)NAN;
  }
  return (bits & 0x8000u) != 0 ? -value : value;
}

static void check_row(const struct stg_tensor_info *tensor, size_t row) {
  const struct stg_row_facts facts = stg_tensor_row_facts(tensor, row);
  const size_t width = stg_tensor_width(tensor);
  double sum = 0, max_abs = 0;
  uint64_t non_finite = 0;
  bool zero = true;
  for (size_t i = row * width; i < (row + 1) * width; i++) {
    const double magnitude = fabs(naive(tensor, i));
    sum += magnitude * magnitude;
    max_abs = magnitude > max_abs ? magnitude : max_abs;
    non_finite += !isfinite(magnitude);
    zero = zero && magnitude == 0;
  }
  check(facts.max_abs == max_abs && facts.non_finite == non_finite && facts.zero == zero);
  check(isnan(facts.norm) == (non_finite > 0));
  if (non_finite == 0 && max_abs > NAIVE_LEAST && max_abs < NAIVE_MOST) {
    check(is_near(facts.norm, sqrt(sum)));
  }
}

static void check_elements(const struct stg_tensor_info *tensor) {
  float values[PIECE_ELEMS];
  for (size_t first = 0; first < tensor->n_elems; first += PIECE_ELEMS) {
    const size_t left = tensor->n_elems - first;
    const size_t n = left < PIECE_ELEMS ? left : PIECE_ELEMS;
    stg_tensor_read(tensor, first, n, STG_F32, values);
    for (size_t i = 0; i < n; i++) {
      const float expected = (float)naive(tensor, first + i);
      check(values[i] == expected || (isnan(values[i]) && isnan(expected)));
    }
  }
}

/* The cosine with itself is 1 where there is one, and has no order. */
static void check_cosine(const struct stg_tensor_info *a, const struct stg_tensor_info *b,
                         size_t row) {
  double self = 0, forth = 0, back = 0;
  if (stg_tensor_cosine(b, row, b, row, &self)) {
    check(is_near(self, 1));
  }
  const bool has_forth = stg_tensor_cosine(a, 0, b, row, &forth);
  check(stg_tensor_cosine(b, row, a, 0, &back) == has_forth);
  check(!has_forth || (fabs(forth) <= 1 && fabs(forth - back) <= NEAR));
}

/* Its elements lie in the input; only JSON has numbers that must be made. */
static void check_place(const struct stg_tensor_file *file, const struct stg_tensor_info *tensor) {
  if (file->format == STG_FILE_DIRECTIONS) {
    return;
  }
  const unsigned char *begin = tensor->data;
  check(tensor->n_elems == 0 || (begin >= file->bytes && begin <= file->bytes + file->size));
  if (tensor->elem != STG_ELEM_NONE && tensor->n_elems > 0) {
    const size_t left = (size_t)(file->bytes + file->size - begin);
    check(tensor->n_elems <= left / stg_elem_bytes(tensor->elem));
  }
}

static void check_tensor(const struct stg_tensor_file *file, size_t index,
                         const struct stg_tensor_info *other) {
  const struct stg_tensor_info *tensor = &file->tensors[index];
  const struct stg_tensor_info *found = NULL;
  stg_error err = STG_ERROR_INIT;
  check_place(file, tensor);
  stg_status status = stg_tensor_find(file, tensor->name, &found, &err);
  check_error(status, &err);
  check(status == (tensor->elem != STG_ELEM_NONE ? STG_OK : STG_E_UNSUPPORTED));
  if (status != STG_OK) {
    return;
  }
  check(found == tensor);
  const size_t rows = stg_tensor_rows(tensor);
  check(rows * stg_tensor_width(tensor) == tensor->n_elems);
  check_elements(tensor);
  for (size_t row = 0; row < rows; row++) {
    check_row(tensor, row);
    check_cosine(other != NULL ? other : tensor, tensor, row);
  }
}

/* Each layer that was found has a tensor of that name. */
static void check_layers(const struct stg_tensor_file *file, struct stg_arena *arena) {
  struct stg_layer_map map;
  size_t n = 0;
  check(stg_layers_find(file, arena, &map, NULL) == STG_OK);
  for (int32_t i = 0; map.present > 0 && i <= map.last; i++) {
    if (map.tensor_of[i] < 0) {
      continue;
    }
    n++;
    check(map.pattern == NULL ||
          stg_layer_of(map.pattern, file->tensors[map.tensor_of[i]].name) == i);
  }
  check(n == map.present);
}

/* What acts at a block can be read and is of the width that was asked for. */
static void check_plan(const struct stg_tensor_file *file, const struct stg_control_use *use,
                       struct stg_arena *arena) {
  struct stg_control_plan plan;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_control_plan(file, use, arena, &plan, &err);
  check_error(status, &err);
  for (size_t i = 0; status == STG_OK && i < plan.n_notes; i++) {
    check(strpbrk(plan.notes[i], "\r\n") == NULL);
  }
  for (int32_t block = 0; status == STG_OK && block < use->layers; block++) {
    const struct stg_control_direction *at = &plan.at[block];
    check(at->tensor == NULL ||
          (at->tensor->elem != STG_ELEM_NONE && at->row < stg_tensor_rows(at->tensor) &&
           stg_tensor_width(at->tensor) == (size_t)use->hidden_size && block >= plan.first_block &&
           block <= plan.last_block));
  }
}

/* As GGUF has control vectors, by the pattern of the names, and by the rows of the first tensor. */
static void check_control(const struct stg_tensor_file *file, struct stg_arena *arena) {
  const int64_t width = (int64_t)stg_tensor_width(&file->tensors[0]);
  struct stg_layer_map map;
  struct stg_control_use use = {.name = "v",
                                .hidden_size = width,
                                .layers = LAYERS,
                                .model = width % 4 < 2 ? "Llama-2" : NULL,
                                .op_named = width % 2 == 0,
                                .scale_named = width % 3 == 0,
                                .first_block = -1,
                                .last_block = width % 5 == 0 ? LAYERS - 1 : -1};
  check_plan(file, &use, arena);
  check(stg_layers_find(file, arena, &map, NULL) == STG_OK);
  use.layer_shift = (int32_t)(file->n_tensors % 3) - 1;
  use.pattern = map.pattern;
  if (map.pattern != NULL) {
    check_plan(file, &use, arena);
  }
  use.pattern = NULL;
  use.rows = &file->tensors[0];
  check_plan(file, &use, arena);
}

static void check_file(const struct stg_tensor_file *file) {
  const struct stg_tensor_info *other = NULL;
  struct stg_arena arena = {0};
  for (size_t i = 0; i < file->n_metadata; i++) {
    check(strlen(file->metadata[2 * i]) + strlen(file->metadata[2 * i + 1]) < 4 * file->size);
  }
  for (size_t i = 0; i < file->n_tensors; i++) {
    check_tensor(file, i, other);
    if (other == NULL && file->tensors[i].elem != STG_ELEM_NONE &&
        stg_tensor_rows(&file->tensors[i]) > 0) {
      other = &file->tensors[i];
    }
  }
  check_layers(file, &arena);
  if (file->n_tensors > 0) {
    check_control(file, &arena);
  }
  stg_arena_finish(&arena);
}

/* What a raw file needs to be told stands in front of it; false where that is cut. */
static bool take_hint(const uint8_t **data, size_t *size, struct stg_tensor_hint *ret_hint) {
  if (*size < HINT_BYTES) {
    return false;
  }
  ret_hint->offset_elems = (*data)[0];
  ret_hint->count_elems = (*data)[1];
  ret_hint->width_elems = (*data)[2] + ((*data)[1] == 0); /* one of the two */
  *data += HINT_BYTES;
  *size -= HINT_BYTES;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  const enum stg_vector_format fuzzed = STG_FUZZ_FORMAT;
  struct stg_tensor_hint hint = {0};
  struct stg_tensor_file file = {0};
  stg_error err = STG_ERROR_INIT;
  if (fuzzed == STG_FILE_RAW && !take_hint(&data, &size, &hint)) {
    return 0;
  }
  stg_alloc_asked_bytes(true);
  stg_status status = stg_tensor_file_parse(formats[fuzzed].path, data, size, &hint, &file, &err);
  const size_t asked = stg_alloc_asked_bytes(true);
  check_error(status, &err);
  if (status != STG_OK || file.format == fuzzed) {
    check(asked <= FREE_BYTES + formats[fuzzed].bytes_per_byte * size);
  }
  if (status == STG_OK) {
    check_file(&file);
    stg_tensor_file_close(&file);
  }
  return 0;
}
