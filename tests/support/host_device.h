/*
 * host_device.h: a device on the host, in place of the driver: what runtime/device.h and launch.h
 * promise, as late as they allow.
 *
 * Device memory is heap. A stream is a list of work that is done when somebody waits for it, or a
 * bit of it at each call, at random: so a buffer that is written again too early, or a stream that
 * should have waited for another, shows as wrong bytes, on any machine. A launch of the steer
 * kernel runs chains of `add`. One thread; link it as a source, before the layers.
 */
#ifndef STG_TESTS_SUPPORT_HOST_DEVICE_H
#define STG_TESTS_SUPPORT_HOST_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls that a driver would have had, since the last reset. */
struct host_device_calls {
  size_t all;                  /* every one that touches the device */
  size_t copies, copied_bytes; /* to the device */
  size_t event_waits, launches;
};
struct host_device_calls host_device_calls(void);
void host_device_reset_calls(void);

/** Do work at random at each call, by this seed; 0, as at first: only what is waited for. */
void host_device_eager(uint32_t seed);
/** Let the n-th copy to the device from now on fail, and those after it; 0: none. */
void host_device_fail_copies(size_t nth);
/** From now on every call says that the device is lost, or none does. */
void host_device_lose(bool lost);

/* Graphs; launches of them are launches. */
struct host_device_graphs {
  size_t live, made;
};
struct host_device_graphs host_device_graphs(void);
/** From now on the device refuses to instantiate graphs, or to change what is instantiated. */
void host_device_refuse_graphs(bool new_ones, bool updates);

/** The kernel of a launch over `add` chains, on device memory as it is then; host_device_add.c. */
struct stg_steer_args;
void host_device_add_chains(const struct stg_steer_args *args);

#endif
