/*
 * offline_pack.c: compile kernels for any architecture without a device, into a cache folder or
 * into a pack.
 *
 * Must not know workloads, nor what a pack looks like.
 */
#include "engine/declared.h"
#include "engine/engine.h"
#include "runtime/base/alloc.h"
#include "runtime/pack.h"
#include "runtime/pack_writer.h"

struct stg_offline_pack {
  struct stg_pack_writer *writer;
};

static stg_status resolve(const stg_engine *engine, const struct stg_declared *declared,
                          size_t index, const char *arch, struct stg_kernel_text *ret_kernel,
                          stg_error *reterr) {
  if (stg_arch_is_cpu(arch)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "arch: 'cpu' has nothing to compile; give sm_80, sm_90, ...");
  }
  return stg_declared_kernel_text(engine, declared, index, arch, ret_kernel, reterr);
}

stg_status stg_offline_build(stg_engine *engine, const struct stg_declared *declared, size_t index,
                             const char *arch, bool *ret_compiled, double *ret_compile_ms,
                             stg_error *reterr) {
  struct stg_kernel_text kernel;
  stg_status status = resolve(engine, declared, index, arch, &kernel, reterr);
  if (status == STG_OK) {
    status = stg_module_build(engine->disk, &kernel.request, &engine->log, ret_compiled,
                              ret_compile_ms, reterr);
    stg_kernel_text_finish(&kernel);
  }
  return status;
}

stg_status stg_offline_pack_check(const char *path, stg_error *reterr) {
  struct stg_pack *pack = NULL;
  stg_status status = stg_pack_open(path, false, &pack, reterr);
  stg_pack_close(pack);
  return status;
}

stg_status stg_offline_pack_create(struct stg_offline_pack **ret_pack, stg_error *reterr) {
  struct stg_offline_pack *pack = stg_calloc(1, sizeof *pack);
  if (pack == NULL) {
    return stg_error_memory(reterr, "a pack", sizeof *pack);
  }
  stg_status status = stg_pack_writer_create(&pack->writer, reterr);
  if (status != STG_OK) {
    stg_free(pack);
    return status;
  }
  *ret_pack = pack;
  return STG_OK;
}

void stg_offline_pack_destroy(struct stg_offline_pack *pack) {
  if (pack != NULL) {
    stg_pack_writer_destroy(pack->writer);
    stg_free(pack);
  }
}

stg_status stg_offline_pack_add(struct stg_offline_pack *pack, stg_engine *engine,
                                const struct stg_declared *declared, size_t index, const char *arch,
                                struct stg_offline_built *ret_built, stg_error *reterr) {
  struct stg_kernel_text kernel;
  struct stg_strbuf bytes = {0};
  struct stg_offline_built built = {0};
  stg_status status = resolve(engine, declared, index, arch, &kernel, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_module_entry(engine->disk, &kernel.request, &engine->log, &bytes, &built.compiled,
                            &built.compile_ms, reterr);
  if (status == STG_OK) {
    status = stg_pack_writer_add(pack->writer, bytes.data, bytes.len, reterr);
  }
  if (status == STG_OK) {
    *ret_built = built;
  }
  stg_strbuf_finish(&bytes);
  stg_kernel_text_finish(&kernel);
  return status;
}

stg_status stg_offline_pack_save(const struct stg_offline_pack *pack, const char *path,
                                 size_t *ret_size, stg_error *reterr) {
  return stg_pack_writer_save(pack->writer, path, ret_size, reterr);
}
