/*
 * vectors/output.c: which tensors are written, under which names, and their elements.
 *
 * What is stored already as it is to be written is taken from the file's map. Where a file came
 * from is provenance.c's.
 */
#include "tools/vectors/output.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"
#include "runtime/base/utf8.h"
#include "tools/vectors/provenance.h"

#define MAX_NAME_BYTES 512

/* What is made of a file. */
struct work {
  const struct stg_vectors *vectors;
  const struct stg_vectors_output_options *options;
  const struct stg_tensor_info **chosen;
  size_t n_chosen;
  struct stg_vectors_output output;
  struct stg_vectors_provenance provenance;
};

static const char *path_of(const struct work *work) {
  return work->vectors->file.path;
}

static stg_status choose_all(struct work *work, stg_error *reterr) {
  const struct stg_tensor_file *file = &work->vectors->file;
  if (file->n_tensors == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "'%s' holds no tensors", file->path);
  }
  for (size_t i = 0; i < file->n_tensors; i++) {
    const struct stg_tensor_info *tensor = &file->tensors[i];
    if (tensor->elem == STG_ELEM_NONE) {
      return stg_error_set(reterr, STG_E_UNSUPPORTED,
                           "'%s': tensor '%.96s' has dtype %.16s, which is not read; name the "
                           "tensors that are wanted",
                           file->path, tensor->name, tensor->dtype_name);
    }
    work->chosen[i] = tensor;
  }
  return STG_OK;
}

static stg_status choose(struct work *work, stg_error *reterr) {
  const struct stg_vectors_output_options *options = work->options;
  const struct stg_tensor_file *file = &work->vectors->file;
  work->n_chosen = options->n_tensors > 0 ? options->n_tensors : file->n_tensors;
  work->chosen = stg_arena_alloc(&work->output.arena, work->n_chosen, sizeof(void *));
  stg_status status = stg_arena_status(&work->output.arena, reterr);
  if (status == STG_OK && options->n_tensors == 0) {
    return choose_all(work, reterr);
  }
  for (size_t i = 0; i < options->n_tensors && status == STG_OK; i++) {
    status = stg_tensor_find(file, options->tensors[i], &work->chosen[i], reterr);
  }
  return status;
}

static stg_dtype dtype_of(const struct work *work, const struct stg_tensor_info *tensor) {
  if (work->options->dtype != STG_DTYPE_NONE) {
    return work->options->dtype;
  }
  return tensor->elem == STG_ELEM_F64 ? STG_F32 : stg_elem_dtype(tensor->elem);
}

/* Before anything is converted. */
static stg_status check_size(const struct work *work, stg_error *reterr) {
  size_t total = 0;
  bool fits = true;
  for (size_t i = 0; i < work->n_chosen && fits; i++) {
    const struct stg_tensor_info *tensor = work->chosen[i];
    size_t bytes = 0;
    fits = stg_mul_size(tensor->n_elems, stg_dtype_bytes(dtype_of(work, tensor)), &bytes) &&
           stg_add_size(total, bytes, &total);
  }
  if (fits && total <= STG_VECTORS_OUTPUT_MAX_BYTES) {
    return STG_OK;
  }
  struct stg_strbuf size = {0};
  stg_strbuf_bytes(&size, fits ? total : SIZE_MAX);
  stg_error_set(reterr, STG_E_INVALID,
                "'%s': %s of tensors, at most 1 GiB is converted; name those that are wanted",
                path_of(work), stg_strbuf_text(&size));
  stg_strbuf_finish(&size);
  return STG_E_INVALID;
}

static const char *dtype_remedy(double value) {
  return fabs(value) < stg_dtype_max(STG_BF16)  ? "use --dtype f32 or bf16"
         : fabs(value) < stg_dtype_max(STG_F32) ? "use --dtype f32"
                                                : "scale the vector first";
}

/* Convert `count` elements from `first` on, or point at them where they lie. */
static stg_status take_elems(struct work *work, const struct stg_tensor_info *tensor, size_t first,
                             size_t count, struct stg_tensor_out *out, stg_error *reterr) {
  const bool as_stored = stg_elem_dtype(tensor->elem) == out->dtype;
  if (as_stored) {
    out->data = count == 0
                    ? NULL
                    : (const unsigned char *)tensor->data + first * stg_elem_bytes(tensor->elem);
  } else {
    void *data = stg_arena_alloc(&work->output.arena, count + 1, stg_dtype_bytes(out->dtype));
    if (data == NULL) {
      return stg_arena_status(&work->output.arena, reterr);
    }
    stg_tensor_read(tensor, first, count, out->dtype, data);
    out->data = data;
  }
  for (size_t i = 0; i < count; i++) {
    const double value = stg_tensor_value(tensor, first + i);
    work->output.non_finite += !isfinite(value);
    if (!as_stored && isfinite(value) && !isfinite(stg_load_f32(out->dtype, out->data, i))) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "'%s': tensor '%.96s': element %zu is %.6g, beyond %s; %s",
                           path_of(work), tensor->name, first + i, value,
                           stg_dtype_name(out->dtype), dtype_remedy(value));
    }
  }
  stg_vectors_provenance_note(&work->provenance, tensor->elem, out->dtype);
  return STG_OK;
}

/* The name of what is written for a layer. */
static const char *name_layer(struct work *work, int32_t layer, stg_error *reterr) {
  char name[MAX_NAME_BYTES];
  if (!stg_layer_name(work->options->name, layer, name, sizeof name)) {
    stg_error_set(reterr, STG_E_INVALID, "--name '%.96s': a name has at most %d bytes",
                  work->options->name, MAX_NAME_BYTES - 1);
    return NULL;
  }
  return stg_arena_strdup(&work->output.arena, name);
}

