/*
 * bench/peers.c: `bench --peers`: which PyTorch peers run on which workloads.
 *
 * Cases are written and judged first, each once; then each peer runs in a process of its own over
 * its cases. Names of workloads are those of the suites, so that rows join.
 */
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/interrupt.h"
#include "tools/bench/attn_peer_list.h"
#include "tools/bench/attn_peers.h"
#include "tools/bench/components_peers.h"
#include "tools/bench/figures.h"
#include "tools/bench/peer_case.h"
#include "tools/bench/peer_folder.h"
#include "tools/bench/peer_try.h"
#include "tools/bench/prove_cases.h"
#include "tools/bench/prove_peers.h"
#include "tools/bench/suite.h"
#include "tools/bench/temp_folder.h"
#include "tools/report.h"

/* Which peers a case is for. */
enum peer_flag {
  LOOP = 1 << 0,
  COMPILED = 1 << 1,
  GATHER = 1 << 2,
  ROWWISE = 1 << 3,
  UNIFORM = 1 << 4,
  PER_OP = 1 << 5,
  NORM = 1 << 6
};

struct peer {
  enum peer_flag flag;
  const char *script;
  double limit_s; /* several times what it takes on an H100 */
};

static const struct peer peers[] = {
    {LOOP, "loop.py", 120},        {GATHER, "gather.py", 120}, {UNIFORM, "uniform.py", 120},
    {ROWWISE, "rowwise.py", 180},  {PER_OP, "per_op.py", 180}, {COMPILED, "compiled.py", 240},
    {COMPILED, "reduced.py", 240}, {NORM, "norm.py", 240},
};

struct peer_case {
  const char *suite;
  unsigned peers;
  struct stg_bench_mix mix;
};

/* Lengths of the table of single ops. */
static const uint32_t per_op_lengths[] = {256, 512, 384, 320};

#define STANDARD(text, ops, distinct)                                                              \
  {                                                                                                \
    .name = (text), .hidden_size = STG_BENCH_HIDDEN, .n_requests = STG_BENCH_REQUESTS,             \
    .rows_each = STG_BENCH_ROWS_PER_REQUEST, .n_ops = (ops), .n_distinct = (distinct),             \
    .kind = STG_BENCH_MIXED                                                                        \
  }
#define DECODE(text, ops)                                                                          \
  {                                                                                                \
    .name = (text), .hidden_size = STG_BENCH_HIDDEN, .n_requests = STG_BENCH_REQUESTS,             \
    .rows_each = 1, .n_ops = (ops), .n_distinct = STG_BENCH_REQUESTS, .kind = STG_BENCH_MIXED      \
  }
#define SINGLE(text, op)                                                                           \
  {                                                                                                \
    .name = (text), .hidden_size = 2048, .n_requests = 4, .lengths = per_op_lengths, .n_ops = 1,   \
    .n_distinct = 4, .kind = (op)                                                                  \
  }
#define WHOLE(text, n_rows, op)                                                                    \
  {                                                                                                \
    .name = (text), .hidden_size = STG_BENCH_HIDDEN, .n_requests = 1, .rows_each = (n_rows),       \
    .n_ops = 1, .n_distinct = 1, .kind = (op)                                                      \
  }
#define UNSTEERED(text, n_rows)                                                                    \
  {                                                                                                \
    .name = (text), .hidden_size = STG_BENCH_HIDDEN, .n_requests = STG_BENCH_REQUESTS,             \
    .rows_each = (n_rows) / STG_BENCH_REQUESTS, .n_ops = 1, .n_distinct = STG_BENCH_REQUESTS,      \
    .kind = STG_BENCH_MIXED, .state = STG_BENCH_NORM, .unsteered = true                            \
  }

