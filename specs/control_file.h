/*
 * control_file.h: what a control vector, a file of a direction for each block, says of itself.
 *
 * llama.cpp reads no metadata of such a file. Here they are read, so that another model, another
 * way of applying it than adding, and another place can be refused. Must not know what is asked of
 * the file (control_plan.h does). Everything is read-only: any thread.
 */
#ifndef STG_SPECS_CONTROL_FILE_H
#define STG_SPECS_CONTROL_FILE_H

#include "specs/vector_file.h"

/* What metadata say; borrowed from the file. NULL (and -1) where they say nothing; a key that may
 * have any first segment is given with its value. */
struct stg_control_facts {
  const char *architecture; /* "controlvector" */
  bool declared;            /* that it is a control vector */
  const char *model_hint;
  const char *mode_key; /* of the first mode that is no addition; else of the first */
  const char *mode;
  const char *hook_point_key;
  const char *hook_point;
  const char *structure_key;
  const char *structure;
  const char *alpha_key;
  const char *alpha;
  int64_t layer_count;
};

/**
 * Read what the metadata of a file, of any format, say. STG_E_FORMAT for a value that is no text of
 * one line, or no count where one is needed.
 */
STG_NODISCARD stg_status stg_control_read(const struct stg_tensor_file *file,
                                          struct stg_control_facts *ret_facts, stg_error *reterr);
/** Whether a mode is an addition: "add", "additive" or "addition", in any case; or none is given.
 */
bool stg_control_adds(const struct stg_control_facts *facts);

#endif
