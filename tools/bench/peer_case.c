/*
 * bench/peer_case.c: see peer_case.h.
 */
#include "tools/bench/peer_case.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"
#include "tools/bench/child.h"
#include "tools/json_out.h"

#define NAME_BYTES 16

static const char *numbered(char name[NAME_BYTES], const char *stem, uint32_t number) {
  snprintf(name, NAME_BYTES, "%s%u", stem, number);
  return name;
}

/* They are normalised already, and rounded: as given. */
static void print_vectors(const struct stg_bench_batch *batch, struct stg_json_out *out) {
  char name[NAME_BYTES];
  stg_json_out_open(out, "vectors", '{');
  for (uint32_t i = 0; i < batch->n_vectors; i++) {
    stg_json_out_open(out, numbered(name, "v", i), '{');
    stg_json_out_text(out, "file", STG_PEER_TENSORS);
    stg_json_out_text(out, "tensor", "vectors");
    stg_json_out_int(out, "row", i);
    stg_json_out_bool(out, "normalize", false);
    stg_json_out_close(out, '}');
  }
  stg_json_out_close(out, '}');
}

static void print_op(const struct stg_bench_op *op, struct stg_json_out *out) {
  char name[NAME_BYTES];
  const char *kind = op->kind == STG_BENCH_CAP   ? "projection_cap"
                     : op->kind == STG_BENCH_ADD ? "add"
                                                 : "ablation";
  stg_json_out_open(out, NULL, '{');
  stg_json_out_text(out, "op", kind);
  stg_json_out_text(out, "v", numbered(name, "v", op->vector));
  if (op->kind == STG_BENCH_CAP) {
    stg_json_out_float(out, "min", op->a);
    stg_json_out_float(out, "max", op->b);
  } else {
    stg_json_out_float(out, "scale", op->a);
  }
  stg_json_out_close(out, '}');
}

/* The first n_distinct requests have the distinct chains. */
static void print_slots(const struct stg_bench_batch *batch, struct stg_json_out *out) {
  char name[NAME_BYTES];
  stg_json_out_open(out, "slots", '{');
  for (uint32_t r = 0; r < batch->mix->n_distinct; r++) {
    const struct stg_bench_op *chain = stg_bench_batch_chain(batch, r);
    stg_json_out_open(out, numbered(name, "s", r), '{');
    stg_json_out_open(out, "layers", '{');
    stg_json_out_open(out, "0", '[');
    for (uint32_t step = 0; step < batch->mix->n_ops; step++) {
      print_op(&chain[step], out);
    }
    stg_json_out_close(out, ']');
    stg_json_out_close(out, '}');
    stg_json_out_close(out, '}');
  }
  stg_json_out_close(out, '}');
}

static void print_batch(const struct stg_bench_batch *batch, struct stg_json_out *out) {
  char name[NAME_BYTES];
  stg_json_out_open(out, "batch", '{');
  stg_json_out_open(out, "requests", '[');
  for (uint32_t r = 0; r < batch->mix->n_requests; r++) {
    stg_json_out_open(out, NULL, '{');
    const char *slot = numbered(name, "s", r % batch->mix->n_distinct);
    stg_json_out_text(out, "slot", batch->mix->unsteered ? NULL : slot);
    stg_json_out_int(out, "rows", batch->lengths[r]);
    stg_json_out_close(out, '}');
  }
  stg_json_out_close(out, ']');
  stg_json_out_close(out, '}');
}

/* A tensor of the file beside the workload, as a source. */
static void print_source(struct stg_json_out *out, const char *key, const char *tensor) {
  stg_json_out_open(out, key, '{');
  stg_json_out_text(out, "file", STG_PEER_TENSORS);
  stg_json_out_text(out, "tensor", tensor);
  stg_json_out_close(out, '}');
}

static void print_epilogue(struct stg_json_out *out) {
  stg_json_out_open(out, "epilogue", '{');
  stg_json_out_text(out, "kind", "add_rmsnorm");
  stg_json_out_float(out, "eps", STG_BENCH_EPSILON);
  print_source(out, "weight", "weight");
  stg_json_out_close(out, '}');
}

