/*
 * region.h: a host's own work, captured once by signature and replayed.
 *
 * What a host enqueues through libraries of its own (cuBLAS, cuDNN, an FP8 layer), our applies
 * among it, is recorded into a graph the first time that its signature comes, and launched as one
 * graph from then on. The records are plans of the engine: one for each signature, padded size and
 * stream, under max_plans, the same eviction, statistics and record of traffic as all others.
 *
 * A host whose library has to make its captures itself, as torch has, hands over what came of them
 * (stg_region_adopt); that is a plan as others are.
 *
 * Pointers that the work uses are declared, with what becomes of them when they change. One that
 * changes and was not declared to is refused before anything is launched. Parameters of recorded
 * nodes are never edited.
 */
#ifndef STEERGRAPH_REGION_H
#define STEERGRAPH_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Characters of a signature, and pointers of a region, at most. */
#define STG_REGION_MAX_SIGNATURE 512
#define STG_REGION_MAX_POINTERS 1024

/**
 * A host's work: enqueue it on `stream`, on the pointers [n_pointers] that it is given, which need
 * not be the caller's. It is called on the thread that called stg_region_run, with the engine's
 * context current, while `stream`, one of the engine's, captures; or on the caller's stream where
 * nothing is recorded. All of it must be on that stream when it returns, also what went by way of
 * others. It allocates nothing on the device and waits for nothing. It may call the engine, but not
 * stg_region_run of its own region: while it is recorded that is STG_E_BUSY on the caller's stream,
 * elsewhere a call of itself without an end. To stg_region_forget of its own signature, and to
 * stg_engine_destroy, the region is STG_E_BUSY.
 * @return anything but STG_OK, with a message in `reterr`: the work cannot be enqueued so.
 */
typedef stg_status (*stg_region_record)(void *user, stg_stream stream, void *const *pointers,
                                        stg_error *reterr);

/* What becomes of a pointer that differs from the one that was recorded. */
typedef enum stg_region_moves {
  STG_REGION_FIXED = 0, /* it must not: STG_E_INVALID */
  STG_REGION_IN = 1,    /* the work reads a buffer of the region's, into which it is copied first */
  STG_REGION_OUT = 2,   /* the work writes such a buffer, which is copied out afterwards */
  STG_REGION_INOUT = 3, /* both */
  STG_REGION_RECORD = 4 /* the work is recorded again, and the graph updated or made anew */
} stg_region_moves;

/* A tensor of the work. `bytes` is what is copied; of FIXED and RECORD it is not looked at. */
typedef struct stg_region_pointer {
  void *address;
  size_t bytes;
  stg_region_moves moves;
} stg_region_pointer;

typedef struct stg_region_call {
  size_t struct_size; /* sizeof(stg_region_call) */
  /* What the work is, in the host's words: printable ASCII without '|', of 1 to 512 characters.
   * Equal text and equal sizes must mean equal work. */
  const char *signature;
  int64_t batch, seq, rows; /* padded sizes, which are part of the signature; 0: none */
  stg_region_record record;
  void *user; /* of `record` */
  const stg_region_pointer *pointers;
  size_t n_pointers;
} stg_region_call;

/* What a run did. All three false: the work was enqueued as it is each time, on the CPU, with
 * launch=plain, or into a host's own capture; `why` then says so. */
typedef struct stg_region_facts {
  size_t struct_size; /* in: sizeof(stg_region_facts) */
  bool recorded;      /* recorded, and launched */
  bool replayed;      /* launched as it was recorded before */
  bool eager;         /* enqueued on the caller's stream, since it could not be recorded */
  stg_status status;  /* eager: of the attempt to record it, STG_E_CAPTURE mostly; else STG_OK */
  char why[256];      /* "" where a graph was launched */
} stg_region_facts;

/**
 * Run a region on a stream: record it if that has not been done, and launch its graph. Where it
 * cannot be recorded, which is logged once per signature, `record` enqueues the work on `stream`
 * itself, with the caller's pointers; from then on at once, until stg_region_forget. A `record`
 * that fails there too is the caller's error, and the next run tries anew. `ret_facts` may be NULL.
 * Any thread; runs of one signature on one stream go one after the other. Waits for nothing, but
 * that a first run may wait for memory.
 *
 * A stream that captures gets the work itself: nothing is recorded. What a record pins (applies of
 * tables, see steer.h) is in use until the region is forgotten or evicted.
 * @return STG_E_INVALID for a malformed call, and for pointers that are not those that were
 * recorded, with the number and both values; what `record` returned where it ran on `stream`;
 * STG_E_BUSY from the region's own callback, and where that failed so; STG_E_CUDA, STG_E_NO_MEMORY,
 * STG_E_DEVICE_LOST, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_region_run(stg_engine *engine, const stg_region_call *call,
                                                stg_stream stream, stg_region_facts *ret_facts,
                                                stg_error *reterr);

/**
 * Let all records of a signature go, of whatever sizes and streams: the next run records anew, also
 * where that had failed. Launches in flight come to their end. A signature that has none is
 * success. Any thread.
 * @return STG_E_BUSY while a run of it is in progress: nothing is forgotten then; STG_E_INVALID,
 * STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_region_forget(stg_engine *engine, const char *signature,
                                                   stg_error *reterr);

/**
 * The size to which `size` is padded: the smallest of `sizes` that holds it. `sizes` are ascending
 * and above 0; NULL with n_sizes 0: 1 2 4 8, by 8 to 64, by 16 to 128, by 32 to 256, then powers of
 * two. So whatever sizes come, there are at most as many records as buckets. Any thread.
 * @return STG_E_CAPACITY beyond the last, which stg_region_chunks is for; STG_E_INVALID.
 */
