/*
 * serve.c: a small host that embeds steergraph: requests come and go, each with edits of its own,
 * while the loop steps. It knows the public API alone, and is built outside the source tree:
 *
 *   cc -std=c17 serve.c $(pkg-config --cflags --libs steergraph) -o serve
 *   STEERLLM_COMPILE_STEERING=1 ./serve
 *
 * The model is left out: it hands rows of ones from layer to layer. So every number is a small
 * integer, and what is printed is the same on the CPU and on a GPU.
 */
#include <steergraph/steergraph.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 4, LAYERS = 2, MAX_ROWS = 16, SLOTS = 2, STEPS = 6, MAX_EDITS = 2, IN_FLIGHT = 2 };

/* One op on one of the unit vectors, at one layer. */
struct edit {
  uint32_t layer;
  const char *op;
  int axis;
  float params[2];
  uint32_t given; /* bit k: params[k] */
};

/* A request as the scheduler has it: its prompt in its first step, then one row a step. */
struct request {
  const char *name;
  int arrives, leaves; /* steps [arrives, leaves) */
  int prompt_rows;
  int n_edits;
  struct edit edits[MAX_EDITS];
};

/* "terse" takes the slot that "calm" had. */
static const struct request requests[] = {
    {"calm", 0, 3, 3, 1, {{0, "add", 0, {2}, 1}}},
    {"plain", 0, 6, 2, 0, {{0}}},
    {"firm", 1, 5, 4, 2, {{0, "add", 1, {4}, 1}, {1, "projection_cap", 1, {0, 3}, 2}}},
    {"terse", 3, 6, 2, 1, {{1, "ablation", 2, {0}, 0}}},
};
enum { REQUESTS = sizeof requests / sizeof requests[0] };

/* What a host keeps. A frame, a stream and a tensor per batch in flight; a slot per request. */
struct host {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frames[IN_FLIGHT];
  stg_stream streams[IN_FLIGHT]; /* NULL on the CPU, which does not look at them */
  void *hidden[IN_FLIGHT];       /* float [MAX_ROWS, HIDDEN] */
  int32_t slots[REQUESTS];       /* STG_ROW_UNSTEERED for those that have none */
  bool taken[SLOTS];
};

/*
 * Tensors and streams. A real host has its own, in device memory. This one has host memory, and for
 * a GPU lets the driver pin it, which the GPU then reads and writes where it lies.
 */
struct driver {
  int (*init)(unsigned flags);
  int (*retain)(void **context, int device);
  int (*set_current)(void *context);
  int (*alloc)(void **memory, size_t bytes);
  int (*free)(void *memory);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*synchronize)(void *stream);
};

static int host_alloc(void **memory, size_t bytes) {
  *memory = malloc(bytes);
  return *memory == NULL;
}

static int host_free(void *memory) {
  free(memory);
  return 0;
}

static int no_stream(void **stream, unsigned flags) {
  (void)flags;
  *stream = NULL;
  return 0;
}

static int nothing_to_do(void *stream) {
  (void)stream;
  return 0;
}

static bool driver_find(void *library, struct driver *driver) {
  const struct {
    const char *name;
    void *function;
  } calls[] = {
      {"cuInit", &driver->init},
      {"cuDevicePrimaryCtxRetain", &driver->retain},
      {"cuCtxSetCurrent", &driver->set_current},
      {"cuMemAllocHost_v2", &driver->alloc},
      {"cuMemFreeHost", &driver->free},
      {"cuStreamCreate", &driver->stream_create},
      {"cuStreamDestroy_v2", &driver->stream_destroy},
      {"cuStreamSynchronize", &driver->synchronize},
  };
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    void *symbol = dlsym(library, calls[i].name);
    if (symbol == NULL) {
      return false;
    }
    memcpy(calls[i].function, &symbol, sizeof symbol); /* C has no cast for it */
  }
  return true;
}

static bool driver_open(struct driver *driver) {
  struct driver found;
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
  if (library == NULL || !driver_find(library, &found) || found.init(0) != 0 ||
      found.retain(&context, 0) != 0 || found.set_current(context) != 0) {
    return false;
  }
  *driver = found;
  return true;
}

static void print_log(void *user, stg_log_level level, const char *text) {
  (void)user;
  (void)level;
  fprintf(stderr, "serve: %s\n", text);
}

