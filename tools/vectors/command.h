/*
 * vectors/command.h: the subcommands of `steergraph vectors`, one file each (NAME.c).
 */
#ifndef STG_TOOLS_VECTORS_COMMAND_H
#define STG_TOOLS_VECTORS_COMMAND_H

/* One row per subcommand: name, what it does in one line. The order is that of the help. */
#define STG_VECTORS_COMMAND_LIST(X)                                                                \
  X(ls, "list the tensors of a file")                                                              \
  X(show, "show the norms of a file's vectors, and their cosines with another's")                  \
  X(convert, "write the tensors of a file as safetensors")

/** Run one subcommand; argv[0] is its name. Returns an exit status. */
#define STG_VECTORS_COMMAND_DECLARE(name, summary)                                                 \
  int stg_vectors_cmd_##name(int argc, char **argv);
STG_VECTORS_COMMAND_LIST(STG_VECTORS_COMMAND_DECLARE)
#undef STG_VECTORS_COMMAND_DECLARE

#endif
