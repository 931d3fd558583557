/*
 * pin.h: what a host's capture records into, and pins: flags that stay up for as long as a graph
 * lives.
 *
 * A graph that retains a pin hands it on to whatever comes of it: its copies, what it is a child
 * of, and every executable graph, until that has been destroyed and has run out. The driver lowers
 * the flag after the last of them, from a thread of its own, so it may fall late. Knows nothing of
 * what a pin stands for.
 */
#ifndef STG_RUNTIME_PIN_H
#define STG_RUNTIME_PIN_H

#include <stdatomic.h>

#include "runtime/device.h"

/* Host memory that must stay where it is while the flag is up. {0} is a pin that nothing holds. */
struct stg_pin {
  atomic_bool held;
};

static inline bool stg_pin_is_held(const struct stg_pin *pin) {
  return atomic_load_explicit(&pin->held, memory_order_acquire);
}

/* A capture in progress. */
struct stg_capture {
  uint64_t id; /* no two captures of a process have the same */
  void *graph; /* a CUgraph of the host's; NULL: nothing is recorded, or the capture is broken */
};

/** No capture has this id. */
#define STG_NO_CAPTURE UINT64_MAX

/** What `stream` is capturing into. For a stream of which stg_stream_is_capturing said that it is.
 */
STG_NODISCARD stg_status stg_capture_info(struct stg_device *device, stg_stream_handle stream,
                                          struct stg_capture *ret_capture, stg_error *reterr);
/**
 * Raise a pin that nothing holds, until the graph of the capture and all that came of it are gone.
 * Legal during a capture, and adds no node. On failure the flag is down, or falls soon.
 */
STG_NODISCARD stg_status stg_pin_retain(struct stg_device *device,
                                        const struct stg_capture *capture, struct stg_pin *pin,
                                        stg_error *reterr);
/**
 * Whether no graph can run any more, so that flags mean nothing: the device is lost, the driver has
 * shut down, or this is a forked child. The driver may still lower a flag, or never do so.
 */
bool stg_pins_are_over(struct stg_device *device);

#endif
