/*
 * spec_family.c: a workload of any family: the families' words, and the reader of each.
 *
 * A text whose family is not told, or is steering, is steering's reader's, so that it says what is
 * wrong with it.
 */
#include "specs/spec_family.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/attention_reader.h"
#include "specs/components_reader.h"
#include "specs/prover_reader.h"
#include "specs/spec.h"
#include "specs/spec_frame.h"
#include "specs/workload_reader.h"

static stg_status read_steer(const struct stg_spec_reader *reader, const struct stg_json *root,
                             struct stg_spec *ret) {
  return stg_workload_read_root(reader, root, &ret->of.steer);
}

static void finish_steer(struct stg_spec *spec) {
  stg_workload_finish(&spec->of.steer);
}

static stg_status read_attention(const struct stg_spec_reader *reader, const struct stg_json *root,
                                 struct stg_spec *ret) {
  return stg_attention_read_root(reader, root, &ret->of.attention);
}

static void finish_attention(struct stg_spec *spec) {
  stg_attention_finish(&spec->of.attention);
}

static stg_status read_prover(const struct stg_spec_reader *reader, const struct stg_json *root,
                              struct stg_spec *ret) {
  return stg_prover_read_root(reader, root, &ret->of.prover);
}

static void finish_prover(struct stg_spec *spec) {
  stg_prover_finish(&spec->of.prover);
}

static stg_status read_components(const struct stg_spec_reader *reader, const struct stg_json *root,
                                  struct stg_spec *ret) {
  return stg_components_read_root(reader, root, &ret->of.components);
}

static void finish_components(struct stg_spec *spec) {
  stg_components_workload_finish(&spec->of.components);
}

static const struct {
  const char *name;
  stg_status (*read)(const struct stg_spec_reader *reader, const struct stg_json *root,
                     struct stg_spec *ret);
  void (*finish)(struct stg_spec *spec);
} families[STG_SPEC_KINDS] = {
    [STG_SPEC_STEER] = {"steer", read_steer, finish_steer},
    [STG_SPEC_ROPE] = {"rope", read_attention, finish_attention},
    [STG_SPEC_DECODE] = {"decode", read_attention, finish_attention},
    [STG_SPEC_STEP] = {"step", read_attention, finish_attention},
    [STG_SPEC_PROVER] = {"prover", read_prover, finish_prover},
    [STG_SPEC_COMPONENTS] = {"components", read_components, finish_components},
};

const char *stg_spec_kind_name(enum stg_spec_kind kind) {
  return families[kind].name;
}

bool stg_spec_kind_find(const char *name, enum stg_spec_kind *ret_kind) {
  for (int i = 0; i < STG_SPEC_KINDS; i++) {
    if (strcmp(families[i].name, name) == 0) {
      *ret_kind = (enum stg_spec_kind)i;
      return true;
    }
  }
  return false;
}

/* Whose reader is to read the text. */
static stg_status choose(const struct stg_spec_reader *reader, const struct stg_json *root,
                         enum stg_spec_kind *ret_kind) {
  struct stg_json member;
  const char *name = NULL;
  *ret_kind = STG_SPEC_STEER;
  if (!stg_json_is_object(root) || !stg_json_find(root, "family", &member) ||
      !stg_json_is_string(&member) || stg_json_string(&member, &name, NULL) != STG_OK ||
      strcmp(name, families[STG_SPEC_STEER].name) == 0) {
    return STG_OK;
  }
  return stg_spec_read_family(reader, root, ret_kind);
}

static stg_status read_doc(const struct stg_json_doc *doc,
                           const struct stg_workload_options *options, bool any_family,
                           struct stg_spec *ret_spec, stg_error *err) {
  static const struct stg_workload_options defaults = {0};
  const struct stg_json root = stg_json_root(doc);
  struct stg_spec spec = {.kind = STG_SPEC_STEER};
  char *folder = stg_path_folder(doc->file);
  if (folder == NULL) {
    return stg_error_memory(err, "a workload", strlen(doc->file));
  }
  const struct stg_spec_reader reader = {.file = doc->file,
                                         .folder = folder,
                                         .options = options != NULL ? options : &defaults,
                                         .err = err};
  stg_status status = any_family ? choose(&reader, &root, &spec.kind) : STG_OK;
  status = status == STG_OK ? families[spec.kind].read(&reader, &root, &spec) : status;
  stg_free(folder);
  if (status == STG_OK) {
    *ret_spec = spec;
  }
  return status;
}

static stg_status parse(const char *path, const char *text, size_t len,
                        const struct stg_workload_options *options, bool any_family,
                        struct stg_spec *ret_spec, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_parse(path, text, len, &doc, reterr);
  if (status == STG_OK) {
    status = read_doc(&doc, options, any_family, ret_spec, reterr);
  }
  stg_json_finish(&doc);
  return status;
}

static stg_status load(const char *path, const struct stg_workload_options *options,
                       bool any_family, struct stg_spec *ret_spec, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  stg_status status = stg_json_load(path, &doc, reterr);
  if (status == STG_OK) {
    status = read_doc(&doc, options, any_family, ret_spec, reterr);
  }
  stg_json_finish(&doc);
  return status;
}

stg_status stg_spec_parse(const char *path, const char *text, size_t len,
                          const struct stg_workload_options *options, struct stg_spec *ret_spec,
                          stg_error *reterr) {
  return parse(path, text, len, options, true, ret_spec, reterr);
}

stg_status stg_spec_load(const char *path, const struct stg_workload_options *options,
                         struct stg_spec *ret_spec, stg_error *reterr) {
  return load(path, options, true, ret_spec, reterr);
}

void stg_spec_finish(struct stg_spec *spec) {
  if (spec != NULL) {
    families[spec->kind].finish(spec);
  }
}

stg_status stg_workload_parse(const char *path, const char *text, size_t len,
                              const struct stg_workload_options *options,
                              struct stg_workload *ret_workload, stg_error *reterr) {
  struct stg_spec spec;
  stg_status status = parse(path, text, len, options, false, &spec, reterr);
  if (status == STG_OK) {
    *ret_workload = spec.of.steer;
  }
  return status;
}

stg_status stg_workload_load(const char *path, const struct stg_workload_options *options,
                             struct stg_workload *ret_workload, stg_error *reterr) {
  struct stg_spec spec;
  stg_status status = load(path, options, false, &spec, reterr);
  if (status == STG_OK) {
    *ret_workload = spec.of.steer;
  }
  return status;
}
