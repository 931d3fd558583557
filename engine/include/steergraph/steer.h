/*
 * steer.h: per-request edits of hidden states: ordered chains of ops in slots, applied to whole
 * batches.
 *
 * Life: create a steer table once; put each request's chains into a slot; once per scheduling step
 * fill a frame with the row map; per layer apply the frame to the hidden states. One launch per
 * apply, whatever the mixture.
 */
#ifndef STEERGRAPH_STEER_H
#define STEERGRAPH_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>
#include <steergraph/engine.h>
#include <steergraph/vector.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STG_MAX_CALL_VECTORS 4
#define STG_MAX_CALL_PARAMS 8

/* Row map entries that are not slots. */
#define STG_ROW_UNSTEERED (-1) /* a live row that no chain touches */
#define STG_ROW_PADDING (-2)   /* never loaded, never stored */

typedef struct stg_steer stg_steer; /* any thread */
/*
 * One thread at a time, and one stream: a host that moves a frame to another stream orders the new
 * stream after the frame's last use on the old one.
 */
typedef struct stg_frame stg_frame;

/* What an op sees of a row. */
typedef enum stg_state { STG_STATE_HIDDEN = 0, STG_STATE_HIDDEN_PLUS_RESIDUAL = 1 } stg_state;

/*
 * What follows the chain in the same launch.
 *
 * ADD_RMSNORM is what a serving engine runs behind a block anyway: with s = hidden + residual and
 * s' = chain(s), both float32, residual becomes s' and hidden s' / sqrt(mean(s'^2) + epsilon) *
 * weight, each rounded once. Every live row is computed, steered or not; a row that no chain acts
 * on gets the bits that it gets where nothing is steered.
 */
typedef enum stg_epilogue { STG_EPILOGUE_NONE = 0, STG_EPILOGUE_ADD_RMSNORM = 1 } stg_epilogue;

/* What may ever be asked of a steer table; all device tables are sized by it. Zero means default.
 */
typedef struct stg_steer_desc {
  size_t struct_size;   /* sizeof(stg_steer_desc) */
  int64_t hidden_size;  /* elements of a row, >= 1 */
  uint32_t layers;      /* default 1 */
  stg_dtype dtype;      /* of hidden (and residual) */
  stg_dtype bank_dtype; /* dtype (default) or f32 */
  stg_state state;
  uint32_t max_rows;    /* of a frame; default 2048 */
  uint32_t max_slots;   /* default 64 */
  uint32_t max_vectors; /* distinct vectors in use; default 4 * max_slots * layers, at most 65536 */
  uint32_t max_chain;   /* ops per chain: 1, 2, 4, 8 or 16; default 4 */
  const char *const *ops; /* names that chains may use; NULL: all built-ins, those that give
                             something out only with probes */
  size_t n_ops;
  const int64_t *row_buckets; /* ascending; NULL: the default series */
  size_t n_row_buckets;
  const int64_t *batch_buckets; /* ascending; NULL: powers of two from 8 */
  size_t n_batch_buckets;
  stg_epilogue epilogue; /* ADD_RMSNORM needs the state hidden+residual */
  float epsilon;         /* of the epilogue: > 0, finite, not subnormal; 0 without one */
  bool windows;  /* slots may have a window; every step then brings positions and prompt lengths */
  bool counters; /* stg_steer_counters says what happened to the rows of each slot */
  uint32_t probes; /* columns of what ops such as `probe` give out, at most 65536; 0: no such op */
} stg_steer_desc;

/**
 * Device bytes that stg_steer_create will take on cuda for records, the vector bank and counters;
 * frames come on top. `engine` supplies registered ops; any backend will do, and no device is
 * touched.
 */
STG_API STG_NODISCARD stg_status stg_steer_bytes(stg_engine *engine, const stg_steer_desc *desc,
                                                 size_t *ret_bytes, stg_error *reterr);

