/*
 * control_check.c: what a control vector says of itself, against what is asked of it.
 *
 * Messages begin with the file's name as the caller gave it and end with the remedy. Must not know
 * which block a direction is of, nor how it is applied.
 */
#include <string.h>

#include "specs/control_plan.h"
#include "specs/tensor_layers.h"

#define NAME_CHARS 64
#define HOOK_POINT "residual_stream_post_layer"
#define STRUCTURE "per-layer"
#define N_SIGNS 36 /* that names of models are told apart by */

bool stg_control_by_convention(const struct stg_control_use *use) {
  return use->pattern == NULL && use->rows == NULL;
}

/* The next letter, in lower case, or digit of `*text`, which moves behind it; 0 at the end. */
static char next_sign(const char **text) {
  static const char signs[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  while (**text != '\0') {
    const char *sign = strchr(signs, *(*text)++);
    if (sign != NULL) {
      return signs[(size_t)(sign - signs) % N_SIGNS];
    }
  }
  return '\0';
}

/* Names of models differ in case and signs: "Qwen4-exp", "qwen4exp". */
static bool same_model(const char *a, const char *b) {
  char sign;
  do {
    sign = next_sign(&a);
    if (sign != next_sign(&b)) {
      return false;
    }
  } while (sign != '\0');
  return true;
}

stg_status stg_control_check_model(const struct stg_control_facts *facts, const char *name,
                                   const char *model, stg_error *reterr) {
  if (facts->model_hint == NULL || model == NULL || same_model(facts->model_hint, model)) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_UNSUPPORTED,
                       "'%s' is for model '%.*s' (its model_hint), geometry.model is '%.*s'; use "
                       "one made for it",
                       name, NAME_CHARS, facts->model_hint, NAME_CHARS, model);
}

static bool is_elsewhere(const struct stg_control_facts *facts) {
  return facts->hook_point != NULL && strcmp(facts->hook_point, HOOK_POINT) != 0;
}

static bool is_other_structure(const struct stg_control_facts *facts) {
  return facts->structure != NULL && strcmp(facts->structure, STRUCTURE) != 0;
}

bool stg_control_print_fact(const struct stg_control_facts *facts, enum stg_control_fact fact,
                            const char *name, struct stg_strbuf *text) {
  const struct {
    bool said;
    const char *key, *value, *what;
  } said[STG_CONTROL_N_FACTS] = {
      [STG_CONTROL_MODE] = {!stg_control_adds(facts), facts->mode_key, facts->mode,
                            ", which is no addition"},
      [STG_CONTROL_HOOK_POINT] = {is_elsewhere(facts), facts->hook_point_key, facts->hook_point,
                                  ", not the end of a block"},
      [STG_CONTROL_STRUCTURE] = {is_other_structure(facts), facts->structure_key, facts->structure,
                                 ", not " STRUCTURE},
      [STG_CONTROL_ALPHA] = {facts->alpha_key != NULL, facts->alpha_key, facts->alpha, ""},
  };
  if (fact == STG_CONTROL_MODEL && facts->model_hint != NULL) {
    stg_strbuf_printf(text, "%s is for model '%.*s' by its own word; geometry.model is not given",
                      name, NAME_CHARS, facts->model_hint);
    return true;
  }
  if (said[fact].said) {
    stg_strbuf_printf(text, "%s says %.*s '%.*s'%s", name, NAME_CHARS, said[fact].key, NAME_CHARS,
                      said[fact].value, said[fact].what);
  }
  return said[fact].said;
}

static stg_status check_kind(const struct stg_control_use *use,
                             const struct stg_control_facts *facts, stg_error *reterr) {
  if (stg_control_by_convention(use) && facts->architecture != NULL && !facts->declared) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "'%s' is a model (general.architecture '%.*s'), not a control vector; "
                         "name a tensor in \"vectors\"",
                         use->name, NAME_CHARS, facts->architecture);
  }
  return stg_control_check_model(facts, use->name, use->model, reterr);
}

/* What the file says of how it is applied must be what is asked for. */
static stg_status check_way(const struct stg_control_use *use,
                            const struct stg_control_facts *facts, stg_error *reterr) {
  if (is_elsewhere(facts)) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "'%s' says %.*s '%.*s', not the end of a block; name its tensors in "
                         "\"vectors\"",
                         use->name, NAME_CHARS, facts->hook_point_key, NAME_CHARS,
                         facts->hook_point);
  }
  if (is_other_structure(facts)) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "'%s' says %.*s '%.*s', not " STRUCTURE "; name its tensors in "
                         "\"vectors\"",
                         use->name, NAME_CHARS, facts->structure_key, NAME_CHARS, facts->structure);
  }
  if (!stg_control_adds(facts) && !use->op_named) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "'%s' says %.*s '%.*s', which is no addition; name the op, as \"op\": "
                         "\"ablation\"",
                         use->name, NAME_CHARS, facts->mode_key, NAME_CHARS, facts->mode);
  }
  if (facts->alpha_key != NULL && !use->scale_named) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "'%s' says %.*s %.*s; give \"scale\", which is 1 - alpha for ablation",
                         use->name, NAME_CHARS, facts->alpha_key, NAME_CHARS, facts->alpha);
  }
  return STG_OK;
}

/* Tensors of a control vector have the names that it has, and no other tensors are there. */
static stg_status check_names(const struct stg_tensor_file *file, const struct stg_control_use *use,
                              stg_error *reterr) {
  for (size_t i = 0; stg_control_by_convention(use) && i < file->n_tensors; i++) {
    const char *name = file->tensors[i].name;
    int32_t number = stg_layer_of(STG_CONTROL_PATTERN, name);
    if (number < 0) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "'%s': tensor '%.*s' is no direction.N; a control vector holds nothing "
                           "else",
                           use->name, NAME_CHARS, name);
    }
    if (number < STG_CONTROL_FIRST_BLOCK) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "'%s': tensor '%.*s': block %d is never steered by a control vector; "
                           "name it in \"vectors\" if it is meant",
                           use->name, NAME_CHARS, name, (int)number);
    }
  }
  return STG_OK;
}

stg_status stg_control_check(const struct stg_tensor_file *file, const struct stg_control_use *use,
                             const struct stg_control_facts *facts, stg_error *reterr) {
  stg_status status = check_kind(use, facts, reterr);
  if (status == STG_OK) {
    status = check_way(use, facts, reterr);
  }
  if (status == STG_OK) {
    status = check_names(file, use, reterr);
  }
  return status;
}
