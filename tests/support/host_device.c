/*
 * host_device.c: see host_device.h. All of runtime/device.h and launch.h, so that the
 * linker takes none of them from the library; graphs are in host_device_graph.c, captures in
 * host_device_capture.c, and kernels in host_device_kernels.c or host_device_loads.c. What steering
 * does not call says that it is not there.
 */
#include "tests/support/host_device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/steer.h"
#include "runtime/module_cache.h"

/* many calls here have nothing to do */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct stg_device dev;

enum kind { COPY, FILL, RECORD, WAIT, LAUNCH };

/* A piece of work on a stream. Sources are read when it is done, not when it is asked for. */
struct work {
  enum kind kind;
  void *to;
  const void *from;
  size_t bytes;
  uint32_t word;
  struct stg_event *event;
  uint64_t ticket; /* of the event: the record that is meant */
  struct stream *recorded_on;
  struct host_device_launch launch;
};

struct stream {
  struct work *work;
  size_t done, count, capacity;
  bool records, broken; /* a recording: nothing is done, and nobody may wait for it */
};

struct stg_event {
  struct stream *stream; /* of the last record */
  uint64_t asked, passed;
};

struct stg_device {
  struct stg_device_info info;
};

#define MAX_STREAMS 8
#define ALIGNMENT ((size_t)256)
static struct stream *streams[MAX_STREAMS];
static size_t n_streams;
static struct stream legacy_stream;
static struct host_device_calls calls;
static uint32_t random_state;
static size_t copies_left; /* before they fail; 0: they do not */
static bool copies_fail, is_lost;
static pid_t owner; /* the process that opened the device */

static bool is_ready(const struct work *work) {
  return work->kind != WAIT || work->event->passed >= work->ticket;
}

static void run_kernel(const struct host_device_launch *launch) {
  if (host_device_attn_bytes(launch->signature) > 0) {
    host_device_attn_run(launch);
  } else if (host_device_prover_bytes(launch->signature) > 0) {
    host_device_prover_run(launch);
  } else if (host_device_components_bytes(launch->signature) > 0) {
    host_device_components_run(launch);
  } else {
    host_device_add_chains((const struct stg_steer_args *)(const void *)launch->args);
  }
}

static void do_work(const struct work *work) {
  switch (work->kind) {
  case COPY:
    memcpy(work->to, work->from, work->bytes);
    break;
  case FILL:
    for (size_t i = 0; i < work->bytes; i++) {
      ((uint32_t *)work->to)[i] = work->word;
    }
    break;
  case RECORD:
    work->event->passed = work->ticket;
    break;
  case LAUNCH:
    run_kernel(&work->launch);
    break;
  case WAIT:
    break;
  }
}

static void do_next(struct stream *stream) {
  do_work(&stream->work[stream->done++]);
  if (stream->done == stream->count) {
    stream->done = stream->count = 0;
  }
}

/* Do the next piece of a stream, and first what it waits for on others. */
static void advance(struct stream *stream) {
  struct stream *first;
  do {
    first = stream;
    while (!is_ready(&first->work[first->done])) {
      first = first->work[first->done].recorded_on;
    }
    do_next(first);
  } while (first != stream);
}

static uint32_t draw(void) {
  random_state = random_state * 1664525U + 1013904223U;
  return random_state >> 16;
}

/* A call to the device: counted, refused, or the occasion to do some work. */
static stg_status enter(stg_error *reterr) {
  if (getpid() != owner) {
    return stg_error_set(reterr, STG_E_FORKED, "device 0 was opened by the parent process");
  }
  calls.all++;
  if (is_lost) {
    return stg_error_set(reterr, STG_E_DEVICE_LOST, "device 0 is lost since a test said so");
  }
  for (uint32_t n = random_state != 0 && n_streams > 0 ? draw() % 4 : 0; n > 0; n--) {
    struct stream *stream = streams[draw() % n_streams];
    if (stream->done < stream->count && is_ready(&stream->work[stream->done])) {
      advance(stream);
    }
  }
  return STG_OK;
}

static stg_status add(stg_stream_handle handle, const struct work *work, stg_error *reterr) {
  struct stream *stream = handle != NULL ? handle : &legacy_stream;
  stg_status status = enter(reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stream->count == stream->capacity) {
    stream->capacity = stream->capacity == 0 ? 64 : 2 * stream->capacity;
    stream->work = realloc(stream->work, stream->capacity * sizeof *stream->work);
    assert(stream->work != NULL);
  }
  stream->work[stream->count++] = *work;
  return STG_OK;
}

