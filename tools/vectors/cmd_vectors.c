/*
 * cmd_vectors.c: `steergraph vectors`: look into vector files, and write them as safetensors.
 *
 * Needs neither CUDA nor a GPU. Each subcommand is a file of its own.
 */
#include "tools/command.h"
#include "tools/subcommands.h"
#include "tools/vectors/command.h"

int stg_cmd_vectors(int argc, char **argv) {
#define SUBCOMMAND(name, summary) {#name, summary, stg_vectors_cmd_##name},
  static const struct stg_subcommand subcommands[] = {STG_VECTORS_COMMAND_LIST(SUBCOMMAND)};
#undef SUBCOMMAND
  return stg_subcommands_run("vectors", subcommands, sizeof subcommands / sizeof subcommands[0],
                             argc, argv);
}
