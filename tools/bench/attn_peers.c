/*
 * attn_peers.c: see attn_peers.h.
 *
 * Inputs do not go through files, which would be gigabytes: a peer makes them again from the
 * numbers of the case. Our results do, of the rows that are looked at.
 */
#include "tools/bench/attn_peers.h"

#include <assert.h>
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"
#include "tools/bench/attn_check.h"
#include "tools/bench/attn_loop.h"
#include "tools/bench/attn_peer_case.h"
#include "tools/bench/peer_run.h"
#include "tools/report.h"
#include "tools/workload_job.h"

enum peer_flag { ROPE = 1 << 0, ROPE_COMPILED = 1 << 1, ATTEND = 1 << 2, CACHES = 1 << 3 };

struct peer {
  enum peer_flag flag;
  const char *script;
  double limit_s; /* several times what it should take */
};

static const struct peer peers[] = {
    {ROPE, "rope.py", 120},
    {ROPE_COMPILED, "rope_compiled.py", 240},
    {ATTEND, "attend.py", 180},
    {CACHES, "caches.py", 240},
};
#define N_PEERS (sizeof peers / sizeof peers[0])

/* Names are those of attn_cases.c. */
static const struct {
  const char *name;
  unsigned peers;
} cases[] = {
    {"4 x 2048, 32/8 heads of 64, append", ROPE | ROPE_COMPILED},
    {"4 x 2048, 32/8 heads of 64", ROPE | ROPE_COMPILED},
    {"4 x 2048, 32/8 heads of 64, each op", ROPE},
    {"2048, 32/8 heads of 128", ROPE | ROPE_COMPILED},
    {"32 decoding, 32/8 heads of 128, append", ROPE | ROPE_COMPILED},
    {"8 x 2048, 32 heads of 128, float32", ROPE | ROPE_COMPILED},
    {"32 x 512 to 4096, 32/8 heads of 128", ATTEND},
    {"8 x 148 to 1024, 12 heads of 64", ATTEND},
    {"every length to 1024, 8 x 12 heads of 64, float32", CACHES},
};
#define N_CASES (sizeof cases / sizeof cases[0])

static const struct stg_attn_case *find_in(const struct stg_attn_case *all, size_t count,
                                           const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(all[i].name, name) == 0) {
      return &all[i];
    }
  }
  return NULL;
}

static const struct stg_attn_case *find_case(size_t index) {
  const char *name = cases[index].name;
  const struct stg_attn_case *found = find_in(stg_rope_cases, stg_n_rope_cases, name);
  if (found == NULL) {
    found = find_in(stg_attend_cases, stg_n_attend_cases, name);
  }
  if (found == NULL) {
    found = find_in(&stg_attn_loop_case, 1, name);
  }
  assert(found != NULL);
  return found;
}

static bool is_wanted(const struct stg_attn_peers *run, const char *suite) {
  for (size_t i = 0; i < run->n_suites; i++) {
    if (strcmp(run->suites[i], suite) == 0) {
      return true;
    }
  }
  return false;
}

bool stg_attn_peers_wanted(const char *const *suites, size_t n_suites) {
  const struct stg_attn_peers run = {.suites = suites, .n_suites = n_suites};
  return is_wanted(&run, "rope") || is_wanted(&run, "attend");
}

/* A case that was renamed in its suite would be measured beside nothing. */
static stg_status check_names(const struct stg_attn_peers *run,
                              const struct stg_bench_report *report, stg_error *reterr) {
  for (size_t i = 0; i < N_CASES; i++) {
    const char *suite = find_case(i)->suite;
    if (is_wanted(run, suite) &&
        stg_bench_report_find(report, suite, cases[i].name, STG_BENCH_OURS) == NULL) {
      return stg_error_set(reterr, STG_E_NOT_FOUND,
                           "bench --peers: suite '%s' has no row '%s' of ours", suite,
                           cases[i].name);
    }
  }
  return STG_OK;
}

/* ---- our results ---- */

