/*
 * cmd_bench.c: `steergraph bench SUITE`: the table of suites, and their rows on stdout.
 *
 * Must not know what any suite measures. A benchmark reports; it never fails because of a time.
 */
#include <string.h>

#include "runtime/clock.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "tools/bench/cmd_bench_show.h"
#include "tools/bench/driver_release.h"
#include "tools/bench/show.h"
#include "tools/bench/suite.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/report.h"

struct suite {
  const char *name;
  const char *summary;
  stg_bench_suite_fn *fn;
  bool needs_gpu;
  bool takes_words;
};

/* In the order in which `all` runs them. */
static const struct suite suites[] = {
    {"steer", "mixtures, lengths, pair, what tables declare; with SPEC... those workloads",
     stg_bench_suite_steer, true, true},
    {"decode", "one row per request, cold and with the rows in the L2", stg_bench_suite_decode,
     true, false},
    {"rope", "split, rotate, append: prompts and a decode step", stg_bench_suite_rope, true, false},
    {"attend", "attention over a cache, a layer as one graph, every length", stg_bench_suite_attend,
     true, false},
    /* its one word is its own, for the processes that it starts */
    {"prove", "pools of proof searches, 64 to 16384 candidates; on the CPU fewer",
     stg_bench_suite_prove, false, true},
    {"components", "masked low-rank components, y alone and with all gradients",
     stg_bench_suite_components, true, false},
    /* it looks for the GPU itself: asking the driver would spoil what its processes measure */
    {"warmup", "first result, later calls, calls to amortise; with US those of an eager call",
     stg_bench_suite_warmup, false, true},
    {"padding", "kernels, graphs and time of 1000 random batch shapes, with and without buckets",
     stg_bench_suite_padding, false, false},
    {"rpc", "bytes in, steered rows out, interning alone; without a GPU our side only",
     stg_bench_suite_rpc, false, false},
    {"numerics", "errors beside their bounds, on any backend; with OP... those ops",
     stg_bench_suite_numerics, false, true},
    {"cache",
     "hits on disk and in memory, the command on 10000 entries (or ENTRIES), many processes",
     stg_bench_suite_cache, false, true},
};
#define N_SUITES (sizeof suites / sizeof suites[0])

/* The first words that are no suite. */
#define ALL "all"
#define SHOW "show"

struct bench_run {
  struct stg_bench_options options;
  const char *plot; /* file, NULL: none */
  bool json;
  bool peers;
  bool is_long; /* takes minutes */
  struct stg_peer_failures failures;
  char release[64]; /* of the driver; rows that are given out borrow it */
};

static bool is_chosen(const struct suite *suite, const char *word) {
  return strcmp(word, ALL) == 0 || strcmp(word, suite->name) == 0;
}

static int check_words(const char *word, const struct bench_run *run) {
  const struct stg_bench_options *options = &run->options;
  struct stg_strbuf names = {0};
  const struct suite *found = NULL;
  for (size_t i = 0; i < N_SUITES; i++) {
    stg_strbuf_printf(&names, "%s, ", suites[i].name);
    found = is_chosen(&suites[i], word) ? &suites[i] : found;
  }
  int code = STG_EXIT_DONE;
  if (strcmp(word, SHOW) == 0) {
    code = stg_report_wrong("bench", "options of bench show come after its name");
  } else if (found == NULL) {
    code = stg_report_wrong("bench", "unknown suite '%s'; there is %sall, and " SHOW, word,
                            stg_strbuf_text(&names));
  } else if (options->n_words > 0 && (strcmp(word, ALL) == 0 || !found->takes_words)) {
    code = stg_report_wrong("bench", "'%s' is one word too many for %s", options->words[0], word);
  } else if (options->n_words > 0 && run->peers) {
    code = stg_report_wrong("bench", "--peers runs on the suite's own workloads, not on '%s'",
                            options->words[0]);
  } else if (options->peers != NULL && !run->peers) {
    code = stg_report_wrong("bench", "--peers-from is of no use without --peers");
  }
  stg_strbuf_finish(&names);
  return code;
}

