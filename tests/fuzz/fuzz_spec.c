/*
 * fuzz_spec.c: the libFuzzer target of what reads text from users: workloads, manifests, op
 * definitions, and the op language down to the scalar program.
 *
 * Runs in the root of the source tree, so that a workload's "user/my_op.json" is found. Finds
 * crashes, leaks, hangs and messages that break the rule of one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/op.h"
#include "runtime/base/alloc.h"
#include "specs/manifest.h"
#include "specs/prover_pool.h"
#include "specs/spec.h"

#define MAX_PARAMS 64
#define MAX_VALUES (1 << 16) /* of all vectors of a workload that are really read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* NOLINT: libFuzzer's name */

/* An error is one line that says something. */
static void check_error(stg_status status, const stg_error *err) {
  if (status != STG_OK &&
      (err->code != status || err->message[0] == '\0' || strpbrk(err->message, "\r\n") != NULL)) {
    abort();
  }
}

static void compile_op(struct stg_arena *arena, const struct stg_op_decl *decl) {
  struct stg_op_param params[MAX_PARAMS];
  if (decl->n_params > MAX_PARAMS) {
    return;
  }
  for (size_t i = 0; i < decl->n_params; i++) {
    params[i] = (struct stg_op_param){.name = decl->params[i].name,
                                      .has_default = decl->params[i].has_default,
                                      .default_value = decl->params[i].default_value};
  }
  struct stg_op_source source = {.file = decl->file,
                                 .name = decl->name,
                                 .vectors = decl->vectors,
                                 .n_vectors = decl->n_vectors,
                                 .params = params,
                                 .n_params = decl->n_params,
                                 .require = decl->require,
                                 .n_require = decl->n_require,
                                 .body = decl->body,
                                 .n_body = decl->n_body,
                                 .output = decl->output};
  const struct stg_op *op = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_op_compile(arena, &source, &op, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    struct stg_strbuf text = {0};
    if (stg_program_check(&op->program, &err) != STG_OK) {
      abort(); /* the compiler must not make what the checker refuses */
    }
    stg_program_print(&op->program, &text);
    stg_strbuf_finish(&text);
  }
}

static void read_vectors(const struct stg_workload *workload) {
  int64_t left = MAX_VALUES;
  for (size_t i = 0; i < workload->n_vectors && workload->hidden_size <= left; i++) {
    stg_error err = STG_ERROR_INIT;
    bool normalize = false;
    stg_status status = stg_workload_resolve_normalize(workload, i, &normalize, &err);
    check_error(status, &err);
    float *values = stg_calloc((size_t)workload->hidden_size, sizeof *values);
    if (values == NULL) {
      return;
    }
    status = stg_workload_read_vector(workload, i, 0, values, &err);
    check_error(status, &err);
    stg_free(values);
    left -= workload->hidden_size;
  }
}

static void read_steer(struct stg_workload *workload) {
  for (size_t i = 0; i < workload->n_ops; i++) {
    compile_op(&workload->arena, workload->ops[i]);
  }
  read_vectors(workload);
}

/* The last elements of an array, from the middle of a block of the generator. */
static void read_array(const struct stg_attention_workload *workload,
                       const struct stg_spec_array *array) {
  unsigned char elems[8 * sizeof(float)];
  const int64_t count = array->elems < 7 ? array->elems : 7;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_attention_read(workload, array, array->elems - count, (size_t)count,
                                         workload->dtype, elems, &err);
  check_error(status, &err);
}

/* Sequences and positions are of those that there are, and no block is given out twice. */
static void check_rows(const struct stg_attention_workload *w) {
  const int64_t entries = (int64_t)w->cache.batch * stg_attention_table_row(w);
  if (w->rows > MAX_VALUES || entries > MAX_VALUES) {
    return;
  }
  int32_t *seq = stg_calloc((size_t)w->rows + 1, sizeof *seq);
  int64_t *pos = stg_calloc((size_t)w->rows + 1, sizeof *pos);
  int32_t *table = stg_calloc((size_t)entries + 1, sizeof *table);
  if (seq == NULL || pos == NULL || table == NULL) {
    abort();
  }
  stg_attention_fill_seq(w, seq);
  if (w->positions == STG_SPEC_POSITIONS_I64) {
    stg_attention_fill_positions(w, pos);
  }
  for (int64_t i = 0; i < w->rows; i++) {
    if (seq[i] >= (int32_t)w->batch || pos[i] < 0 || pos[i] > STG_ATTENTION_MAX_POSITION) {
      abort();
    }
  }
  int64_t given = 0;
  if (entries > 0) {
    stg_attention_fill_table(w, table);
  }
  for (int64_t i = 0; i < entries; i++) {
    given += table[i] >= 0;
  }
  if (given > w->cache.n_blocks) {
    abort();
  }
  stg_free(seq);
  stg_free(pos);
  stg_free(table);
}

