/*
 * plan.c: kernels and plans of a steer table. Graph execs are in exec.c.
 */
#include "engine/plan.h"

#include "runtime/base/alloc.h"

static const char *origin_name(enum stg_module_origin origin) {
  return origin == STG_FROM_MEMORY ? "memory" : origin == STG_FROM_DISK ? "disk" : "compiled";
}

static stg_status load_kernel(struct stg_engine *engine, const struct stg_steer_decl *decl,
                              enum stg_tile tile, struct stg_plan_kernel *ret_kernel,
                              stg_error *reterr) {
  struct stg_steer_kernel text;
  stg_status status =
      stg_steer_kernel_init(decl, tile, engine->arch, engine->nvrtc_options, &text, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_plan_kernel kernel = {
      .key = text.key,
      .source = "cpu",
      .rule = text.rule,
      .signature = stg_strdup(stg_strbuf_text(&text.signature)),
  };
  if (kernel.signature == NULL) {
    status = stg_error_memory(reterr, "a signature", text.signature.len);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = stg_module_cache_get(engine->modules, &text.request,
                                  engine->compile != STG_COMPILE_NEVER, &kernel.loaded, reterr);
    kernel.source = origin_name(kernel.loaded.origin);
    kernel.compile_ms = kernel.loaded.compile_ms;
  }
  stg_steer_kernel_finish(&text);
  struct stg_steer_limits limits = {0};
  if (status == STG_OK) {
    status = stg_steer_limits(decl, &limits, reterr);
  }
  kernel.chain_bytes = limits.chain_words * (uint32_t)sizeof(uint32_t);
  if (status != STG_OK) {
    if (kernel.loaded.module != NULL) {
      stg_module_cache_unref(engine->modules, kernel.loaded.key);
    }
    stg_free(kernel.signature);
    return status;
  }
  *ret_kernel = kernel;
  return STG_OK;
}

stg_status stg_plan_table_init(struct stg_plan_table *table, struct stg_engine *engine,
                               const struct stg_steer_decl *decl, stg_error *reterr) {
  *table = (struct stg_plan_table){.engine = engine};
  stg_status status = STG_OK;
  for (int tile = 0; tile < STG_TILE_COUNT && status == STG_OK; tile++) {
    status = load_kernel(engine, decl, (enum stg_tile)tile, &table->kernels[tile], reterr);
  }
  if (status != STG_OK) {
    stg_plan_table_finish(table);
  }
  return status;
}

void stg_plan_table_finish(struct stg_plan_table *table) {
  stg_exec_destroy_all(table);
  while (table->plans != NULL) {
    struct stg_plan *plan = table->plans;
    table->plans = plan->next;
    stg_free(plan->signature);
    stg_free(plan);
  }
  for (int tile = 0; tile < STG_TILE_COUNT; tile++) {
    struct stg_plan_kernel *kernel = &table->kernels[tile];
    if (kernel->loaded.module != NULL) {
      stg_module_cache_unref(table->engine->modules, kernel->loaded.key);
    }
    stg_free(kernel->signature);
  }
  *table = (struct stg_plan_table){0};
}

static bool same_shape(const struct stg_graph_shape *a, const struct stg_graph_shape *b) {
  return a->batch == b->batch && a->seq == b->seq && a->rows == b->rows;
}

static stg_status make_plan(struct stg_plan_table *table, const struct stg_graph_shape *shape,
                            enum stg_tile tile, struct stg_plan **ret_plan, stg_error *reterr) {
  const struct stg_plan_kernel *kernel = &table->kernels[tile];
  struct stg_strbuf signature = {0};
  stg_strbuf_str(&signature, kernel->signature);
  stg_graph_shape_print(shape, &signature);
  struct stg_plan *plan = stg_calloc(1, sizeof *plan);
  char *text = stg_strbuf_take(&signature);
  if (plan == NULL || text == NULL) {
    stg_free(plan);
    stg_free(text);
    return stg_error_memory(reterr, "a plan", sizeof *plan);
  }
  *plan = (struct stg_plan){
      .next = table->plans,
      .shape = *shape,
      .tile = tile,
      .kernel = kernel,
      .capture_kernel = &table->kernels[stg_steer_capture_tile(shape->rows)],
      .signature = text,
      .graph_key = stg_graph_key(kernel->key, shape),
  };
  table->plans = plan;
  *ret_plan = plan;
  return STG_OK;
}

stg_status stg_plan_find(struct stg_plan_table *table, const struct stg_graph_shape *shape,
                         enum stg_tile tile, const struct stg_plan **ret_plan, stg_error *reterr) {
  for (struct stg_plan *plan = table->plans; plan != NULL; plan = plan->next) {
    if (plan->tile == tile && same_shape(&plan->shape, shape)) {
      *ret_plan = plan;
      return STG_OK;
    }
  }
  struct stg_plan *plan = NULL;
  stg_status status = make_plan(table, shape, tile, &plan, reterr);
  if (status == STG_OK) {
    *ret_plan = plan;
  }
  return status;
}
