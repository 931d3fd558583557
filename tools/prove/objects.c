/*
 * prove/objects.c: see objects.h. From the words of a workload to those of the library.
 */
#include "tools/prove/objects.h"

#include "runtime/base/alloc.h"
#include "tools/report.h"

static stg_atom atom_of(struct stg_kb_atom atom) {
  return (stg_atom){atom.pred, atom.arg0, atom.arg1};
}

/* A base as the library takes it, in an arena that is gone when it has been read. */
static stg_status describe(const struct stg_prove_job *job, struct stg_arena *arena,
                           stg_prover_desc *ret_desc, stg_error *reterr) {
  const struct stg_kb *kb = &job->workload.kb;
  stg_atom *facts = stg_arena_alloc(arena, kb->facts.n, sizeof *facts);
  stg_prover_rule *rules = stg_arena_alloc(arena, kb->n_rules, sizeof *rules);
  for (size_t i = 0; i < kb->facts.n && facts != NULL; i++) {
    facts[i] = atom_of(kb->facts.list[i]);
  }
  for (size_t i = 0; i < kb->n_rules && rules != NULL; i++) {
    const struct stg_kb_rule *rule = &kb->rules[i];
    stg_atom *body = stg_arena_alloc(arena, rule->n_body, sizeof *body);
    for (uint32_t k = 0; k < rule->n_body && body != NULL; k++) {
      body[k] = atom_of(rule->body[k]);
    }
    rules[i] = (stg_prover_rule){
        .head = atom_of(rule->head), .body = body, .n_body = rule->n_body, .n_vars = rule->n_vars};
  }
  *ret_desc = stg_prove_job_describe(job);
  ret_desc->facts = facts;
  ret_desc->n_facts = kb->facts.n;
  ret_desc->rules = rules;
  ret_desc->n_rules = kb->n_rules;
  return stg_arena_status(arena, reterr);
}

static stg_status make_prover(const struct stg_prove_job *job, struct stg_prove_objects *objects,
                              stg_error *reterr) {
  struct stg_arena arena = {0};
  stg_prover_desc desc;
  stg_status status = describe(job, &arena, &desc, reterr);
  if (status == STG_OK) {
    status = stg_prover_create(job->engine, &desc, &objects->prover, reterr);
  }
  if (status == STG_OK) {
    status = stg_prover_set_weights(objects->prover, &objects->net.given, reterr);
  }
  stg_arena_finish(&arena);
  return status;
}

static stg_status list_pool(struct stg_prove_objects *objects, stg_error *reterr) {
  const struct stg_prover_pool *pool = &objects->pool;
  objects->queries = stg_calloc(pool->candidates.n, sizeof *objects->queries);
  objects->originals = stg_calloc(pool->n_groups, sizeof *objects->originals);
  if (objects->queries == NULL || objects->originals == NULL) {
    return stg_error_memory(reterr, "a pool of queries",
                            pool->candidates.n * sizeof *objects->queries);
  }
  for (size_t i = 0; i < pool->candidates.n; i++) {
    objects->queries[i] = atom_of(pool->candidates.list[i]);
  }
  for (size_t i = 0; i < pool->n_groups; i++) {
    objects->originals[i] = pool->groups[i].first;
  }
  return STG_OK;
}

stg_status stg_prove_objects_init(struct stg_prove_job *job, size_t limit,
                                  struct stg_prove_objects *objects, stg_error *reterr) {
  struct stg_prover_workload *w = &job->workload;
  w->n_queries = limit < w->n_queries ? limit : w->n_queries;
  stg_status status = stg_prover_pool_make(w, &objects->pool, reterr);
  if (status == STG_OK) {
    status = list_pool(objects, reterr);
  }
  if (status == STG_OK) {
    status = stg_prove_net_init(w, &objects->net, reterr);
  }
  if (status == STG_OK) {
    status = make_prover(job, objects, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "%s: ", w->file);
    return status;
  }
  objects->search = (struct stg_oracle_search){
      .kb = &w->kb,
      .net = &objects->net.sizes,
      .weights = &objects->net.reference,
      .limits = {.atoms = w->sizes.atoms, .children = w->children, .depth = w->depth},
      .sample = w->sample,
      .seed = w->sample_seed,
  };
  if (w->arithmetic == STG_PROVER_TF32 && stg_prove_job_is_cuda(job)) {
    objects->search.slack = STG_ORACLE_CLOSE_TF32;
    objects->logp_bound = STG_ORACLE_LOGP_TF32;
  }
  return STG_OK;
}

void stg_prove_objects_finish(struct stg_prove_objects *objects) {
  stg_error err = STG_ERROR_INIT;
  if (stg_prover_destroy(objects->prover, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
  stg_prove_net_finish(&objects->net);
  stg_free(objects->queries);
  stg_free(objects->originals);
  stg_prover_pool_finish(&objects->pool);
}
