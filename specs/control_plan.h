/*
 * control_plan.h: which direction of a control vector acts at which block of a model.
 *
 * In a GGUF control vector the tensor "direction.N" acts at the end of block N, counted from 0, and
 * block 0 has none. What the file says of itself is believed: what no op asked for is refused, not
 * passed over. Knows no spec: the caller says what it wants. Everything is read-only: any thread.
 */
#ifndef STG_SPECS_CONTROL_PLAN_H
#define STG_SPECS_CONTROL_PLAN_H

#include "runtime/base/strbuf.h"
#include "specs/control_file.h"

#define STG_CONTROL_PATTERN "direction.{}"
#define STG_CONTROL_FIRST_BLOCK 1 /* of GGUF */
#define STG_CONTROL_MAX_NOTES 5

/* What the caller wants of a file. */
struct stg_control_use {
  const char *name;    /* of the file, in messages */
  int64_t hidden_size; /* elements that a direction must have */
  int32_t layers;      /* blocks of the model: 0 to layers - 1 */
  const char *model;   /* NULL: not given */
  bool op_named;       /* the op, or addition, was asked for by name */
  bool scale_named;
  const char *pattern;                /* NULL: STG_CONTROL_PATTERN, and the rules of GGUF */
  const struct stg_tensor_info *rows; /* not NULL, and no pattern: row N is of block N */
  int32_t layer_shift;                /* block = number + shift */
  int32_t first_block;                /* both inclusive; in the model; -1: not given */
  int32_t last_block;
};

/** Whether the names and the rules of GGUF hold: neither pattern nor rows. */
bool stg_control_by_convention(const struct stg_control_use *use);
/**
 * Refuse a file that says another model than `model` (NULL: not given); `name` as in messages.
 * @return STG_E_UNSUPPORTED with both names.
 */
STG_NODISCARD stg_status stg_control_check_model(const struct stg_control_facts *facts,
                                                 const char *name, const char *model,
                                                 stg_error *reterr);
/* Facts that a user should know where they decide nothing. */
enum stg_control_fact {
  STG_CONTROL_MODEL, /* no geometry.model is there to compare it with */
  STG_CONTROL_MODE,  /* not an addition */
  STG_CONTROL_HOOK_POINT,
  STG_CONTROL_STRUCTURE,
  STG_CONTROL_ALPHA,
  STG_CONTROL_N_FACTS
};
/** Append "x.gguf says glp.mode 'project', which is no addition"; false: there is nothing to say.
 */
bool stg_control_print_fact(const struct stg_control_facts *facts, enum stg_control_fact fact,
                            const char *name, struct stg_strbuf *text);
/** What stg_control_plan checks of the facts and the names alone. */
STG_NODISCARD stg_status stg_control_check(const struct stg_tensor_file *file,
                                           const struct stg_control_use *use,
                                           const struct stg_control_facts *facts,
                                           stg_error *reterr);

/* Where a block's vector is; `tensor` NULL: the block is not steered. */
struct stg_control_direction {
  const struct stg_tensor_info *tensor; /* of hidden_size elements a row; elem is not NONE */
  size_t row;
};

struct stg_control_plan {
  struct stg_control_facts facts;
  int32_t first_block; /* the range that was asked for, or its default */
  int32_t last_block;
  const struct stg_control_direction *at;   /* [layers], in the arena */
  const char *notes[STG_CONTROL_MAX_NOTES]; /* what a user should know; one line each */
  size_t n_notes;
};

/**
 * Decide which direction acts at which block. A zero direction acts nowhere; that, and blocks of a
 * default range that have none, is said in the notes. Elements need not be finite.
 * @return STG_E_FORMAT for a file that is not what is asked of it, with the remedy;
 * STG_E_UNSUPPORTED for another model, and for what was not asked for by name; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_control_plan(const struct stg_tensor_file *file,
                                          const struct stg_control_use *use,
                                          struct stg_arena *arena,
                                          struct stg_control_plan *ret_plan, stg_error *reterr);

#endif