void stg_peer_workload_print(const struct stg_bench_batch *batch, struct stg_strbuf *text) {
  struct stg_json_out out = {0};
  stg_json_out_open(&out, NULL, '{');
  stg_json_out_int(&out, "steergraph", 1);
  stg_json_out_text(&out, "family", "steer");
  stg_json_out_open(&out, "geometry", '{');
  stg_json_out_int(&out, "hidden_size", batch->mix->hidden_size);
  stg_json_out_text(&out, "dtype", "bf16");
  if (batch->residual != NULL) {
    stg_json_out_text(&out, "state", "hidden+residual");
  }
  stg_json_out_close(&out, '}');
  print_vectors(batch, &out);
  print_slots(batch, &out);
  print_batch(batch, &out);
  if (batch->weight != NULL) {
    print_epilogue(&out);
  }
  stg_json_out_open(&out, "input", '{');
  print_source(&out, "hidden", "hidden");
  if (batch->residual != NULL) {
    print_source(&out, "residual", "residual");
  }
  stg_json_out_close(&out, '}');
  stg_json_out_close(&out, '}');
  text->failed = text->failed || out.text.failed;
  stg_strbuf_str(text, stg_strbuf_text(&out.text));
  stg_strbuf_finish(&out.text);
}

/* Vectors go out as float32, which every reader has. */
static stg_status write_tensors(const struct stg_bench_batch *batch, const char *path,
                                stg_error *reterr) {
  const int64_t size = batch->mix->hidden_size;
  const size_t count = (size_t)batch->n_vectors * (size_t)size;
  float *vectors = stg_calloc(count, sizeof *vectors);
  if (vectors == NULL) {
    return stg_error_memory(reterr, "the vectors of a case", count * sizeof *vectors);
  }
  stg_convert(STG_F32, vectors, STG_BF16, batch->vectors, count);
  struct stg_tensor_out tensors[4] = {
      {"hidden", STG_BF16, 2, {batch->rows, size}, batch->hidden},
      {"vectors", STG_F32, 2, {batch->n_vectors, size}, vectors},
  };
  size_t n_tensors = 2;
  if (batch->residual != NULL) {
    tensors[n_tensors++] =
        (struct stg_tensor_out){"residual", STG_BF16, 2, {batch->rows, size}, batch->residual};
  }
  if (batch->weight != NULL) {
    tensors[n_tensors++] = (struct stg_tensor_out){"weight", STG_BF16, 1, {size}, batch->weight};
  }
  stg_status status = stg_safetensors_write(path, tensors, n_tensors, NULL, 0, reterr);
  stg_free(vectors);
  return status;
}

stg_status stg_peer_case_write(const struct stg_bench_batch *batch, const char *folder,
                               stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_peer_workload_print(batch, &text);
  char *workload = stg_path_join(folder, STG_PEER_WORKLOAD);
  char *tensors = stg_path_join(folder, STG_PEER_TENSORS);
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK && (workload == NULL || tensors == NULL)) {
    status = stg_error_memory(reterr, "the paths of a case", 0);
  }
  if (status == STG_OK) {
    status = write_tensors(batch, tensors, reterr);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(workload, text.data, text.len, 0644, reterr);
  }
  stg_free(workload);
  stg_free(tensors);
  stg_strbuf_finish(&text);
  return status;
}

static stg_status check_run(const struct stg_json_doc *doc, const char *folder, stg_error *reterr) {
  const struct stg_json root = stg_json_root(doc);
  struct stg_json value;
  bool ok = false;
  stg_status status = stg_json_get(&root, "ok", &value, reterr);
  if (status == STG_OK) {
    status = stg_json_bool(&value, &ok, reterr);
  }
  if (status == STG_OK && !ok) {
    status =
        stg_error_set(reterr, STG_E_CORRUPT,
                      "bench --peers: the oracle does not agree with our own result of %s", folder);
  }
  return status;
}

stg_status stg_peer_case_expect(const char *folder, const char *cache, stg_error *reterr) {
  char *workload = stg_path_join(folder, STG_PEER_WORKLOAD);
  char *expected = stg_path_join(folder, STG_PEER_EXPECTED);
  stg_status status = workload != NULL && expected != NULL
                          ? STG_OK
                          : stg_error_memory(reterr, "the paths of a case", 0);
  if (status == STG_OK) {
    const char *const words[] = {"run",         workload,   "--json",
                                 "--no-timing", "--output", expected,
                                 "--backend",   "cuda",     cache != NULL ? "--cache" : NULL,
                                 cache,         NULL};
    struct stg_json_doc doc;
    status = stg_bench_child_run(words, &doc, reterr);
    if (status == STG_OK) {
      status = check_run(&doc, folder, reterr);
      stg_json_finish(&doc);
    }
  }
  stg_free(workload);
  stg_free(expected);
  return status;
}
