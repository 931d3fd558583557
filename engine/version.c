/*
 * version.c: the version at run time.
 */
#include <steergraph/version.h>

const char *stg_version(void) {
  return STEERGRAPH_VERSION_STRING;
}
