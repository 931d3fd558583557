/*
 * workload.h: a steer workload (specs/README.md) as a checked, plain struct.
 *
 * The reader checks everything that can be known without a device or an op's meaning: shape, types,
 * names, ranges, references between slots and vectors. What ops mean is checked by who compiles
 * them; for their messages each op call keeps the JSON path it came from.
 */
#ifndef STG_SPECS_WORKLOAD_H
#define STG_SPECS_WORKLOAD_H

#include <steergraph/dtype.h>

#include "specs/op_file.h"
#include "specs/spec_source.h"

/* Limits of a workload (specs/README.md). */
#define STG_WORKLOAD_MAX_HIDDEN_SIZE (1 << 20)
#define STG_WORKLOAD_MAX_LAYERS 1024
#define STG_WORKLOAD_MAX_ROWS (1 << 22)
#define STG_WORKLOAD_MAX_ROW_STRIDE (1 << 24)
#define STG_WORKLOAD_MAX_REQUESTS 65536
#define STG_WORKLOAD_MAX_COPIES 65536
#define STG_WORKLOAD_MAX_BUCKETS 64
#define STG_WORKLOAD_MAX_OPS 256
#define STG_WORKLOAD_MAX_REPEATS 1000000
#define STG_WORKLOAD_WARMUP 10 /* unless "run" says otherwise */
#define STG_WORKLOAD_REPEATS 100
#define STG_WORKLOAD_MAX_NAME_BYTES 128
#define STG_WORKLOAD_MAX_CONTROL_FILES 256 /* of a slot */
#define STG_WORKLOAD_MAX_CONTROL_VECTORS 65536
#define STG_WORKLOAD_MAX_CONTROL_BYTES ((size_t)1 << 30)
#define STG_WORKLOAD_MAX_PATTERN_BYTES 256
#define STG_WORKLOAD_PLACE_BYTES 512

/*
 * One of "vectors"; behind them come those of control vectors, one for each block and call, whose
 * name is their place.
 *
 * normalize: -1 unsaid, 0, 1. A vector for which "copies" was given is named "noise[3]" in slots;
 * so is one with "{}" in its source, whose copies are the layers 0 to STG_LAYER_MAX of its file.
 * The places of first use decide what an unsaid normalize means, see
 * stg_workload_resolve_normalize.
 */
struct stg_spec_vector {
  const char *name;
  struct stg_spec_vector_source source;
  int normalize;
  uint32_t copies;
  bool indexable;          /* "copies" was given, or "{}" */
  const char *where;       /* "vectors.noise", for messages */
  const char *used_unit;   /* first call of an op that expects a unit vector, or NULL */
  const char *used_stored; /* first call of any other op, or NULL */
};

/* A named argument of an op call: a vector reference or a parameter. */
struct stg_spec_arg {
  const char *name;
  bool is_vector;
  uint32_t vector; /* index into stg_workload.vectors */
  uint32_t copy;
  float value;
};

struct stg_spec_op_call {
  const char *op;
  const struct stg_spec_arg *args;
  size_t n_args;
  const char *where; /* "slots.calm.layers.0[1]" */
};

struct stg_spec_chain {
  uint32_t layer;
  const struct stg_spec_op_call *ops;
  size_t n_ops;
};

/* Where in a sequence a slot acts: rows of the phase at positions [from, to); negative bounds count
 * from the end of the prompt. */
struct stg_spec_window {
  enum { STG_SPEC_PHASE_BOTH, STG_SPEC_PHASE_PROMPT, STG_SPEC_PHASE_GENERATION } phase;
  int64_t from, to; /* 0 where they are not given */
  bool has_from, has_to;
};

struct stg_spec_slot {
  const char *name;
  const struct stg_spec_window *window; /* of all its layers; NULL: everywhere */
  const struct stg_spec_chain *chains;
  size_t n_chains;
};

/* `slot` is an index into slots, or -1: the request is not steered. "repeat" is already expanded.
 */
struct stg_spec_request {
  int32_t slot;
  int64_t rows;
  int64_t position;
  int64_t prompt_len;
};

/* A file that was read with the workload, a control vector, and the place that names it. */
struct stg_spec_file {
  const char *path;
  const char *where;
};

