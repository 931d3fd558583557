/*
 * main.c: the command `steergraph`.
 *
 * Knows the list of subcommands and nothing of what they do.
 */
#include <string.h>

#include <steergraph/version.h>

#include "tools/command.h"
#include "tools/lost_file.h"
#include "tools/report.h"
#include "tools/subcommands.h"

static int print_version(void) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, "steergraph %s\n", stg_version());
  int code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  return code;
}

int main(int argc, char **argv) {
  static const struct stg_subcommand commands[] = {
#define COMMAND_ROW(name, summary) {#name, summary, stg_cmd_##name},
      STG_COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
  };
  stg_report_setup();
  stg_lost_file_setup();
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    return print_version();
  }
  return stg_subcommands_run("", commands, sizeof commands / sizeof commands[0], argc, argv);
}
