/*
 * kernel_text.h: a kernel's text and what is asked of a compiler or a cache, of whichever family.
 */
#ifndef STG_ENGINE_KERNEL_TEXT_H
#define STG_ENGINE_KERNEL_TEXT_H

#include "codegen/launch_rule.h"
#include "runtime/base/strbuf.h"
#include "runtime/kernel.h"

/* The architecture of the CPU backend, which compiles nothing. */
#define STG_ARCH_CPU "cpu"

/* The request has views into the strbufs. */
struct stg_kernel_text {
  struct stg_strbuf signature, source, prelude;
  const char *options[1];
  struct stg_kernel_request request;
  struct stg_launch_rule rule; /* zeros on the CPU */
  struct stg_key key;
};

/** Whether an architecture is the CPU's: then there is neither source nor prelude. */
bool stg_arch_is_cpu(const char *arch);
/**
 * Fill in the request and the key, once the family has written signature, source, prelude and rule.
 * On the CPU the key is the signature's. `name` is that of the entry point, a constant; `arch` and
 * `nvrtc_options` (may be NULL) are borrowed. STG_E_NO_MEMORY, also where writing ran out of it.
 */
STG_NODISCARD stg_status stg_kernel_text_complete(struct stg_kernel_text *text, const char *name,
                                                  const char *arch, const char *nvrtc_options,
                                                  stg_error *reterr);
/** {0} is fine. */
void stg_kernel_text_finish(struct stg_kernel_text *text);

#endif
