/*
 * stub.h: between the files of the stub of libcuda: its objects, its one context, and how a call
 * begins. See tests/stub/stub_cuda.h for what it is.
 */
#ifndef STG_TESTS_STUB_CUDA_STUB_H
#define STG_TESTS_STUB_CUDA_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codegen/steer.h"
#include "runtime/driver.h"
#include "tests/stub/stub_cuda.h"

/* The entry points, with the types that the library uses: stub_mem_alloc is cuMemAlloc. */
#define STG_DRIVER_FN(need, member, symbol, version, parameters)                                   \
  CUresult CUDAAPI stub_##member parameters;
#include "runtime/driver_api.def"
#undef STG_DRIVER_FN

#define STUB_EXPORT __attribute__((visibility("default")))
#define STUB_CUDA_DECLARE(type, name, parameters) STUB_EXPORT type stub_cuda_##name parameters;
STUB_CUDA_FN_LIST(STUB_CUDA_DECLARE)
#undef STUB_CUDA_DECLARE

enum stub_kind {
  STUB_MEMORY,
  STUB_HOST_MEMORY,
  STUB_STREAM,
  STUB_EVENT,
  STUB_MODULE,
  STUB_GRAPH,
  STUB_EXEC,
  STUB_USER_OBJECT
};

/* The head of whatever a handle stands for. */
struct stub_object {
  struct stub_object *next;
  enum stub_kind kind;
  bool lost;                                  /* a call to destroy it failed: its owner has none */
  void (*finish)(struct stub_object *object); /* what it owns; may be NULL */
};

/** Counts the call. What it is to answer, when that is not success. */
CUresult stub_enter(const char *call);
/** The same of a call that needs a current context. */
CUresult stub_enter_context(const char *call);
/** The same of one that a capture in progress does not bear; it breaks the capture. */
CUresult stub_enter_unsafe(const char *call);
/** The same of one that destroys `handle`, which nobody will ask for again if it fails. */
CUresult stub_enter_destroy(const char *call, const void *handle, enum stub_kind kind);
/** Note that the library broke a rule of the driver's; returns `result`. */
CUresult stub_misuse(const char *call, const char *what, CUresult result);

/** A zeroed object of `bytes` in the list of what lives; NULL without memory. */
void *stub_new(enum stub_kind kind, size_t bytes);
/** The object behind a handle, or NULL, which is a misuse by `call`. */
void *stub_find(const char *call, const void *handle, enum stub_kind kind);
void stub_free(void *object);
/** Out of the list, and not freed. */
void stub_forget(void *object);
/** The first that lives of a kind, or the next one after `object`. */
void *stub_next(enum stub_kind kind, const void *object);

/* context.c */
/** References to the primary context. */
size_t stub_context_references(void);
/** It is gone, and this thread has pushed none. */
void stub_context_reset(void);

/* memory.c */
struct stub_memory {
  struct stub_object object;
  size_t bytes;
  unsigned char *data;
};

struct stub_graph;
struct stub_node;
struct stub_capture {
  CUstreamCaptureStatus status;
  CUstreamCaptureMode mode;
  uint64_t id;
  struct stub_graph *graph;
};
struct stub_stream {
  struct stub_object object;
  struct stub_capture capture;
};
/** The stream behind a handle, or NULL: the legacy one. False: a misuse by `call`. */
bool stub_stream_of(const char *call, CUstream handle, struct stub_stream **ret);
/** Whether work may go to it now: one that captures may not take any but launches. */
CUresult stub_stream_takes_work(const char *call, CUstream handle);
CUstreamCaptureMode *stub_thread_mode(void);

/* module.c */
struct stub_module {
  struct stub_object object;
  char kernel[80]; /* a function is its module */
  bool adds;       /* a launch does something */
};
/* Of a kernel that adds, which is the steer kernel, its one argument; others do nothing. Or a copy,
 * of a record: `to` is not NULL then, and nothing else is set. */
struct stub_launch {
  struct stub_module *module;
  struct stg_steer_args args;
  void *to;
  const void *from;
  size_t bytes;
};
/** Read a launch's function and arguments. */
CUresult stub_launch_read(const char *call, CUfunction function, unsigned blocks, unsigned threads,
                          void **args, struct stub_launch *ret);
void stub_launch_run(const struct stub_launch *launch);

/* graph.c */
/** Those that live end with the context. */
void stub_user_objects_end(void);
/** The graph that a stream records of its thread alone, or NULL: such a capture takes copies. */
struct stub_graph *stub_graph_recorded(const struct stub_stream *stream);
CUresult stub_graph_append(struct stub_graph *graph, const struct stub_launch *launch,
                           struct stub_node **ret_node);

#endif
