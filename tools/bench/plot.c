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

/* In pixels: what a README shows without making it smaller. */
#define WIDTH 900.0
#define MARGIN 16.0
#define TITLE 28.0
#define SUBTITLE 48.0
#define LEGEND 66.0
#define LEGEND_GAP 14.0

static const struct stg_plot_choice choices[] = {
    {.title = "Prefill: 1 to 32 distinct ops among 32 requests of 64 rows, hidden 4096",
     .axis = "device time per apply",
     .suite = "steer",
     .suffixes = {" distinct"}},
    {.title = "Prefill: 1 to 8 ops per request, 32 requests of 64 rows, hidden 4096",
     .axis = "device time per apply",
     .suite = "steer",
     .suffixes = {" op", " ops"}},
    {.title = "Decode: one row per request, hidden 4096",
     .axis = "device time per apply",
     .suite = "decode"},
    {.title = "Split and rotate; append where it says so",
     .axis = "device time per launch",
     .suite = "rope"},
    {.title = "Attention over a cache; the floor is a read of the valid K and V",
     .axis = "device time per launch",
     .suite = "attend",
     .suffixes = {"heads of 64", "heads of 128"}},
    {.title = "A layer's attention through every length of its cache",
     .axis = "wall time per token",
     .suite = "attend",
     .suffixes = {"heads of 64, float32"},
     .wall = true},
    {.title = "Components of 16 384 rows, C 1200: y alone; the floor is a copy of the bytes",
     .axis = "device time per call",
     .suite = "components",
     .suffixes = {"128 to 128, tf32", "128 to 341, tf32", "128 to 128, bf16", "128 to 341, bf16"}},
    {.title = "Components, C 1200: y and all gradients",
     .axis = "device time of both calls",
     .suite = "components",
     .suffixes = {"128 to 128, tf32, both ways", "128 to 341, tf32, both ways",
                  "128 to 128, bf16, both ways", "128 to 341, bf16, both ways"}},
    {.title =
         "Proof search: pools of 64 to 16384 candidates of the family; the floor is the policy's "
         "operations",
     .axis = "device time per pool",
     .suite = "prove",
     .prefix = "family, pool ",
     .without = "torch, step "},
    {.title =
         "Warm-up: a first result from an empty cache, from disk and from memory, and later calls",
     .axis = "wall time",
     .suite = "warmup",
     .wall = true},
};
#define N_CHOICES (sizeof choices / sizeof choices[0])

/* The panels of a plot and what they have in common. */
struct drawing {
  struct stg_plot_series series;
  struct stg_plot_panel panels[N_CHOICES];
  bool floors;
  double width, height, head;
};

static void draw_head(const struct drawing *drawing, const struct stg_bench_machine *machine,
                      struct stg_strbuf *out) {
  struct stg_strbuf text = {0};
  const struct stg_svg_place title = {MARGIN, TITLE, 0, "start", "head"};
  const struct stg_svg_place subtitle = {MARGIN, SUBTITLE, 0, "start", "note"};
  stg_strbuf_printf(&text, "steergraph on %s", machine->card != NULL ? machine->card : "no card");
  stg_svg_text(out, &title, stg_strbuf_text(&text));
  out->failed = out->failed || text.failed;
  stg_strbuf_finish(&text);
  if (machine->driver > 0) {
    stg_strbuf_printf(&text, "CUDA driver %d.%d; ", machine->driver / 1000,
                      machine->driver % 1000 / 10);
  }
  if (machine->cuda != NULL) {
    stg_strbuf_printf(&text, "NVRTC %s; ", machine->cuda);
  }
  stg_strbuf_str(&text, "medians, lower is better; bars stand in the order of this legend");
  stg_svg_text(out, &subtitle, stg_strbuf_text(&text));
  out->failed = out->failed || text.failed;
  stg_strbuf_finish(&text);
  stg_plot_series_draw(&drawing->series, drawing->floors, MARGIN, drawing->width - MARGIN, LEGEND,
                       out);
}

/* False when no row is drawn. */
static bool plan(const struct stg_bench_report *report, struct drawing *drawing) {
  for (size_t i = 0; i < N_CHOICES; i++) {
    stg_plot_panel_series(report, &choices[i], &drawing->series);
  }
  drawing->width = WIDTH;
  for (size_t i = 0; i < N_CHOICES; i++) {
    struct stg_plot_panel *panel = &drawing->panels[i];
    stg_plot_panel_init(report, &choices[i], &drawing->series, panel);
    const double width = stg_plot_panel_width(panel);
    drawing->width = width > drawing->width ? width : drawing->width;
    drawing->floors = drawing->floors || stg_plot_panel_has_floor(panel);
  }
  drawing->head = LEGEND + stg_plot_series_height(&drawing->series, drawing->floors) + LEGEND_GAP;
  drawing->height = drawing->head;
  for (size_t i = 0; i < N_CHOICES; i++) {
    if (drawing->panels[i].n_groups > 0) {
      drawing->height += stg_plot_panel_height(&drawing->panels[i], drawing->width);
    }
  }
  return drawing->series.n > 0;
}

/* Panels that have rows stand one below the other. */
static void draw(const struct drawing *drawing, const struct stg_bench_machine *machine,
                 struct stg_strbuf *out) {
  double top = drawing->head;
  stg_svg_open(out, drawing->width, drawing->height);
  draw_head(drawing, machine, out);
  for (size_t i = 0; i < N_CHOICES; i++) {
    const struct stg_plot_panel *panel = &drawing->panels[i];
    if (panel->n_groups > 0) {
      stg_plot_panel_draw(panel, drawing->width, top, out);
      top += stg_plot_panel_height(panel, drawing->width);
    }
  }
  stg_svg_close(out);
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
  struct drawing *drawing = stg_calloc(1, sizeof *drawing);
  if (drawing == NULL) {
    return stg_error_memory(reterr, "the panels of a plot", sizeof *drawing);
  }
  struct stg_strbuf text = {0};
  stg_status status = STG_OK;
  if (plan(report, drawing)) {
    draw(drawing, machine, &text);
    status = stg_strbuf_status(&text, reterr);
  } else {
    status = stg_error_set(reterr, STG_E_INVALID,
                           "--plot '%s': no row that is drawn; steer, decode, rope, attend, prove, "
                           "components and warmup have some",
                           path);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(path, text.data, text.len, 0644, reterr);
  }
  stg_strbuf_finish(&text);
  stg_free(drawing);
  return status;
}
