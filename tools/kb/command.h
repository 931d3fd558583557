/*
 * kb/command.h: the subcommands of `steergraph kb`, one file each (NAME.c).
 */
#ifndef STG_TOOLS_KB_COMMAND_H
#define STG_TOOLS_KB_COMMAND_H

/* One row per subcommand: name, what it does in one line. The order is that of the help. */
#define STG_KB_COMMAND_LIST(X)                                                                     \
  X(generate, "make a knowledge base up from a seed")                                              \
  X(stats, "count the facts, rules and buckets of a knowledge base")

/** Run one subcommand; argv[0] is its name. Returns an exit status. */
#define STG_KB_COMMAND_DECLARE(name, summary) int stg_kb_cmd_##name(int argc, char **argv);
STG_KB_COMMAND_LIST(STG_KB_COMMAND_DECLARE)
#undef STG_KB_COMMAND_DECLARE

#endif
