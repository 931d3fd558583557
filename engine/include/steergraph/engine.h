/*
 * engine.h: open an engine on one device (or on the CPU), register ops, read counters.
 *
 * An engine is safe from any thread. Every call pushes and pops the device's primary context, so
 * the calling thread's current context is never changed. Several devices: several engines.
 *
 * fork: a child gets STG_E_FORKED from every call on what its parent made on CUDA, before any lock
 * is taken; destroying there succeeds and touches nothing, and counters are not filled. An engine
 * on the CPU is copied with the process: the child may use and destroy its copy, if no other thread
 * of the parent was inside a call when it forked.
 */
#ifndef STEERGRAPH_ENGINE_H
#define STEERGRAPH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/log.h>
#include <steergraph/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stg_engine stg_engine;

/* A CUDA stream (CUstream, cudaStream_t); NULL is the legacy default stream. Ignored on the CPU. */
typedef void *stg_stream;

typedef enum stg_backend {
  STG_BACKEND_AUTO = 0, /* cuda where a device is found, otherwise cpu */
  STG_BACKEND_CUDA = 1,
  STG_BACKEND_CPU = 2
} stg_backend;

/* When a kernel that is in no cache may be compiled. */
typedef enum stg_compile_mode {
  STG_COMPILE_DEFAULT = 0, /* background */
  STG_COMPILE_BLOCK = 1,   /* stg_steer_create compiles the declared kernels before it returns */
  STG_COMPILE_NEVER = 2,   /* no NVRTC: STG_E_NOT_WARM names the signature, unless a cache has the
                              declared kernels, or general ones that will do */
  /*
   * Threads of the engine compile, not the caller's, unless none can be started. stg_steer_create
   * waits for one general kernel, which runs all built-in ops over any rows, unless a cache has one
   * that serves. The others, for prefill and of the declared ops, follow, and serve from a later
   * step on, with the same bits. Until then slots with user ops are STG_E_PENDING, and a capture of
   * more than 256 rows is STG_E_NOT_WARM, as is one of fewer where a cache has the prefill kernel
   * alone.
   */
  STG_COMPILE_BACKGROUND = 3
} stg_compile_mode;

typedef enum stg_launch_mode {
  STG_LAUNCH_DEFAULT = 0, /* graph */
  STG_LAUNCH_GRAPH = 1,   /* the graph of the signature, its node parameters updated */
  STG_LAUNCH_PLAIN = 2    /* a kernel launch; also the fallback when a graph cannot be had */
} stg_launch_mode;

typedef enum stg_cache_mode {
  STG_CACHE_DEFAULT = 0, /* read and write */
  STG_CACHE_READ_ONLY = 1,
  STG_CACHE_REFRESH = 2, /* compile again and overwrite */
  STG_CACHE_OFF = 3,     /* memory only, and no pack */
  STG_CACHE_MEMORY = 4   /* memory and packs: folders of cache_path are left out */
} stg_cache_mode;

/*
 * Options; zero means default everywhere. Fill with stg_options_init or stg_options_from_env.
 * Strings are borrowed until stg_engine_create returns.
 */
typedef struct stg_options {
  size_t struct_size; /* sizeof(stg_options) */
  bool enabled;       /* STEERLLM_COMPILE_STEERING; for hosts: see stg_enabled */
  stg_backend backend;
  int device; /* CUDA ordinal */
  stg_compile_mode compile;
  stg_launch_mode launch;
  const char *cache_path; /* "RO:RO:RW" list of folders, packs among RO; NULL or "": memory only */
  const char *pack_path;  /* a pack below all of cache_path, also where that is empty; NULL: the
                             installed one, where there is one; "": none */
  stg_cache_mode cache_mode;
  bool cache_trust; /* accept cache folders and packs that others own or can write */
  const char
      *nvrtc_options; /* NVRTC_APPEND_FLAGS as it stands in the environment: part of every key */
  stg_log_fn log;
  void *log_user;
  stg_log_level log_level;
  /* Batch shapes whose plan the engine keeps, of all its tables, and as many instantiated graphs;
   * 0: 512. Beyond it the ones that no frame uses go, longest idle first; what frames use stays,
   * whatever its number. */
  uint32_t max_plans;
  uint32_t compile_threads; /* at most, started when there is work; 0: 2 to 4, by processors */
  uint32_t compile_queue;   /* compiles that wait for a thread; 0: 256. Beyond it a kernel is asked
                               for again by a later step or slot_set */
  /* How much the folder that is written to may hold, all its files together; 0: 2 GiB and 32768;
   * UINT64_MAX: no limit. Beyond it a store removes what was unused longest, down to nine tenths.
   */
  uint64_t cache_max_bytes, cache_max_entries;
} stg_options;