/**
 * Allocate all tables and see to the kernels (decode and prefill tile) of the declared ops, as
 * stg_options.compile says: waits for compiles, up to some hundred milliseconds, when no cache has
 * what must be there at once. In background mode that is one kernel, of the decode tile, which
 * steps of any rows can do with; the prefill tile follows. Tables that declare the same share
 * kernels. The compile of a user op begins here, when a table first declares it.
 * @return STG_E_INVALID names the field and the value; STG_E_NOT_WARM with compile=never;
 * STG_E_COMPILE; STG_E_NO_DEVICE without an NVRTC to compile with; STG_E_NO_MEMORY, STG_E_CUDA,
 * STG_E_DEVICE_LOST, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_steer_create(stg_engine *engine, const stg_steer_desc *desc,
                                                  stg_steer **ret_steer, stg_error *reterr);
/**
 * Free everything. Waits for uploads and one-shot calls in flight; frames waited for theirs.
 * In a forked child it frees nothing of a table on CUDA.
 * @return STG_E_BUSY while a frame is alive, or a graph that a host captured with one, or anything
 * made of such a graph (stg_steer_apply); the message has the number of captures. CUDA says late
 * that a graph is gone: the call waits a tenth of a second for it, after that try again. The table
 * is as it was. No other thread may be in a call on the table.
 */
STG_API STG_NODISCARD stg_status stg_steer_destroy(stg_steer *steer, stg_error *reterr);

/* One op with its arguments, in the order in which the op declares them. */
typedef struct stg_op_call {
  const char *op;
  stg_vector vectors[STG_MAX_CALL_VECTORS];
  float params[STG_MAX_CALL_PARAMS];
  uint32_t params_given; /* bit k: params[k] is given; otherwise the default */
} stg_op_call;

/* The ordered ops of one layer. */
typedef struct stg_chain {
  uint32_t layer;
  const stg_op_call *ops;
  size_t n_ops;
} stg_chain;

/* Rows of a sequence by where they are: prompt where position < prompt_len, generation after. */
typedef enum stg_phase {
  STG_PHASE_BOTH = 0,
  STG_PHASE_PROMPT = 1,
  STG_PHASE_GENERATION = 2
} stg_phase;

/*
 * Where in its sequence a request is steered: rows of the phase whose position is in [from, to).
 * A negative bound counts from the end of the prompt (-1 is its last row) and is not below 0 then.
 * All layers of a slot share one window. It is evaluated from the position and the prompt length
 * that each step brings of a row, so a prompt that comes in chunks means what a whole one does.
 */
typedef struct stg_window {
  size_t struct_size; /* sizeof(stg_window) */
  stg_phase phase;
  int64_t from, to; /* positions, within 32 bits; unread without has_from, has_to */
  bool has_from;    /* otherwise from the first row on */
  bool has_to;      /* otherwise without an end */
} stg_window;

/**
 * Put chains into a slot, replacing what it held. At most one chain per layer; layers without one
 * are not steered. Takes its own references to vectors. Steps already issued keep the old chains.
 * Works on the host: what the device needs of it goes out with the next step of any frame, together
 * with that of other slots. So setting slots is cheap, also many of them, and also while a stream
 * captures.
 * @return STG_E_INVALID (layer, vector width or parameter, with the values), STG_E_NOT_DECLARED (an
 * op, a chain longer or a column beyond what is declared), STG_E_CAPACITY (slot, vectors or
 * records), STG_E_NOT_FOUND (vector), STG_E_CUDA, STG_E_DEVICE_LOST, STG_E_FORKED; STG_E_PENDING
 * while a chain with a user op waits for its kernel, and what the compiler said (STG_E_COMPILE)
 * when it refused that; on CUDA alone. The slot is unchanged on failure. Any thread. Waits for the
 * device only where the record pool is full of records still in use, or where slots bring more than
 * half a megabyte, faster than it can be sent: that goes out at once.
 */
STG_API STG_NODISCARD stg_status stg_steer_slot_set(stg_steer *steer, uint32_t slot,
                                                    const stg_chain *chains, size_t n_chains,
                                                    stg_error *reterr);
/**
 * The same with a window. A row outside of it is as one that is not steered: not stored in place,
 * copied out of place, normalised as it is by an epilogue. `window` NULL: everywhere, which is what
 * stg_steer_slot_set does; stg_steer_set_params keeps it.
 * @return as stg_steer_slot_set; STG_E_NOT_DECLARED for a window in a table without windows,
 * STG_E_INVALID for a phase that is none, a bound beyond 32 bits, or bounds that hold no
 * position of any prompt.
 */
