/*
 * nvtx.c: ranges over NVTX 3, which is headers alone: they load the library that a profiler names
 * in NVTX_INJECTION64_PATH, and make every call a no-op where there is none.
 */
#include "runtime/nvtx.h"

#include <pthread.h>
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

/* Longer names are cut. */
#define NAME_CHARS 64

_Atomic(void *) stg_nvtx_domain;

static void create_domain(void) {
  atomic_store_explicit(&stg_nvtx_domain, nvtxDomainCreateA("steergraph"), memory_order_release);
}

void stg_nvtx_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, create_domain);
}

static nvtxDomainHandle_t domain(void) {
  return atomic_load_explicit(&stg_nvtx_domain, memory_order_acquire);
}

void stg_nvtx_begin(const char *name, uint32_t layer) {
  char text[NAME_CHARS];
  nvtxEventAttributes_t event = {
      .version = NVTX_VERSION,
      .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
      .messageType = NVTX_MESSAGE_TYPE_ASCII,
      .message.ascii = name,
  };
  if (layer != STG_NVTX_NO_LAYER) {
    snprintf(text, sizeof text, "%s L%u", name, (unsigned)layer);
    event.message.ascii = text;
  }
  (void)nvtxDomainRangePushEx(domain(), &event);
}

void stg_nvtx_end(void) {
  (void)nvtxDomainRangePop(domain());
}