/** Set every option to its default. */
STG_API void stg_options_init(stg_options *options);

/**
 * Fill options from the environment: the only place where the library reads it.
 * STEERLLM_COMPILE_STEERING (0 or unset: off, 1: on), STEERGRAPH_CACHE_DIR, else
 * XDG_CACHE_HOME/steergraph, else HOME/.cache/steergraph, else memory only; STEERGRAPH_CACHE (on,
 * off, memory, read-only, refresh), STEERGRAPH_CACHE_MAX_SIZE (bytes, or a number with K, M or G;
 * none), STEERGRAPH_CACHE_MAX_ENTRIES (a number; none), STEERGRAPH_NO_JIT=1 (compile never),
 * STEERGRAPH_LOG (off, error, warn, info, debug), NVRTC_APPEND_FLAGS. Strings live as long as the
 * process, or until the environment is changed.
 * @return STG_E_INVALID for a value that is none of these, with the variable, the value and what is
 * allowed.
 */
STG_API STG_NODISCARD stg_status stg_options_from_env(stg_options *options, stg_error *reterr);

/**
 * Whether the host is to steer through the library: false where STEERLLM_COMPILE_STEERING was
 * unset, empty or 0, and the host then keeps its own path and opens no engine. The library itself
 * does not act on it: what a host asks for is done. `options` as stg_options_from_env filled it;
 * NULL, or a struct of another size, is false. Reads nothing but the struct. Any thread.
 */
STG_API bool stg_enabled(const stg_options *options);

/**
 * Open an engine. With backend auto, the log says in one line (level info) which backend and why.
 * The first engine of a process also asks for a profiler that listens through NVTX: steps, applies,
 * proofs, regions, compiles and what sets slots are then ranges of its domain "steergraph".
 * A pack that cannot be used costs one warning.
 * @return STG_E_INVALID for a cache folder that others own or can write, and for a pack as the last
 * element of cache_path, which is written to; STG_E_NO_DEVICE when cuda was asked for and is not to
 * be had; STG_E_UNSUPPORTED below sm_80.
 */
STG_API STG_NODISCARD stg_status stg_engine_create(const stg_options *options,
                                                   stg_engine **ret_engine, stg_error *reterr);

/**
 * Close the engine. Everything made from it must have been destroyed before. Compiles that are
 * queued are called off, and one in progress is stopped; with an NVRTC that cannot be stopped (it
 * has no nvrtcSetFlowCallback), waits for its end. In a forked child it frees nothing of
 * an engine on CUDA, whatever is alive.
 * @return STG_E_BUSY, with what is still alive, or a region that is being run; the engine then goes
 * on living.
 */
STG_API STG_NODISCARD stg_status stg_engine_destroy(stg_engine *engine, stg_error *reterr);

/* What an engine runs on. Text is borrowed from the engine. */
typedef struct stg_engine_info {
  size_t struct_size;  /* in: sizeof(stg_engine_info) */
  stg_backend backend; /* cuda or cpu, never auto */
  const char *reason;  /* one line: which backend and why */
  const char *device;  /* name of the card or of the processor */
  const char *arch;    /* "sm_90", "cpu" */
  int driver_version;  /* 13000 for 13.0; 0 on the CPU */
} stg_engine_info;
/** Fills nothing of NULL, nor when struct_size is not that of this version. */
STG_API void stg_engine_get_info(const stg_engine *engine, stg_engine_info *info);

/**
 * Register an op from the text of its JSON definition (specs/README.md). `file` names it in
 * messages. The same definition twice is success; another one under a used name is STG_E_INVALID,
 * a malformed one STG_E_FORMAT with file, statement and column.
 */
