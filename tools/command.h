/*
 * command.h: the subcommands of `steergraph`, one file each, and their exit statuses.
 */
#ifndef STG_TOOLS_COMMAND_H
#define STG_TOOLS_COMMAND_H

/* What the process says by its exit status. */
enum stg_exit {
  STG_EXIT_DONE = 0,
  STG_EXIT_FAILED = 1, /* the work failed */
  STG_EXIT_WRONG = 2   /* the words were wrong */
};

/* One row per subcommand: name, what it does in one line. */
#define STG_COMMAND_LIST(X)                                                                        \
  X(run, "apply a workload, check it against the oracle, time it")                                 \
  X(explain, "show a workload's signature, keys, kernel source and programs")                      \
  X(build, "compile kernels for any architecture, without a GPU")                                  \
  X(warm, "make the kernels and graphs of a service's traffic")                                    \
  X(prove, "search for proofs of queries, and rank them among corruptions")                        \
  X(ops, "list the built-in ops, or check an op definition")                                       \
  X(vectors, "list, show and convert the vectors of a file")                                       \
  X(kb, "make up and count knowledge bases for the proof search")                                  \
  X(cache, "list, show, explain, verify and ship the entries of a folder or pack")                 \
  X(bench, "time workloads on a GPU, beside a copy of the same bytes")                             \
  X(doctor, "say what was found here, what is missing, and the remedy")

/** Run one subcommand; argv[0] is its name. Returns an exit status. */
#define STG_COMMAND_DECLARE(name, summary) int stg_cmd_##name(int argc, char **argv);
STG_COMMAND_LIST(STG_COMMAND_DECLARE)
#undef STG_COMMAND_DECLARE

#endif