/* Reading vectors and rows takes one thread at a time, all else any number. */
struct stg_workload {
  const char *file;
  const char *model; /* NULL: not given */
  int64_t hidden_size;
  uint32_t layers;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  bool pair;                            /* state = hidden+residual */
  const struct stg_op_decl *const *ops; /* user ops, read from their files */
  size_t n_ops;
  const struct stg_spec_vector *vectors;
  size_t n_vectors;
  const struct stg_spec_slot *slots;
  size_t n_slots;
  uint32_t layer;     /* of the batch */
  int64_t row_stride; /* elements, >= hidden_size */
  const struct stg_spec_request *requests;
  size_t n_requests;
  int64_t rows;               /* sum over requests */
  const int64_t *row_buckets; /* ascending; NULL: the default series */
  size_t n_row_buckets;
  const int64_t *batch_buckets;
  size_t n_batch_buckets;
  bool epilogue;                        /* add_rmsnorm, the one there is */
  float epsilon;                        /* of the epilogue */
  struct stg_spec_vector_source weight; /* of the epilogue */
  struct stg_spec_vector_source hidden;
  struct stg_spec_vector_source residual; /* when pair */
  uint32_t warmup;                        /* default 10 */
  uint32_t repeats;                       /* default 100 */
  const struct stg_spec_file *files;
  size_t n_files;
  const char *const *notes; /* what a user should know; one line each */
  size_t n_notes;
  struct stg_open_file *open;
  struct stg_arena arena;
};

STG_NODISCARD stg_status stg_workload_load(const char *path,
                                           const struct stg_workload_options *options,
                                           struct stg_workload *ret_workload, stg_error *reterr);
/** The same from text in memory; `path` names it in messages and gives the folder of relative
 * paths. */
STG_NODISCARD stg_status stg_workload_parse(const char *path, const char *text, size_t len,
                                            const struct stg_workload_options *options,
                                            struct stg_workload *ret_workload, stg_error *reterr);
void stg_workload_finish(struct stg_workload *workload);

/**
 * Read vector `index`, copy `copy` as hidden_size floats, exactly as stored (no normalisation).
 * STG_E_FORMAT or STG_E_NOT_FOUND with the vector's place and both shapes, STG_E_NON_FINITE with
 * the index of the value, STG_E_UNSUPPORTED for a file of another model than geometry.model, or
 * what opening its file gave; the content of ret_values is then unspecified.
 */
STG_NODISCARD stg_status stg_workload_read_vector(const struct stg_workload *workload, size_t index,
                                                  uint32_t copy, float *ret_values,
                                                  stg_error *reterr);
/** "vectors.noise", or "vectors.noise: 'noise[3]'" of a vector that is named so, for messages; cut
 * where it does not fit. */
void stg_workload_print_place(const struct stg_workload *workload, size_t index, uint32_t copy,
                              char ret_place[STG_WORKLOAD_PLACE_BYTES]);
/**
 * What a user should know of the files whose vectors were read so far, one line each and once for a
 * file: note `index`, or NULL behind the last. Valid until the next vector is read.
 */
const char *stg_workload_file_note(const struct stg_workload *workload, size_t index);
/**
 * Read the epilogue's weight as hidden_size floats, each rounded to workload->dtype. Fails as
 * stg_workload_read_vector does, and with STG_E_NON_FINITE for a value beyond the dtype's range.
 */
STG_NODISCARD stg_status stg_workload_read_weight(const struct stg_workload *workload,
                                                  float *ret_values, stg_error *reterr);
/**
 * Fill rows x hidden_size elements of workload->dtype (row pitch row_stride elements) from
 * `source` (&workload->hidden or &workload->residual). Elements between hidden_size and the stride
 * are left as they are. Non-finite inputs are allowed here.
 */
STG_NODISCARD stg_status stg_workload_fill(const struct stg_workload *workload,
                                           const struct stg_spec_vector_source *source,
                                           void *ret_rows, stg_error *reterr);
/**
 * Whether vector `index` is to be normalised: what "normalize" says; unsaid, true when only
 * ablation, projection_cap and swap use it, false when only others (or nobody) do.
 * STG_E_INVALID when both kinds use it, with a place of each.
 */
STG_NODISCARD stg_status stg_workload_resolve_normalize(const struct stg_workload *workload,
                                                        size_t index, bool *ret_normalize,
                                                        stg_error *reterr);
/**
 * Divide by the norm, in place: norm and quotient in float64, rounded to float32. STG_E_INVALID
 * for a zero norm; the values are then as they were.
 */
STG_NODISCARD stg_status stg_normalize(float *values, size_t count, stg_error *reterr);

#endif
