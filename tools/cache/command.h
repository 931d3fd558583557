/*
 * cache/command.h: the subcommands of `steergraph cache`, one file each (NAME.c).
 */
#ifndef STG_TOOLS_CACHE_COMMAND_H
#define STG_TOOLS_CACHE_COMMAND_H

/* One row per subcommand: name, what it does in one line. The order is that of the help. */
#define STG_CACHE_COMMAND_LIST(X)                                                                  \
  X(ls, "list the entries")                                                                        \
  X(show, "show one entry or one graph")                                                           \
  X(dot, "print a graph for Graphviz")                                                             \
  X(explain, "say why two entries are two, or why a workload misses")                              \
  X(verify, "check every entry")                                                                   \
  X(gc, "remove what was unused longest")                                                          \
  X(stats, "say what there is and what was done with it")                                          \
  X(report, "write what there is as one HTML page")                                                \
  X(export, "write entries into one file, a pack")                                                 \
  X(import, "copy the entries of packs into a folder")

/** Run one subcommand; argv[0] is its name. Returns an exit status. */
#define STG_CACHE_COMMAND_DECLARE(name, summary) int stg_cache_cmd_##name(int argc, char **argv);
STG_CACHE_COMMAND_LIST(STG_CACHE_COMMAND_DECLARE)
#undef STG_CACHE_COMMAND_DECLARE

#endif
