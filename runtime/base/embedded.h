/*
 * embedded.h: a file that the build put into the binary (tools/embed.py).
 */
#ifndef STG_RUNTIME_BASE_EMBEDDED_H
#define STG_RUNTIME_BASE_EMBEDDED_H

#include <stddef.h>

struct stg_embedded_file {
  const char *stem; /* file name without folder and suffix */
  const char *text; /* NUL-terminated */
  size_t len;
};

#endif
