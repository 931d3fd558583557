/*
 * prove_peer_case.c: see prove_peer_case.h.
 */
#include "tools/bench/prove_peer_case.h"

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/kb_generate.h"
#include "tools/json_out.h"

#define FILE_MODE 0644
#define N_RESULTS 4

const struct stg_prove_peer_row stg_prove_peer_rows[STG_PROVE_PEER_ROWS] = {
    {STG_PROVE_COUNTRIES, 64, 0},
    {STG_PROVE_COUNTRIES, STG_PROVE_BATCH, 0},
    {STG_PROVE_FAMILY, 64, 0},
    {STG_PROVE_FAMILY, 110, 0},
    {STG_PROVE_FAMILY, 256, 0},
    {STG_PROVE_FAMILY, STG_PROVE_BATCH, 0},
    {STG_PROVE_FAMILY, 1024, 0},
    {STG_PROVE_FAMILY, 2048, 0},
    {STG_PROVE_FAMILY, 0, STG_PROVE_REPEATED},
    {STG_PROVE_FAMILY, 0, STG_PROVE_VARIED},
    {STG_PROVE_FAMILY, 0, STG_PROVE_EVALUATED},
    {STG_PROVE_FAMILY, 0, STG_PROVE_UNPADDED},
};

void stg_prove_peer_row_name(const struct stg_prove_peer_row *row, char *name) {
  if (row->pool > 0) {
    stg_prove_pool_name(row->base, row->pool, name);
  } else {
    stg_prove_published_name(row->base, row->which, name);
  }
}

size_t stg_prove_peer_row_count(const struct stg_prove_peer_row *row) {
  return row->pool > 0 ? row->pool : stg_prove_published_count(row->which);
}

/* ---- texts ---- */

static void print_rows(const struct stg_prove_peer_case *c, struct stg_json_out *json) {
  stg_json_out_open(json, "cases", '{');
  for (size_t i = 0; i < STG_PROVE_PEER_ROWS; i++) {
    const struct stg_prove_peer_row *row = &stg_prove_peer_rows[i];
    char name[STG_PROVE_NAME_BYTES];
    if (row->base == c->base && stg_prove_peer_row_count(row) <= c->n) {
      stg_prove_peer_row_name(row, name);
      stg_json_out_open(json, name, '{');
      stg_json_out_int(json, "first", 0);
      stg_json_out_int(json, "count", (int64_t)stg_prove_peer_row_count(row));
      stg_json_out_bool(json, "repeat", row->pool == 0 && row->which == STG_PROVE_REPEATED);
      stg_json_out_close(json, '}');
    }
  }
  stg_json_out_close(json, '}');
}

