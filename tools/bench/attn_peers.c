/*
 * attn_peers.c: see attn_peers.h.
 *
 * Inputs do not go through files, which would be gigabytes: a peer makes them again from the
 * numbers of the case. Our results do, of the rows that are looked at.
 */
#include "tools/bench/attn_peers.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/bench/attn_check.h"
#include "tools/bench/attn_loop.h"
#include "tools/bench/attn_peer_case.h"
#include "tools/bench/attn_peer_list.h"
#include "tools/report.h"
#include "tools/workload_job.h"

static bool is_wanted(const struct stg_attn_peers *run, size_t index) {
  return stg_attn_peer_wants(run->suites, run->n_suites, stg_attn_peer_cases[index].work->suite);
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
  double mae = 0;
  stg_status status = stg_attn_loop_init(engine, work, &loop, reterr);
  if (status == STG_OK) {
    status = stg_attn_loop_fetch(&loop, &out, reterr);
  }
  if (status == STG_OK) {
    status = stg_attn_loop_mae(&loop, out, &mae, reterr);
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
  const struct stg_attn_case *work = stg_attn_peer_cases[index].work;
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

static stg_status write_cases(const struct stg_attn_peers *run, char *folders[STG_ATTN_PEER_CASES],
                              stg_error *reterr) {
  const struct stg_job_options options = {.backend = STG_BACKEND_CUDA,
                                          .cache_path = run->options->cache};
  stg_engine *engine = NULL;
  stg_status status = stg_job_open_engine(&options, &engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < STG_ATTN_PEER_CASES; i++) {
    if (is_wanted(run, i)) {
      status = write_case(run, engine, i, &folders[i], reterr);
    }
  }
  stg_job_close_engine(engine);
  return status;
}

/* ---- theirs ---- */

static stg_status run_peer(const struct stg_attn_peers *run, const struct stg_attn_peer *peer,
                           char *const folders[STG_ATTN_PEER_CASES],
                           struct stg_bench_report *report, stg_error *reterr) {
  struct stg_peer_arg args[STG_PEER_MAX_CASES];
  size_t count = 0;
  for (size_t i = 0; i < STG_ATTN_PEER_CASES; i++) {
    const struct stg_attn_peer_case *one = &stg_attn_peer_cases[i];
    if ((one->peers & (unsigned)peer->flag) != 0 && folders[i] != NULL) {
      args[count++] = (struct stg_peer_arg){one->work->suite, one->work->name, folders[i]};
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

stg_status stg_attn_peers_run(const struct stg_attn_peers *run, struct stg_bench_report *report,
                              stg_error *reterr) {
  char *folders[STG_ATTN_PEER_CASES] = {NULL};
  stg_status status = stg_attn_peer_check_names(run->suites, run->n_suites, report, reterr);
  if (status == STG_OK) {
    status = write_cases(run, folders, reterr);
  }
  for (size_t i = 0; status == STG_OK && i < STG_ATTN_PEERS; i++) {
    status = run_peer(run, &stg_attn_peer_list[i], folders, report, reterr);
  }
  for (size_t i = 0; i < STG_ATTN_PEER_CASES; i++) {
    stg_free(folders[i]);
  }
  return status;
}