/* Said before anything is measured. Makes no context: a suite may measure that. */
static stg_status check_gpu(const struct suite *suite, stg_error *reterr) {
  int count = 0;
  int driver = 0;
  stg_status status = stg_device_count(&count, &driver, reterr);
  if (status == STG_OK && count == 0) {
    status = stg_error_set(reterr, STG_E_NO_DEVICE,
                           "the driver sees no device; check nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "bench %s needs a GPU: ", suite->name);
  }
  return status;
}

/* One of many would say it many times. */
static bool is_child(const struct stg_bench_options *options) {
  return options->n_words > 0 && strcmp(options->words[0], STG_BENCH_CHILD) == 0;
}

/* A run of minutes says how long it took: that of every suite, or one with peers. */
static stg_status add_duration(const struct bench_run *run, const char *name, uint64_t from_ns,
                               struct stg_bench_report *report, stg_error *reterr) {
  const double us = (double)(stg_clock_ns() - from_ns) * 1e-3;
  const struct stg_bench_row row = {.suite = STG_BENCH_RUN,
                                    .name = name,
                                    .series = STG_BENCH_OURS,
                                    .wall = {us, us, us},
                                    .has_wall = true};
  return run->is_long ? stg_bench_report_add(report, &row, reterr) : STG_OK;
}

static stg_status run_suite(const struct suite *suite, const struct bench_run *run,
                            struct stg_bench_report *report, stg_error *reterr) {
  const uint64_t from = stg_clock_ns();
  if (!is_child(&run->options)) {
    stg_report_progress("bench: %s", suite->name);
  }
  stg_status status = suite->fn(&run->options, report, reterr);
  return status == STG_OK ? add_duration(run, suite->name, from, report, reterr) : status;
}

static stg_status run_suites(const char *word, const struct bench_run *run,
                             struct stg_bench_report *report, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < N_SUITES; i++) {
    if (is_chosen(&suites[i], word) && suites[i].needs_gpu) {
      status = check_gpu(&suites[i], reterr);
    }
  }
  for (size_t i = 0; status == STG_OK && i < N_SUITES; i++) {
    if (is_chosen(&suites[i], word)) {
      status = run_suite(&suites[i], run, report, reterr);
    }
  }
  return status;
}

/* The suites, and then the peers of all of them. */
static stg_status run_chosen(const char *word, struct bench_run *run,
                             struct stg_bench_report *report, stg_error *reterr) {
  const char *names[N_SUITES];
  size_t n_names = 0;
  const uint64_t from = stg_clock_ns();
  stg_status status = STG_OK;
  for (size_t i = 0; i < N_SUITES; i++) {
    if (is_chosen(&suites[i], word)) {
      names[n_names++] = suites[i].name;
    }
  }
  if (run->peers) {
    status = stg_bench_peers_check(&run->options, names, n_names, reterr);
  }
  if (status == STG_OK) {
    status = run_suites(word, run, report, reterr);
  }
  const uint64_t from_peers = stg_clock_ns();
  if (status == STG_OK && run->peers) {
    status = stg_bench_peers_run(&run->options, names, n_names, report, &run->failures, reterr);
    status = status == STG_OK ? add_duration(run, "peers", from_peers, report, reterr) : status;
  }
  return status == STG_OK ? add_duration(run, "all of it", from, report, reterr) : status;
}

/* Gives out the rows with the card that they were measured on, if there is one. */
static int show_rows(struct stg_bench_report *report, struct bench_run *run, const char *plot) {
  struct stg_device *device = NULL;
  struct stg_nvrtc_info nvrtc = {.path = NULL};
  struct stg_bench_machine machine = {0};
  if (stg_device_open(0, &device, NULL) == STG_OK) {
    machine.card = stg_device_get_info(device)->name;
    machine.driver = stg_device_get_info(device)->driver_version;
  }
  if (device != NULL &&
      stg_bench_driver_release(STG_DRIVER_VERSION_FILE, run->release, sizeof run->release)) {
    machine.driver_release = run->release;
  }
  if (stg_nvrtc_info(&nvrtc, NULL) == STG_OK) {
    const char *dash = strchr(nvrtc.compiler, '-');
    machine.cuda = dash != NULL ? dash + 1 : nvrtc.compiler;
  }
  for (size_t i = 0; i < report->n_rows; i++) {
    report->rows[i].driver_release = machine.driver_release;
  }
  int code = stg_bench_show(report, &machine, run->json, plot);
  stg_device_close(device);
  return code;
}

