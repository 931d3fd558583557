/*
 * host_device_prover.c: what the kernel of the proof search does, by the CPU backend: from its
 * arguments, all in device memory. What a kernel takes on trust is checked here: a queue that
 * nobody waits in, layers that are aligned, slots that there are.
 */
#include <assert.h>
#include <string.h>

#include "codegen/prover_args.h"
#include "codegen/prover_extents.h"
#include "engine/cpu/prover.h"
#include "engine/prover_decl.h"
#include "engine/signature_reader.h"
#include "runtime/base/alloc.h"
#include "tests/support/host_device.h"

static bool is_prover(const char *signature) {
  return strncmp(signature, "prover ", strlen("prover ")) == 0;
}

size_t host_device_prover_bytes(const char *signature) {
  return is_prover(signature) ? sizeof(struct stg_prover_args) : 0;
}

static void *at(uint64_t address) {
  return (void *)(uintptr_t)address;
}

/* Layers as a net has them, from those that a kernel reads (codegen/prover_pack.h). */
struct unpacked {
  float *floats; /* of all weights */
  size_t used;
  struct stg_prove_layer blocks[STG_PROVER_MAX_BLOCKS];
  struct stg_prove_weights weights;
};

static const float *unpack_layer(struct unpacked *to, const float *from, uint32_t n_in,
                                 uint32_t rows, uint32_t n_out, bool has_norm,
                                 struct stg_prove_layer *ret) {
  float *weight = to->floats + to->used;
  const float *vectors = from + (size_t)rows * STG_PROVER_MAX_WIDTH;
  to->used += (size_t)n_in * n_out;
  for (uint32_t o = 0; o < n_out; o++) {
    for (uint32_t i = 0; i < n_in; i++) {
      weight[(size_t)o * n_in + i] = from[(size_t)i * STG_PROVER_MAX_WIDTH + o];
    }
  }
  *ret = (struct stg_prove_layer){.weight = weight,
                                  .bias = vectors,
                                  .gain = has_norm ? vectors + STG_PROVER_MAX_WIDTH : NULL,
                                  .shift =
                                      has_norm ? vectors + (size_t)2 * STG_PROVER_MAX_WIDTH : NULL};
  return vectors + (size_t)3 * STG_PROVER_MAX_WIDTH;
}

static void unpack(const struct stg_prover_args *args, const struct stg_prover_kernel *kernel,
                   struct unpacked *to) {
  const struct stg_prove_net *net = &kernel->net;
  const struct stg_prover_extents e = stg_prover_extents_of(&kernel->limits, net);
  const size_t layer = (size_t)STG_PROVER_MAX_WIDTH * STG_PROVER_MAX_WIDTH;
  *to = (struct unpacked){.floats = stg_calloc((net->blocks + 3) * layer, sizeof(float))};
  assert(to->floats != NULL && args->layers % 16 == 0);
  const float *from = at(args->layers);
  from = unpack_layer(to, from, net->embed, e.embed_rows, net->hidden, true, &to->weights.in);
  for (uint32_t b = 0; b < net->blocks; b++) {
    from = unpack_layer(to, from, net->hidden, e.hidden_rows, net->hidden, true, &to->blocks[b]);
  }
  from = unpack_layer(to, from, net->hidden, e.hidden_rows, net->hidden, false, &to->weights.head);
  unpack_layer(to, from, net->hidden, e.hidden_rows, net->embed, false, &to->weights.out);
  to->weights.predicates = at(args->predicates);
  to->weights.arguments = at(args->arguments);
  to->weights.blocks = to->blocks;
}

static void add_counts(const struct stg_prove_counts *from, struct stg_prove_counts *to) {
  const uint64_t *more = (const uint64_t *)(const void *)from;
  uint64_t *sums = (uint64_t *)(void *)to;
  for (size_t i = 0; i < sizeof *from / sizeof *more; i++) {
    sums[i] += more[i];
  }
}

static void prove(const struct stg_prover_args *args, const struct stg_prover_kernel *kernel,
                  const struct stg_cpu_policy *policy, uint32_t n) {
  struct stg_prover_words *words = at(args->words);
  struct stg_prove_counts counts;
  const bool traces =
      args->trace != 0 && args->traced >= args->first && args->traced - args->first < n;
  struct stg_cpu_pool pool = {.base = &args->base,
                              .policy = policy,
                              .limits = kernel->limits,
                              .queries = at(args->queries),
                              .n = n,
                              .first = args->first,
                              .threads = 1,
                              .sample = (args->flags & STG_PROVER_SAMPLE) != 0,
                              .seed = args->seed,
                              .traced = traces ? args->traced - args->first : 0,
                              .steps = traces ? at(args->trace) : NULL};
  pool.limits.depth = args->depth;
  const stg_status status = stg_cpu_prove(&pool, at(args->results), &counts, NULL);
  assert(status == STG_OK);
  (void)status;
  add_counts(&counts, &words->counts);
  if (args->done != 0) {
    *(volatile uint32_t *)at(args->done) = n;
  }
}

void host_device_prover_run(const struct host_device_launch *launch) {
  struct stg_signature_reader reader = {.text = launch->signature};
  struct stg_prover_kernel kernel;
  struct stg_prover_args args;
  struct unpacked unpacked;
  struct stg_cpu_policy *policy = NULL;
  stg_status status = stg_prover_kernel_read(&reader, &kernel);
  memcpy(&args, launch->args, sizeof args);
  const struct stg_prover_words *words = at(args.words);
  const uint32_t asked = *(const uint32_t *)at(args.n);
  assert(status == STG_OK && words->taken == 0 && words->done == 0 && words->left == 0);
  if (asked == 0) {
    return;
  }
  assert(args.scratch != 0 && args.scratch % 128 == 0);
  unpack(&args, &kernel, &unpacked);
  kernel.net.epsilon = args.epsilon;
  status = stg_cpu_policy_create(&kernel.net, &unpacked.weights, &args.base, kernel.limits.atoms,
                                 &policy, NULL);
  assert(status == STG_OK);
  prove(&args, &kernel, policy, asked < args.capacity ? asked : args.capacity);
  stg_cpu_policy_destroy(policy);
  stg_free(unpacked.floats);
}