static const struct peer_case cases[] = {
    {"steer", LOOP | COMPILED | GATHER | ROWWISE, STANDARD("1 op", 1, STG_BENCH_REQUESTS)},
    {"steer", LOOP | ROWWISE, STANDARD("8 ops", 8, STG_BENCH_REQUESTS)},
    {"steer", LOOP | GATHER | UNIFORM, STANDARD("1 distinct", 1, 1)},
    {"steer", LOOP | GATHER, STANDARD("2 distinct", 1, 2)},
    {"steer", LOOP | GATHER, STANDARD("4 distinct", 1, 4)},
    {"steer", LOOP | GATHER, STANDARD("8 distinct", 1, 8)},
    {"steer", LOOP | GATHER, STANDARD("16 distinct", 1, 16)},
    {"steer", LOOP | GATHER, STANDARD("32 distinct", 1, 32)},
    {"steer", PER_OP, SINGLE("hidden 2048, add", STG_BENCH_ADD)},
    {"steer", PER_OP, SINGLE("hidden 2048, cap", STG_BENCH_CAP)},
    {"steer", PER_OP, SINGLE("hidden 2048, ablation", STG_BENCH_ABLATION)},
    {"steer", UNIFORM, WHOLE("512 x 4096, cap", 512, STG_BENCH_CAP)},
    {"steer", UNIFORM, WHOLE("512 x 4096, ablation", 512, STG_BENCH_ABLATION)},
    {"steer", UNIFORM, WHOLE("one request, cap", 2048, STG_BENCH_CAP)},
    {"steer", NORM, UNSTEERED("norm, 2048 rows, unsteered", 2048)},
    {"steer", NORM, UNSTEERED("norm, 256 rows, unsteered", 256)},
    {"steer", NORM, UNSTEERED("norm, 32 rows, unsteered", 32)},
    {"decode", LOOP | GATHER | ROWWISE, DECODE("32 rows, 1 op", 1)},
    {"decode", LOOP | ROWWISE, DECODE("32 rows, 8 ops", 8)},
};
#define N_CASES (sizeof cases / sizeof cases[0])
#define N_PEERS (sizeof peers / sizeof peers[0])
#define WARMUP_CASE 0 /* the one whose first call is told in the suite `warmup` */

/* A run over temporary case folders. */
struct peers_run {
  const struct stg_bench_options *options;
  const char *const *suites;
  size_t n_suites;
  const char *scripts; /* folder */
  const char *folder;  /* temporary */
  char *case_folders[N_CASES];
  struct stg_peer_failures *failures;
};

static bool is_wanted(const struct peers_run *run, const char *suite) {
  for (size_t i = 0; i < run->n_suites; i++) {
    if (strcmp(run->suites[i], suite) == 0) {
      return true;
    }
  }
  return false;
}

/* The peers that are to run on a case. */
static unsigned peers_of(const struct peers_run *run, size_t index) {
  unsigned chosen = is_wanted(run, cases[index].suite) ? cases[index].peers : 0;
  if (index == WARMUP_CASE && is_wanted(run, "warmup")) {
    chosen |= COMPILED | LOOP;
  }
  return chosen;
}

static stg_status write_case(struct peers_run *run, size_t index, stg_error *reterr) {
  struct stg_strbuf path = {0};
  stg_strbuf_printf(&path, "%s/case%zu", run->folder, index);
  run->case_folders[index] = stg_strbuf_take(&path);
  const char *folder = run->case_folders[index];
  stg_status status = folder != NULL ? stg_mkdir_all(folder, 0700, reterr)
                                     : stg_error_memory(reterr, "the path of a case", 0);
  struct stg_bench_batch batch = {0};
  if (status == STG_OK) {
    status = stg_bench_batch_init(&cases[index].mix, &batch, reterr);
  }
  if (status == STG_OK) {
    status = stg_peer_case_write(&batch, folder, reterr);
    stg_bench_batch_finish(&batch);
  }
  if (status == STG_OK) {
    status = stg_peer_case_expect(folder, run->options->cache, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "the peers' case '%s' of suite '%s': ", cases[index].mix.name,
                     cases[index].suite);
  }
  return status;
}