/* What was measured before the failure is given out too, and says that there should be more. */
static int fail(struct stg_bench_report *report, struct bench_run *run, const stg_error *error) {
  const struct stg_bench_row last = {
      .suite = STG_BENCH_RUN, .name = STG_BENCH_UNFINISHED, .series = STG_BENCH_OURS};
  if (report->n_rows > 0 && !is_child(&run->options) &&
      stg_bench_report_add(report, &last, NULL) == STG_OK) {
    (void)show_rows(report, run, NULL);
  }
  return stg_report_fail(error);
}

/* All rows that there are: those of peers that failed are missing. */
static int finish(struct stg_bench_report *report, struct bench_run *run) {
  const int code = show_rows(report, run, run->plot);
  return run->failures.count == 0 ? code : stg_report_fail(&run->failures.first);
}

static int run_bench(const char *word, struct bench_run *run) {
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = STG_OK;
  run->is_long = run->peers || strcmp(word, ALL) == 0;
  /* before minutes are spent on measuring */
  if (run->plot != NULL) {
    status = stg_bench_plot_check(run->plot, &err);
  }
  if (status == STG_OK) {
    status = run_chosen(word, run, &report, &err);
  }
  int code = status == STG_OK ? finish(&report, run) : fail(&report, run, &err);
  stg_bench_report_finish(&report);
  return code;
}

int stg_cmd_bench(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], SHOW) == 0) {
    return stg_cmd_bench_show(argc - 1, argv + 1);
  }
  struct bench_run run = {0};
  const struct stg_option table[] = {
      {"--json", NULL, "print one JSON array of rows", NULL, &run.json},
      {"--quick", NULL, "few iterations: shows that it works, measures nothing", NULL,
       &run.options.quick},
      {"--peers", NULL,
       "also run the PyTorch peers; when one fails the others go on, and then the command fails",
       NULL, &run.peers},
      {"--peers-from", "FOLDER", "where the peer scripts are (default: where they were installed)",
       &run.options.peers, NULL},
      {"--plot", "FILE.svg",
       "draw the rows of steer, decode, rope, attend, prove, components and warmup", &run.plot,
       NULL},
      {"--cache", "FOLDERS", "cache folders, RO:RO:RW", &run.options.cache, NULL},
      {"--allow-outside", NULL, "paths of a spec may leave its folder", NULL,
       &run.options.allow_outside},
  };
  struct stg_strbuf details = {0};
  stg_strbuf_str(&details, "suites:\n");
  for (size_t i = 0; i < N_SUITES; i++) {
    stg_strbuf_printf(&details, "  %-10s %s\n", suites[i].name, suites[i].summary);
  }
  stg_strbuf_str(&details, "  all        every suite\n\nDevice times are cold: lines of launches "
                           "over buffers that exceed the L2 together.\n"
                           "`steergraph bench show FILE.json` prints or draws rows of an earlier "
                           "run.");
  const struct stg_grammar grammar = {
      .name = "bench",
      .words = "SUITE [SPEC...]",
      .summary = "time the work of this library on a GPU, beside its floors and its baselines",
      .details = stg_strbuf_text(&details),
      .min_words = 1,
      .max_words = 64,
      .options = table,
      .n_options = sizeof table / sizeof table[0],
  };
  size_t words = 0;
  int code = 0;
  if (stg_options_parse(&grammar, argc, argv, &words, &code) == STG_PARSED_OK) {
    run.options.words = (const char *const *)argv + 2;
    run.options.n_words = words - 1;
    code = check_words(argv[1], &run);
    if (code == STG_EXIT_DONE) {
      code = run_bench(argv[1], &run);
    }
  }
  stg_strbuf_finish(&details);
  return code;
}
