/*
 * warm.h: write down which batches a service had, and make an engine ready for them at its next
 * start.
 *
 * Every engine counts its steps by signature: kernel text and padded batch. stg_traffic_save writes
 * these counts as a manifest (JSON, specs/README.md), which names no device and no compiler, so it
 * serves any machine. stg_warm makes what a manifest lists: kernels come from memory, a cache or a
 * compiler, and each signature's plan and graph are there before its first batch is.
 */
#ifndef STEERGRAPH_WARM_H
#define STEERGRAPH_WARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far stg_warm has come. Text is borrowed during the call. */
typedef struct stg_warm_progress {
  size_t struct_size;  /* sizeof(stg_warm_progress) */
  size_t done, total;  /* signatures */
  const char *current; /* the signature that is next; NULL at the end */
  double eta_s;        /* seconds left, a guess; negative while there is nothing to guess from */
} stg_warm_progress;

/**
 * Called on the thread that called stg_warm, before each signature and at the end, with no lock
 * held. It may call the engine, but for stg_engine_destroy.
 * @return false to end stg_warm now, as its deadline does.
 */
typedef bool (*stg_warm_fn)(void *user, const stg_warm_progress *progress);

/* How to warm. Zero means default everywhere. */
typedef struct stg_warm_desc {
  size_t struct_size;   /* sizeof(stg_warm_desc) */
  uint32_t deadline_ms; /* from the call on; 0: none */
  uint32_t threads;     /* kernels that are made at once; 0, and at most: the engine's threads */
  stg_warm_fn progress; /* or NULL */
  void *user;           /* of `progress` */
} stg_warm_desc;

/* What came of it. total = done + failed + left. */
typedef struct stg_warm_report {
  size_t struct_size; /* in: sizeof(stg_warm_report) */
  size_t total;       /* signatures of the manifest, but for those of regions */
  size_t done;        /* ready to be served */
  size_t failed;      /* whose kernel cannot be made; the log says why */
  size_t left;        /* not reached, because of the deadline or the callback, or of a declaration
                         beyond the 1024 that are taken */
  /* Kernels, two for each declaration that the manifest has; none on the CPU. What the deadline
   * interrupts is in none of these. */
  size_t kernels_memory, kernels_disk, kernels_compiled, kernels_failed;
  size_t graphs;  /* instantiated */
  double ms;      /* of the call */
  size_t regions; /* signatures of regions, in none of the above: their host records them */
} stg_warm_report;

/**
 * Make what a manifest lists, most used first: compile on the engine's threads, side by side; load;
 * make the plan; instantiate its graph, upload it and launch it once over no rows. `json` is its
 * text, `file` (may be NULL) names it in messages. The whole manifest is checked first. Whatever
 * the engine's compile mode is, waits until the kernels are there; with `never` none is compiled.
 *
 * What was made stays until the engine goes, graphs and plans as long as they are among the
 * max_plans that were used last; signatures beyond that many have their kernels made, and no
 * graphs. Kernels whose compile began before the deadline are made to the end behind it.
 *
 * `desc` may be NULL, and so may `ret_report`. Any thread, also beside steps and applies; waits for
 * the device once per signature, on a stream of the engine's. Not while this thread captures.
 * @return STG_OK also past the deadline, and where kernels cannot be made: see the report.
 * STG_E_FORMAT with the file and the place for a bad manifest, STG_E_INVALID for a signature that
 * no table can have and for a struct_size of another version; STG_E_NO_MEMORY, STG_E_CUDA,
 * STG_E_DEVICE_LOST, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_warm(stg_engine *engine, const char *file, const char *json,
                                          size_t json_bytes, const stg_warm_desc *desc,
                                          stg_warm_report *ret_report, stg_error *reterr);
/** A report as one JSON object, NUL-terminated; the size needed, whatever `capacity` is. */
STG_API size_t stg_warm_report_json(const stg_warm_report *report, char *ret_text, size_t capacity);

/**
 * Write the manifest of all steps since the engine was created: each signature with its count, most
 * used first, and the definitions of user ops. Replaces `path` as a whole, or leaves it as it was.
 * Up to 65536 signatures are told apart (stg_stats.traffic_dropped counts the steps of others). Any
 * thread, also beside steps.
 * @return STG_E_INVALID, STG_E_IO, STG_E_NO_MEMORY, STG_E_FORKED.
 */
STG_API STG_NODISCARD stg_status stg_traffic_save(stg_engine *engine, const char *path,
                                                  stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
