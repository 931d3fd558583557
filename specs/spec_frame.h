/*
 * spec_frame.h: what the workload readers of all families share, while one file is being read: the
 * frame of the file, paths, sources, buckets.
 *
 * Private to the readers in specs. All memory that outlives a reader is in its arena.
 */
#ifndef STG_SPECS_SPEC_FRAME_H
#define STG_SPECS_SPEC_FRAME_H

#include "specs/control_plan.h"
#include "specs/json.h"
#include "specs/spec_family.h"
#include "specs/spec_source.h"
#include "specs/vector_file.h"

struct stg_spec_reader {
  const char *file;
  const char *folder; /* of the file */
  const struct stg_workload_options *options;
  struct stg_arena *arena; /* of the workload that is being built */
  stg_error *err;
};

/* spec_frame.c */

/** "steergraph" and "family" of a workload; the word must name a family. */
STG_NODISCARD stg_status stg_spec_read_family(const struct stg_spec_reader *reader,
                                              const struct stg_json *root,
                                              enum stg_spec_kind *ret_kind);
STG_NODISCARD stg_status stg_spec_read_dtype(const struct stg_spec_reader *reader,
                                             const struct stg_json *at, stg_dtype *ret_dtype);
/** An integer in [min, max]; `*ret` stays as it is where the object has no such member. */
STG_NODISCARD stg_status stg_spec_read_optional_int(const struct stg_spec_reader *reader,
                                                    const struct stg_json *object, const char *key,
                                                    int64_t min, int64_t max, int64_t *ret);
/** "run": how often the work is done untimed and timed. */
STG_NODISCARD stg_status stg_spec_read_run(const struct stg_spec_reader *reader,
                                           const struct stg_json *root, uint32_t *ret_warmup,
                                           uint32_t *ret_repeats);

/* Sizes to which a step is padded; NULL: the default series. */
struct stg_spec_buckets {
  const int64_t *rows, *batch;
  size_t n_rows, n_batch;
};
/** "buckets"; the largest must hold a batch of so many rows and requests. */
STG_NODISCARD stg_status stg_spec_read_buckets(const struct stg_spec_reader *reader,
                                               const struct stg_json *root, int64_t rows,
                                               int64_t requests, struct stg_spec_buckets *ret);

/* spec_words.c */

/** The index of a member's text in `words`, which end with NULL; `*ret` stays as it is where the
 * object has no such member. "'x' is not known; use 'a', 'b' or 'c'". */
STG_NODISCARD stg_status stg_spec_read_word(const struct stg_spec_reader *reader,
                                            const struct stg_json *object, const char *key,
                                            const char *const *words, unsigned *ret);

/* spec_source.c */

/** A path in the spec, resolved against its folder; it must exist and may not leave the folder. */
STG_NODISCARD stg_status stg_spec_read_path(const struct stg_spec_reader *reader,
                                            const struct stg_json *at, const char **ret_path);
/* Whether "{}" may stand for the layer in the members of a file. */
enum stg_spec_layers {
  STG_LAYERS_REFUSED,
  STG_LAYERS_ALLOWED,
  STG_LAYERS_WANTED /* "tensor" may be missing too: a GGUF file has names that are known */
};

/** "file" with what belongs to it, "values" or "random": exactly one of the three. */
STG_NODISCARD stg_status stg_spec_read_source(const struct stg_spec_reader *reader,
                                              const struct stg_json *at,
                                              enum stg_spec_layers layers,
                                              struct stg_spec_vector_source *ret_source);
/** The JSON path of `at` in the arena, or NULL. */
const char *stg_spec_where(const struct stg_spec_reader *reader, const struct stg_json *at);

/* spec_file_source.c */

/** "file", at `file` in `source`, with "tensor", "row", "offset" and "count" where they belong. */
STG_NODISCARD stg_status stg_spec_read_file_source(const struct stg_spec_reader *reader,
                                                   const struct stg_json *source,
                                                   const struct stg_json *file,
                                                   enum stg_spec_layers layers,
                                                   struct stg_spec_vector_source *ret_source);

/* spec_array.c */

/**
 * A source of the array whose shape and stream `array` has: of values, and of a raw file, the
 * count must fit; the shape of a tensor is looked at when it is read. `with_positions`: a member
 * "positions" beside the source's own is known.
 */
STG_NODISCARD stg_status stg_spec_read_array(const struct stg_spec_reader *reader,
                                             const struct stg_json *at, bool with_positions,
                                             struct stg_spec_array *array);

/* spec_files.c */

/** Room for the file that is kept open, in the arena; `spec` names the workload in messages, and
 * must live as long. */
STG_NODISCARD stg_status stg_spec_open_init(struct stg_arena *arena, const char *spec,
                                            struct stg_open_file **ret, stg_error *err);
/**
 * Open a vector file as stg_tensor_file_open does, or take the one that was opened last, where path
 * and hint are the same. Borrowed until the next call.
 */
STG_NODISCARD stg_status stg_spec_open(struct stg_open_file *open, const char *path,
                                       const struct stg_tensor_hint *hint,
                                       const struct stg_tensor_file **ret_file, stg_error *err);
/** What the file that is open says of itself; borrowed as it is. */
STG_NODISCARD stg_status stg_spec_open_facts(struct stg_open_file *open,
                                             const struct stg_control_facts **ret_facts,
                                             stg_error *err);
/** Whether a fact of the file at `path` is among the notes of files. */
bool stg_spec_has_file_note(const struct stg_open_file *open, const char *path,
                            enum stg_control_fact fact);
/** Add one; `text` is copied, `path` must live as long. */
STG_NODISCARD stg_status stg_spec_add_file_note(struct stg_open_file *open, const char *path,
                                                enum stg_control_fact fact, const char *text,
                                                stg_error *err);
/** Note `index`, or NULL behind the last; valid until the next one is added. */
const char *stg_spec_file_note(const struct stg_open_file *open, size_t index);
/** Close what is open, and free the notes; NULL is nothing. */
void stg_spec_open_fini(struct stg_open_file *open);
/** Find the tensor of a source in its file; borrowed until another file is opened. */
STG_NODISCARD stg_status stg_spec_open_tensor(struct stg_open_file *open,
                                              const struct stg_spec_vector_source *source,
                                              const struct stg_tensor_info **ret_tensor,
                                              stg_error *err);
/** STG_E_FORMAT: the tensor's shape, and what is needed. */
stg_status stg_spec_fail_shape(const struct stg_open_file *open,
                               const struct stg_spec_vector_source *source,
                               const struct stg_tensor_info *tensor, const char *needed,
                               stg_error *err);

#endif