static void print_case(const struct stg_prove_peer_case *c, struct stg_strbuf *out) {
  const struct stg_prover_workload *w = c->workload;
  struct stg_json_out json = {.text = *out};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_int(&json, "atoms", w->sizes.atoms);
  stg_json_out_int(&json, "children", w->children);
  stg_json_out_int(&json, "depth", w->depth);
  stg_json_out_int(&json, "embed", w->sizes.embed);
  stg_json_out_int(&json, "hidden", w->sizes.hidden);
  stg_json_out_int(&json, "blocks", w->sizes.blocks);
  stg_json_out_number(&json, "epsilon", (double)w->epsilon);
  stg_json_out_int(&json, "batch", STG_PROVE_BATCH);
  print_rows(c, &json);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void print_candidates(const struct stg_prove_peer_case *c, struct stg_strbuf *out) {
  const struct stg_kb *kb = &c->workload->kb;
  for (size_t i = 0; i < c->n; i++) {
    const stg_atom atom = c->queries[i];
    stg_strbuf_printf(out, "%s(%s,%s).\n", stg_kb_names_text(&kb->predicates, atom.pred),
                      stg_kb_names_text(&kb->constants, atom.arg0),
                      stg_kb_names_text(&kb->constants, atom.arg1));
  }
}

static stg_status write_text(const char *folder, const char *name, const struct stg_strbuf *text,
                             stg_error *reterr) {
  char *path = stg_path_join(folder, name);
  stg_status status = path != NULL ? stg_strbuf_status(text, reterr)
                                   : stg_error_memory(reterr, "the path of a case", 0);
  if (status == STG_OK) {
    status = stg_file_write_atomic(path, text->data, text->len, FILE_MODE, reterr);
  }
  stg_free(path);
  return status;
}

static stg_status
write_printed(const struct stg_prove_peer_case *c, const char *folder, const char *name,
              void (*print)(const struct stg_prove_peer_case *, struct stg_strbuf *),
              stg_error *reterr) {
  struct stg_strbuf text = {0};
  print(c, &text);
  stg_status status = write_text(folder, name, &text, reterr);
  stg_strbuf_finish(&text);
  return status;
}

/* The workload's base was made up from this very text. */
static stg_status write_base(const struct stg_prove_peer_case *c, const char *folder,
                             stg_error *reterr) {
  const bool countries = c->base == STG_PROVE_COUNTRIES;
  struct stg_kb_text text = {0};
  stg_status status = stg_kb_generate(countries ? STG_KB_COUNTRIES : STG_KB_FAMILY, STG_PROVE_SEED,
                                      countries ? STG_PROVE_COUNTRIES_SIZE : 0, &text, reterr);
  if (status == STG_OK) {
    status = write_text(folder, "facts.txt", &text.facts, reterr);
  }
  if (status == STG_OK) {
    status = write_text(folder, "rules.txt", &text.rules, reterr);
  }
  stg_kb_text_finish(&text);
  return status;
}

/* ---- tensors ---- */

static stg_status write_tensors(const char *folder, const char *name,
                                const struct stg_tensor_out *tensors, size_t count,
                                stg_error *reterr) {
  char *path = stg_path_join(folder, name);
  stg_status status = path != NULL ? stg_safetensors_write(path, tensors, count, NULL, 0, reterr)
                                   : stg_error_memory(reterr, "the path of a case", 0);
  stg_free(path);
  return status;
}

static stg_status write_proofs(const struct stg_prove_peer_case *c, const char *folder,
                               stg_error *reterr) {
  static const char *const names[N_RESULTS] = {"logp", "depth", "outcome", "close"};
  float *values = stg_calloc(c->n, N_RESULTS * sizeof *values);
  struct stg_tensor_out tensors[N_RESULTS];
  if (values == NULL) {
    return stg_error_memory(reterr, "proofs of a case", c->n * N_RESULTS * sizeof *values);
  }
  for (size_t i = 0; i < c->n; i++) {
    const stg_proof *proof = &c->proofs[i];
    values[i] = proof->logp;
    values[c->n + i] = (float)proof->depth;
    values[2 * c->n + i] = (float)proof->outcome;
    values[3 * c->n + i] = (float)proof->close;
  }
  for (size_t i = 0; i < N_RESULTS; i++) {
    tensors[i] = (struct stg_tensor_out){.name = names[i],
                                         .dtype = STG_F32,
                                         .n_dims = 1,
                                         .shape = {(int64_t)c->n},
                                         .data = values + i * c->n};
  }
  stg_status status = write_tensors(folder, "expected.safetensors", tensors, N_RESULTS, reterr);
  stg_free(values);
  return status;
}

stg_status stg_prove_peer_case_write(const struct stg_prove_peer_case *c, const char *folder,
                                     stg_error *reterr) {
  stg_status status = write_base(c, folder, reterr);
  if (status == STG_OK) {
    status = write_printed(c, folder, "case.json", print_case, reterr);
  }
  if (status == STG_OK) {
    status = write_printed(c, folder, "candidates.txt", print_candidates, reterr);
  }
  if (status == STG_OK) {
    status = write_tensors(folder, "weights.safetensors", c->policy->tensors, c->policy->n_tensors,
                           reterr);
  }
  return status == STG_OK ? write_proofs(c, folder, reterr) : status;
}
