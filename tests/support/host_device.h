/*
 * host_device.h: a device on the host, in place of the driver: what runtime/device.h and launch.h
 * promise, as late as they allow.
 *
 * Device memory is heap. A stream is a list of work that is done when somebody waits for it, or a
 * bit of it at each call, at random: so a buffer that is written again too early, or a stream that
 * should have waited for another, shows as wrong bytes, on any machine. A launch of the steer
 * kernel runs chains of `add`, one of another family what the CPU backend does. A forked child is
 * told that it is one. One thread, but for its compiler and its pins; all of it is linked, before
 * the layers.
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
  size_t early; /* of the launches, and of those in captures: may begin before what is ahead ends */
};
struct host_device_calls host_device_calls(void);
void host_device_reset_calls(void);

/** Do work at random at each call, by this seed; 0, as at first: only what is waited for. */
void host_device_eager(uint32_t seed);
/** Let the n-th copy to the device from now on fail, and those after it; 0: none. */
void host_device_fail_copies(size_t nth);
/** Say of every stream from now on whether it is capturing. What is launched runs all the same, and
 * the capture is given up when it ends. */
void host_device_say_capturing(bool capturing);
/** From now on every call says that the device is lost, or none does. */
void host_device_lose(bool lost);

/* Captures of a host: of all streams, until the end; what is launched meanwhile is kept. */
uint64_t host_device_begin_capture(void);
void host_device_end_capture(void);
/** Launch on a stream what was launched in a capture; returns how much that was. */
size_t host_device_replay(uint64_t capture, void *stream);
/** The graph of a capture and all that came of it are gone: its pins fall. Returns how many. */
size_t host_device_drop_graph(uint64_t capture);
/** From now on graphs refuse to hold pins. */
void host_device_refuse_pins(bool refuse);
/** Say of every capture from now on that it is broken, or of none. */
void host_device_break_captures(bool broken);

/* Graphs; launches of them are launches. */
struct host_device_graphs {
  size_t live, made;
};
struct host_device_graphs host_device_graphs(void);
/** From now on the device refuses to instantiate graphs, or to change what is instantiated. */
void host_device_refuse_graphs(bool new_ones, bool updates);

/* Recordings of a host's work (runtime/record.h): streams whose work is kept and not done, until it
 * is put on another. host_device_refuse_graphs holds for their graphs too. */
void *host_device_new_recording(void);
/** What is on it; SIZE_MAX: somebody waited for it, which broke it. */
size_t host_device_recorded(const void *recording);
/** Put all that is on it on a stream. False: the device says no. */
bool host_device_put_recording(const void *recording, void *stream);
void host_device_free_recording(void *recording);

/* Its compiler, by parts of signatures; NULL: of none. */
struct host_compiler {
  const char *missing; /* in no cache: compiled, or STG_E_NOT_WARM */
  const char *held;    /* not compiled to the end, for as long as this is so */
  const char *refused; /* STG_E_COMPILE */
};
/** From now on; without anything missing, as at first, the count of compiles begins anew. */
void host_device_set_compiler(const struct host_compiler *now);
/** Compiles begun, and those of them on the calling thread. */
size_t host_device_compiles(void);
size_t host_device_compiles_here(void);
/** Until so many compiles are on their way at once. */
void host_device_wait_for_compiles(size_t running);
/** Modules that are loaded, where kernels are taken from the library; host_device_loads.c. */
size_t host_device_modules(void);
/** The signature of the kernel that was launched last. */
const char *host_device_launched(void);
struct stg_module;
void host_device_note_launch(const struct stg_module *module);
/** Whether the kernels from now on are those of tables with windows. */
void host_device_windows(bool windows);

/* Between the files. */
struct stg_steer_args;
#define HOST_DEVICE_SIGNATURE_CHARS 512
/* A launch: which kernel, how large, and a copy of its one argument. */
struct stg_launch_dims;
struct host_device_launch {
  char signature[HOST_DEVICE_SIGNATURE_CHARS];
  uint32_t grid, threads, shared_bytes;
  _Alignas(uint64_t) unsigned char args[288];
};
/** Of a module; host_device_kernels.c, or host_device_loads.c, of steering alone. */
struct host_device_launch host_device_launch_of(const struct stg_module *module,
                                                const struct stg_launch_dims *dims,
                                                const void *args);
bool host_device_is_capturing(void);
/** Whether a capture keeps this launch. */
bool host_device_note_capture(const struct stg_module *module, const struct stg_launch_dims *dims,
                              const void *args);
/** The kernel of a launch over `add` chains, on device memory as it is then; host_device_add.c. */
void host_device_add_chains(const struct stg_steer_args *args);
/** Bytes of what a kernel of this signature is given, of rope or decode; else 0. */
size_t host_device_attn_bytes(const char *signature);
/** Its work, on device memory as it is then; host_device_attn.c. */
void host_device_attn_run(const struct host_device_launch *launch);
/** The same of the proof search; host_device_prover.c. */
size_t host_device_prover_bytes(const char *signature);
void host_device_prover_run(const struct host_device_launch *launch);
/** The same of components; host_device_components.c. */
size_t host_device_components_bytes(const char *signature);
void host_device_components_run(const struct host_device_launch *launch);

#endif