void *host_device_new_recording(void) {
  struct stream *stream = calloc(1, sizeof *stream);
  assert(stream != NULL);
  stream->records = true;
  return stream;
}

size_t host_device_recorded(const void *recording) {
  const struct stream *stream = recording;
  return stream->broken ? SIZE_MAX : stream->count;
}

bool host_device_put_recording(const void *recording, void *stream) {
  const struct stream *from = recording;
  bool whole = true;
  for (size_t i = 0; i < from->count && whole; i++) {
    whole = add(stream, &from->work[i], NULL) == STG_OK;
  }
  return whole;
}

void host_device_free_recording(void *recording) {
  free(((struct stream *)recording)->work);
  free(recording);
}

struct host_device_calls host_device_calls(void) {
  return calls;
}

void host_device_reset_calls(void) {
  calls = (struct host_device_calls){0};
}

void host_device_eager(uint32_t seed) {
  random_state = seed;
}

void host_device_fail_copies(size_t nth) {
  copies_left = nth;
  copies_fail = nth != 0;
}

void host_device_lose(bool lost) {
  is_lost = lost;
}

/* device.h */

stg_status stg_device_count(int *ret_count, int *ret_driver_version, stg_error *reterr) {
  *ret_count = 1;
  *ret_driver_version = 13000;
  return STG_OK;
}

stg_status stg_device_open(int ordinal, dev **ret_device, stg_error *reterr) {
  dev *device = calloc(1, sizeof *device);
  assert(device != NULL);
  owner = getpid();
  device->info = (struct stg_device_info){
      .name = "host", .arch = "sm_90", .sm = 90, .multiprocessors = 4, .driver_version = 13000};
  *ret_device = device;
  return STG_OK;
}

void stg_device_close(dev *device) {
  free(legacy_stream.work);
  legacy_stream = (struct stream){0};
  free(device);
}

const struct stg_device_info *stg_device_get_info(const dev *device) {
  return &device->info;
}

bool stg_device_is_forked(const dev *device) {
  return getpid() != owner;
}

stg_status stg_device_check(dev *device, stg_error *reterr) {
  if (stg_device_is_forked(device)) {
    return stg_error_set(reterr, STG_E_FORKED, "device 0 was opened by the parent process");
  }
  return !is_lost ? STG_OK : stg_error_set(reterr, STG_E_DEVICE_LOST, "device 0 is lost");
}

stg_status stg_device_hold(dev *device, stg_error *reterr) {
  return STG_OK;
}

void stg_device_let_go(dev *device) {
}

/* What nobody wrote reads as NaN. Aligned as the driver's. */
static void *new_memory(size_t bytes) {
  void *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  assert(memory != NULL);
  memset(memory, 0xff, bytes);
  return memory;
}

stg_status stg_device_alloc(dev *device, size_t bytes, uint64_t *ret_address, stg_error *reterr) {
  *ret_address = (uint64_t)(uintptr_t)new_memory(bytes);
  return enter(reterr);
}

void stg_device_free(dev *device, uint64_t address) {
  free((void *)(uintptr_t)address);
}

stg_status stg_pinned_alloc(dev *device, size_t bytes, void **ret_host, stg_error *reterr) {
  *ret_host = new_memory(bytes);
  return enter(reterr);
}

void stg_pinned_free(dev *device, void *host) {
  free(host);
}

stg_status stg_copy_to_device(dev *device, uint64_t to, const void *from, size_t bytes,
                              stg_stream_handle stream, stg_error *reterr) {
  if (copies_fail && copies_left <= 1) {
    return stg_error_set(reterr, STG_E_CUDA, "cuMemcpyHtoDAsync failed: a test said so");
  }
  copies_left -= copies_fail ? 1 : 0;
  calls.copies++;
  calls.copied_bytes += bytes;
  return add(
      stream,
      &(struct work){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes},
      reterr);
}

stg_status stg_copy_to_host(dev *device, void *to, uint64_t from, size_t bytes,
                            stg_stream_handle stream, stg_error *reterr) {
  return add(
      stream,
      &(struct work){.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes},
      reterr);
}

stg_status stg_copy_on_device(dev *device, uint64_t to, uint64_t from, size_t bytes,
                              stg_stream_handle stream, stg_error *reterr) {
  return stg_copy_to_host(device, (void *)(uintptr_t)to, from, bytes, stream, reterr);
}

stg_status stg_fill_u32(dev *device, uint64_t to, uint32_t word, size_t count,
                        stg_stream_handle stream, stg_error *reterr) {
  return add(
      stream,
      &(struct work){.kind = FILL, .to = (void *)(uintptr_t)to, .bytes = count, .word = word},
      reterr);
}

