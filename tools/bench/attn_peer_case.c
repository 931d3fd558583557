/*
 * attn_peer_case.c: see attn_peer_case.h. peers/attn_case.py reads what is written here.
 */
#include "tools/bench/attn_peer_case.h"

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"

#define N_PARTS 4

static stg_status write_expected(const struct stg_attn_case *c,
                                 const struct stg_attn_expected *expected, const char *path,
                                 stg_error *reterr) {
  const int64_t steps = c->advance ? c->capacity / STG_ATTN_LOOP_STRIDE : 0;
  const struct {
    const char *name;
    const void *data;
    uint32_t heads;
  } parts[N_PARTS] = {{"q", expected->q, c->heads},
                      {"k", expected->k, c->kv_heads},
                      {"v", expected->v, c->kv_heads},
                      {"out", expected->out, c->heads}};
  struct stg_tensor_out tensors[N_PARTS];
  size_t count = 0;
  for (size_t i = 0; i < N_PARTS; i++) {
    struct stg_tensor_out tensor = {.name = parts[i].name,
                                    .dtype = c->dtype,
                                    .n_dims = 3,
                                    .shape = {stg_attn_samples(c), parts[i].heads, c->dim},
                                    .data = parts[i].data};
    if (c->advance) {
      tensor.n_dims = 4;
      tensor.shape[0] = steps;
      tensor.shape[1] = c->batch;
      tensor.shape[2] = parts[i].heads;
      tensor.shape[3] = c->dim;
    }
    if (tensor.data != NULL) {
      tensors[count++] = tensor;
    }
  }
  return stg_safetensors_write(path, tensors, count, NULL, 0, reterr);
}

stg_status stg_attn_peer_case_write(const struct stg_attn_case *work,
                                    const struct stg_attn_expected *expected, const char *folder,
                                    stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_attn_case_print(work, &text);
  char *numbers = stg_path_join(folder, STG_ATTN_PEER_CASE);
  char *tensors = stg_path_join(folder, STG_ATTN_PEER_EXPECTED);
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK && (numbers == NULL || tensors == NULL)) {
    status = stg_error_memory(reterr, "the paths of a case", 0);
  }
  if (status == STG_OK) {
    status = write_expected(work, expected, tensors, reterr);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(numbers, text.data, text.len, 0644, reterr);
  }
  stg_free(numbers);
  stg_free(tensors);
  stg_strbuf_finish(&text);
  return status;
}
