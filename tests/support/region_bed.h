/*
 * region_bed.h: an engine on a device of the host, streams and tensors there, and work of a host to
 * run as regions: copies from one tensor to another. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_REGION_BED_H
#define STG_TESTS_SUPPORT_REGION_BED_H

#include <stdio.h>
#include <string.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/device.h"
#include "tests/support/host_device.h"

#define BED_STREAMS 3
#define BED_WORDS 64 /* of a tensor */
#define BED_BYTES (BED_WORDS * sizeof(uint32_t))

struct region_bed {
  stg_engine *engine;
  struct stg_device *device;
  stg_stream streams[BED_STREAMS];
  size_t n_said; /* warnings of the log */
  char said[512];
};

/* What a callback does, beside copying pointers[0] to pointers[1]. */
enum bed_manner {
  BED_COPIES,
  BED_FAILS_IN_RECORDS, /* unless the stream is the caller's */
  BED_FAILS,
  BED_DOES_NOTHING,
  BED_WAITS,    /* for its stream */
  BED_FORGETS,  /* its own signature */
  BED_DESTROYS, /* the engine */
  BED_NESTS,    /* runs another region on its stream */
  BED_RETURNS   /* runs its own on the caller's stream */
};

struct bed_work {
  struct region_bed *bed;
  enum bed_manner manner;
  stg_stream caller;
  size_t calls, elsewhere; /* on other streams than the caller's */
  void *given[2];
};

static inline void bed_ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static inline void bed_log(void *user, stg_log_level level, const char *message) {
  struct region_bed *bed = user;
  if (level == STG_LOG_WARN && strncmp(message, "region ", 7) == 0) {
    bed->n_said++;
    snprintf(bed->said, sizeof bed->said, "%s", message);
  }
}

static inline void bed_open_as(struct region_bed *bed, const stg_options *like) {
  stg_options options = *like;
  stg_error error = STG_ERROR_INIT;
  *bed = (struct region_bed){.engine = NULL};
  options.cache_mode = STG_CACHE_OFF;
  options.log = bed_log;
  options.log_user = bed;
  options.log_level = STG_LOG_WARN;
  bed_ok(stg_engine_create(&options, &bed->engine, &error), &error);
  bed->device = stg_mem_device(bed->engine);
  for (int i = 0; bed->device != NULL && i < BED_STREAMS; i++) {
    bed_ok(stg_stream_create(bed->device, &bed->streams[i], &error), &error);
  }
}

static inline void bed_open(struct region_bed *bed, uint32_t max_plans) {
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.max_plans = max_plans;
  bed_open_as(bed, &options);
}

static inline stg_stats bed_stats(const struct region_bed *bed) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed->engine, &stats);
  return stats;
}

/* For all streams; on the CPU nothing is ever in flight. */
static inline void bed_wait_for_all(const struct region_bed *bed) {
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; bed->device != NULL && i < BED_STREAMS; i++) {
    bed_ok(stg_stream_synchronize(bed->device, bed->streams[i], &error), &error);
  }
}

static inline void bed_close(struct region_bed *bed) {
  stg_error error = STG_ERROR_INIT;
  struct stg_device *device = bed->device;
  bed_wait_for_all(bed);
  for (int i = 0; device != NULL && i < BED_STREAMS; i++) {
    stg_stream_destroy(device, bed->streams[i]);
  }
  bed_ok(stg_engine_destroy(bed->engine, &error), &error);
  assert_int_equal(0, host_device_graphs().live);
}

static inline void bed_wait(const struct region_bed *bed, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  bed_ok(stg_stream_synchronize(bed->device, stream, &error), &error);
}

/* A tensor on the device, each of its words `word`. */
static inline uint32_t *bed_tensor(const struct region_bed *bed, uint32_t word) {
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  bed_ok(stg_mem_alloc(bed->engine, BED_BYTES, &memory, &error), &error);
  for (size_t i = 0; i < BED_WORDS; i++) {
    ((uint32_t *)memory)[i] = word;
  }
  return memory;
}

