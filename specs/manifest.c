/*
 * manifest.c: warm-up manifests, JSON in and JSON out. See manifest.h.
 */
#include "specs/manifest.h"

#include <stdlib.h>
#include <string.h>

#define HASH_CHARS 32

static stg_status read_version(const struct stg_json *root, stg_error *reterr) {
  struct stg_json value;
  int64_t version = 0;
  stg_status status = stg_json_get(root, "steergraph", &value, reterr);
  return status == STG_OK ? stg_json_int(&value, 1, 1, &version, reterr) : status;
}

static stg_status check_hash(const struct stg_json *at, stg_error *reterr) {
  if (strlen(at->key) == HASH_CHARS && strspn(at->key, "0123456789abcdef") == HASH_CHARS) {
    return STG_OK;
  }
  return stg_json_error(reterr, STG_E_FORMAT, at,
                        "'%.40s' is no hash of a body; write its %d lower-case hex digits", at->key,
                        HASH_CHARS);
}

static stg_status read_op(struct stg_manifest *manifest, const struct stg_json *at,
                          stg_error *reterr) {
  struct stg_manifest_op *op = &manifest->ops[at->index];
  stg_status status = check_hash(at, reterr);
  if (status == STG_OK) {
    status = stg_json_expect_object(at, reterr);
  }
  if (status == STG_OK) {
    status = stg_op_decl_read(&manifest->arena, at, &op->decl, reterr);
  }
  if (status == STG_OK) {
    op->hash = stg_arena_strdup(&manifest->arena, at->key);
    status = stg_arena_status(&manifest->arena, reterr);
  }
  return status;
}