/* Neither the tensor's name nor its rows give a number for {}. */
static stg_status refuse_layer(const struct work *work, const struct stg_tensor_info *tensor,
                               stg_error *reterr) {
  const size_t rows = stg_tensor_rows(tensor);
  if (work->n_chosen == 1 && tensor->n_dims == 2 && rows > STG_LAYER_MAX + 1) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "'%s': --name '%.96s': tensor '%.96s' has %zu rows, at most %d are "
                         "layers; leave {} out",
                         path_of(work), work->options->name, tensor->name, rows, STG_LAYER_MAX + 1);
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "'%s': --name '%.96s': the name of tensor '%.96s' tells no layer",
                       path_of(work), work->options->name, tensor->name);
}

/* Every chosen tensor is one of the output. */
static stg_status take_tensor(struct work *work, size_t index, bool by_layer, stg_error *reterr) {
  const struct stg_tensor_info *tensor = work->chosen[index];
  const int32_t layer = stg_vectors_layer_of(work->vectors, tensor);
  struct stg_tensor_out *out = &work->output.tensors[index];
  *out = (struct stg_tensor_out){
      .name = tensor->name, .dtype = dtype_of(work, tensor), .n_dims = tensor->n_dims};
  memcpy(out->shape, tensor->shape, sizeof out->shape);
  if (by_layer && layer < 0) {
    return refuse_layer(work, tensor, reterr);
  }
  if (by_layer) {
    out->name = name_layer(work, layer, reterr);
  } else if (work->options->name != NULL) {
    out->name = work->options->name;
  }
  if (out->name == NULL) {
    stg_status status = stg_arena_status(&work->output.arena, reterr);
    return status != STG_OK ? status : STG_E_INVALID;
  }
  if (layer >= 0) {
    stg_vectors_provenance_layer(&work->provenance, layer);
  }
  return take_elems(work, tensor, 0, tensor->n_elems, out, reterr);
}

/* Every row of the one chosen tensor is one of the output. */
static stg_status take_row(struct work *work, size_t row, stg_error *reterr) {
  const struct stg_tensor_info *tensor = work->chosen[0];
  const size_t width = stg_tensor_width(tensor);
  struct stg_tensor_out *out = &work->output.tensors[row];
  *out = (struct stg_tensor_out){.name = name_layer(work, (int32_t)row, reterr),
                                 .dtype = dtype_of(work, tensor),
                                 .n_dims = 1,
                                 .shape = {(int64_t)width}};
  if (out->name == NULL) {
    stg_status status = stg_arena_status(&work->output.arena, reterr);
    return status != STG_OK ? status : STG_E_INVALID;
  }
  stg_vectors_provenance_layer(&work->provenance, (int32_t)row);
  return take_elems(work, tensor, row * width, width, out, reterr);
}

/* A new name fits what is chosen: one tensor, or layers. */
static stg_status check_name(const struct work *work, bool by_layer, stg_error *reterr) {
  const char *name = work->options->name;
  if (name != NULL && !stg_utf8_is_name(name, strlen(name))) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "--name '%.96s': not a name; it is UTF-8, without control characters",
                         name);
  }
  if (name == NULL || by_layer) {
    return STG_OK;
  }
  if (strstr(name, STG_LAYER_MARK) != NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "--name '%.96s': a name takes one {}", name);
  }
  return work->n_chosen == 1
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID,
                             "'%s': --name '%.96s': %zu tensors cannot have one name; put {} where "
                             "the layer's number goes, as in 'layer.{}'",
                             path_of(work), name, work->n_chosen);
}

static stg_status take_all(struct work *work, stg_error *reterr) {
  const struct stg_tensor_info *only = work->chosen[0];
  const bool by_layer = work->options->name != NULL && stg_layer_is_pattern(work->options->name);
  const bool by_row = by_layer && work->n_chosen == 1 && only->n_dims == 2 &&
                      work->vectors->layers.pattern == NULL &&
                      stg_tensor_rows(only) <= STG_LAYER_MAX + 1;
  stg_status status = check_name(work, by_layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_vectors_output *output = &work->output;
  output->n_tensors = by_row ? stg_tensor_rows(only) : work->n_chosen;
  output->tensors = stg_arena_alloc(&output->arena, output->n_tensors, sizeof *output->tensors);
  status = stg_arena_status(&output->arena, reterr);
  for (size_t i = 0; i < output->n_tensors && status == STG_OK; i++) {
    status = by_row ? take_row(work, i, reterr) : take_tensor(work, i, by_layer, reterr);
  }
  work->provenance.pattern = by_layer ? work->options->name : work->vectors->layers.pattern;
  return status;
}

stg_status stg_vectors_output_make(const struct stg_vectors *vectors,
                                   const struct stg_vectors_output_options *options,
                                   struct stg_vectors_output *ret_output, stg_error *reterr) {
  struct work work = {.vectors = vectors, .options = options};
  stg_status status = choose(&work, reterr);
  if (status == STG_OK) {
    status = check_size(&work, reterr);
  }
  if (status == STG_OK) {
    status = take_all(&work, reterr);
  }
  if (status == STG_OK) {
    status = stg_vectors_provenance_print(vectors, &work.provenance, &work.output, reterr);
  }
  if (status != STG_OK) {
    stg_vectors_output_free(&work.output);
    return status;
  }
  *ret_output = work.output;
  return STG_OK;
}

void stg_vectors_output_free(struct stg_vectors_output *output) {
  stg_arena_finish(&output->arena);
  *output = (struct stg_vectors_output){0};
}
