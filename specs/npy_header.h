/*
 * npy_header.h: the text at the head of a .npy file, a dict as Python writes it.
 */
#ifndef STG_SPECS_NPY_HEADER_H
#define STG_SPECS_NPY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "specs/tensor_elems.h"

/* The longest descr that is kept: those that are read have 3 characters, and a message shows what
 * another one begins with. */
#define STG_NPY_DESCR_BYTES 32

struct stg_npy_header {
  char descr[STG_NPY_DESCR_BYTES]; /* "<f4" */
  bool fortran_order;
  uint32_t n_dims;
  int64_t shape[STG_TENSOR_MAX_DIMS];
};

/**
 * Read `{'descr': '<f4', 'fortran_order': False, 'shape': (4, 256), }`: these three keys, in any
 * order, each once; white space behind. Allocates nothing.
 * @return STG_E_FORMAT with "PATH: header, byte N: ", N from 0; STG_E_UNSUPPORTED for a structured
 * descr and for more dimensions than a tensor has.
 */
STG_NODISCARD stg_status stg_npy_header_parse(const char *path, const unsigned char *text,
                                              size_t size, struct stg_npy_header *ret_header,
                                              stg_error *reterr);

#endif
