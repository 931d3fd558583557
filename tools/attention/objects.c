/*
 * attention/objects.c: see objects.h. What a host does before a layer, and for it.
 */
#include "tools/attention/objects.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tools/report.h"

static stg_status create_kv(struct stg_attention_job *job, struct stg_attention_objects *objects,
                            stg_error *reterr) {
  if (!job->has_kv) {
    return STG_OK;
  }
  stg_status status = stg_kv_create(job->engine, &job->kv, &objects->kv, reterr);
  if (status == STG_OK) {
    objects->cache = (stg_kv_tensors){.struct_size = sizeof objects->cache};
    stg_kv_get_tensors(objects->kv, &objects->cache);
  }
  return status;
}

static stg_status read_table(const struct stg_attention_workload *w, float **ret_table,
                             stg_error *reterr) {
  const size_t count = (size_t)w->rope.table.elems;
  float *table = stg_calloc(count, sizeof *table);
  if (table == NULL) {
    return stg_error_memory(reterr, "a table of angles", count * sizeof *table);
  }
  *ret_table = table;
  return stg_attention_read(w, &w->rope.table, 0, count, STG_F32, table, reterr);
}

static stg_status create_rope(struct stg_attention_job *job, struct stg_attention_objects *objects,
                              stg_error *reterr) {
  stg_rope_desc desc = job->rope;
  stg_status status = STG_OK;
  if (!job->has_rope) {
    return STG_OK;
  }
  if (job->workload.rope.has_table) {
    status = read_table(&job->workload, &objects->table, reterr);
    desc.table = objects->table;
  }
  desc.kv = objects->kv;
  return status == STG_OK ? stg_rope_create(job->engine, &desc, &objects->rope, reterr) : status;
}

static stg_status create_attend(struct stg_attention_job *job,
                                struct stg_attention_objects *objects, stg_error *reterr) {
  stg_attend_desc desc = job->attend;
  desc.kv = objects->kv;
  return job->has_attend ? stg_attend_create(job->engine, &desc, &objects->attend, reterr) : STG_OK;
}

static stg_status create_rows(struct stg_attention_job *job, struct stg_attention_objects *objects,
                              stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const uint32_t batch = w->batch > 0 ? w->batch : 1;
  const stg_rows_desc desc = {
      .struct_size = sizeof desc,
      .kv = objects->kv,
      .batch = objects->kv == NULL ? batch : 0,
      .max_rows = w->rows > 0 ? (uint32_t)w->rows : 1,
  };
  return stg_rows_create(job->engine, &desc, &objects->rows, reterr);
}

static stg_status create_block(struct stg_attention_job *job, struct stg_attention_objects *objects,
                               stg_error *reterr) {
  const stg_block_desc desc = {
      .struct_size = sizeof desc,
      .rope = objects->rope,
      .attend = objects->attend,
      .steer = objects->steer.steer,
      .advance = job->workload.advance,
  };
  return objects->kv != NULL ? stg_block_create(job->engine, &desc, &objects->block, reterr)
                             : STG_OK;
}

stg_status stg_attention_objects_init(struct stg_attention_job *job,
                                      struct stg_attention_objects *objects, stg_error *reterr) {
  stg_status status = create_kv(job, objects, reterr);
  if (status == STG_OK) {
    status = create_rope(job, objects, reterr);
  }
  if (status == STG_OK) {
    status = create_attend(job, objects, reterr);
  }
  if (status == STG_OK) {
    status = create_rows(job, objects, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", job->workload.file);
    return status;
  }
  if (job->workload.steered) {
    status = stg_job_table_init(&job->steer, &objects->steer, reterr);
  }
  return status == STG_OK ? create_block(job, objects, reterr) : status;
}

static void note(stg_status status, const stg_error *err) {
  if (status != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err->message);
  }
}

void stg_attention_objects_finish(struct stg_attention_job *job,
                                  struct stg_attention_objects *objects) {
  stg_error err = STG_ERROR_INIT;
  stg_block_destroy(objects->block);
  note(stg_rows_destroy(objects->rows, &err), &err);
  if (job->workload.steered) {
    stg_job_table_finish(&job->steer, &objects->steer);
  }
  note(stg_attend_destroy(objects->attend, &err), &err);
  note(stg_rope_destroy(objects->rope, &err), &err);
  note(stg_kv_destroy(objects->kv, &err), &err);
  stg_free(objects->table);
  *objects = (struct stg_attention_objects){.kv = NULL};
}

