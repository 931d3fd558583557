/*
 * components_peers.c: see components_peers.h. peers/components_case.py reads what is written here.
 *
 * Inputs do not go through files: a peer makes them again from the numbers of the case.
 */
#include "tools/bench/components_peers.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "specs/vector_file.h"
#include "tools/report.h"

#define LIMIT_S 420 /* several times what it should take */

bool stg_components_peers_wanted(const char *const *suites, size_t n_suites) {
  for (size_t i = 0; i < n_suites; i++) {
    if (strcmp(suites[i], STG_BENCH_COMPONENTS) == 0) {
      return true;
    }
  }
  return false;
}

static stg_status write_expected(const struct stg_bench_components_references *references,
                                 const char *path, stg_error *reterr) {
  struct stg_tensor_out tensors[STG_BENCH_RESULTS];
  struct stg_arena arena = {0};
  size_t count = 0;
  for (unsigned i = 0; i < STG_BENCH_RESULTS; i++) {
    const struct stg_bench_components_reference *from = &references->of[i];
    const size_t elems = (size_t)(from->rows * from->columns);
    if (elems == 0) {
      continue;
    }
    float *values = stg_arena_alloc(&arena, elems, sizeof *values);
    for (size_t at = 0; values != NULL && at < elems; at++) {
      values[at] = (float)from->values[at];
    }
    tensors[count++] = (struct stg_tensor_out){
        .name = stg_bench_components_result_name((enum stg_bench_components_result)i),
        .dtype = STG_F32,
        .n_dims = 2,
        .shape = {from->rows, from->columns},
        .data = values};
  }
  stg_status status = stg_arena_status(&arena, reterr);
  if (status == STG_OK) {
    status = stg_safetensors_write(path, tensors, count, NULL, 0, reterr);
  }
  stg_arena_finish(&arena);
  return status;
}

stg_status stg_components_peer_case_write(const struct stg_bench_components *work,
                                          const struct stg_bench_components_references *references,
                                          const char *folder, stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_bench_components_print(work, &text);
  char *numbers = stg_path_join(folder, STG_COMPONENTS_PEER_CASE);
  char *tensors = stg_path_join(folder, STG_COMPONENTS_PEER_EXPECTED);
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK && (numbers == NULL || tensors == NULL)) {
    status = stg_error_memory(reterr, "the paths of a case", 0);
  }
  if (status == STG_OK) {
    status = write_expected(references, tensors, reterr);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(numbers, text.data, text.len, 0644, reterr);
  }
  stg_free(numbers);
  stg_free(tensors);
  stg_strbuf_finish(&text);
  return status;
}

static stg_status write_case(const struct stg_components_peers *run, size_t index,
                             char **ret_folder, stg_error *reterr) {
  const struct stg_bench_components *work = &stg_bench_components_cases[index];
  struct stg_bench_components_references references;
  struct stg_strbuf path = {0};
  stg_strbuf_printf(&path, "%s/components%zu", run->folder, index);
  *ret_folder = stg_strbuf_take(&path);
  stg_status status = *ret_folder != NULL ? stg_mkdir_all(*ret_folder, 0700, reterr)
                                          : stg_error_memory(reterr, "the path of a case", 0);
  if (status != STG_OK) {
    return status;
  }
  status = stg_bench_components_refer(work, &references, reterr);
  if (status == STG_OK) {
    status = stg_components_peer_case_write(work, &references, *ret_folder, reterr);
  }
  stg_bench_components_references_finish(&references);
  if (status != STG_OK) {
    stg_error_prefix(reterr, "the peers' case '%s' of suite 'components': ", work->name);
  }
  return status;
}

/* A case that was renamed would be measured beside nothing. */
static stg_status check_names(const struct stg_bench_report *report, stg_error *reterr) {
  for (size_t i = 0; i < stg_bench_components_n_cases; i++) {
    const char *name = stg_bench_components_cases[i].name;
    if (stg_bench_report_find(report, STG_BENCH_COMPONENTS, name, STG_BENCH_OURS) == NULL) {
      return stg_error_set(reterr, STG_E_NOT_FOUND,
                           "bench --peers: suite 'components' has no row '%s' of ours", name);
    }
  }
  return STG_OK;
}

static stg_status run_peer(const struct stg_components_peers *run, const struct stg_peer_arg *args,
                           struct stg_bench_report *report, stg_error *reterr) {
  char *script = stg_path_join(run->scripts, STG_COMPONENTS_PEER_SCRIPT);
  char *out = stg_path_join(run->folder, "rows.json");
  stg_status status =
      script != NULL && out != NULL ? STG_OK : stg_error_memory(reterr, "the path of a peer", 0);
  if (status == STG_OK) {
    const struct stg_peer_call call = {.script = script,
                                       .cases = args,
                                       .n_cases = stg_bench_components_n_cases,
                                       .out = out,
                                       .limit_s = LIMIT_S,
                                       .quick = run->quick};
    stg_report_progress("bench: peer %s, %zu workloads", STG_COMPONENTS_PEER_SCRIPT, call.n_cases);
    status = stg_peer_try(&call, report, run->failures, reterr);
  }
  stg_free(script);
  stg_free(out);
  return status;
}

stg_status stg_components_peers_run(const struct stg_components_peers *run,
                                    struct stg_bench_report *report, stg_error *reterr) {
  char *folders[STG_PEER_MAX_CASES] = {NULL};
  struct stg_peer_arg args[STG_PEER_MAX_CASES];
  stg_status status = check_names(report, reterr);
  for (size_t i = 0; status == STG_OK && i < stg_bench_components_n_cases; i++) {
    status = write_case(run, i, &folders[i], reterr);
    args[i] =
        (struct stg_peer_arg){STG_BENCH_COMPONENTS, stg_bench_components_cases[i].name, folders[i]};
  }
  if (status == STG_OK) {
    status = run_peer(run, args, report, reterr);
  }
  for (size_t i = 0; i < stg_bench_components_n_cases; i++) {
    stg_free(folders[i]);
  }
  return status;
}