static stg_status open_host(const stg_options *options, struct driver *driver, struct host *host,
                            stg_error *err) {
  const stg_steer_desc desc = {
      .struct_size = sizeof desc,
      .hidden_size = HIDDEN,
      .layers = LAYERS,
      .dtype = STG_F32,
      .max_rows = MAX_ROWS,
      .max_slots = SLOTS,
  };
  stg_engine_info info = {.struct_size = sizeof info};
  stg_status status = stg_engine_create(options, &host->engine, err);
  if (status != STG_OK) {
    return status;
  }
  stg_engine_get_info(host->engine, &info);
  if (info.backend == STG_BACKEND_CUDA && !driver_open(driver)) {
    snprintf(err->message, sizeof err->message, "libcuda has not what a host needs");
    return STG_E_NO_DEVICE;
  }
  status = stg_steer_create(host->engine, &desc, &host->steer, err);
  for (int i = 0; i < IN_FLIGHT && status == STG_OK; i++) {
    const size_t bytes = sizeof(float) * MAX_ROWS * HIDDEN;
    const unsigned non_blocking = 1;
    if (driver->alloc(&host->hidden[i], bytes) != 0 ||
        driver->stream_create(&host->streams[i], non_blocking) != 0) {
      snprintf(err->message, sizeof err->message, "no tensor or no stream for batch %d", i);
      return STG_E_NO_MEMORY;
    }
    status = stg_frame_create(host->steer, &host->frames[i], err);
  }
  return status;
}

/* Frames first: they wait for their streams. NULL is nothing to destroy. */
static stg_status close_host(const struct driver *driver, struct host *host, stg_error *err) {
  for (int i = 0; i < IN_FLIGHT; i++) {
    stg_frame_destroy(host->frames[i]);
    if (host->hidden[i] != NULL) {
      driver->free(host->hidden[i]);
    }
    if (host->streams[i] != NULL) {
      driver->stream_destroy(host->streams[i]);
    }
  }
  stg_status status = stg_steer_destroy(host->steer, err);
  return status == STG_OK ? stg_engine_destroy(host->engine, err) : status;
}

/* A request's edits become chains of a free slot. The slot keeps the vectors alive from then on. */
static stg_status admit(struct host *host, int index, stg_error *err) {
  const struct request *request = &requests[index];
  stg_op_call calls[MAX_EDITS] = {{0}};
  stg_chain chains[MAX_EDITS];
  stg_status status = STG_OK;
  int slot = 0;
  host->slots[index] = STG_ROW_UNSTEERED;
  if (request->n_edits == 0) {
    return STG_OK;
  }
  for (int i = 0; i < request->n_edits && status == STG_OK; i++) {
    const struct edit *edit = &request->edits[i];
    float direction[HIDDEN] = {0};
    direction[edit->axis] = 1;
    calls[i].op = edit->op;
    memcpy(calls[i].params, edit->params, sizeof edit->params);
    calls[i].params_given = edit->given;
    chains[i] = (stg_chain){.layer = edit->layer, .ops = &calls[i], .n_ops = 1};
    status = stg_vector_intern(host->engine, STG_F32, direction, HIDDEN, &calls[i].vectors[0], err);
  }
  while (slot < SLOTS && host->taken[slot]) {
    slot++;
  }
  if (status == STG_OK) {
    status = stg_steer_slot_set(host->steer, (uint32_t)slot, chains, (size_t)request->n_edits, err);
  }
  for (int i = 0; i < request->n_edits; i++) {
    if (calls[i].vectors[0] != 0 &&
        stg_vector_release(host->engine, calls[i].vectors[0], NULL) != STG_OK) {
      return STG_E_NOT_FOUND;
    }
  }
  if (status == STG_OK) {
    host->slots[index] = slot;
    host->taken[slot] = true;
  }
  return status;
}

/* Steps that were issued before keep the chains that the slot had. */
static stg_status retire(struct host *host, int index, stg_error *err) {
  const int32_t slot = host->slots[index];
  if (slot == STG_ROW_UNSTEERED) {
    return STG_OK;
  }
  host->taken[slot] = false;
  return stg_steer_slot_clear(host->steer, (uint32_t)slot, err);
}

static bool is_live(const struct request *request, int step) {
  return request->arrives <= step && step < request->leaves;
}

static int rows_of(const struct request *request, int step) {
  return step == request->arrives ? request->prompt_rows : 1;
}

