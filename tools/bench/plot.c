/*
 * bench/plot.c: `bench --plot`: which rows of a report become which panels of one SVG file.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/bench/plot_panel.h"
#include "tools/bench/suite.h"
#include "tools/bench/svg.h"

#define FOOT 40.0

static const struct stg_plot_choice choices[] = {
    {.title = "Distinct ops in a batch of 32 requests of 64 rows",
     .axis = "device time per apply",
     .suite = "steer",
     .suffixes = {" distinct"}},
    {.title = "Ops per request, 32 requests of 64 rows",
     .axis = "device time per apply",
     .suite = "steer",
     .suffixes = {" op", " ops"}},
    {.title = "Decode, one row per request", .axis = "device time per apply", .suite = "decode"},
    {.title = "Warm-up", .axis = "wall time", .suite = "warmup", .wall = true},
};
#define N_CHOICES (sizeof choices / sizeof choices[0])

static void draw_foot(const struct stg_bench_machine *machine, double height,
                      struct stg_strbuf *out) {
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, machine->card != NULL ? machine->card : "no card");
  if (machine->driver > 0) {
    stg_strbuf_printf(&text, ", CUDA driver %d.%d", machine->driver / 1000,
                      machine->driver % 1000 / 10);
  }
  if (machine->cuda != NULL) {
    stg_strbuf_printf(&text, ", NVRTC %s", machine->cuda);
  }
  stg_strbuf_str(&text, "; medians");
  const struct stg_svg_place place = {20, height - FOOT / 2, 0, "start", 11};
  stg_svg_text(out, &place, stg_strbuf_text(&text));
  out->failed = out->failed || text.failed;
  stg_strbuf_finish(&text);
}

/* Draws the panels that have rows, one below the other; false when none has. */
static bool draw(const struct stg_bench_report *report, const struct stg_bench_machine *machine,
                 struct stg_plot_panel *panels, struct stg_strbuf *out) {
  double width = 0;
  double height = FOOT;
  for (size_t i = 0; i < N_CHOICES; i++) {
    stg_plot_panel_init(report, &choices[i], &panels[i]);
    if (panels[i].n_groups > 0) {
      const double panel_width = stg_plot_panel_width(&panels[i]);
      width = panel_width > width ? panel_width : width;
      height += stg_plot_panel_height(&panels[i]);
    }
  }
  if (!(width > 0)) {
    return false;
  }
  stg_svg_open(out, width, height);
  double top = 0;
  for (size_t i = 0; i < N_CHOICES; i++) {
    if (panels[i].n_groups > 0) {
      stg_plot_panel_draw(&panels[i], top, out);
      top += stg_plot_panel_height(&panels[i]);
    }
  }
  draw_foot(machine, height, out);
  stg_svg_close(out);
  return true;
}

stg_status stg_bench_plot_check(const char *path, stg_error *reterr) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    return stg_error_set(reterr, STG_E_IO, "--plot '%s': it is no file; name one to be written",
                         path);
  }
  char *folder = stg_path_folder(path);
  if (folder == NULL) {
    return stg_error_memory(reterr, "a folder name", strlen(path) + 1);
  }
  /* the file is written beside its place and renamed into it */
  stg_status status = access(folder, W_OK | X_OK) == 0
                          ? STG_OK
                          : stg_error_io(reterr, errno, "write a plot into", folder);
  stg_free(folder);
  return status;
}

stg_status stg_bench_plot_write(const struct stg_bench_report *report,
                                const struct stg_bench_machine *machine, const char *path,
                                stg_error *reterr) {
  struct stg_plot_panel *panels = stg_calloc(N_CHOICES, sizeof *panels);
  if (panels == NULL) {
    return stg_error_memory(reterr, "the panels of a plot", N_CHOICES * sizeof *panels);
  }
  struct stg_strbuf text = {0};
  stg_status status = STG_OK;
  if (!draw(report, machine, panels, &text)) {
    status =
        stg_error_set(reterr, STG_E_INVALID,
                      "--plot '%s': no row that is drawn; run steer, decode, warmup or all", path);
  }
  if (status == STG_OK) {
    status = stg_strbuf_status(&text, reterr);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(path, text.data, text.len, 0644, reterr);
  }
  stg_strbuf_finish(&text);
  stg_free(panels);
  return status;
}
