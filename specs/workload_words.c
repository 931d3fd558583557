/*
 * workload_words.c: what a file of "vectors" says of itself, against the workload that uses it.
 *
 * A spec that names a tensor and an op says itself where and how the vector acts, and messages
 * about control vectors send people here. So only another model is refused; what the file has
 * otherwise is said in notes, since a direction that was made to be projected out can be added all
 * the same.
 */
#include "specs/workload_reader.h"

/* What the workload does in place of what the file says. */
static void print_instead(const struct stg_spec_vector *vector, enum stg_control_fact fact,
                          struct stg_strbuf *text) {
  switch (fact) {
  case STG_CONTROL_MODE:
    stg_strbuf_printf(text, "; %s does what its op says", vector->used_stored);
    return;
  case STG_CONTROL_HOOK_POINT:
  case STG_CONTROL_STRUCTURE:
    stg_strbuf_printf(text, "; it acts where the slot's layers say");
    return;
  case STG_CONTROL_ALPHA:
    stg_strbuf_printf(text, "; the parameters of each call decide");
    return;
  case STG_CONTROL_MODEL:
  case STG_CONTROL_N_FACTS:
    return;
  }
}

/* Ops that want a unit vector, as ablation, are no addition, and somebody named them. */
static bool is_to_be_said(const struct stg_workload *workload, const struct stg_spec_vector *vector,
                          enum stg_control_fact fact) {
  if (fact == STG_CONTROL_MODEL) {
    return workload->model == NULL;
  }
  return vector != NULL && (fact != STG_CONTROL_MODE || vector->used_stored != NULL);
}

static stg_status note_fact(const struct stg_workload *workload,
                            const struct stg_spec_vector_source *source,
                            const struct stg_spec_vector *vector,
                            const struct stg_control_facts *facts, enum stg_control_fact fact,
                            stg_error *err) {
  struct stg_strbuf text = {0};
  stg_status status = STG_OK;
  if (!is_to_be_said(workload, vector, fact)) {
    return STG_OK;
  }
  stg_strbuf_printf(&text, "%s: ", vector != NULL ? vector->where : source->where);
  if (stg_control_print_fact(facts, fact, source->name, &text) &&
      !stg_spec_has_file_note(workload->open, source->path, fact)) {
    print_instead(vector, fact, &text);
    status = stg_strbuf_status(&text, err);
    if (status == STG_OK) {
      status =
          stg_spec_add_file_note(workload->open, source->path, fact, stg_strbuf_text(&text), err);
    }
  }
  stg_strbuf_finish(&text);
  return status;
}

stg_status stg_spec_check_words(const struct stg_workload *workload,
                                const struct stg_spec_vector_source *source,
                                const struct stg_spec_vector *vector, stg_error *err) {
  const struct stg_control_facts *facts = NULL;
  stg_status status = stg_spec_open_facts(workload->open, &facts, err);
  if (status == STG_OK) {
    status = stg_control_check_model(facts, source->name, workload->model, err);
  }
  if (status != STG_OK) {
    stg_error_prefix(err, "%s: %s: ", workload->file, source->where);
    return status;
  }
  for (int fact = 0; status == STG_OK && fact < STG_CONTROL_N_FACTS; fact++) {
    status = note_fact(workload, source, vector, facts, (enum stg_control_fact)fact, err);
  }
  return status;
}

const char *stg_workload_file_note(const struct stg_workload *workload, size_t index) {
  return stg_spec_file_note(workload->open, index);
}