static stg_status read_ops(struct stg_manifest *manifest, const struct stg_json *root,
                           stg_error *reterr) {
  struct stg_json object;
  struct stg_json member;
  if (!stg_json_find(root, "user_ops", &object)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_object(&object, reterr);
  if (status != STG_OK) {
    return status;
  }
  manifest->n_ops = stg_json_count(&object);
  manifest->ops = stg_arena_alloc(&manifest->arena, manifest->n_ops, sizeof *manifest->ops);
  if (manifest->ops == NULL) {
    return stg_arena_status(&manifest->arena, reterr);
  }
  bool more = stg_json_first(&object, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    status = read_op(manifest, &member, reterr);
  }
  return status;
}

static stg_status read_entry(struct stg_manifest *manifest, const struct stg_json *at,
                             stg_error *reterr) {
  static const char *const keys[] = {"signature", "count", NULL};
  struct stg_manifest_entry *entry = &manifest->entries[at->index];
  struct stg_json value;
  const char *text = NULL;
  int64_t count = 0;
  stg_status status = stg_json_expect_object(at, reterr);
  if (status == STG_OK) {
    status = stg_json_check_keys(at, keys, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "signature", &value, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_string(&value, &text, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "count", &value, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_int(&value, 1, (int64_t)STG_MANIFEST_MAX_COUNT, &count, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  *entry = (struct stg_manifest_entry){
      .signature = stg_arena_strdup(&manifest->arena, text),
      .count = (uint64_t)count,
      .index = at->index,
  };
  return stg_arena_status(&manifest->arena, reterr);
}

static stg_status read_entries(struct stg_manifest *manifest, const struct stg_json *root,
                               stg_error *reterr) {
  struct stg_json list;
  struct stg_json item;
  stg_status status = stg_json_get(root, "manifest", &list, reterr);
  if (status == STG_OK) {
    status = stg_json_expect_array(&list, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  manifest->n_entries = stg_json_count(&list);
  manifest->entries =
      stg_arena_alloc(&manifest->arena, manifest->n_entries, sizeof *manifest->entries);
  if (manifest->entries == NULL) {
    return stg_arena_status(&manifest->arena, reterr);
  }
  bool more = stg_json_first(&list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = read_entry(manifest, &item, reterr);
  }
  return status;
}

static stg_status read_doc(const struct stg_json_doc *doc, struct stg_manifest *manifest,
                           stg_error *reterr) {
  static const char *const keys[] = {"steergraph", "user_ops", "manifest", NULL};
  const struct stg_json root = stg_json_root(doc);
  manifest->file = stg_arena_strdup(&manifest->arena, doc->file);
  stg_status status = stg_arena_status(&manifest->arena, reterr);
  if (status == STG_OK) {
    status = stg_json_expect_object(&root, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_check_keys(&root, keys, reterr);
  }
  if (status == STG_OK) {
    status = read_version(&root, reterr);
  }
  if (status == STG_OK) {
    status = read_ops(manifest, &root, reterr);
  }
  if (status == STG_OK) {
    status = read_entries(manifest, &root, reterr);
  }
  return status;
}

/* Takes the document over. */
static stg_status read_and_sort(struct stg_json_doc *doc, struct stg_manifest *ret_manifest,
                                stg_error *reterr) {
  struct stg_manifest manifest = {0};
  stg_status status = read_doc(doc, &manifest, reterr);
  stg_json_finish(doc);
  if (status != STG_OK) {
    stg_manifest_finish(&manifest);
    return status;
  }
  stg_manifest_sort(&manifest);
  *ret_manifest = manifest;
  return STG_OK;
}

stg_status stg_manifest_parse(const char *file, const char *text, size_t len,
                              struct stg_manifest *ret_manifest, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_parse(file, text, len, &doc, reterr);
  return status == STG_OK ? read_and_sort(&doc, ret_manifest, reterr) : status;
}

stg_status stg_manifest_load(const char *file, struct stg_manifest *ret_manifest,
                             stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_load(file, &doc, reterr);
  return status == STG_OK ? read_and_sort(&doc, ret_manifest, reterr) : status;
}

void stg_manifest_finish(struct stg_manifest *manifest) {
  stg_arena_finish(&manifest->arena);
  *manifest = (struct stg_manifest){0};
}

bool stg_manifest_is_one(const char *file) {
  struct stg_json_doc doc = {0};
  struct stg_json member;
  if (stg_json_load(file, &doc, NULL) != STG_OK) {
    return false;
  }
  const struct stg_json root = stg_json_root(&doc);
  const bool is = stg_json_is_object(&root) && stg_json_find(&root, "manifest", &member);
  stg_json_finish(&doc);
  return is;
}

static int compare_ops(const void *a, const void *b) {
  const struct stg_manifest_op *x = a, *y = b;
  return strcmp(x->hash, y->hash);
}

static int compare_texts(const void *a, const void *b) {
  const struct stg_manifest_entry *x = a, *y = b;
  const int order = strcmp(x->signature, y->signature);
  return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_counts(const void *a, const void *b) {
  const struct stg_manifest_entry *x = a, *y = b;
  return x->count != y->count ? (x->count < y->count ? 1 : -1) : compare_texts(a, b);
}

static uint64_t add_counts(uint64_t a, uint64_t b) {
  return a > STG_MANIFEST_MAX_COUNT - b ? STG_MANIFEST_MAX_COUNT : a + b;
}

void stg_manifest_sort(struct stg_manifest *manifest) {
  struct stg_manifest_entry *entries = manifest->entries;
  size_t n = 0;
  if (manifest->n_ops > 0) {
    qsort(manifest->ops, manifest->n_ops, sizeof *manifest->ops, compare_ops);
  }
  if (manifest->n_entries == 0) {
    return;
  }
  qsort(entries, manifest->n_entries, sizeof *entries, compare_texts);
  for (size_t i = 0; i < manifest->n_entries; i++) {
    const uint64_t count =
        entries[i].count > STG_MANIFEST_MAX_COUNT ? STG_MANIFEST_MAX_COUNT : entries[i].count;
    if (n > 0 && strcmp(entries[n - 1].signature, entries[i].signature) == 0) {
      entries[n - 1].count = add_counts(entries[n - 1].count, count);
    } else {
      entries[n] = entries[i];
      entries[n++].count = count;
    }
  }
  manifest->n_entries = n;
  qsort(entries, n, sizeof *entries, compare_counts);
}

static void print_texts(const char *key, const char *const *texts, size_t count,
                        struct stg_strbuf *out) {
  stg_strbuf_printf(out, ", \"%s\": [", key);
  for (size_t i = 0; i < count; i++) {
    stg_strbuf_str(out, i > 0 ? ", " : "");
    stg_strbuf_json(out, texts[i]);
  }
  stg_strbuf_char(out, ']');
}

static void print_default(float value, struct stg_strbuf *out) {
  const bool finite = value - value == 0.0F;
  stg_strbuf_str(out, finite ? "" : "\"");
  stg_strbuf_float(out, value);
  stg_strbuf_str(out, finite ? "" : "\"");
}

static void print_op(const struct stg_manifest_op *op, struct stg_strbuf *out) {
  const struct stg_op_decl *decl = op->decl;
  stg_strbuf_json(out, op->hash);
  stg_strbuf_str(out, ": {\"op\": ");
  stg_strbuf_json(out, decl->name);
  print_texts("vectors", decl->vectors, decl->n_vectors, out);
  stg_strbuf_str(out, ", \"params\": {");
  for (size_t i = 0; i < decl->n_params; i++) {
    stg_strbuf_str(out, i > 0 ? ", " : "");
    stg_strbuf_json(out, decl->params[i].name);
    stg_strbuf_str(out, ": {");
    if (decl->params[i].has_default) {
      stg_strbuf_str(out, "\"default\": ");
      print_default(decl->params[i].default_value, out);
    }
    stg_strbuf_char(out, '}');
  }
  stg_strbuf_char(out, '}');
  print_texts("require", decl->require, decl->n_require, out);
  if (decl->output != NULL) {
    stg_strbuf_str(out, ", \"output\": ");
    stg_strbuf_json(out, decl->output);
  } else {
    print_texts("body", decl->body, decl->n_body, out);
  }
  stg_strbuf_char(out, '}');
}

void stg_manifest_print(const struct stg_manifest *manifest, struct stg_strbuf *out) {
  stg_strbuf_str(out, "{\n  \"steergraph\": 1,\n  \"user_ops\": {");
  for (size_t i = 0; i < manifest->n_ops; i++) {
    stg_strbuf_str(out, i > 0 ? ",\n    " : "\n    ");
    print_op(&manifest->ops[i], out);
  }
  stg_strbuf_str(out, manifest->n_ops > 0 ? "\n  },\n" : "},\n");
  stg_strbuf_str(out, "  \"manifest\": [");
  for (size_t i = 0; i < manifest->n_entries; i++) {
    stg_strbuf_str(out, i > 0 ? ",\n    " : "\n    ");
    stg_strbuf_str(out, "{\"signature\": ");
    stg_strbuf_json(out, manifest->entries[i].signature);
    stg_strbuf_printf(out, ", \"count\": %llu}", (unsigned long long)manifest->entries[i].count);
  }
  stg_strbuf_str(out, manifest->n_entries > 0 ? "\n  ]\n}\n" : "]\n}\n");
}