STG_API STG_NODISCARD stg_status stg_steer_slot_set_windowed(stg_steer *steer, uint32_t slot,
                                                             const stg_chain *chains,
                                                             size_t n_chains,
                                                             const stg_window *window,
                                                             stg_error *reterr);
/**
 * Empty a slot: its rows are then not steered, from the next step on, and its counters begin anew.
 * An empty slot may be cleared again.
 * @return STG_E_CAPACITY for a slot outside the table. Any thread; does not synchronise.
 */
STG_API STG_NODISCARD stg_status stg_steer_slot_clear(stg_steer *steer, uint32_t slot,
                                                      stg_error *reterr);
/**
 * Change parameters of op `op_index` of the slot's chain at `layer`; `given` as in stg_op_call, the
 * others keep their value. Visible from the next step on; the slot is unchanged on failure.
 * @return STG_E_NOT_FOUND when the slot has no such op, else as stg_steer_slot_set. Any thread.
 */
STG_API STG_NODISCARD stg_status stg_steer_set_params(stg_steer *steer, uint32_t slot,
                                                      uint32_t layer, size_t op_index,
                                                      const float *params, uint32_t given,
                                                      stg_error *reterr);
/**
 * 16 bytes that identify what the slot does (ops, parameters, vectors, layers, window): part of a
 * host's prefix-cache key, since steered and unsteered prompts must not share KV. An empty slot
 * gives zeros.
 * Hashes the slot's vectors the first time that it is asked for them.
 * @return STG_E_CAPACITY for a slot outside the table; STG_E_NO_MEMORY. Any thread; touches no
 * stream.
 */
STG_API STG_NODISCARD stg_status stg_steer_digest(const stg_steer *steer, uint32_t slot,
                                                  unsigned char ret_digest[16], stg_error *reterr);

/**
 * One row map at fixed device addresses, with windows also positions and prompt lengths, for up to
 * max_rows of the steer table; the caller's, to be destroyed before the table. Any thread;
 * synchronises the engine's own stream.
 * @return STG_E_NO_MEMORY, STG_E_CUDA.
 */
STG_API STG_NODISCARD stg_status stg_frame_create(stg_steer *steer, stg_frame **ret_frame,
                                                  stg_error *reterr);
/**
 * Waits for the stream of the frame's last step, which must still exist and may not be capturing:
 * uses on other streams are the host's to end before. A graph that a host captured with the frame
 * may live on: its replays do what the frame's last step said. As long as it lives, the frame's
 * device memory stays with the table, and so do the records that it names; it is freed when a later
 * frame is created or destroyed, or with the table. NULL is fine.
 */
STG_API void stg_frame_destroy(stg_frame *frame);

/* One scheduling step. */
typedef struct stg_step {
  size_t struct_size;     /* sizeof(stg_step) */
  int64_t rows;           /* 0..max_rows */
  const int32_t *row_map; /* int32 [rows]: slot, STG_ROW_UNSTEERED or STG_ROW_PADDING; may be NULL
                             if rows is 0 */
  bool on_device;         /* row_map, positions and prompt_lens are device addresses, read on the
                             stream */
  uint32_t requests; /* of the batch; 0: counted from a host row map as runs of equal entries */
  uint32_t
      longest; /* rows of the longest request; 0: the longest run of a host row map, else rows */
  /* int32 [rows] each, required iff the table declares windows (NULL is fine for 0 rows): where a
   * row is in its sequence, 0 to 2^31 - 2, and how many rows that sequence's prompt has, >= 0. Rows
   * that name no slot may have any. On the device they are not checked: a row whose position is out
   * of range is not steered, and a negative length counts as 0. */
  const int32_t *positions;
  const int32_t *prompt_lens;
} stg_step;

