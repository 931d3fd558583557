/*
 * bench/warmup_pack.c: a pack as it is shipped, of the kernels that the measured processes want.
 *
 * Made by `steergraph build --pack` on a workload of their geometry; what it packs is in the cache
 * folder already, so nothing is compiled for it.
 */
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"
#include "tools/bench/child.h"
#include "tools/bench/warmup.h"

/* All that names a kernel: the geometry. Ops are all there are unless a workload says otherwise. */
static stg_status write_workload(const char *path, stg_error *reterr) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text,
                    "{\"steergraph\": 1, \"family\": \"steer\",\n"
                    " \"geometry\": {\"hidden_size\": %d, \"dtype\": \"bf16\"},\n"
                    " \"vectors\": {}, \"slots\": {},\n"
                    " \"batch\": {\"requests\": [{\"slot\": null, \"rows\": %d}]},\n"
                    " \"input\": {\"hidden\": {\"random\": {\"seed\": 1}}}}\n",
                    STG_BENCH_HIDDEN, STG_BENCH_ROWS_PER_REQUEST);
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    status = stg_file_write_atomic(path, text.data, text.len, 0600, reterr);
  }
  stg_strbuf_finish(&text);
  return status;
}

static stg_status build(const char *workload, const char *cache, int sm, const char *pack,
                        stg_error *reterr) {
  char arch[16];
  struct stg_json_doc doc;
  snprintf(arch, sizeof arch, "sm_%d", sm);
  const char *const words[] = {"build",  "--arch", arch,     "--cache", cache,
                               "--pack", pack,     "--json", workload,  NULL};
  stg_status status = stg_bench_child_run(words, &doc, reterr);
  if (status == STG_OK) {
    stg_json_finish(&doc);
  }
  return status;
}

stg_status stg_warmup_pack(const char *folder, const char *cache, int sm, char **ret_path,
                           stg_error *reterr) {
  char *workload = stg_path_join(folder, "pack.json");
  char *pack = stg_path_join(folder, "kernels.sgp");
  stg_status status = workload != NULL && pack != NULL
                          ? write_workload(workload, reterr)
                          : stg_error_memory(reterr, "the path of a pack", 0);
  if (status == STG_OK) {
    status = build(workload, cache, sm, pack, reterr);
  }
  stg_free(workload);
  if (status != STG_OK) {
    stg_free(pack);
    return status;
  }
  *ret_path = pack;
  return STG_OK;
}
