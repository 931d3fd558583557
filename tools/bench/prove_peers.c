/*
 * prove_peers.c: see prove_peers.h. Rows that were not measured, as on a CPU, have no peer.
 */
#include "tools/bench/prove_peers.h"

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tools/bench/prove_bed.h"
#include "tools/bench/prove_peer_case.h"
#include "tools/report.h"

#define SCRIPT "prove.py"
#define LIMIT_S 400 /* several times what it should take */

/* The rows that our report has, with what tells a script of them. */
struct chosen {
  struct stg_peer_arg args[STG_PROVE_PEER_ROWS];
  char names[STG_PROVE_PEER_ROWS][STG_PROVE_NAME_BYTES];
  size_t n;
  char *folders[STG_PROVE_BASES];     /* NULL: no row is of that base */
  size_t candidates[STG_PROVE_BASES]; /* that the largest row of it needs */
};

static stg_status make_folder(const struct stg_prove_peers *run, enum stg_prove_base base,
                              char **ret_folder, stg_error *reterr) {
  if (*ret_folder == NULL) {
    *ret_folder = stg_path_join(run->folder, stg_prove_base_name(base));
  }
  return *ret_folder != NULL ? stg_mkdir_all(*ret_folder, 0700, reterr)
                             : stg_error_memory(reterr, "the path of a case", 0);
}

static stg_status choose(const struct stg_prove_peers *run, const struct stg_bench_report *report,
                         struct chosen *chosen, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < STG_PROVE_PEER_ROWS; i++) {
    const struct stg_prove_peer_row *row = &stg_prove_peer_rows[i];
    const size_t count = stg_prove_peer_row_count(row);
    char *name = chosen->names[chosen->n];
    stg_prove_peer_row_name(row, name);
    if (stg_bench_report_find(report, STG_PROVE_SUITE, name, STG_BENCH_OURS) != NULL) {
      status = make_folder(run, row->base, &chosen->folders[row->base], reterr);
      chosen->args[chosen->n++] =
          (struct stg_peer_arg){STG_PROVE_SUITE, name, chosen->folders[row->base]};
      size_t *candidates = &chosen->candidates[row->base];
      *candidates = count > *candidates ? count : *candidates;
    }
  }
  if (status == STG_OK && chosen->n == 0) {
    status = stg_error_set(reterr, STG_E_NOT_FOUND,
                           "bench --peers: suite '" STG_PROVE_SUITE "' has no row of ours that a "
                           "peer is measured beside");
  }
  return status;
}

static stg_status write_base(const struct stg_prove_peers *run, enum stg_prove_base base, size_t n,
                             const char *folder, stg_error *reterr) {
  const struct stg_prove_extent extent =
      stg_prove_extent_of(stg_prove_bed_has_gpu(), run->options->quick);
  struct stg_prove_bed bed;
  double us;
  stg_status status = stg_prove_bed_init(run->options, base, STG_PROVER_F32, n, &bed, reterr);
  struct stg_prove_pool_run pool = stg_prove_pool_of(&bed, 0, n);
  if (status == STG_OK) {
    status = stg_prove_bed_time(&pool, &us, reterr);
  }
  if (status == STG_OK) {
    status = stg_prove_bed_check(&bed, n, extent.checked, reterr);
  }
  if (status == STG_OK) {
    const struct stg_prove_peer_case c = {.base = base,
                                          .workload = &bed.job.workload,
                                          .policy = &bed.objects.net.tensors,
                                          .queries = bed.queries,
                                          .proofs = bed.proofs,
                                          .n = n};
    status = stg_prove_peer_case_write(&c, folder, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "the peers' base '%s': ", stg_prove_base_name(base));
  }
  stg_prove_bed_finish(&bed);
  return status;
}

static stg_status run_script(const struct stg_prove_peers *run, const struct chosen *chosen,
                             struct stg_bench_report *report, stg_error *reterr) {
  stg_report_progress("bench: peer " SCRIPT ", %zu workloads", chosen->n);
  char *script = stg_path_join(run->scripts, SCRIPT);
  char *out = stg_path_join(run->folder, "rows.json");
  stg_status status =
      script != NULL && out != NULL ? STG_OK : stg_error_memory(reterr, "the path of a peer", 0);
  if (status == STG_OK) {
    const struct stg_peer_call call = {.script = script,
                                       .cases = chosen->args,
                                       .n_cases = chosen->n,
                                       .out = out,
                                       .limit_s = LIMIT_S,
                                       .quick = run->options->quick};
    status = stg_peer_try(&call, report, run->failures, reterr);
  }
  stg_free(script);
  stg_free(out);
  return status;
}

stg_status stg_prove_peers_run(const struct stg_prove_peers *run, struct stg_bench_report *report,
                               stg_error *reterr) {
  struct chosen chosen = {0};
  stg_status status = choose(run, report, &chosen, reterr);
  for (int base = 0; status == STG_OK && base < STG_PROVE_BASES; base++) {
    if (chosen.folders[base] != NULL) {
      status = write_base(run, (enum stg_prove_base)base, chosen.candidates[base],
                          chosen.folders[base], reterr);
    }
  }
  if (status == STG_OK) {
    status = run_script(run, &chosen, report, reterr);
  }
  for (size_t i = 0; i < STG_PROVE_BASES; i++) {
    stg_free(chosen.folders[i]);
  }
  return status;
}
