/*
 * arch.c: the form of architecture names. Which of them exist is the compiler's to say.
 */
#include "tools/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/report.h"

/* The kernels reduce within warps by instructions that sm_80 brought. */
#define OLDEST_ARCH 80

bool stg_arch_is_name(const char *text) {
  if (strncmp(text, "sm_", 3) != 0) {
    return false;
  }
  const char *digits = text + 3;
  size_t n = strspn(digits, "0123456789");
  const char *suffix = digits + n;
  return (n == 2 || n == 3) && digits[0] != '0' &&
         (suffix[0] == '\0' || ((suffix[0] == 'a' || suffix[0] == 'f') && suffix[1] == '\0'));
}

static bool is_listed(const struct stg_arch_list *list, const char *name) {
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->names[i], name) == 0) {
      return true;
    }
  }
  return false;
}

int stg_arch_list_parse(const char *command, const char *text, struct stg_arch_list *ret_list) {
  struct stg_arch_list list = {.count = 0};
  for (const char *piece = text; piece != NULL;) {
    if (list.count == STG_ARCH_LIST_MAX) {
      return stg_report_wrong(command, "--arch names more than %d architectures",
                              STG_ARCH_LIST_MAX);
    }
    const char *comma = strchr(piece, ',');
    size_t len = comma == NULL ? strlen(piece) : (size_t)(comma - piece);
    char *name = list.names[list.count];
    snprintf(name, sizeof list.names[0], "%.*s", (int)(len < 64 ? len : 64), piece);
    if (strlen(name) != len || !stg_arch_is_name(name)) {
      return stg_report_wrong(command, "--arch '%.*s': expected names such as sm_80,sm_90",
                              (int)(len < 64 ? len : 64), piece);
    }
    if (is_listed(&list, name)) {
      return stg_report_wrong(command, "--arch names %s twice", name);
    }
    list.count++;
    piece = comma == NULL ? NULL : comma + 1;
  }
  *ret_list = list;
  return STG_EXIT_DONE;
}

uint32_t stg_arch_sm(const char *name) {
  return stg_arch_is_name(name) ? (uint32_t)strtoul(name + strlen("sm_"), NULL, 10) : 0;
}

bool stg_arch_is_too_old(const char *name) {
  return stg_arch_sm(name) < OLDEST_ARCH;
}

int stg_arch_list_check(const char *command, const struct stg_arch_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    if (stg_arch_is_too_old(list->names[i])) {
      return stg_report_wrong(command, "--arch %s: steergraph needs sm_80 or newer",
                              list->names[i]);
    }
  }
  return STG_EXIT_DONE;
}