static stg_status write_rows(stg_engine *engine, const struct stg_attn_case *work,
                             const char *folder, stg_error *reterr) {
  struct stg_attn_bed bed;
  struct stg_attn_result result = {0};
  struct stg_attn_verdict verdict = {0};
  stg_status status = stg_attn_bed_init(engine, work, 1, &bed, reterr);
  if (status == STG_OK) {
    status = stg_attn_check(&bed, &result, &verdict, reterr);
  }
  const struct stg_attn_expected expected = {
      .q = result.q, .k = result.k, .v = result.v, .out = result.out};
  if (status == STG_OK) {
    status = stg_attn_peer_case_write(work, &expected, folder, reterr);
  }
  stg_attn_result_finish(&result);
  stg_attn_bed_finish(&bed);
  return status;
}

static stg_status write_loop(stg_engine *engine, const struct stg_attn_case *work,
                             const char *folder, stg_error *reterr) {
  struct stg_attn_loop loop;
  void *out = NULL;
  stg_status status = stg_attn_loop_init(engine, work, &loop, reterr);
  if (status == STG_OK) {
    status = stg_attn_loop_fetch(&loop, &out, reterr);
  }
  const struct stg_attn_expected expected = {.out = out};
  if (status == STG_OK) {
    status = stg_attn_peer_case_write(work, &expected, folder, reterr);
  }
  stg_free(out);
  stg_attn_loop_finish(&loop);
  return status;
}

static stg_status write_case(const struct stg_attn_peers *run, stg_engine *engine, size_t index,
                             char **ret_folder, stg_error *reterr) {
  const struct stg_attn_case *work = find_case(index);
  struct stg_strbuf path = {0};
  stg_strbuf_printf(&path, "%s/attention%zu", run->folder, index);
  *ret_folder = stg_strbuf_take(&path);
  stg_status status = *ret_folder != NULL ? stg_mkdir_all(*ret_folder, 0700, reterr)
                                          : stg_error_memory(reterr, "the path of a case", 0);
  if (status == STG_OK) {
    status = (work->advance ? write_loop : write_rows)(engine, work, *ret_folder, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "the peers' case '%s' of suite '%s': ", work->name, work->suite);
  }
  return status;
}

static stg_status write_cases(const struct stg_attn_peers *run, char *folders[N_CASES],
                              stg_error *reterr) {
  const struct stg_job_options options = {.backend = STG_BACKEND_CUDA,
                                          .cache_path = run->options->cache};
  stg_engine *engine = NULL;
  stg_status status = stg_job_open_engine(&options, &engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < N_CASES; i++) {
    if (is_wanted(run, find_case(i)->suite)) {
      status = write_case(run, engine, i, &folders[i], reterr);
    }
  }
  stg_job_close_engine(engine);
  return status;
}

/* ---- theirs ---- */

static stg_status run_peer(const struct stg_attn_peers *run, const struct peer *peer,
                           char *const folders[N_CASES], struct stg_bench_report *report,
                           stg_error *reterr) {
  struct stg_peer_arg args[STG_PEER_MAX_CASES];
  size_t count = 0;
  for (size_t i = 0; i < N_CASES; i++) {
    if ((cases[i].peers & (unsigned)peer->flag) != 0 && folders[i] != NULL) {
      args[count++] = (struct stg_peer_arg){find_case(i)->suite, cases[i].name, folders[i]};
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
    status = stg_peer_run(&call, report, reterr);
  }
  stg_free(script);
  stg_free(out);
  return status;
}

stg_status stg_attn_peers_run(const struct stg_attn_peers *run, struct stg_bench_report *report,
                              stg_error *reterr) {
  char *folders[N_CASES] = {NULL};
  stg_status status = check_names(run, report, reterr);
  if (status == STG_OK) {
    status = write_cases(run, folders, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < N_PEERS; i++) {
    status = run_peer(run, &peers[i], folders, report, reterr);
  }
  for (size_t i = 0; i < N_CASES; i++) {
    stg_free(folders[i]);
  }
  return status;
}