static void read_attention(struct stg_attention_workload *workload) {
  const struct {
    bool has;
    const struct stg_spec_array *array;
  } arrays[] = {{workload->has_qkv, &workload->qkv},
                {workload->has_q, &workload->q},
                {workload->has_k, &workload->k},
                {workload->has_v, &workload->v},
                {workload->rope.has_table, &workload->rope.table}};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    if (arrays[i].has) {
      read_array(workload, arrays[i].array);
    }
  }
  check_rows(workload);
  if (workload->steered) {
    read_steer(&workload->steer);
  }
}

/* Weights that are made up may be as large as limits allow, and take as long. */
static void read_prover(struct stg_prover_workload *workload) {
  struct stg_prove_policy policy = {0};
  struct stg_prover_pool pool = {0};
  stg_error err = STG_ERROR_INIT;
  const struct stg_prover_corruptions *c = &workload->corruptions;
  const struct stg_prove_sizes *sizes = &workload->sizes;
  if ((uint64_t)workload->n_queries * c->count <= MAX_VALUES &&
      stg_prover_pool_make(workload, &pool, &err) != STG_OK) {
    abort();
  }
  if (((uint64_t)sizes->predicates + sizes->constants) * sizes->embed <= MAX_VALUES &&
      (uint64_t)sizes->blocks * sizes->hidden * sizes->hidden <= MAX_VALUES) {
    check_error(stg_prover_take_policy(workload, &policy, &err), &err);
  }
  stg_prover_pool_finish(&pool);
  stg_prove_policy_finish(&policy);
}

/* Every input that is not too large, whole; live rows are of sequences that there are. */
static void read_components(const struct stg_components_workload *w) {
  const double products = (double)w->d_in * w->d_out * w->components;
  for (unsigned i = 0; i < STG_SPEC_COMPONENTS_INPUTS; i++) {
    const enum stg_spec_components_input input = (enum stg_spec_components_input)i;
    if (!w->has[i] || w->inputs[i].elems > MAX_VALUES || products > MAX_VALUES) {
      continue;
    }
    stg_error err = STG_ERROR_INIT;
    void *elems = stg_calloc((size_t)w->inputs[i].elems, sizeof(float));
    if (elems == NULL) {
      abort();
    }
    stg_status status = stg_components_workload_fill(w, input, elems, &err);
    check_error(status, &err);
    stg_free(elems);
  }
  for (int64_t i = 0; i < w->sequences; i++) {
    if (w->valid[i] < 0 || w->valid[i] > w->sequence) {
      abort();
    }
  }
}

static void read_workload(const char *text, size_t size) {
  struct stg_spec spec;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_spec_parse("specs/fuzz.json", text, size, NULL, &spec, &err);
  check_error(status, &err);
  if (status != STG_OK) {
    return;
  }
  switch (spec.kind) {
  case STG_SPEC_STEER:
    read_steer(&spec.of.steer);
    break;
  case STG_SPEC_PROVER:
    read_prover(&spec.of.prover);
    break;
  case STG_SPEC_COMPONENTS:
    read_components(&spec.of.components);
    break;
  case STG_SPEC_ROPE:
  case STG_SPEC_DECODE:
  case STG_SPEC_STEP:
    read_attention(&spec.of.attention);
    break;
  case STG_SPEC_KINDS:
    abort();
  }
  stg_spec_finish(&spec);
}

static void read_op(const char *text, size_t size) {
  struct stg_arena arena = {0};
  const struct stg_op_decl *decl = NULL;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_op_decl_parse(&arena, "fuzz.json", text, size, &decl, &err);
  check_error(status, &err);
  if (status == STG_OK) {
    compile_op(&arena, decl);
  }
  stg_arena_finish(&arena);
}

/* What was read is printed, and reads back as the same. */
static void read_manifest(const char *text, size_t size) {
  struct stg_manifest manifest, again;
  struct stg_strbuf first = {0}, second = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_manifest_parse("fuzz.json", text, size, &manifest, &err);
  check_error(status, &err);
  if (status != STG_OK) {
    return;
  }
  for (size_t i = 0; i < manifest.n_ops; i++) {
    compile_op(&manifest.arena, manifest.ops[i].decl);
  }
  stg_manifest_print(&manifest, &first);
  if (stg_manifest_parse("fuzz.json", first.data, first.len, &again, NULL) != STG_OK) {
    abort();
  }
  stg_manifest_print(&again, &second);
  if (strcmp(first.data, second.data) != 0) {
    abort();
  }
  stg_strbuf_finish(&first);
  stg_strbuf_finish(&second);
  stg_manifest_finish(&again);
  stg_manifest_finish(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { /* NOLINT: libFuzzer's name */
  read_manifest((const char *)data, size);
  read_workload((const char *)data, size);
  read_op((const char *)data, size);
  return 0;
}