stg_status stg_stream_create(dev *device, stg_stream_handle *ret_stream, stg_error *reterr) {
  struct stream *stream = calloc(1, sizeof *stream);
  assert(stream != NULL && n_streams < MAX_STREAMS);
  streams[n_streams++] = stream;
  *ret_stream = stream;
  return enter(reterr);
}

void stg_stream_destroy(dev *device, stg_stream_handle handle) {
  struct stream *stream = handle;
  size_t i = 0;
  while (stream->done < stream->count) {
    advance(stream);
  }
  while (streams[i] != stream) {
    i++;
  }
  streams[i] = streams[--n_streams];
  free(stream->work);
  free(stream);
}

stg_status stg_stream_synchronize(dev *device, stg_stream_handle handle, stg_error *reterr) {
  struct stream *stream = handle != NULL ? handle : &legacy_stream;
  stg_status status = enter(reterr);
  if (stream->records) {
    stream->broken = true;
    return stg_error_set(reterr, STG_E_CAPTURING, "cuStreamSynchronize: the stream captures");
  }
  while (status == STG_OK && stream->done < stream->count) {
    advance(stream);
  }
  return status;
}

stg_status stg_stream_is_capturing(dev *device, stg_stream_handle stream, bool *ret_capturing,
                                   stg_error *reterr) {
  *ret_capturing =
      host_device_is_capturing() || (stream != NULL && ((const struct stream *)stream)->records);
  return enter(reterr);
}

stg_status stg_event_create(dev *device, bool timing, struct stg_event **ret, stg_error *reterr) {
  *ret = calloc(1, sizeof **ret);
  assert(*ret != NULL);
  return enter(reterr);
}

void stg_event_destroy(dev *device, struct stg_event *event) {
  while (event != NULL && event->passed < event->asked) {
    advance(event->stream);
  }
  free(event);
}

stg_status stg_event_record(dev *device, struct stg_event *event, stg_stream_handle stream,
                            stg_error *reterr) {
  stg_status status = add(
      stream, &(struct work){.kind = RECORD, .event = event, .ticket = event->asked + 1}, reterr);
  if (status == STG_OK) {
    event->asked++;
    event->stream = stream != NULL ? stream : &legacy_stream;
  }
  return status;
}

stg_status stg_event_wait(dev *device, struct stg_event *event, stg_stream_handle stream,
                          stg_error *reterr) {
  calls.event_waits++;
  return add(
      stream,
      &(struct work){
          .kind = WAIT, .event = event, .ticket = event->asked, .recorded_on = event->stream},
      reterr);
}

stg_status stg_event_query(dev *device, struct stg_event *event, bool *ret_done,
                           stg_error *reterr) {
  stg_status status = enter(reterr);
  *ret_done = event->passed >= event->asked;
  return status;
}

stg_status stg_event_synchronize(dev *device, struct stg_event *event, stg_error *reterr) {
  stg_status status = enter(reterr);
  while (status == STG_OK && event->passed < event->asked) {
    advance(event->stream);
  }
  return status;
}

/* launch.h */

stg_status stg_launch(dev *device, const struct stg_module *module,
                      const struct stg_launch_dims *dims, void **args, stg_stream_handle stream,
                      stg_error *reterr) {
  if (host_device_note_capture(module, dims, args[0])) {
    return STG_OK;
  }
  calls.launches++;
  host_device_note_launch(module);
  return add(stream,
             &(struct work){.kind = LAUNCH, .launch = host_device_launch_of(module, dims, args[0])},
             reterr);
}

stg_status stg_launch_early(dev *device, const struct stg_module *module,
                            const struct stg_launch_dims *dims, void **args,
                            stg_stream_handle stream, stg_error *reterr) {
  calls.early++;
  return stg_launch(device, module, dims, args, stream, reterr);
}

/* what is not there */

#define FAILS(function, ...)                                                                       \
  stg_status function(__VA_ARGS__, stg_error *reterr) {                                            \
    return stg_error_set(reterr, STG_E_NO_DEVICE, #function ": not on a device of the host");      \
  }
FAILS(stg_event_elapsed_us, dev *device, struct stg_event *from, struct stg_event *to,
      double *ret_us)
FAILS(stg_capture_begin, dev *device, stg_stream_handle stream)
FAILS(stg_capture_end, dev *device, stg_stream_handle stream, struct stg_graph **ret_graph,
      size_t *ret_nodes)
