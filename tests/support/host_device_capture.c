/*
 * host_device_capture.c: captures on a device of the host: what is launched meanwhile, to be
 * launched again, and the pins that the graph holds until a test says that it is gone. Any thread.
 */
#include <assert.h>
#include <pthread.h>

#include "runtime/launch.h"
#include "runtime/pin.h"
#include "tests/support/host_device.h"

/* many calls here have nothing to do */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct stg_device dev;

#define MAX_HELD 4096
#define MAX_LAUNCHES 4096

struct held {
  uint64_t capture;
  struct stg_pin *pin;
};

struct launch {
  uint64_t capture;
  const struct stg_module *module;
  struct host_device_launch launch;
};

/* All that is here, under one lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held held[MAX_HELD];
static struct launch launches[MAX_LAUNCHES];
static size_t n_held, n_launches;
static uint64_t last, current; /* captures; 0: none */
static bool keeps_launches, refuses_pins, breaks;

static uint64_t begin(bool keep) {
  pthread_mutex_lock(&lock);
  current = ++last;
  keeps_launches = keep;
  pthread_mutex_unlock(&lock);
  return current;
}

uint64_t host_device_begin_capture(void) {
  return begin(true);
}

void host_device_end_capture(void) {
  current = 0;
}

void host_device_say_capturing(bool capturing) {
  const uint64_t before = current;
  if (capturing) {
    begin(false);
  } else {
    host_device_end_capture();
    host_device_drop_graph(before);
  }
}

bool host_device_is_capturing(void) {
  return current != 0;
}

bool host_device_note_capture(const struct stg_module *module, const struct stg_launch_dims *dims,
                              const void *args) {
  if (current == 0 || !keeps_launches) {
    return false;
  }
  pthread_mutex_lock(&lock);
  assert(n_launches < MAX_LAUNCHES);
  launches[n_launches++] = (struct launch){
      .capture = current, .module = module, .launch = host_device_launch_of(module, dims, args)};
  pthread_mutex_unlock(&lock);
  return true;
}

size_t host_device_replay(uint64_t capture, stg_stream_handle stream) {
  size_t count = 0;
  assert(current == 0);
  for (size_t i = 0; i < n_launches; i++) {
    if (launches[i].capture == capture) {
      struct host_device_launch *kept = &launches[i].launch;
      const struct stg_launch_dims dims = {kept->grid, kept->threads, kept->shared_bytes};
      void *args[] = {kept->args};
      stg_status status = stg_launch(NULL, launches[i].module, &dims, args, stream, NULL);
      assert(status == STG_OK);
      count += status == STG_OK ? 1 : 0;
    }
  }
  return count;
}

size_t host_device_drop_graph(uint64_t capture) {
  size_t kept = 0, kept_launches = 0;
  pthread_mutex_lock(&lock);
  const size_t before = n_held;
  for (size_t i = 0; i < n_held; i++) {
    if (held[i].capture == capture) {
      atomic_store(&held[i].pin->held, false);
    } else {
      held[kept++] = held[i];
    }
  }
  for (size_t i = 0; i < n_launches; i++) {
    if (launches[i].capture != capture) {
      launches[kept_launches++] = launches[i];
    }
  }
  n_held = kept;
  n_launches = kept_launches;
  pthread_mutex_unlock(&lock);
  return before - kept;
}

void host_device_refuse_pins(bool refuse) {
  refuses_pins = refuse;
}

void host_device_break_captures(bool broken) {
  breaks = broken;
}

/* pin.h */

stg_status stg_capture_info(dev *device, stg_stream_handle stream, struct stg_capture *ret_capture,
                            stg_error *reterr) {
  assert(current != 0);
  *ret_capture = breaks ? (struct stg_capture){.id = STG_NO_CAPTURE}
                        : (struct stg_capture){.id = current, .graph = held};
  return STG_OK;
}

stg_status stg_pin_retain(dev *device, const struct stg_capture *capture, struct stg_pin *pin,
                          stg_error *reterr) {
  assert(!stg_pin_is_held(pin) && capture->graph != NULL);
  if (refuses_pins) {
    return stg_error_set(reterr, STG_E_CUDA, "cuGraphRetainUserObject failed: a test said so");
  }
  pthread_mutex_lock(&lock);
  assert(n_held < MAX_HELD);
  atomic_store(&pin->held, true);
  held[n_held++] = (struct held){.capture = capture->id, .pin = pin};
  pthread_mutex_unlock(&lock);
  return STG_OK;
}

bool stg_pins_are_over(dev *device) {
  return stg_device_check(device, NULL) != STG_OK;
}
