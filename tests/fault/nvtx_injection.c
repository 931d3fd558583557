/*
 * nvtx_injection.c: the library that NVTX_INJECTION64_PATH names in test_nvtx.c, as a profiler's
 * would be: it puts its own functions into NVTX's table and writes down what they are called with.
 */
#include "tests/fault/nvtx_injection.h"

#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

#define EXPORTED __attribute__((visibility("default")))

static struct stg_injection seen;
static int a_domain;

EXPORTED struct stg_injection *stg_injection_seen(void) {
  return &seen;
}

static nvtxDomainHandle_t create_domain(const char *name) {
  seen.domains++;
  snprintf(seen.domain, sizeof seen.domain, "%s", name);
  return (nvtxDomainHandle_t)(void *)&a_domain;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  if ((void *)domain == &a_domain && event->messageType == NVTX_MESSAGE_TYPE_ASCII &&
      seen.pushes < STG_INJECTION_MAX_RANGES) {
    snprintf(seen.names[seen.pushes], sizeof seen.names[0], "%s", event->message.ascii);
  }
  seen.pushes++;
  seen.depth++;
  seen.deepest = seen.depth > seen.deepest ? seen.depth : seen.deepest;
  return seen.depth;
}

static int pop(nvtxDomainHandle_t domain) {
  (void)domain;
  seen.pops++;
  seen.depth--;
  return seen.depth;
}

/* What NVTX calls first; the name is its own. NOLINTBEGIN(readability-identifier-naming) */
EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  /* NOLINTEND(readability-identifier-naming) */
  const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  if (callbacks == NULL ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
