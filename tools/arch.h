/*
 * arch.h: architecture names as words of the command line: "sm_90", "sm_90a", "sm_80,sm_90".
 */
#ifndef STG_TOOLS_ARCH_H
#define STG_TOOLS_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STG_ARCH_LIST_MAX 16

/* Names in the order given, each once. */
struct stg_arch_list {
  char names[STG_ARCH_LIST_MAX][16];
  size_t count;
};

/** True for "sm_" and two or three digits, with an optional suffix letter 'a' or 'f'. */
bool stg_arch_is_name(const char *text);

/** The number of an architecture's name: 90 for "sm_90" and "sm_90a"; 0 for what is no name. */
uint32_t stg_arch_sm(const char *name);

/**
 * Split "sm_80,sm_90". Returns an exit status: STG_EXIT_WRONG after a message that names the piece
 * that is no architecture, or that is given twice.
 */
int stg_arch_list_parse(const char *command, const char *text, struct stg_arch_list *ret_list);

/** True when an architecture name is of a GPU that is older than the kernels can run on. */
bool stg_arch_is_too_old(const char *name);

/** STG_EXIT_DONE, or STG_EXIT_WRONG after a message that names the first one that is too old. */
int stg_arch_list_check(const char *command, const struct stg_arch_list *list);

#endif
