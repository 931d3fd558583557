/*
 * cmd_cache.c: `steergraph cache`: look into a cache folder, offline.
 *
 * Works where there is neither CUDA nor a GPU. Each subcommand is a file of its own.
 */
#include "tools/cache/command.h"
#include "tools/command.h"
#include "tools/subcommands.h"

int stg_cmd_cache(int argc, char **argv) {
#define SUBCOMMAND(name, summary) {#name, summary, stg_cache_cmd_##name},
  static const struct stg_subcommand subcommands[] = {STG_CACHE_COMMAND_LIST(SUBCOMMAND)};
#undef SUBCOMMAND
  return stg_subcommands_run("cache", subcommands, sizeof subcommands / sizeof subcommands[0], argc,
                             argv);
}
