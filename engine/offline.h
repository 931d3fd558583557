/*
 * offline.h: what the command line needs of the engine beyond the public API: its options, the text
 * behind a signature, and compiling for any architecture without a device. Internal: not installed,
 * not ABI.
 */
#ifndef STG_ENGINE_OFFLINE_H
#define STG_ENGINE_OFFLINE_H

#include <steergraph/attention.h>
#include <steergraph/cache.h>
#include <steergraph/components.h>
#include <steergraph/prover.h>
#include <steergraph/steer.h>

#include "runtime/base/arena.h"

/**
 * Fill options from the environment as stg_options_from_env does, but for
 * STEERLLM_COMPILE_STEERING, which is a word to a host: whoever runs the command has asked for it
 * already. `enabled` stays false.
 */
STG_NODISCARD stg_status stg_options_for_command(stg_options *options, stg_error *reterr);

/**
 * Read a limit as the environment has it: "none" is UINT64_MAX, else a number above 0, of bytes
 * with K, M or G (1024 each) where `is_size`. False for anything else.
 */
bool stg_limit_parse(const char *text, bool is_size, uint64_t *ret_limit);

/*
 * What is declared: kernels of one family, or of several that are launched together. Lives in the
 * arena that it was made in.
 */
struct stg_declared;
/** Declare a steer table. `engine` supplies registered ops; any backend will do. */
STG_NODISCARD stg_status stg_declare_steer(stg_engine *engine, const stg_steer_desc *desc,
                                           struct stg_arena *arena,
                                           const struct stg_declared **ret_declared,
                                           stg_error *reterr);
/**
 * Declare a rope, or an attend, and the cache that it is made with, NULL without one: the kernels
 * that making both asks for. `desc->kv` is not looked at, nor what `kv` borrows. Of a rope that
 * declares backward the way back is what is launched. STG_E_INVALID names the field and the value.
 */
STG_NODISCARD stg_status stg_declare_rope(const stg_rope_desc *desc, const stg_kv_desc *kv,
                                          struct stg_arena *arena,
                                          const struct stg_declared **ret_declared,
                                          stg_error *reterr);
STG_NODISCARD stg_status stg_declare_attend(const stg_attend_desc *desc, const stg_kv_desc *kv,
                                            struct stg_arena *arena,
                                            const struct stg_declared **ret_declared,
                                            stg_error *reterr);
/** Positions after which the sums of an attend are merged, which its bound depends on; 0: the desc
 * is not right. */
uint32_t stg_declared_chunk(const stg_attend_desc *desc, const stg_kv_desc *kv);

/** Declare a prover. Its base is not looked at. STG_E_INVALID or STG_E_UNSUPPORTED names the field
 * and the value. */
STG_NODISCARD stg_status stg_declare_prover(const stg_prover_desc *desc, struct stg_arena *arena,
                                            const struct stg_declared **ret_declared,
                                            stg_error *reterr);

/**
 * Declare components: y alone, or with backward the kernels of the way back, which are launched
 * together, and y apart from them. STG_E_INVALID names the field and the value.
 */
STG_NODISCARD stg_status stg_declare_components(const stg_components_desc *desc,
                                                struct stg_arena *arena,
                                                const struct stg_declared **ret_declared,
                                                stg_error *reterr);

/* A block of the parts that are not NULL, over a cache. */
struct stg_declared_block {
  const stg_kv_desc *kv;
  const stg_rope_desc *rope;     /* without backward and transpose */
  const stg_attend_desc *attend; /* one of the two at least */
  const stg_steer_desc *steer;
  bool advance; /* the launch ends with the advance of lengths */
};
/** Declare it. `engine` as stg_declare_steer. What parts must have in common is not checked. */
STG_NODISCARD stg_status stg_declare_block(stg_engine *engine,
                                           const struct stg_declared_block *block,
                                           struct stg_arena *arena,
                                           const struct stg_declared **ret_declared,
                                           stg_error *reterr);