/**
 * Fill the frame: translate slots to records, resolve the plan for this signature; on cuda, send
 * what slots brought since the last step of any frame, on the engine's own stream, which `stream`
 * then waits for. Compiles nothing; a kernel that came from the background meanwhile serves from
 * now on, and until then one of the other tile or tier, with the same bits. Rows past `rows` act as
 * padding. A frame's steps and applies go on one stream, or the host orders the streams.
 * @return STG_E_BAD_SLOT with the row and the value when a host row map names a slot outside the
 * table; STG_E_INVALID for positions that are missing, not declared, or on the host out of range,
 * with the row and the value, and for entries that lie at no multiple of 4 bytes; STG_E_CAPACITY
 * for more rows than max_rows or than the largest bucket; STG_E_CAPTURING. Also reports what the
 * device saw since the last step: STG_E_BAD_SLOT. A refused step leaves the frame as the last one
 * made it; after a failed CUDA call it needs a new step. What could not be sent is sent again by
 * the next step. Does not synchronise, unless four steps, or megabytes of what slots brought, are
 * ahead of the device.
 */
STG_API STG_NODISCARD stg_status stg_steer_step(stg_frame *frame, const stg_step *step,
                                                stg_stream stream, stg_error *reterr);

/* One layer's tensors. Device addresses on cuda, host addresses on the CPU. */
typedef struct stg_apply {
  size_t struct_size; /* sizeof(stg_apply) */
  uint32_t layer;
  const void *hidden; /* dtype [rows, row_stride] */
  void *out;          /* same shape; NULL or == hidden: in place. Partial overlap is refused */
  void *residual; /* dtype [rows, row_stride]; required iff state is hidden+residual. Written by an
                     epilogue alone, and then apart from all other tensors */
  int64_t row_stride; /* elements; 0: hidden_size */
  const void *weight; /* dtype [hidden_size]; required iff the table has an epilogue. It may be read
                         before work that came between the step and this apply has ended: what
                         writes it goes ahead of the step, or of a host's graph */
  /* float32 [rows, probe_stride], required iff the table declares probes, apart from all other
   * tensors: what ops of the chains give out, in the row and the column that their parameter says;
   * the last op of a chain that names a column has it. Other cells are not written. */
  float *probes;
  int64_t probe_stride; /* elements; 0: the declared probes */
} stg_apply;

/**
 * Apply the frame's chains of one layer. On cuda one launch, nothing allocated and nothing hashed;
 * on the CPU room for one row is taken from the heap.
 * On a capturing stream it adds one kernel node for the frame's row bucket. The host's graph then
 * holds what the node uses: the frame's memory, the steer table and the engine, which cannot be
 * destroyed before. So do its copies and its executable graphs, until they have been destroyed and
 * have run out. In place, rows that no op changes are not stored; out of place they are copied.
 * With an epilogue all live rows of out and residual are stored. On sm_90 and later the kernel lets
 * a launch behind it begin before it has ended, where that one was launched so (programmatic stream
 * serialization): such a kernel of the host must wait (griddepcontrol.wait) before it reads what
 * this one writes, or writes what it reads.
 * @return STG_E_INVALID for a layer, stride, pointer or overlap that cannot be, with the values,
 * and before the first step; STG_E_NOT_WARM in a capture while the kernel that its graph is to keep
 * is being compiled: in background mode that of the prefill tile, which buckets of more than 256
 * rows take, or of a declared user op; STG_E_COMPILE where it was refused. Both name it. It is
 * there when stg_stats counts no compile as queued or running; no other step is needed then, but
 * for one that found the queue full, which steps ask for again. STG_E_NOT_WARM also while 256
 * graphs live that were captured since the table's last step, each counted for every frame that it
 * uses. Nothing is written then, and a capture stays valid. Does not synchronise.
 */
STG_API STG_NODISCARD stg_status stg_steer_apply(stg_frame *frame, const stg_apply *apply,
                                                 stg_stream stream, stg_error *reterr);

/* The one-shot form: a batch given by lengths, a chain per request, no slots to manage. */
typedef struct stg_once {
  size_t struct_size; /* sizeof(stg_once) */
  stg_apply apply;
  int64_t rows; /* rows of the tensors */
  size_t n_requests;
  const int64_t
      *lengths; /* rows of each request, in order; their sum may be below `rows` (padding) */
  const stg_chain *chains; /* one per request; n_ops 0: not steered. `layer` must be apply.layer */
} stg_once;