/* Fill a tensor behind all that is on the stream. */
static inline void bed_fill(const struct region_bed *bed, uint32_t *tensor, uint32_t word,
                            stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  bed_ok(stg_fill_u32(bed->device, (uint64_t)(uintptr_t)tensor, word, BED_WORDS, stream, &error),
         &error);
}

static inline void bed_holds(const uint32_t *tensor, uint32_t word) {
  for (size_t i = 0; i < BED_WORDS; i++) {
    assert_int_equal(word, tensor[i]);
  }
}

static inline stg_status bed_copy(const struct region_bed *bed, void *const *pointers,
                                  stg_stream stream, stg_error *reterr) {
  if (bed->device == NULL) {
    memcpy(pointers[1], pointers[0], BED_BYTES);
    return STG_OK;
  }
  return stg_copy_on_device(bed->device, (uint64_t)(uintptr_t)pointers[1],
                            (uint64_t)(uintptr_t)pointers[0], BED_BYTES, stream, reterr);
}

static inline stg_region_call bed_call(struct bed_work *work, const char *signature,
                                       const stg_region_pointer *pointers);

static inline stg_status bed_record(void *user, stg_stream stream, void *const *pointers,
                                    stg_error *reterr) {
  struct bed_work *work = user;
  const bool elsewhere = stream != work->caller;
  work->calls++;
  work->elsewhere += elsewhere ? 1 : 0;
  memcpy(work->given, pointers, sizeof work->given);
  const bool fails =
      work->manner == BED_FAILS || (work->manner == BED_FAILS_IN_RECORDS && elsewhere);
  if (fails) {
    if (reterr != NULL) {
      *reterr = (stg_error){.code = STG_E_UNSUPPORTED, .message = "no such layer"};
    }
    return STG_E_UNSUPPORTED;
  }
  switch (work->manner) {
  case BED_DOES_NOTHING:
    return STG_OK;
  case BED_WAITS:
    if (elsewhere) {
      (void)!stg_stream_synchronize(work->bed->device, stream, NULL);
    }
    break;
  case BED_FORGETS:
    assert_int_equal(STG_E_BUSY, stg_region_forget(work->bed->engine, "own", reterr));
    break;
  case BED_DESTROYS: {
    stg_error error = STG_ERROR_INIT;
    assert_int_equal(STG_E_BUSY, stg_engine_destroy(work->bed->engine, &error));
    assert_string_equal("stg_engine_destroy: region 'own' is being run; destroy the engine when "
                        "that has returned",
                        error.message);
    break;
  }
  case BED_NESTS: {
    struct bed_work inner = {.bed = work->bed, .caller = stream};
    const stg_region_pointer same[2] = {{.address = pointers[0]}, {.address = pointers[1]}};
    const stg_region_call call = bed_call(&inner, "inner", same);
    return stg_region_run(work->bed->engine, &call, stream, NULL, reterr);
  }
  case BED_RETURNS: {
    const stg_region_pointer same[2] = {{.address = pointers[0]}, {.address = pointers[1]}};
    const stg_region_call call = bed_call(work, "own", same);
    return stg_region_run(work->bed->engine, &call, work->caller, NULL, reterr);
  }
  case BED_COPIES:
  case BED_FAILS:
  case BED_FAILS_IN_RECORDS:
    break;
  }
  return bed_copy(work->bed, pointers, stream, reterr);
}

/* Two pointers. */
static inline stg_region_call bed_call(struct bed_work *work, const char *signature,
                                       const stg_region_pointer *pointers) {
  return (stg_region_call){.struct_size = sizeof(stg_region_call),
                           .signature = signature,
                           .record = bed_record,
                           .user = work,
                           .pointers = pointers,
                           .n_pointers = 2};
}

static inline stg_region_facts bed_run(struct bed_work *work, const stg_region_call *call,
                                       stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  stg_region_facts facts = {.struct_size = sizeof facts};
  work->caller = stream;
  bed_ok(stg_region_run(work->bed->engine, call, stream, &facts, &error), &error);
  return facts;
}

#endif