STG_API STG_NODISCARD stg_status stg_op_register(stg_engine *engine, const char *file,
                                                 const char *json, size_t json_bytes,
                                                 stg_error *reterr);

/* Counters since the engine was created, and what it holds now. */
typedef struct stg_stats {
  size_t struct_size; /* in: sizeof(stg_stats) */
  uint64_t kernel_memory_hits, kernel_disk_hits, kernel_compiles;
  double compile_ms, load_us;
  uint64_t cache_stores, cache_store_failures, cache_quarantined;
  uint64_t cache_pack_hits; /* kernels that were found in a pack */
  /* kernels that no folder and no pack had when they were asked for, once each */
  uint64_t cache_misses;
  /* Entries that made room for others, and the bytes of all that was removed then. */
  uint64_t cache_evictions, cache_evicted_bytes;
  uint64_t graphs_created, graph_updates, graph_launches, plain_launches, graph_fallbacks;
  uint64_t steps, applies;
  uint64_t vectors_live, vector_bytes, vector_intern_hits, gram_pairs, gram_hits;
  /* Sums over steps, of frames and of stg_rows: rows that are not padding (of row maps on the
   * device all rows), and how many rows their buckets have beyond; and the same of requests, of
   * which a row map on the device counts as one where the step gives no number. */
  uint64_t step_rows, step_pad_rows;
  uint64_t step_requests, step_pad_requests;
  /* Sums over applies, but for those that a host captured, whose replays are not seen: rows with a
   * chain at the layer, and in their slot's window; other live rows; rows of row maps on the
   * device, which are not looked at. */
  uint64_t rows_steered, rows_untouched, rows_unseen;
  /* Launches of our own by the tier of the kernel (stg_plan_info), captures again left out. */
  uint64_t tier0_launches, tier1_launches;
  /* Device memory held now, 0 on the CPU: records, counters and vectors of tables; maps of frames,
   * also of destroyed ones that a graph of the host uses.
   * Pinned is host memory that the device reads and writes. */
  uint64_t table_bytes, bank_bytes, frame_bytes;
  uint64_t pinned_bytes;
  uint64_t kernels_live, kernel_bytes; /* loaded now, and their code on the device */
  uint64_t plans_live, graphs_live, plan_evictions, graph_evictions;
  uint64_t plan_bytes; /* host memory of plans and graphs, without what the driver keeps */
  /* background: declared kernels that became ready while general ones served; jobs now, and those
   * that found the queue full; threads started */
  uint64_t kernel_swaps, compiles_queued, compiles_running, compiles_refused, compile_threads;
  /* Signatures that steps were counted by (stg_traffic_save), and steps of others beyond 65536. */
  uint64_t traffic_shapes, traffic_dropped;
  /* Captures of the host's of which a graph is alive that uses a frame, so that its table cannot be
   * destroyed; one that uses two tables counts twice, as does one that uses two of rows, ropes,
   * attends and provers. CUDA says late that a graph is gone. 0 on the CPU. */
  uint64_t host_graphs_live;
  /* Device memory of the attention side held now, 0 on the CPU: what caches did not borrow, tables
   * of ropes, partial sums. Maps of rows are among frame_bytes. */
  uint64_t kv_bytes;
  /* Applies of ropes, attends and blocks, captures among them; rows that were not appended, as far
   * as stg_kv_status was asked. */
  uint64_t attention_applies, kv_rows_refused;
  /* Device memory of provers held now, 0 on the CPU. Sums over runs of provers, of which launches
   * are none: queries, steps that they took, states that a policy evaluated. */
  uint64_t prover_bytes;
  uint64_t prover_candidates, prover_steps, prover_states;
  uint64_t components_applies; /* calls of components, either way */
  /* Regions: records made, launches of what was recorded before, records that could not be made;
   * device memory of their buffers now, those of launches in flight among it. */
  uint64_t regions_recorded, region_replays, region_failures, region_bytes;
} stg_stats;
/** Fills nothing of NULL, or when struct_size is not that of this version. */
STG_API void stg_engine_stats(const stg_engine *engine, stg_stats *stats);
/** The same as one JSON object, NUL-terminated; the size needed, whatever `capacity` is. */
STG_API size_t stg_engine_stats_json(const stg_engine *engine, char *ret_text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
