/*
 * device.h: a CUDA device and its primary context; memory, streams, events.
 *
 * No CUDA type crosses this header: pointers are uint64_t device addresses, handles are opaque.
 * Every call that touches the device takes the context for the time of the call, so any thread may
 * call. Without a driver, or built without CUDA headers, stg_device_open fails with STG_E_NO_DEVICE
 * and says why and what to do; nothing else can be reached then.
 */
#ifndef STG_RUNTIME_DEVICE_H
#define STG_RUNTIME_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

struct stg_device;
struct stg_event;
typedef void *stg_stream_handle; /* a CUstream of the host; NULL is the legacy default stream */

/* Facts of an open device. */
struct stg_device_info {
  int ordinal;
  char name[128];
  char uuid_hex[33];
  char arch[16]; /* "sm_90" */
  int sm;        /* 90 */
  int multiprocessors;
  uint64_t memory_bytes;
  uint64_t l2_bytes;
  int driver_version; /* 13000 for 13.0 */
};

/** How many devices the driver sees, and its version. STG_E_NO_DEVICE when there is no driver. */
STG_NODISCARD stg_status stg_device_count(int *ret_count, int *ret_driver_version,
                                          stg_error *reterr);
/** Open device `ordinal` with its primary context. Below sm_80: STG_E_UNSUPPORTED with the value.
 */
STG_NODISCARD stg_status stg_device_open(int ordinal, struct stg_device **ret_device,
                                         stg_error *reterr);
void stg_device_close(struct stg_device *device);
const struct stg_device_info *stg_device_get_info(const struct stg_device *device);
/**
 * STG_E_DEVICE_LOST once a sticky error was seen, or when the primary context was reset since the
 * device was opened, also if it was made again; STG_E_FORKED in a child of the opening process.
 */
STG_NODISCARD stg_status stg_device_check(struct stg_device *device, stg_error *reterr);
/** Whether this is a child of the process that opened the device. Makes no call of the driver. */
bool stg_device_is_forked(const struct stg_device *device);
/**
 * Make the device's context the calling thread's current one, as threads of a host that uses CUDA
 * itself have it; calls then need not take it. Ends with stg_device_let_go on the same thread.
 */
STG_NODISCARD stg_status stg_device_hold(struct stg_device *device, stg_error *reterr);
void stg_device_let_go(struct stg_device *device);

/* memory */
STG_NODISCARD stg_status stg_device_alloc(struct stg_device *device, size_t bytes,
                                          uint64_t *ret_address, stg_error *reterr);
void stg_device_free(struct stg_device *device, uint64_t address);
/** Page-locked host memory. */
STG_NODISCARD stg_status stg_pinned_alloc(struct stg_device *device, size_t bytes, void **ret_host,
                                          stg_error *reterr);
void stg_pinned_free(struct stg_device *device, void *host);
/** Asynchronous on `stream`; host memory must be pinned and stay until the stream has passed. */
STG_NODISCARD stg_status stg_copy_to_device(struct stg_device *device, uint64_t to,
                                            const void *from, size_t bytes,
                                            stg_stream_handle stream, stg_error *reterr);
STG_NODISCARD stg_status stg_copy_to_host(struct stg_device *device, void *to, uint64_t from,
                                          size_t bytes, stg_stream_handle stream,
                                          stg_error *reterr);
STG_NODISCARD stg_status stg_copy_on_device(struct stg_device *device, uint64_t to, uint64_t from,
                                            size_t bytes, stg_stream_handle stream,
                                            stg_error *reterr);
/** Fill `count` 32-bit words. */
STG_NODISCARD stg_status stg_fill_u32(struct stg_device *device, uint64_t to, uint32_t word,
                                      size_t count, stg_stream_handle stream, stg_error *reterr);

/* streams */
STG_NODISCARD stg_status stg_stream_create(struct stg_device *device, stg_stream_handle *ret_stream,
                                           stg_error *reterr);
void stg_stream_destroy(struct stg_device *device, stg_stream_handle stream);
/** Blocks the calling thread until the stream is empty. */
STG_NODISCARD stg_status stg_stream_synchronize(struct stg_device *device, stg_stream_handle stream,
                                                stg_error *reterr);
STG_NODISCARD stg_status stg_stream_is_capturing(struct stg_device *device,
                                                 stg_stream_handle stream, bool *ret_capturing,
                                                 stg_error *reterr);

/* events */
STG_NODISCARD stg_status stg_event_create(struct stg_device *device, bool timing,
                                          struct stg_event **ret, stg_error *reterr);
void stg_event_destroy(struct stg_device *device, struct stg_event *event);
STG_NODISCARD stg_status stg_event_record(struct stg_device *device, struct stg_event *event,
                                          stg_stream_handle stream, stg_error *reterr);
STG_NODISCARD stg_status stg_event_wait(struct stg_device *device, struct stg_event *event,
                                        stg_stream_handle stream,
                                        stg_error *reterr); /* stream waits */
STG_NODISCARD stg_status stg_event_query(struct stg_device *device, struct stg_event *event,
                                         bool *ret_done, stg_error *reterr);
STG_NODISCARD stg_status stg_event_synchronize(struct stg_device *device, struct stg_event *event,
                                               stg_error *reterr);
STG_NODISCARD stg_status stg_event_elapsed_us(struct stg_device *device, struct stg_event *from,
                                              struct stg_event *to, double *ret_us,
                                              stg_error *reterr);

#endif