static stg_status run_peer(const struct peers_run *run, const struct peer *peer,
                           struct stg_bench_report *report, stg_error *reterr) {
  struct stg_peer_arg args[STG_PEER_MAX_CASES];
  size_t count = 0;
  for (size_t i = 0; i < N_CASES; i++) {
    if ((peers_of(run, i) & (unsigned)peer->flag) != 0) {
      args[count++] =
          (struct stg_peer_arg){cases[i].suite, cases[i].mix.name, run->case_folders[i]};
    }
  }
  if (count == 0) {
    return STG_OK;
  }
  stg_report_progress("bench: peer %s, %zu workloads", peer->script, count);
  char *script = stg_path_join(run->scripts, peer->script);
  char *out = stg_path_join(run->folder, "rows.json");
  stg_status status =
      script != NULL && out != NULL ? STG_OK : stg_error_memory(reterr, "the path of a peer", 0);
  if (status == STG_OK) {
    const struct stg_peer_call call = {.script = script,
                                       .cases = args,
                                       .n_cases = count,
                                       .out = out,
                                       .limit_s = peer->limit_s,
                                       .quick = run->options->quick};
    status = stg_peer_try(&call, report, run->failures, reterr);
  }
  stg_free(script);
  stg_free(out);
  return status;
}

/* What torch.compile pays first, in the form of the suite `warmup`. */
static stg_status add_warmup(struct stg_bench_report *report, const char *series,
                             stg_error *reterr) {
  const struct peer_case *standard = &cases[WARMUP_CASE];
  const struct stg_bench_row *found =
      stg_bench_report_find(report, standard->suite, standard->mix.name, series);
  const struct stg_bench_row *loop =
      stg_bench_report_find(report, standard->suite, standard->mix.name, "torch eager loop");
  const double *first_ms = found != NULL ? stg_bench_row_find_extra(found, "first_call_ms") : NULL;
  if (first_ms == NULL || loop == NULL) {
    return STG_OK;
  }
  const double first_us = *first_ms * 1e3;
  const double later_us = found->wall.median_us;
  const double eager_us = loop->wall.median_us;
  struct stg_bench_row first = {.suite = "warmup",
                                .name = "first result, empty cache",
                                .series = series,
                                .card = found->card,
                                .cuda = found->cuda,
                                .wall = {first_us, first_us, first_us},
                                .has_wall = true};
  struct stg_bench_row later = first;
  double calls = 0;
  stg_bench_row_extra(&first, "first_ms", *first_ms);
  stg_bench_row_extra(&first, "later_us", later_us);
  stg_bench_row_extra(&first, "eager_us", eager_us);
  if (stg_bench_amortise(first_us, later_us, eager_us, &calls)) {
    stg_bench_row_extra(&first, "amortise_calls", calls);
  }
  later.name = "later calls";
  later.wall = found->wall;
  stg_status status = stg_bench_report_add(report, &first, reterr);
  return status == STG_OK ? stg_bench_report_add(report, &later, reterr) : status;
}

/* A workload that was renamed in its suite would be measured beside nothing. */
static stg_status check_names(const struct peers_run *run, const struct stg_bench_report *report,
                              stg_error *reterr) {
  for (size_t i = 0; i < N_CASES; i++) {
    if (is_wanted(run, cases[i].suite) &&
        stg_bench_report_find(report, cases[i].suite, cases[i].mix.name, STG_BENCH_OURS) == NULL) {
      return stg_error_set(reterr, STG_E_NOT_FOUND,
                           "bench --peers: suite '%s' has no row '%s' of ours; rename the case in "
                           "peers.c",
                           cases[i].suite, cases[i].mix.name);
    }
  }
  return STG_OK;
}

static stg_status run_all(struct peers_run *run, struct stg_bench_report *report,
                          stg_error *reterr) {
  stg_status status = check_names(run, report, reterr);
  for (size_t i = 0; status == STG_OK && i < N_CASES; i++) {
    if (peers_of(run, i) != 0) {
      status = write_case(run, i, reterr);
    }
  }
  for (size_t i = 0; status == STG_OK && i < N_PEERS; i++) {
    status = run_peer(run, &peers[i], report, reterr);
  }
  if (status == STG_OK && is_wanted(run, "warmup")) {
    status = add_warmup(report, "torch.compile loop (dynamic)", reterr);
    if (status == STG_OK) {
      status = add_warmup(report, "torch.compile loop (reduce-overhead)", reterr);
    }
  }
  return status;
}

