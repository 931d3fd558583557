/*
 * subcommands.c: dispatch by the first word, on both levels of the command line.
 *
 * Must not know what any subcommand does.
 */
#include "tools/subcommands.h"

#include <string.h>

#include "runtime/base/suggest.h"
#include "tools/command.h"
#include "tools/report.h"

static const char *name_at(const void *user, size_t index) {
  return ((const struct stg_subcommand *)user)[index].name;
}

static int print_help(const char *parent, const struct stg_subcommand *list, size_t count) {
  const char *space = parent[0] != '\0' ? " " : "";
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, "usage: steergraph%s%s SUBCOMMAND [options] ...\n\n", space, parent);
  if (parent[0] == '\0') {
    stg_strbuf_str(&text, "Per-request edits of hidden states, checked against a reference, on the "
                          "CPU or an NVIDIA GPU.\n\n");
  }
  stg_strbuf_str(&text, "subcommands:\n");
  for (size_t i = 0; i < count; i++) {
    stg_strbuf_printf(&text, "  %-8s %s\n", list[i].name, list[i].summary);
  }
  stg_strbuf_printf(&text, "\n'steergraph%s%s SUBCOMMAND --help' explains one.\n", space, parent);
  if (parent[0] == '\0') {
    stg_strbuf_str(&text, "'steergraph --version' prints the version.\n"
                          "exit status: 0 done, 1 the work failed, 2 the words were wrong\n");
  }
  int code = stg_report_print(&text);
  stg_strbuf_finish(&text);
  return code;
}

int stg_subcommands_run(const char *parent, const struct stg_subcommand *list, size_t count,
                        int argc, char **argv) {
  if (argc < 2) {
    return stg_report_wrong(parent, "a subcommand is missing");
  }
  const char *word = argv[1];
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
      (strcmp(word, "help") == 0 && argc == 2)) {
    return print_help(parent, list, count);
  }
  for (size_t i = 0; i < count; i++) {
    if (strcmp(list[i].name, word) == 0) {
      return list[i].run(argc - 1, argv + 1);
    }
  }
  const char *near = stg_suggest_find(word, name_at, list, count);
  return near != NULL
             ? stg_report_wrong(parent, "unknown subcommand '%s'; did you mean '%s'?", word, near)
             : stg_report_wrong(parent, "unknown subcommand '%s'", word);
}
