/*
 * prover_objects.c: see prover_objects.h.
 */
#include "tests/support/prover_objects.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"

const struct stg_prove_net prover_small_net = {
    .embed = 34, .hidden = 40, .blocks = 2, .epsilon = 1e-5f};

static void must(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static stg_atom atom_of(struct stg_kb_atom atom) {
  return (stg_atom){atom.pred, atom.arg0, atom.arg1};
}

stg_engine *prover_engine(stg_backend backend) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = backend;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_mode = STG_CACHE_OFF;
  options.pack_path = "";
  must(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

static void describe_base(struct prover_objects *all) {
  const struct stg_kb *kb = &all->pool.kb;
  const struct stg_prove_net *net = &all->pool.policy.net;
  const struct stg_prove_limits *limits = &all->pool.pool.limits;
  all->facts = calloc(kb->facts.n, sizeof *all->facts);
  all->rules = calloc(kb->n_rules, sizeof *all->rules);
  all->bodies = calloc(kb->n_rules * STG_KB_MAX_BODY, sizeof *all->bodies);
  assert_true(all->facts != NULL && all->rules != NULL && all->bodies != NULL);
  for (size_t i = 0; i < kb->facts.n; i++) {
    all->facts[i] = atom_of(kb->facts.list[i]);
  }
  for (size_t i = 0; i < kb->n_rules; i++) {
    stg_atom *body = all->bodies + i * STG_KB_MAX_BODY;
    for (uint32_t k = 0; k < kb->rules[i].n_body; k++) {
      body[k] = atom_of(kb->rules[i].body[k]);
    }
    all->rules[i] = (stg_prover_rule){atom_of(kb->rules[i].head), body, kb->rules[i].n_body,
                                      kb->rules[i].n_vars};
  }
  all->desc = (stg_prover_desc){.struct_size = sizeof all->desc,
                                .predicates = (int32_t)kb->predicates.n,
                                .constants = (int32_t)kb->constants.n,
                                .facts = all->facts,
                                .n_facts = kb->facts.n,
                                .rules = all->rules,
                                .n_rules = kb->n_rules,
                                .atoms = limits->atoms,
                                .children = limits->children,
                                .depth = limits->depth,
                                .embed = net->embed,
                                .hidden = net->hidden,
                                .blocks = net->blocks};
}

static void describe_weights(struct prover_objects *all) {
  const struct stg_prove_net *net = &all->pool.policy.net;
  const struct stg_prove_weights *w = &all->pool.policy.weights;
  const size_t counts[] = {(size_t)net->hidden * net->hidden, net->hidden, net->hidden,
                           net->hidden};
  for (size_t part = 0; part < 4; part++) {
    all->blocks[part] = calloc(net->blocks * counts[part], sizeof(float));
    assert_non_null(all->blocks[part]);
    for (size_t b = 0; b < net->blocks; b++) {
      const struct stg_prove_layer *block = &w->blocks[b];
      const float *const parts[] = {block->weight, block->bias, block->gain, block->shift};
      memcpy(all->blocks[part] + b * counts[part], parts[part], counts[part] * sizeof(float));
    }
  }
  all->weights = (stg_prover_weights){.struct_size = sizeof all->weights,
                                      .predicates = w->predicates,
                                      .entities = w->arguments,
                                      .in_weight = w->in.weight,
                                      .in_bias = w->in.bias,
                                      .in_gain = w->in.gain,
                                      .in_shift = w->in.shift,
                                      .block_weight = all->blocks[0],
                                      .block_bias = all->blocks[1],
                                      .block_gain = all->blocks[2],
                                      .block_shift = all->blocks[3],
                                      .head_weight = w->head.weight,
                                      .head_bias = w->head.bias,
                                      .out_weight = w->out.weight,
                                      .out_bias = w->out.bias};
}

void prover_objects_open(struct prover_objects *all, stg_backend backend, enum stg_kb_kind kind,
                         struct stg_prove_net net, size_t n) {
  *all = (struct prover_objects){.engine = prover_engine(backend)};
  prove_pool_open(kind, net, n, &all->pool);
  describe_base(all);
  describe_weights(all);
  for (size_t i = 0; i < n; i++) {
    all->queries[i] = atom_of(all->pool.candidates[i]);
  }
  all->run = (stg_prover_run_desc){.struct_size = sizeof all->run, .queries = all->queries, .n = n};
}

void prover_objects_create(struct prover_objects *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_prover_create(all->engine, &all->desc, &all->prover, &error), &error);
  must(stg_prover_set_weights(all->prover, &all->weights, &error), &error);
}

void prover_objects_close(struct prover_objects *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_prover_destroy(all->prover, &error), &error);
  must(stg_engine_destroy(all->engine, &error), &error);
  for (size_t part = 0; part < 4; part++) {
    free(all->blocks[part]);
  }
  free(all->facts);
  free(all->rules);
  free(all->bodies);
  prove_pool_close(&all->pool);
}

void prover_objects_run(struct prover_objects *all) {
  stg_error error = STG_ERROR_INIT;
  must(stg_prover_run(all->prover, &all->run, all->proofs, &error), &error);
}

void prover_objects_judge(struct prover_objects *all) {
  struct prove_pool *pool = &all->pool;
  stg_prover_counts counts = {.struct_size = sizeof counts};
  pool->pool.n = all->run.n;
  pool->pool.sample = all->run.sample;
  pool->pool.seed = all->run.seed;
  for (size_t i = 0; i < all->run.n; i++) {
    struct stg_prove_result *result = &pool->results[i];
    result->logp = all->proofs[i].logp;
    result->depth = all->proofs[i].depth;
    result->outcome = (uint32_t)all->proofs[i].outcome;
    result->close = all->proofs[i].close;
    memcpy(result->actions, all->proofs[i].actions, sizeof result->actions);
  }
  const struct prove_verdict verdict = prove_pool_judge(pool);
  if (verdict.wrong + verdict.off > 0) {
    fail_msg("%d wrong, %d off, by %g", (int)verdict.wrong, (int)verdict.off, verdict.most);
  }
  const struct stg_prove_counts wanted = prove_pool_recount(pool);
  stg_prover_get_counts(all->prover, &counts);
  assert_int_equal(counts.slot_steps, wanted.slot_steps);
  assert_int_equal(counts.query_steps, wanted.query_steps);
  assert_int_equal(counts.children, wanted.children);
  assert_int_equal(counts.states, wanted.states);
  assert_int_equal(counts.pairs, wanted.pairs);
  assert_int_equal(counts.proofs, wanted.proofs);
  assert_int_equal(counts.close, wanted.close);
  assert_int_equal(counts.cut, wanted.cut);
  assert_int_equal(counts.rejected, wanted.rejected);
  assert_int_equal(counts.seen, wanted.seen);
}

bool prover_is_same(const stg_proof *a, const stg_proof *b) {
  return stg_f32_bits(a->logp) == stg_f32_bits(b->logp) && a->depth == b->depth &&
         a->outcome == b->outcome && a->close == b->close &&
         memcmp(a->actions, b->actions, sizeof a->actions) == 0;
}
