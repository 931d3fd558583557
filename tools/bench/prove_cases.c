/*
 * prove_cases.c: see prove_cases.h. Tables and arithmetic; knows no engine.
 */
#include "tools/bench/prove_cases.h"

#include <stdio.h>
#include <string.h>

const size_t stg_prove_pools[STG_PROVE_POOLS] = {64,   110,  256,  STG_PROVE_BATCH, 1024, 2048,
                                                 4096, 8192, 16384};

const char *stg_prove_base_name(enum stg_prove_base base) {
  return base == STG_PROVE_COUNTRIES ? "countries" : "family";
}

const char *stg_prove_series(enum stg_prover_arithmetic arithmetic) {
  static const char *const names[STG_PROVE_ARITHMETICS] = {
      [STG_PROVER_F32] = STG_BENCH_OURS,
      [STG_PROVER_TF32X3] = STG_BENCH_OURS ", tf32x3",
      [STG_PROVER_TF32] = STG_BENCH_OURS ", tf32",
  };
  return names[arithmetic];
}

void stg_prove_pool_name(enum stg_prove_base base, size_t pool, char *name) {
  snprintf(name, STG_PROVE_NAME_BYTES, "%s, pool %zu", stg_prove_base_name(base), pool);
}

void stg_prove_published_name(enum stg_prove_base base, enum stg_prove_published which,
                              char *name) {
  static const char *const words[STG_PROVE_PUBLISHED] = {"repeated", "varied", "evaluated",
                                                         "unpadded"};
  snprintf(name, STG_PROVE_NAME_BYTES, "%s, %zu %s", stg_prove_base_name(base),
           stg_prove_published_count(which), words[which]);
}

size_t stg_prove_published_count(enum stg_prove_published which) {
  static const size_t counts[STG_PROVE_PUBLISHED] = {[STG_PROVE_REPEATED] = STG_PROVE_BATCH,
                                                     [STG_PROVE_VARIED] = STG_PROVE_BATCH,
                                                     [STG_PROVE_EVALUATED] = STG_PROVE_EVALUATION,
                                                     [STG_PROVE_UNPADDED] = 110};
  return counts[which];
}

struct stg_prove_extent stg_prove_extent_of(bool cuda, bool quick) {
  return (struct stg_prove_extent){
      .bases = cuda || !quick ? STG_PROVE_BASES : 1,
      .arithmetics = cuda ? STG_PROVE_ARITHMETICS : 1,
      .largest = !cuda   ? (quick ? 110 : STG_PROVE_BATCH)
                 : quick ? 1024
                         : 16384,
      .warmup = quick ? 0 : 1,
      .repeats = quick  ? 1
                 : cuda ? 10
                        : 3,
      .checked = quick ? 4 : 32,
  };
}

void stg_prove_case_print(enum stg_prove_base base, enum stg_prover_arithmetic arithmetic,
                          struct stg_strbuf *out) {
  static const char *const words[STG_PROVE_ARITHMETICS] = {
      [STG_PROVER_F32] = "f32", [STG_PROVER_TF32X3] = "tf32x3", [STG_PROVER_TF32] = "tf32"};
  stg_strbuf_printf(out,
                    "{\"steergraph\": 1, \"family\": \"prover\","
                    " \"knowledge\": {\"generate\": {\"kind\": \"%s\", \"seed\": %d",
                    stg_prove_base_name(base), STG_PROVE_SEED);
  if (base == STG_PROVE_COUNTRIES) {
    stg_strbuf_printf(out, ", \"size\": %d", STG_PROVE_COUNTRIES_SIZE);
  }
  stg_strbuf_printf(out,
                    "}}, \"queries\": {\"first\": 100},"
                    " \"policy\": {\"embed\": 250, \"hidden\": 256, \"blocks\": 8,"
                    " \"epsilon\": 1e-5, \"weights\": {\"random\": {\"seed\": %d}}},"
                    " \"limits\": {\"atoms\": 6, \"children\": 120, \"depth\": 20},"
                    " \"corruptions\": {\"count\": 100, \"seed\": %d,"
                    " \"sides\": [\"head\", \"tail\"], \"domain\": \"all\", \"filter\": true},"
                    " \"pick\": \"argmax\", \"arithmetic\": \"%s\", \"capacity\": 16384}",
                    STG_PROVE_SEED, STG_PROVE_SEED, words[arithmetic]);
}

double stg_prove_flop_of_state(const struct stg_prove_sizes *sizes) {
  const double embed = sizes->embed;
  const double hidden = sizes->hidden;
  return 2 * hidden * (2 * embed + hidden * (sizes->blocks + 1));
}

double stg_prove_floor_us(const struct stg_prove_peaks *peaks,
                          enum stg_prover_arithmetic arithmetic, double flop) {
  const double peak = arithmetic == STG_PROVER_F32 ? peaks->fma : peaks->tf32;
  const double products = arithmetic == STG_PROVER_TF32X3 ? 3 : 1;
  return peak > 0 ? products * flop / peak : 0;
}

static double over(uint64_t above, uint64_t below) {
  return below > 0 ? (double)above / (double)below : 0;
}

void stg_prove_add_counts(const stg_prover_counts *counts, size_t pool, double us,
                          struct stg_bench_row *row) {
  stg_bench_row_extra(row, "pool", (double)pool);
  stg_bench_row_extra(row, "us_each", us / (double)pool);
  stg_bench_row_extra(row, "candidates_per_s", (double)pool * 1e6 / us);
  stg_bench_row_extra(row, "useful", over(counts->query_steps, counts->slot_steps));
  stg_bench_row_extra(row, "steps_each", over(counts->query_steps, pool));
  stg_bench_row_extra(row, "children_a_step", over(counts->children, counts->query_steps));
  stg_bench_row_extra(row, "states", (double)counts->states);
  stg_bench_row_extra(row, "proved", (double)counts->proofs);
  stg_bench_row_extra(row, "close", (double)counts->close);
}

/* ---- the same proofs ---- */

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static bool is_equal(const stg_proof *a, const stg_proof *b) {
  return bits_of(a->logp) == bits_of(b->logp) && a->depth == b->depth && a->outcome == b->outcome &&
         memcmp(a->actions, b->actions, a->depth) == 0;
}

stg_status stg_prove_check_same(const stg_proof *proofs, size_t n,
                                const struct stg_prove_proofs *wanted, stg_error *reterr) {
  for (size_t i = 0; i < n; i++) {
    if (!is_equal(&proofs[i], &wanted->list[i])) {
      return stg_error_set(reterr, STG_E_CORRUPT,
                           "candidate %zu has another proof in a pool of %zu than in one of %zu", i,
                           n, wanted->pool);
    }
  }
  return STG_OK;
}
