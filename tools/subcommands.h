/*
 * subcommands.h: find a word in a list of commands and run it; help and messages come from the
 * list.
 */
#ifndef STG_TOOLS_SUBCOMMANDS_H
#define STG_TOOLS_SUBCOMMANDS_H

#include <stddef.h>

struct stg_subcommand {
  const char *name;
  const char *summary; /* one line */
  int (*run)(int argc, char **argv);
};

/** Run the subcommand that argv[1] names. `parent` is "" for the command itself, or "cache". */
int stg_subcommands_run(const char *parent, const struct stg_subcommand *list, size_t count,
                        int argc, char **argv);

#endif