/* Requests that leave give their slots to those that arrive; "calm" is turned up on its way. */
static stg_status schedule(struct host *host, int step, stg_error *err) {
  stg_status status = STG_OK;
  for (int i = 0; i < REQUESTS && status == STG_OK; i++) {
    status = requests[i].leaves == step ? retire(host, i, err) : STG_OK;
  }
  for (int i = 0; i < REQUESTS && status == STG_OK; i++) {
    status = requests[i].arrives == step ? admit(host, i, err) : STG_OK;
  }
  if (status == STG_OK && step == 2) {
    const float scale = 5;
    status = stg_steer_set_params(host->steer, (uint32_t)host->slots[0], 0, 0, &scale, 1, err);
  }
  return status;
}

/* One batch: the row map, then every layer. Nothing here waits for the device. */
static stg_status issue(struct host *host, int step, stg_error *err) {
  stg_frame *frame = host->frames[step % IN_FLIGHT];
  stg_stream stream = host->streams[step % IN_FLIGHT];
  float *hidden = host->hidden[step % IN_FLIGHT];
  int32_t row_map[MAX_ROWS];
  int64_t rows = 0;
  for (int i = 0; i < REQUESTS; i++) {
    for (int k = 0; is_live(&requests[i], step) && k < rows_of(&requests[i], step); k++) {
      row_map[rows++] = host->slots[i];
    }
  }
  for (int64_t k = 0; k < rows * HIDDEN; k++) {
    hidden[k] = 1;
  }
  const stg_step batch = {.struct_size = sizeof batch, .rows = rows, .row_map = row_map};
  stg_status status = stg_steer_step(frame, &batch, stream, err);
  for (uint32_t layer = 0; layer < LAYERS && status == STG_OK; layer++) {
    const stg_apply apply = {.struct_size = sizeof apply, .layer = layer, .hidden = hidden};
    status = stg_steer_apply(frame, &apply, stream, err);
  }
  return status;
}

/* The last row of each request of a step, as a sampler would read it. */
static void print_step(const struct host *host, int step) {
  const float *row = host->hidden[step % IN_FLIGHT];
  printf("step %d:", step);
  for (int i = 0; i < REQUESTS; i++) {
    if (is_live(&requests[i], step)) {
      row += (size_t)rows_of(&requests[i], step) * HIDDEN;
      const float *last = row - HIDDEN;
      printf("  %s %g %g %g %g", requests[i].name, last[0], last[1], last[2], last[3]);
    }
  }
  printf("\n");
}

/* A batch is read when its place is needed: until then it and the one behind it are in flight. */
static stg_status serve(const struct driver *driver, struct host *host, stg_error *err) {
  for (int step = 0; step < STEPS + IN_FLIGHT; step++) {
    if (step >= IN_FLIGHT && driver->synchronize(host->streams[step % IN_FLIGHT]) != 0) {
      snprintf(err->message, sizeof err->message, "step %d did not end well", step - IN_FLIGHT);
      return STG_E_CUDA;
    }
    if (step >= IN_FLIGHT) {
      print_step(host, step - IN_FLIGHT);
    }
    stg_status status = step < STEPS ? schedule(host, step, err) : STG_OK;
    if (status == STG_OK && step < STEPS) {
      status = issue(host, step, err);
    }
    if (status != STG_OK) {
      return status;
    }
  }
  return STG_OK;
}

static void print_stats(const stg_engine *engine) {
  const size_t needed = stg_engine_stats_json(engine, NULL, 0);
  char *text = malloc(needed);
  if (text != NULL) {
    stg_engine_stats_json(engine, text, needed);
    printf("stats %s\n", text);
  }
  free(text);
}

int main(void) {
  stg_options options;
  stg_error err = STG_ERROR_INIT;
  struct driver driver = {.alloc = host_alloc,
                          .free = host_free,
                          .stream_create = no_stream,
                          .stream_destroy = nothing_to_do,
                          .synchronize = nothing_to_do};
  struct host host = {0};
  stg_status status = stg_options_from_env(&options, &err);
  if (status == STG_OK && !stg_enabled(&options)) {
    puts("steering is off: the host keeps its own path");
    return 0;
  }
  if (status == STG_OK) {
    options.log = print_log;
    status = open_host(&options, &driver, &host, &err);
  }
  if (status == STG_OK) {
    status = serve(&driver, &host, &err);
  }
  if (status == STG_OK) {
    print_stats(host.engine);
  } else {
    fprintf(stderr, "serve: %s: %s\n", stg_status_name(status), err.message);
  }
  const stg_status closed = close_host(&driver, &host, &err);
  if (closed != STG_OK) {
    fprintf(stderr, "serve: %s: %s\n", stg_status_name(closed), err.message);
  }
  return status == STG_OK && closed == STG_OK ? 0 : 1;
}
