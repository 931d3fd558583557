/*
 * offline_pack.c: compile kernels for any architecture without a device, into a cache folder or
 * into a pack.
 *
 * Must not know workloads, nor what a pack looks like.
 */
#include <string.h>

#include "engine/engine.h"
#include "engine/offline.h"
#include "engine/steer_decl.h"
#include "runtime/base/alloc.h"
#include "runtime/pack.h"
#include "runtime/pack_writer.h"

struct stg_offline_pack {
  struct stg_pack_writer *writer;
};

/* A declaration and the kernel that follows from it. */
struct resolved {
  struct stg_steer_decl decl;
  struct stg_kernel_text kernel;
};

static stg_status resolve(stg_engine *engine, const stg_steer_desc *desc, enum stg_tile tile,
                          const char *arch, struct resolved *ret, stg_error *reterr) {
  if (stg_arch_is_cpu(arch)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "arch: 'cpu' has nothing to compile; give sm_80, sm_90, ...");
  }
  stg_status status = stg_steer_decl_init(desc, engine->ops, &ret->decl, reterr);
  if (status != STG_OK) {
    return status;
  }
  status =
      stg_steer_kernel_init(&ret->decl, tile, arch, engine->nvrtc_options, &ret->kernel, reterr);
  if (status != STG_OK) {
    stg_steer_decl_finish(&ret->decl);
  }
  return status;
}

static void resolved_finish(struct resolved *resolved) {
  stg_kernel_text_finish(&resolved->kernel);
  stg_steer_decl_finish(&resolved->decl);
}

stg_status stg_offline_build(stg_engine *engine, const stg_steer_desc *desc, enum stg_tile tile,
                             const char *arch, bool *ret_compiled, double *ret_compile_ms,
                             stg_error *reterr) {
  struct resolved resolved;
  stg_status status = resolve(engine, desc, tile, arch, &resolved, reterr);
  if (status == STG_OK) {
    status = stg_module_build(engine->disk, &resolved.kernel.request, &engine->log, ret_compiled,
                              ret_compile_ms, reterr);
    resolved_finish(&resolved);
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
                                const stg_steer_desc *desc, enum stg_tile tile, const char *arch,
                                struct stg_offline_built *ret_built, stg_error *reterr) {
  struct resolved resolved;
  struct stg_strbuf bytes = {0};
  struct stg_offline_built built = {0};
  stg_status status = resolve(engine, desc, tile, arch, &resolved, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_module_entry(engine->disk, &resolved.kernel.request, &engine->log, &bytes,
                            &built.compiled, &built.compile_ms, reterr);
  if (status == STG_OK) {
    status = stg_pack_writer_add(pack->writer, bytes.data, bytes.len, reterr);
  }
  if (status == STG_OK) {
    *ret_built = built;
  }
  stg_strbuf_finish(&bytes);
  resolved_finish(&resolved);
  return status;
}

stg_status stg_offline_pack_save(const struct stg_offline_pack *pack, const char *path,
                                 size_t *ret_size, stg_error *reterr) {
  return stg_pack_writer_save(pack->writer, path, ret_size, reterr);
}
