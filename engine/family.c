/*
 * family.c: the families that there are.
 */
#include "engine/family.h"

#include <string.h>

static const struct stg_family *const families[] = {&stg_family_steer, &stg_family_rope,
                                                    &stg_family_decode, &stg_family_prover,
                                                    &stg_family_components};

const struct stg_family *stg_family_find(const char *text) {
  const size_t len = strcspn(text, " ");
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
    if (strlen(families[i]->name) == len && strncmp(families[i]->name, text, len) == 0) {
      return families[i];
    }
  }
  return NULL;
}
