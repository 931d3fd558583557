/*
 * prelude.h: the hand-written device code, by file. A family names the files that its kernels need,
 * in the order in which they read; what it does not name is no part of its keys.
 */
#ifndef STG_CODEGEN_PRELUDE_H
#define STG_CODEGEN_PRELUDE_H

#include <stddef.h>

#include "runtime/base/embedded.h"
#include "runtime/base/strbuf.h"

/** The file of prelude/ that is called so, without its suffix; NULL: there is none. */
const struct stg_embedded_file *stg_prelude_find(const char *stem);
/** Append files, which must be there. */
void stg_prelude_append(const char *const *stems, size_t count, struct stg_strbuf *out);

#endif