stg_status stg_attention_objects_step(const struct stg_attention_job *job,
                                      const struct stg_attention_objects *objects,
                                      const struct stg_attention_tensors *tensors,
                                      stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  stg_stream stream = stg_mem_stream(job->engine);
  const stg_rows_step step = {
      .struct_size = sizeof step,
      .rows = w->rows,
      .seq = tensors->seq,
      .pos = tensors->pos,
      .pos_is_64 = w->positions == STG_SPEC_POSITIONS_I64,
  };
  stg_status status = stg_rows_step_set(objects->rows, &step, stream, reterr);
  if (status == STG_OK && objects->block != NULL) {
    status = stg_block_step(objects->block, objects->rows, objects->steer.frame, stream, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: rows: ", w->file);
  }
  return status;
}

static stg_rope_tensors rope_tensors(const struct stg_attention_job *job,
                                     const struct stg_attention_objects *objects,
                                     const struct stg_attention_tensors *tensors) {
  const bool is_cached = objects->kv != NULL;
  return (stg_rope_tensors){
      .struct_size = sizeof(stg_rope_tensors),
      .layer = job->workload.layer,
      .qkv = tensors->of[STG_ATTENTION_QKV].device,
      .q = tensors->of[STG_ATTENTION_Q].device,
      .k = is_cached ? NULL : tensors->of[STG_ATTENTION_K].device,
      .v = is_cached ? NULL : tensors->of[STG_ATTENTION_V].device,
  };
}

static stg_attend_tensors attend_tensors(const struct stg_attention_job *job,
                                         const struct stg_attention_objects *objects,
                                         const struct stg_attention_tensors *tensors,
                                         enum stg_attention_tensor_name out) {
  stg_attend_tensors given = {
      .struct_size = sizeof given,
      .layer = job->workload.layer,
      .q = tensors->of[STG_ATTENTION_Q].device,
      .out = tensors->of[out].device,
  };
  if (objects->kv == NULL) {
    given.k = tensors->of[STG_ATTENTION_K].device;
    given.v = tensors->of[STG_ATTENTION_V].device;
    given.len = tensors->of[STG_ATTENTION_LENGTHS].device;
    given.key_mask = tensors->of[STG_ATTENTION_MASK].device;
  }
  return given;
}

stg_status stg_attention_objects_attend(const struct stg_attention_job *job,
                                        const struct stg_attention_objects *objects,
                                        const struct stg_attention_tensors *tensors,
                                        stg_stream stream, stg_error *reterr) {
  const stg_attend_tensors given = attend_tensors(job, objects, tensors, STG_ATTENTION_UNSTEERED);
  return stg_attend_apply(objects->attend, objects->rows, &given, stream, reterr);
}

stg_status stg_attention_objects_apply(const struct stg_attention_job *job,
                                       const struct stg_attention_objects *objects,
                                       const struct stg_attention_tensors *tensors,
                                       stg_stream stream, stg_error *reterr) {
  const stg_rope_tensors rope = rope_tensors(job, objects, tensors);
  const stg_attend_tensors attend = attend_tensors(job, objects, tensors, STG_ATTENTION_OUT);
  if (objects->block != NULL) {
    const stg_block_tensors both = {
        .struct_size = sizeof both,
        .layer = job->workload.layer,
        .rope = objects->rope != NULL ? &rope : NULL,
        .attend = objects->attend != NULL ? &attend : NULL,
        .steer_layer = job->workload.steer.layer,
    };
    return stg_block_apply(objects->block, &both, stream, reterr);
  }
  if (objects->attend != NULL) {
    return stg_attend_apply(objects->attend, objects->rows, &attend, stream, reterr);
  }
  return job->workload.rope.backward
             ? stg_rope_backward(objects->rope, objects->rows, &rope, stream, reterr)
             : stg_rope_apply(objects->rope, objects->rows, &rope, stream, reterr);
}