STG_API STG_NODISCARD stg_status stg_region_bucket(const int64_t *sizes, size_t n_sizes,
                                                   int64_t size, int64_t *ret_padded,
                                                   stg_error *reterr);

/* Rows first .. first + size - 1 of a larger whole, padded. */
typedef struct stg_region_chunk {
  int64_t first, size, padded;
} stg_region_chunk;

/**
 * Cut `size` into chunks: as many of the largest bucket as it fills, and the rest padded to its
 * own; of 0 there are none. `ret_chunks` has room for `capacity`, and may be NULL with 0.
 * `*ret_n_chunks` is how many there are, also where the room does not do. Any thread.
 * @return STG_E_CAPACITY where the room is given and does not do; STG_E_INVALID.
 */
STG_API STG_NODISCARD stg_status stg_region_chunks(const int64_t *sizes, size_t n_sizes,
                                                   int64_t size, stg_region_chunk *ret_chunks,
                                                   size_t capacity, size_t *ret_n_chunks,
                                                   stg_error *reterr);

/*
 * Work that its host captures itself, where only the host's own library may: torch's allocator and
 * generators have to know of a capture. What comes of it, a torch.cuda.CUDAGraph, is adopted, and
 * is from then on a plan of the engine as others are: looked up by signature, sizes and stream,
 * bounded, evicted, counted. The host keeps it alive until stg_region_dropped says its token.
 */

/**
 * Launch what was adopted on `stream`, the one that it was adopted for. Called by stg_region_replay
 * on its thread, with the engine's context current. It waits for nothing, and may call the engine;
 * to stg_region_run and stg_region_replay of its own region, and to stg_engine_destroy, the region
 * is STG_E_BUSY.
 * @return anything but STG_OK, with a message in `reterr`: it is not launched.
 */
typedef stg_status (*stg_region_launch)(void *user, stg_stream stream, stg_error *reterr);

typedef struct stg_region_owner {
  size_t struct_size;       /* sizeof(stg_region_owner) */
  const char *signature;    /* as of stg_region_call */
  int64_t batch, seq, rows; /* likewise */
  stg_region_launch launch;
  void *user;     /* of `launch` */
  uint64_t token; /* any number of the host's: what stg_region_dropped says of it */
  size_t bytes;   /* of device memory that it holds, as far as is known; stats count it */
} stg_region_owner;

/**
 * Keep what a host captured, for `stream`; in place of what there was for it, recorded or adopted.
 * Counts as recorded. `launch` is called by stg_region_replay alone: nothing is launched here. On
 * failure it remains the host's, and its token is never said. Any thread; waits for nothing.
 * @return STG_E_UNSUPPORTED on the CPU and with launch=plain, where the work is to be done as it is
 * each time; STG_E_BUSY while a launch of the region on that stream has not returned; STG_E_INVALID
 * for a malformed owner; STG_E_NO_MEMORY, STG_E_CUDA, STG_E_DEVICE_LOST, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_region_adopt(stg_engine *engine, const stg_region_owner *owner,
                                                  stg_stream stream, stg_error *reterr);

/**
 * Launch what was adopted for a signature, sizes and stream. Launches of one region on one stream
 * go one after the other. Any thread; waits for nothing but those.
 * @return STG_E_NOT_FOUND where nothing was adopted, or it was evicted or forgotten: capture again;
 * STG_E_CAPTURING while the stream captures, which is to have the work itself; STG_E_INVALID for
 * what stg_region_run recorded, and for a malformed signature; STG_E_BUSY from its own `launch`;
 * what `launch` returned; STG_E_CUDA, STG_E_DEVICE_LOST, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_region_replay(stg_engine *engine, const char *signature,
                                                   int64_t batch, int64_t seq, int64_t rows,
                                                   stg_stream stream, stg_error *reterr);

/**
 * Say what of the adopted is the host's again: evicted, forgotten or replaced, and its last launch
 * over. Each token is said once. `*ret_count` is how many were written; as many as the room has:
 * ask again. What is in flight is said later. When stg_engine_destroy has returned, all tokens that
 * were not said are the host's. Any thread; waits for nothing.
 * @return STG_E_INVALID for NULL and for no room, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_region_dropped(stg_engine *engine, uint64_t *ret_tokens,
                                                    size_t capacity, size_t *ret_count,
                                                    stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
