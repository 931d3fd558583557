/*
 * workload_reader.h: what the parts of the workload reader share, while one file is being read.
 *
 * Private to specs/workload*.c. Each part reads one member of the file into the workload; all
 * memory that outlives the reader is in the workload's arena.
 */
#ifndef STG_SPECS_WORKLOAD_READER_H
#define STG_SPECS_WORKLOAD_READER_H

#include "specs/control_plan.h"
#include "specs/spec_frame.h"
#include "specs/workload.h"

/* A name and the index of what it names; a table is sorted by name. */
struct stg_spec_name {
  const char *name;
  uint32_t index;
};
struct stg_spec_names {
  const struct stg_spec_name *entries;
  size_t count;
};

struct stg_workload_reader {
  struct stg_workload *workload;   /* the mutable side of what is being built */
  struct stg_spec_reader spec;     /* what all families share; its arena is the workload's */
  struct stg_spec_vector *vectors; /* workload->vectors, writable; moves when one is added */
  size_t vectors_capacity;
  struct stg_spec_file *files; /* the same of the workload's files and notes */
  size_t files_capacity;
  const char **notes;
  size_t notes_capacity;
  size_t control_bytes; /* of the values of control vectors */
  struct stg_spec_names vector_names;
  struct stg_spec_names slot_names;
};

/* workload_names.c */

/** Refuse an empty or long name, brackets and control bytes; `at` is the member it names. */
STG_NODISCARD stg_status stg_spec_check_name(const struct stg_json *at, stg_error *err);
/** Sort `entries` and wrap them; names are unique, being members of one object. */
struct stg_spec_names stg_spec_names_of(struct stg_spec_name *entries, size_t count);
bool stg_spec_names_find(const struct stg_spec_names *names, const char *name, size_t len,
                         uint32_t *ret_index);
/** "unknown vector 'x'; declared are 'a', 'b', ...". */
stg_status stg_spec_unknown_name(const struct stg_json *at, const char *kind, const char *name,
                                 const struct stg_spec_names *names, stg_error *err);

/* workload.c */

/** A "count" that was read from `source` must be `needed`: hidden_size, or that of each row. */
STG_NODISCARD stg_status stg_spec_check_count(struct stg_workload_reader *reader,
                                              const struct stg_json *source,
                                              const struct stg_spec_vector_source *read,
                                              int64_t needed);
/** Read a whole workload of the steer family. */
STG_NODISCARD stg_status stg_workload_read_root(const struct stg_spec_reader *outer,
                                                const struct stg_json *root,
                                                struct stg_workload *ret_workload);
/**
 * Read what a steered step says of its steering, an object with the members geometry, ops, vectors,
 * slots and batch of a steer workload. Owns its memory: stg_workload_finish.
 */
STG_NODISCARD stg_status stg_workload_read_part(const struct stg_spec_reader *outer,
                                                const struct stg_json *at,
                                                struct stg_workload *ret_workload);

/* workload_words.c */

/**
 * Hold what the open file of `source` says of itself against the workload: refuse another model,
 * and note what may be meant otherwise than it is used. `vector` is NULL for an epilogue's weight.
 */
STG_NODISCARD stg_status stg_spec_check_words(const struct stg_workload *workload,
                                              const struct stg_spec_vector_source *source,
                                              const struct stg_spec_vector *vector, stg_error *err);

/* workload_calls.c */

/** The name of an op, a built-in's or one of the workload's; borrowed from the document. */
STG_NODISCARD stg_status stg_spec_read_op(struct stg_workload_reader *reader,
                                          const struct stg_json *at, const char **ret_op);
/** An op call: "op", vectors and parameters by the op's own names. */
STG_NODISCARD stg_status stg_spec_read_call(struct stg_workload_reader *reader,
                                            const struct stg_json *at,
                                            struct stg_spec_op_call *call);
/** Note the first call of either kind that uses a vector. */
void stg_spec_note_use(struct stg_spec_vector *vector, const struct stg_spec_op_call *call);

/* workload_control.c */

/** Add what a user should know, one line; `text` is copied and finished. */
STG_NODISCARD stg_status stg_spec_add_note(struct stg_workload_reader *reader,
                                           struct stg_strbuf *text);
/** "control_vector" of a slot: add the calls of its files behind those of the slot's layers. */
STG_NODISCARD stg_status stg_spec_read_control(struct stg_workload_reader *reader,
                                               const struct stg_json *list,
                                               struct stg_spec_slot *slot);

/* workload_control_entry.c */

/* One file of a control vector, and what it is for. */
struct stg_spec_control {
  const char *where; /* "slots.cheer.control_vector[0]" */
  struct stg_spec_vector_source source;
  struct stg_control_use use; /* without rows */
  const char *op;             /* "add" where none is named */
  bool adds;
  float scale; /* of an addition */
  const struct stg_spec_arg *params;
  size_t n_params; /* 0 of an addition */
};
STG_NODISCARD stg_status stg_spec_read_control_entry(struct stg_workload_reader *reader,
                                                     const struct stg_json *at,
                                                     struct stg_spec_control *ret_entry);

/* workload_window.c */

/** "phase" and "window" of a slot; `*ret_window` stays as it is where the slot acts everywhere. */
STG_NODISCARD stg_status stg_spec_read_window(struct stg_workload_reader *reader,
                                              const struct stg_json *slot,
                                              const struct stg_spec_window **ret_window);

/* workload_vectors.c, workload_slots.c, workload_batch.c, workload_epilogue.c: members of the root
 */

STG_NODISCARD stg_status stg_spec_read_vectors(struct stg_workload_reader *reader,
                                               const struct stg_json *root);
STG_NODISCARD stg_status stg_spec_read_slots(struct stg_workload_reader *reader,
                                             const struct stg_json *root);
STG_NODISCARD stg_status stg_spec_read_batch(struct stg_workload_reader *reader,
                                             const struct stg_json *root);
STG_NODISCARD stg_status stg_spec_read_epilogue(struct stg_workload_reader *reader,
                                                const struct stg_json *root);

#endif