/**
 * Register, step, apply, and give the slots back. Requests with equal chains share a slot; needs as
 * many free slots as there are distinct chains. They act on all their rows, windows declared or
 * not, and are not counted. Any thread; calls on different streams follow each other on the device.
 * @return STG_E_INVALID when lengths sum to more than rows (both numbers), nothing written; else as
 * stg_steer_slot_set, STG_E_PENDING too.
 * Does not synchronise.
 */
STG_API STG_NODISCARD stg_status stg_steer_once(stg_steer *steer, const stg_once *once,
                                                stg_stream stream, stg_error *reterr);

/* What happened to the rows of one slot at one layer. */
typedef struct stg_slot_counters {
  size_t struct_size;    /* sizeof(stg_slot_counters) */
  uint64_t rows_touched; /* rows that the slot's chain ran on */
  uint64_t rows_changed; /* of them, those stored with other bytes than they had */
  float max_update;      /* what an element was changed by at most, as stored; NaN does not count */
} stg_slot_counters;
/**
 * What was counted of a slot at a layer since the slot was last cleared, by all that `stream` has
 * done: so that a request which is silently not steered shows. Behind an epilogue a row counts as
 * changed where its residual is not the rounded sum of hidden and residual, and the update is the
 * difference to that. One-shot calls are not counted. Setting a slot again goes on counting;
 * clearing it begins anew with the next step of any frame, on that step's stream. Steps after that
 * one wait for it on the device, once each frame, as this call does, so that no row of the slot's
 * next chains is lost; what other streams still do for the old chains may go to the next ones. With
 * one stream, or streams in order, counts are exact.
 * @return STG_E_NOT_DECLARED in a table without counters; STG_E_CAPACITY for a slot outside the
 * table, STG_E_INVALID for a layer outside; STG_E_CAPTURING, STG_E_CUDA, STG_E_DEVICE_LOST,
 * STG_E_FORKED. Any thread. Synchronises `stream`.
 */
STG_API STG_NODISCARD stg_status stg_steer_counters(stg_steer *steer, uint32_t slot, uint32_t layer,
                                                    stg_stream stream,
                                                    stg_slot_counters *ret_counters,
                                                    stg_error *reterr);

/* What the device reported. */
typedef struct stg_device_report {
  size_t struct_size;
  uint32_t bad_slot_rows; /* rows whose map entry was no slot, since the last report; not steered */
  int32_t bad_slot;       /* one such entry */
  uint32_t non_finite_rows; /* rows whose coefficients became NaN or Inf, since the last report */
} stg_device_report;
/**
 * What the device reported since the last report; all zeros on the CPU. A wrong row map is in the
 * report, not in the status. Any thread. Synchronises `stream`.
 */
STG_API STG_NODISCARD stg_status stg_device_status(stg_steer *steer, stg_stream stream,
                                                   stg_device_report *ret_report,
                                                   stg_error *reterr);

/* The plan that serves the frame since its last step. Text is borrowed until the next step. */
typedef struct stg_plan_info {
  size_t struct_size;
  const char *signature; /* "steer v1 | ... | sm_90 | batch<=32 seq<=64 rows<=2048", of the tile
                            that serves: the shape's or, until that is compiled, the other */
  char kernel_key[33];
  char graph_key[33];
  const char *source; /* "memory", "disk", "compiled", "cpu": where the kernel came from at first */
  int tier;           /* of the kernel that serves: 0 has the ops of a table without a list, 1 the
                         declared ones; -1 on the CPU */
  double compile_ms;  /* of this kernel, in this process */
  uint32_t tile_rows, threads, registers, local_bytes, shared_bytes;
  int64_t row_bucket, batch_bucket, seq_bucket;
} stg_plan_info;
/** STG_E_NOT_FOUND before the frame's first step. Touches no stream. */
STG_API STG_NODISCARD stg_status stg_frame_plan(const stg_frame *frame, stg_plan_info *ret_info,
                                                stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
