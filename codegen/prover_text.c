/*
 * prover_text.c: see prover_text.h.
 *
 * The text is a struct of literal extents and an entry point; what they steer is hand-written in
 * prelude/. It must not know of bases, of weights or of pools, which are arguments.
 */
#include "codegen/prover_text.h"

#include <math.h>

#include "codegen/constants.h"
#include "codegen/prelude.h"
#include "codegen/prover_extents.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Files of the prelude in the order in which they read. */
static const char *const stems[] = {"math",        "warp",  "copies", "gumbel", "atoms",
                                    "prover_args", "unify", "derive", "embed",  "tf32",
                                    "tf32_mma",    "gemm",  "layer",  "pick",   "prover"};

void stg_prover_prelude(struct stg_strbuf *out) {
  stg_prelude_append(stems, COUNT(stems), out);
}

const char *stg_prover_arithmetic_name(enum stg_prover_arithmetic arithmetic) {
  static const char *const names[] = {
      [STG_PROVER_F32] = "f32", [STG_PROVER_TF32X3] = "tf32x3", [STG_PROVER_TF32] = "tf32"};
  return names[arithmetic];
}

/* ---- checks ---- */

static stg_status check_limits(const struct stg_prove_limits *limits, stg_error *reterr) {
  if (limits->atoms < 1 || limits->atoms > STG_PROVE_MAX_ATOMS) {
    return stg_error_set(reterr, STG_E_INVALID, "atoms: %u is not in 1..%d", limits->atoms,
                         STG_PROVE_MAX_ATOMS);
  }
  if (limits->children < 2 || limits->children > STG_PROVE_MAX_CHILDREN) {
    return stg_error_set(reterr, STG_E_INVALID, "children: %u is not in 2..%d", limits->children,
                         STG_PROVE_MAX_CHILDREN);
  }
  return STG_OK;
}

static stg_status check_net(const struct stg_prove_net *net, stg_error *reterr) {
  if (net->hidden < 2 || net->hidden > STG_PROVER_MAX_WIDTH || net->hidden % 2 != 0) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "hidden: %u is not even and in 2..%u",
                         net->hidden, STG_PROVER_MAX_WIDTH);
  }
  if (net->embed < 2 || net->embed > net->hidden || net->embed % 2 != 0) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "embed: %u is not even and in 2..%u, up to hidden", net->embed,
                         net->hidden);
  }
  if (net->blocks < 1 || net->blocks > STG_PROVER_MAX_BLOCKS) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "blocks: %u is not in 1..%u", net->blocks,
                         STG_PROVER_MAX_BLOCKS);
  }
  return STG_OK;
}

stg_status stg_prover_check_kernel(const struct stg_prover_kernel *kernel, stg_error *reterr) {
  const stg_status status = check_limits(&kernel->limits, reterr);
  if (status == STG_OK && (unsigned)kernel->arithmetic > STG_PROVER_TF32) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "arithmetic: %d is none of f32 (0), tf32x3 (1), tf32 (2)",
                         (int)kernel->arithmetic);
  }
  return status == STG_OK ? check_net(&kernel->net, reterr) : status;
}

/* ---- text ---- */

/* One float more than the net: 1 / sqrt(embed), rounded once. */
static void write_scale(struct stg_writer *w, uint32_t embed) {
  const float scale = (float)(1 / sqrt((double)embed));
  struct stg_strbuf line = {0};
  stg_strbuf_str(&line, "return ");
  stg_write_float_literal(&line, scale);
  stg_strbuf_printf(&line, "; // %.9g, 1 / sqrt(embed)", (double)scale);
  stg_write_open(w, "static __device__ __forceinline__ float scale()");
  stg_write_buffer(w, &line);
  stg_write_close(w, "");
}

static int products_of(enum stg_prover_arithmetic arithmetic) {
  return arithmetic == STG_PROVER_F32 ? 0 : arithmetic == STG_PROVER_TF32 ? 1 : 3;
}

static void write_geometry(struct stg_writer *w, const struct stg_prover_kernel *kernel,
                           const struct stg_prover_extents *e) {
  const struct stg_prove_net *net = &kernel->net;
  stg_write_blank(w);
  stg_write_line(w, "// prover: states of up to %u atoms, up to %u children of each",
                 kernel->limits.atoms, kernel->limits.children);
  stg_write_line(w, "// a policy of %u to %u and %u blocks, in %s", net->embed, net->hidden,
                 net->blocks, stg_prover_arithmetic_name(kernel->arithmetic));
  stg_write_open(w, "struct stg_geometry");
  stg_write_int(w, "atoms", kernel->limits.atoms, "of a state");
  stg_write_int(w, "children", kernel->limits.children, "of a derivation");
  stg_write_int(w, "embed", net->embed, "elements of an atom");
  stg_write_int(w, "hidden", net->hidden, "elements on the way");
  stg_write_int(w, "blocks", net->blocks, "layers that add to what came in");
  stg_write_int(w, "products", products_of(kernel->arithmetic), "of TF32 for one; 0: in float32");
  stg_write_int(w, "embed_rows", e->embed_rows, "inputs of the first layer");
  stg_write_int(w, "hidden_rows", e->hidden_rows, "inputs of the others");
  stg_write_int(w, "shared_bytes", e->shared_bytes, "of a block");
  stg_write_int(w, "scratch_bytes", e->slot_bytes, "of a slot");
  write_scale(w, net->embed);
  stg_write_close(w, ";");
  stg_write_blank(w);
}

static void write_entry(struct stg_writer *w, const struct stg_launch_rule *rule) {
  stg_write_line(w, "extern \"C\" __global__ void __launch_bounds__(%u, %u)", rule->threads,
                 rule->resident_blocks);
  stg_write_open(w, STG_PROVER_KERNEL_NAME "(const __grid_constant__ stg_prover_args args)");
  stg_write_line(w, "stg_prover_run<stg_geometry>(args);");
  stg_write_close(w, "");
}

stg_status stg_prover_generate(const struct stg_prover_kernel *kernel,
                               struct stg_strbuf *ret_source, struct stg_launch_rule *ret_rule,
                               stg_error *reterr) {
  stg_status status = stg_prover_check_kernel(kernel, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_prover_extents e = stg_prover_extents_of(&kernel->limits, &kernel->net);
  const struct stg_launch_rule rule = {.threads = e.threads,
                                       .rows_per_block = e.slots,
                                       .resident_blocks = e.resident_blocks,
                                       .stage_bytes = e.shared_bytes,
                                       .wide_stage_bytes = e.shared_bytes};
  struct stg_writer w = {.out = ret_source};
  write_geometry(&w, kernel, &e);
  write_entry(&w, &rule);
  status = stg_strbuf_status(ret_source, reterr);
  if (status == STG_OK) {
    *ret_rule = rule;
  }
  return status;
}
