/*
 * components/output.c: results of a run as a key of their bytes, and as a file.
 */
#include "runtime/base/strbuf.h"
#include "tools/components/tensors.h"
#include "tools/run_files.h"

stg_status stg_components_tensors_key(const struct stg_components_all *all, struct stg_key *ret_key,
                                      stg_error *reterr) {
  struct stg_strbuf text = {0};
  for (unsigned i = STG_COMPONENTS_Y; i < STG_COMPONENTS_VALID; i++) {
    stg_strbuf_mem(&text, (const char *)all->of[i].after, all->of[i].bytes);
  }
  stg_status status = stg_strbuf_status(&text, reterr);
  if (status == STG_OK) {
    *ret_key = stg_key_of(stg_strbuf_text(&text), text.len);
  }
  stg_strbuf_finish(&text);
  return status;
}

stg_status stg_components_tensors_write(const struct stg_components_job *job,
                                        const struct stg_components_all *all, const char *path,
                                        const char *signature, stg_error *reterr) {
  struct stg_tensor_out tensors[STG_COMPONENTS_VALID - STG_COMPONENTS_Y];
  size_t count = 0;
  for (unsigned i = STG_COMPONENTS_Y; i < STG_COMPONENTS_VALID; i++) {
    const struct stg_components_tensor *t = &all->of[i];
    if (t->bytes > 0) {
      tensors[count++] = (struct stg_tensor_out){stg_components_tensor_name(i),
                                                 job->workload.dtype,
                                                 t->shape[1] == 0 ? 1 : 2,
                                                 {t->shape[0], t->shape[1]},
                                                 t->after};
    }
  }
  return stg_run_write_tensors(path, tensors, count, signature, reterr);
}