static stg_status run_attention(const struct peers_run *run, struct stg_bench_report *report,
                                stg_error *reterr) {
  const struct stg_attn_peers attention = {.options = run->options,
                                           .suites = run->suites,
                                           .n_suites = run->n_suites,
                                           .scripts = run->scripts,
                                           .folder = run->folder,
                                           .failures = run->failures};
  return stg_attn_peers_wanted(run->suites, run->n_suites)
             ? stg_attn_peers_run(&attention, report, reterr)
             : STG_OK;
}

static stg_status run_prove(const struct peers_run *run, struct stg_bench_report *report,
                            stg_error *reterr) {
  const struct stg_prove_peers prove = {.options = run->options,
                                        .scripts = run->scripts,
                                        .folder = run->folder,
                                        .failures = run->failures};
  return is_wanted(run, STG_PROVE_SUITE) ? stg_prove_peers_run(&prove, report, reterr) : STG_OK;
}

static stg_status run_components(const struct peers_run *run, struct stg_bench_report *report,
                                 stg_error *reterr) {
  const struct stg_components_peers components = {.scripts = run->scripts,
                                                  .folder = run->folder,
                                                  .quick = run->options->quick,
                                                  .failures = run->failures};
  return stg_components_peers_wanted(run->suites, run->n_suites)
             ? stg_components_peers_run(&components, report, reterr)
             : STG_OK;
}

/* Ctrl-C ends the child; then the folder is removed, and then we end. */
static stg_status run_in_folder(struct peers_run *run, struct stg_bench_report *report,
                                stg_error *reterr) {
  char *folder = NULL;
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_bench_temp_folder_make(&folder, reterr);
  if (status == STG_OK) {
    run->folder = folder;
    status = run_all(run, report, reterr);
    status = status == STG_OK ? run_attention(run, report, reterr) : status;
    status = status == STG_OK ? run_prove(run, report, reterr) : status;
    status = status == STG_OK ? run_components(run, report, reterr) : status;
    stg_status removed = stg_bench_temp_folder_remove(folder, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? removed : status;
    for (size_t i = 0; i < N_CASES; i++) {
      stg_free(run->case_folders[i]);
    }
    stg_free(folder);
  }
  stg_interrupt_release(&hold);
  return status;
}

stg_status stg_bench_peers_check(const struct stg_bench_options *options, const char *const *suites,
                                 size_t n_suites, stg_error *reterr) {
  const struct peers_run run = {.suites = suites, .n_suites = n_suites};
  char *scripts = NULL;
  unsigned any = 0;
  for (size_t i = 0; i < N_CASES; i++) {
    any |= peers_of(&run, i);
  }
  if (any == 0 && !stg_attn_peers_wanted(suites, n_suites) && !is_wanted(&run, STG_PROVE_SUITE) &&
      !stg_components_peers_wanted(suites, n_suites)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "bench --peers: no peer does what this suite does; steer, decode, "
                         "rope, attend, prove, components and warmup have some");
  }
  stg_status status = stg_peer_folder_find(options->peers, &scripts, reterr);
  if (status == STG_OK) {
    stg_free(scripts);
  }
  return status;
}

stg_status stg_bench_peers_run(const struct stg_bench_options *options, const char *const *suites,
                               size_t n_suites, struct stg_bench_report *report,
                               struct stg_peer_failures *failures, stg_error *reterr) {
  char *scripts = NULL;
  stg_status status = stg_peer_folder_find(options->peers, &scripts, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct peers_run run = {.options = options,
                          .suites = suites,
                          .n_suites = n_suites,
                          .scripts = scripts,
                          .failures = failures};
  status = run_in_folder(&run, report, reterr);
  stg_free(scripts);
  return status;
}