/** How many kernels follow from it; of a steer table those of both tiles. */
size_t stg_declared_kernels(const struct stg_declared *declared);
/** The family of kernel `index`: "steer", "rope", "decode", "prover", "components". NULL: there is
 * no such kernel. */
const char *stg_declared_family(const struct stg_declared *declared, size_t index);

/* How a kernel of an engine came to be there. */
struct stg_made_kernel {
  const char *source; /* "memory", "disk", "compiled", "cpu"; NULL: it is not there */
  double compile_ms;
};
/** What became of kernel `index` in an engine in which something was made of the declaration. */
STG_NODISCARD stg_status stg_declared_made(stg_engine *engine, const struct stg_declared *declared,
                                           size_t index, struct stg_made_kernel *ret,
                                           stg_error *reterr);
/** What a user calls kernel `index`: "decode", "prefill"; among kernels of other families "steer
 * decode". NULL: there is no such kernel. */
const char *stg_declared_variant(const struct stg_declared *declared, size_t index);

/* Everything that is known of one kernel before it is compiled. Text lives in the arena given. */
struct stg_explained {
  const char *variant;   /* what a user calls it */
  const char *signature; /* kernel text with architecture: "steer v1 | ... | sm_90" */
  char kernel_key[33];   /* request key */
  const char *source;    /* generated text */
  const char *prelude;
  const void *material; /* key material of the request, stg_material_next reads it */
  size_t material_size;
  const char *kernel_name;
  uint32_t threads, rows_per_block;
};

/**
 * Resolve a declaration's kernel `index` on `arch` ("sm_90"; "cpu" gives the signature and keys of
 * the CPU backend, without source). No device is used.
 */
STG_NODISCARD stg_status stg_explain_kernel(stg_engine *engine, const struct stg_declared *declared,
                                            size_t index, const char *arch, struct stg_arena *arena,
                                            struct stg_explained *ret, stg_error *reterr);

/* A batch as a user thinks of it: sizes before they are rounded up to buckets. */
struct stg_batch_sizes {
  int64_t rows;
  uint32_t requests;
  uint32_t longest; /* rows of the longest request */
};

#define STG_EXPLAINED_MAX_KERNELS 4

/* The graph of a batch. Text lives in the arena given. */
struct stg_explained_graph {
  const char *signature; /* "<kernel text> | batch<=32 seq<=64 rows<=2048" */
  char graph_key[33];
  size_t kernels[STG_EXPLAINED_MAX_KERNELS]; /* which ones serve the batch, one after the other */
  size_t n_kernels;
};

/** Resolve the graph of a batch. With the attention side in it the shape is in the default buckets.
 * STG_E_CAPACITY when it is beyond the largest bucket. */
STG_NODISCARD stg_status stg_explain_graph(stg_engine *engine, const struct stg_declared *declared,
                                           const char *arch, const struct stg_batch_sizes *batch,
                                           struct stg_arena *arena, struct stg_explained_graph *ret,
                                           stg_error *reterr);

/** The printed scalar program of a chain of op names, in the arena. */
STG_NODISCARD stg_status stg_explain_chain(stg_engine *engine, const char *const *ops, size_t n_ops,
                                           struct stg_arena *arena, const char **ret_text,
                                           stg_error *reterr);

/**
 * Make sure that the engine's cache holds kernel `index` for `arch`, compiling with NVRTC if
 * needed. No device. STG_E_INVALID when the engine has no cache folder to write to.
 */
STG_NODISCARD stg_status stg_offline_build(stg_engine *engine, const struct stg_declared *declared,
                                           size_t index, const char *arch, bool *ret_compiled,
                                           double *ret_compile_ms, stg_error *reterr);

/**
 * Read a manifest: register its user ops, and list the declarations that its signatures follow
 * from, those of the most used first. Lists live in the arena, ops in the engine. Messages carry
 * the file and the place.
 * @return STG_E_CAPACITY for more declarations than one manifest may have, when all of it has been
 * read and is right; else as stg_manifest_load and stg_replay_init.
 */
