/*
 * golden.h: the kinds of text that golden.c prints, and the ops that their names list.
 *
 * A kind appends its text to `out`; a name that says nothing is an error that quotes it.
 */
#ifndef STG_TESTS_GOLDEN_GOLDEN_H
#define STG_TESTS_GOLDEN_GOLDEN_H

#include "codegen/decode_kernel.h"
#include "codegen/prover_text.h"
#include "codegen/rope_text.h"
#include "codegen/steer.h"

/**
 * Split "add+swap" and compile each op: a built-in, or one of the user ops that golden_ops.c holds.
 * "all" is every built-in. Up to STG_CHAIN_MAX_OPS, in the order of the name, alive as long as
 * `arena`.
 */
STG_NODISCARD stg_status golden_ops(struct stg_arena *arena, const char *name,
                                    const struct stg_op *ret_ops[STG_CHAIN_MAX_OPS],
                                    size_t *ret_n_ops, stg_error *reterr);

/** Kind `program`: the scalar program of the chain that NAME lists. */
STG_NODISCARD stg_status golden_program(struct stg_arena *arena, const char *name,
                                        struct stg_strbuf *out, stg_error *reterr);

/**
 * Kind `cuda`: the steer kernel of a geometry and a set of ops, without the prelude, after a
 * comment that gives its launch rule. NAME is hHIDDEN-DTYPE-BANK-STATE-rROWS-OPS, as in
 * "h4096-bf16-f32-pair-t2-add+swap"; STATE is `hidden` or `pair`.
 */
STG_NODISCARD stg_status golden_cuda(struct stg_arena *arena, const char *name,
                                     struct stg_strbuf *out, stg_error *reterr);

/** The geometry that a name of kind `cuda` spells; its ops live in the arena. */
STG_NODISCARD stg_status golden_geometry(struct stg_arena *arena, const char *name,
                                         struct stg_steer_geometry *ret, stg_error *reterr);

/**
 * Kind `keys`: what a cache knows the kernels of a declaration by, in both tiles and for two
 * architectures: signature, request key, launch rule; then the keys of three graphs and the recipe
 * of one. NAME is as for `cuda`, its tile left out of account.
 */
STG_NODISCARD stg_status golden_keys(struct stg_arena *arena, const char *name,
                                     struct stg_strbuf *out, stg_error *reterr);

/**
 * Kind `rope`: a kernel of the rope family, without the prelude, after a comment that gives its
 * launch rule. NAME is rotate-hHEADS-kKV_HEADS-dDIM-rROT-DTYPE-LAYOUT-PAIRS-SINK, with what is not
 * as usual after '+', as in "rotate-h32-k8-d128-r128-bf16-concat-half-dense+each_op"; or
 * transpose-dDIM-DTYPE; or advance.
 */
STG_NODISCARD stg_status golden_rope(struct stg_arena *arena, const char *name,
                                     struct stg_strbuf *out, stg_error *reterr);

/**
 * Kind `components`: a kernel of the components family, as `rope`. NAME is apply-iD_IN-cCOMPONENTS-
 * oD_OUT-DTYPE-MASK-tTILE-smARCH, with turned, bias or delta after '+', as in
 * "apply-i128-c1200-o341-bf16-elements-t128-sm90+turned+delta"; or sum-iD_IN-cCOMPONENTS-oD_OUT-
 * DTYPE.
 */
STG_NODISCARD stg_status golden_components(struct stg_arena *arena, const char *name,
                                           struct stg_strbuf *out, stg_error *reterr);

/**
 * Kind `decode`: as `cuda`, of the decode family. NAME is qHEADS-kKVHEADS-dDIM-DTYPE-CACHE-
 * cCHUNK-ORDER, as in "q32-k8-d128-bf16-paged+window+mask-c128-rows".
 */
STG_NODISCARD stg_status golden_decode(struct stg_arena *arena, const char *name,
                                       struct stg_strbuf *out, stg_error *reterr);

/**
 * Kind `prover`: likewise, of the proof search. NAME is
 * aATOMS-cCHILDREN-eEMBED-hHIDDEN-bBLOCKS-
 * ARITHMETIC, as in "a6-c120-e250-h256-b8-f32".
 */
STG_NODISCARD stg_status golden_prover(struct stg_arena *arena, const char *name,
                                       struct stg_strbuf *out, stg_error *reterr);

/** The geometry that a name of kind `decode` spells. */
STG_NODISCARD stg_status golden_decode_geometry(const char *name, struct stg_decode_geometry *ret,
                                                stg_error *reterr);

#endif
