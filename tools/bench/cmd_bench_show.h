/*
 * bench/cmd_bench_show.h: `steergraph bench show FILE.json`.
 */
#ifndef STG_TOOLS_BENCH_CMD_BENCH_SHOW_H
#define STG_TOOLS_BENCH_CMD_BENCH_SHOW_H

/** Run it; argv[0] is "show". Returns an exit status. */
int stg_cmd_bench_show(int argc, char **argv);

#endif
