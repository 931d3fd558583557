/*
 * status.h: the status codes and the caller-owned error of every fallible call.
 *
 * Ground floor: includes nothing of the project. Values are ABI: append, never renumber.
 */
#ifndef STEERGRAPH_STATUS_H
#define STEERGRAPH_STATUS_H

#if defined(__GNUC__) || defined(__clang__)
#define STG_API __attribute__((visibility("default")))
#define STG_NODISCARD __attribute__((warn_unused_result))
#define STG_PRINTF(fmt_index, args_index) __attribute__((format(printf, fmt_index, args_index)))
#else
#define STG_API
#define STG_NODISCARD
#define STG_PRINTF(fmt_index, args_index)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One row per status: name, value, what it means. */
#define STG_STATUS_LIST(X)                                                                         \
  X(OK, 0, "success")                                                                              \
  X(E_INVALID, 1, "an argument is wrong")                                                          \
  X(E_NO_MEMORY, 2, "host or device memory is exhausted")                                          \
  X(E_IO, 3, "a file could not be read or written")                                                \
  X(E_FORMAT, 4, "a file or a text is malformed")                                                  \
  X(E_UNSUPPORTED, 5, "valid, but not supported by this build or version")                         \
  X(E_NOT_FOUND, 6, "the named thing does not exist")                                              \
  X(E_NOT_DECLARED, 7, "outside what was declared at creation")                                    \
  X(E_CAPACITY, 8, "a declared capacity is full")                                                  \
  X(E_BUSY, 9, "still in use")                                                                     \
  X(E_PENDING, 10, "being compiled, try again")                                                    \
  X(E_NOT_WARM, 11, "needs a compile that is not allowed here")                                    \
  X(E_CAPTURING, 12, "not allowed while the stream is capturing")                                  \
  X(E_NO_DEVICE, 13, "no usable CUDA device, driver or compiler")                                  \
  X(E_CUDA, 14, "a CUDA driver call failed")                                                       \
  X(E_COMPILE, 15, "NVRTC refused the source")                                                     \
  X(E_DEVICE_LOST, 16, "a sticky CUDA error, the context is unusable")                             \
  X(E_FORKED, 17, "the engine belongs to the parent process")                                      \
  X(E_BAD_SLOT, 18, "a row map on the device held a slot outside the table")                       \
  X(E_NON_FINITE, 19, "a non-finite value where a finite one is required")                         \
  X(E_CORRUPT, 20, "stored data does not match its own checksum or key")                           \
  X(E_CANCELLED, 21, "given up because the engine is closing")                                     \
  X(E_KV_FULL, 22, "a KV cache has no room for a row")                                             \
  X(E_CAPTURE, 23, "work of a host could not be captured")

typedef enum stg_status {
#define STG_STATUS_ENUM(name, value, text) STG_##name = value,
  STG_STATUS_LIST(STG_STATUS_ENUM)
#undef STG_STATUS_ENUM
} stg_status;

#define STG_ERROR_MESSAGE_BYTES 512

/**
 * What went wrong, owned by the caller. Filled only when a call fails; the message is one
 * line without a newline and carries the values involved.
 */
typedef struct stg_error {
  stg_status code;
  char message[STG_ERROR_MESSAGE_BYTES];
} stg_error;

/* Valid in C and in C++, where {0} would not be (the first member is an enum). */
#define STG_ERROR_INIT                                                                             \
  {                                                                                                \
    STG_OK, {                                                                                      \
      0                                                                                            \
    }                                                                                              \
  }

/** Return the name of a status ("STG_E_INVALID"), never NULL. Static storage, any thread. */
STG_API const char *stg_status_name(stg_status status);

/** Return a status in words, never NULL. Static storage, any thread. */
STG_API const char *stg_status_text(stg_status status);

#ifdef __cplusplus
}
#endif

#endif
