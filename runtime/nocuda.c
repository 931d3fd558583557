/*
 * nocuda.c: device.h, launch.h, pin.h, record.h and compile.h in a build without CUDA headers:
 * there is no device and no compiler, and every call says so and what to do.
 *
 * Cached entries can still be listed and verified, and the CPU backend knows none of this. No
 * device can be opened, so only the calls that start something need a message; the others cannot be
 * reached and say the same.
 */
#include "runtime/compile.h"
#include "runtime/launch.h"
#include "runtime/pin.h"
#include "runtime/record.h"

/* the whole file is about not using them */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static stg_status without_cuda(stg_error *reterr) {
  return stg_error_set(reterr, STG_E_NO_DEVICE,
                       "built without CUDA headers; rebuild with -Dtoolkit_root=FOLDER (the CUDA "
                       "Toolkit, 12.0 or later)");
}

/* One line per function: what it takes, in the order of the headers. */
#define FAILS(function, ...)                                                                       \
  stg_status function(__VA_ARGS__, stg_error *reterr) {                                            \
    return without_cuda(reterr);                                                                   \
  }
#define IGNORES(function, ...)                                                                     \
  void function(__VA_ARGS__) {                                                                     \
  }

typedef struct stg_device dev;

FAILS(stg_device_count, int *ret_count, int *ret_driver_version)
FAILS(stg_device_open, int ordinal, dev **ret_device)
IGNORES(stg_device_close, dev *device)
FAILS(stg_device_check, dev *device)
FAILS(stg_device_hold, dev *device)
IGNORES(stg_device_let_go, dev *device)
FAILS(stg_device_alloc, dev *device, size_t bytes, uint64_t *ret_address)
IGNORES(stg_device_free, dev *device, uint64_t address)
FAILS(stg_pinned_alloc, dev *device, size_t bytes, void **ret_host)
IGNORES(stg_pinned_free, dev *device, void *host)
FAILS(stg_copy_to_device, dev *device, uint64_t to, const void *from, size_t bytes,
      stg_stream_handle stream)
FAILS(stg_copy_to_host, dev *device, void *to, uint64_t from, size_t bytes,
      stg_stream_handle stream)
FAILS(stg_copy_on_device, dev *device, uint64_t to, uint64_t from, size_t bytes,
      stg_stream_handle stream)
FAILS(stg_fill_u32, dev *device, uint64_t to, uint32_t word, size_t count, stg_stream_handle stream)
FAILS(stg_stream_create, dev *device, stg_stream_handle *ret_stream)
IGNORES(stg_stream_destroy, dev *device, stg_stream_handle stream)
FAILS(stg_stream_synchronize, dev *device, stg_stream_handle stream)
FAILS(stg_stream_is_capturing, dev *device, stg_stream_handle stream, bool *ret_capturing)
FAILS(stg_event_create, dev *device, bool timing, struct stg_event **ret)
IGNORES(stg_event_destroy, dev *device, struct stg_event *event)
FAILS(stg_event_record, dev *device, struct stg_event *event, stg_stream_handle stream)
FAILS(stg_event_wait, dev *device, struct stg_event *event, stg_stream_handle stream)
FAILS(stg_event_query, dev *device, struct stg_event *event, bool *ret_done)
FAILS(stg_event_synchronize, dev *device, struct stg_event *event)
FAILS(stg_event_elapsed_us, dev *device, struct stg_event *from, struct stg_event *to,
      double *ret_us)
FAILS(stg_module_load, dev *device, const void *cubin, const char *kernel,
      struct stg_module **ret_module)
IGNORES(stg_module_unload, dev *device, struct stg_module *module)
FAILS(stg_launch, dev *device, const struct stg_module *module, const struct stg_launch_dims *dims,
      void **args, stg_stream_handle stream)
FAILS(stg_launch_early, dev *device, const struct stg_module *module,
      const struct stg_launch_dims *dims, void **args, stg_stream_handle stream)
FAILS(stg_graph_create, dev *device, const struct stg_graph_kernel *kernels, size_t count,
      stg_stream_handle stream, struct stg_graph **ret_graph)
IGNORES(stg_graph_destroy, dev *device, struct stg_graph *graph)
FAILS(stg_graph_set, dev *device, struct stg_graph *graph, size_t index,
      const struct stg_graph_kernel *kernel)
FAILS(stg_graph_remake, dev *device, struct stg_graph *graph,
      const struct stg_graph_kernel *kernels, stg_stream_handle stream)
FAILS(stg_graph_launch, dev *device, struct stg_graph *graph, stg_stream_handle stream)
FAILS(stg_capture_begin, dev *device, stg_stream_handle stream)
FAILS(stg_capture_end, dev *device, stg_stream_handle stream, struct stg_graph **ret_graph,
      size_t *ret_nodes)
FAILS(stg_capture_info, dev *device, stg_stream_handle stream, struct stg_capture *ret_capture)
FAILS(stg_pin_retain, dev *device, const struct stg_capture *capture, struct stg_pin *pin)
FAILS(stg_work_enqueue, dev *device, const struct stg_work *work, stg_stream_handle stream)
FAILS(stg_record, dev *device, const struct stg_work *work, stg_stream_handle stream,
      struct stg_graph **ret_graph)
FAILS(stg_record_again, dev *device, const struct stg_work *work, stg_stream_handle stream,
      struct stg_graph *graph, bool *ret_updated)
FAILS(stg_nvrtc_info, struct stg_nvrtc_info *ret_info)
FAILS(stg_nvrtc_archs, int *ret, size_t capacity, size_t *ret_count)
FAILS(stg_compile, const struct stg_kernel_request *request, const struct stg_log *log,
      struct stg_kernel_image *ret_image)

const struct stg_device_info *stg_device_get_info(const dev *device) {
  static const struct stg_device_info none = {.ordinal = -1};
  return &none;
}

bool stg_pins_are_over(dev *device) {
  return true;
}

bool stg_device_is_forked(const dev *device) {
  return false;
}

bool stg_nvrtc_is_loaded(void) {
  return false;
}

bool stg_nvrtc_known_compiler(char ret[STG_COMPILER_CHARS]) {
  return false;
}
