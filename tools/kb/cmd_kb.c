/*
 * cmd_kb.c: `steergraph kb`: knowledge bases for the proof search, made up and looked into.
 *
 * Needs neither CUDA nor a GPU. Each subcommand is a file of its own.
 */
#include "tools/command.h"
#include "tools/kb/command.h"
#include "tools/subcommands.h"

int stg_cmd_kb(int argc, char **argv) {
#define SUBCOMMAND(name, summary) {#name, summary, stg_kb_cmd_##name},
  static const struct stg_subcommand subcommands[] = {STG_KB_COMMAND_LIST(SUBCOMMAND)};
#undef SUBCOMMAND
  return stg_subcommands_run("kb", subcommands, sizeof subcommands / sizeof subcommands[0], argc,
                             argv);
}
