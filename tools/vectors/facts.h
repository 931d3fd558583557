/*
 * vectors/facts.h: a vector file as the subcommands of `steergraph vectors` see it: its tensors,
 * the layers that their names tell, and what it says of itself.
 *
 * Must not know how any of them prints it.
 */
#ifndef STG_TOOLS_VECTORS_FACTS_H
#define STG_TOOLS_VECTORS_FACTS_H

#include "specs/control_file.h"
#include "specs/tensor_layers.h"
#include "specs/vector_file.h"
#include "tools/json_out.h"

#define STG_VECTORS_WIDTH_OPTION(ret_text)                                                         \
  { "--width", "N", "a raw file: float32 rows of N elements", (ret_text), NULL }

/* {0} is closed. */
struct stg_vectors {
  struct stg_tensor_file file;
  struct stg_arena arena;
  struct stg_layer_map layers; /* {0} where names tell none */
  struct stg_control_facts control;
  stg_error not_said; /* its code is not STG_OK: why `control` is empty */
};

/** Read a number above `least` - 1 out of `word`, at most nine digits; NULL leaves `*ret_number`.
 * Returns an exit status; a wrong word has been said. */
int stg_vectors_number(const char *command, const char *option, const char *word, int64_t least,
                       int64_t *ret_number);

/**
 * Open a file; `width` above 0: as raw float32 rows. A file that says itself what it is takes no
 * width: STG_E_INVALID.
 */
STG_NODISCARD stg_status stg_vectors_open(const char *path, int64_t width,
                                          struct stg_vectors *ret_vectors, stg_error *reterr);
void stg_vectors_close(struct stg_vectors *vectors);

/** The layer that the tensor's name tells, -1 where it tells none. */
int32_t stg_vectors_layer_of(const struct stg_vectors *vectors,
                             const struct stg_tensor_info *tensor);

/** "0 to 31 by 'layer.{}'", with what is missing; nothing where there are no layers. */
void stg_vectors_print_layers(const struct stg_vectors *vectors, struct stg_strbuf *out);

/** What a control vector's numbers mean, behind its layers of which `first` is the first; "" of
 * another file. */
const char *stg_vectors_block_rule(const struct stg_vectors *vectors, int32_t first);

/** The members that all reports share: file, format, size_bytes. */
void stg_vectors_json_head(const struct stg_vectors *vectors, struct stg_json_out *json);
/** The member `shape` of a tensor. */
void stg_vectors_json_shape(const struct stg_tensor_info *tensor, struct stg_json_out *json);

#endif