STG_NODISCARD stg_status stg_offline_read_manifest(stg_engine *engine, const char *path,
                                                   struct stg_arena *arena,
                                                   const struct stg_declared *const **ret_declared,
                                                   size_t *ret_n_declared, stg_error *reterr);

/**
 * The pack that engines read below their cache folders unless told otherwise: where it was
 * installed, or NULL when it was not.
 */
const char *stg_installed_pack(void);

/** Whether an engine would use this pack; the message of a failure is the one it would warn of. */
STG_NODISCARD stg_status stg_offline_pack_check(const char *path, stg_error *reterr);
/**
 * Open a path list, and below it a pack (NULL or "": none), as an engine would that trusts no
 * others: what it would refuse is STG_E_INVALID, and a pack that it would pass over is left out.
 * One of the two may be empty. Nothing is written, also where not `read_only`.
 */
STG_NODISCARD stg_status stg_cache_open_as_engine(const char *path_list, const char *pack_path,
                                                  bool read_only, stg_cache **ret_cache,
                                                  stg_error *reterr);

/**
 * A key factor's value in few words: itself when short, else its size. Two long texts are told
 * apart by the first line that differs (0: not compared). Appended to `ret`.
 */
struct stg_strbuf;
void stg_factor_describe(const char *value, size_t len, size_t differ_line, struct stg_strbuf *ret);
/** How many factors two key materials do not have in common; allocates nothing. */
size_t stg_material_distance(const void *here, size_t here_size, const void *there,
                             size_t there_size);

/* A pack in the making. One thread at a time. */
struct stg_offline_pack;
STG_NODISCARD stg_status stg_offline_pack_create(struct stg_offline_pack **ret_pack,
                                                 stg_error *reterr);
void stg_offline_pack_destroy(struct stg_offline_pack *pack);
/* Where a kernel came from. */
struct stg_offline_built {
  bool compiled;
  double compile_ms; /* 0 when it was there */
};
/**
 * Add kernel `index` for `arch`: from the engine's cache where it is there, else compiled with
 * NVRTC, and then stored in the cache too where the engine has a folder. No device.
 */
STG_NODISCARD stg_status stg_offline_pack_add(struct stg_offline_pack *pack, stg_engine *engine,
                                              const struct stg_declared *declared, size_t index,
                                              const char *arch, struct stg_offline_built *ret_built,
                                              stg_error *reterr);
/** Write the file, all or nothing. STG_E_IO. */
STG_NODISCARD stg_status stg_offline_pack_save(const struct stg_offline_pack *pack,
                                               const char *path, size_t *ret_size,
                                               stg_error *reterr);

/* One op as the engine knows it, for listings. Text is borrowed from the engine. */
struct stg_op_info {
  const char *name;
  bool builtin;
  bool has_output; /* it gives a scalar out, to the column that its parameter "column" says */
  size_t n_vectors;
  const char *vectors[STG_MAX_CALL_VECTORS];
  size_t n_params;
  const char *params[STG_MAX_CALL_PARAMS];
  bool has_default[STG_MAX_CALL_PARAMS];
  float defaults[STG_MAX_CALL_PARAMS];
  const char *canonical; /* body with positional names */
  char body_hash[33];
};
size_t stg_engine_op_count(stg_engine *engine);
/** Ops in the order of registration, built-ins first. */
STG_NODISCARD stg_status stg_engine_op_at(stg_engine *engine, size_t index, struct stg_op_info *ret,
                                          stg_error *reterr);
/** STG_E_NOT_FOUND lists the ops there are. */
STG_NODISCARD stg_status stg_engine_op_find(stg_engine *engine, const char *name,
                                            struct stg_op_info *ret, stg_error *reterr);
/** The compiled op, for the oracle; lives as long as the engine. */
struct stg_op;
STG_NODISCARD stg_status stg_engine_op_compiled(stg_engine *engine, const char *name,
                                                const struct stg_op **ret_op, stg_error *reterr);

#endif
