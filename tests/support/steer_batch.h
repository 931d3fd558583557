/*
 * steer_batch.h: the tensors of one apply, sent, steered, fetched back and held against the oracle.
 *
 * Tensors lie in larger images. What is not a live row (guards before and after, the gaps between
 * rows, padding rows, rows after the last one) is a pattern that reads as NaN, and in an output
 * another one; it must come back as it went out. The weight of an epilogue lies in an image of one
 * row, with values around 1.
 */
#ifndef STG_TESTS_SUPPORT_STEER_BATCH_H
#define STG_TESTS_SUPPORT_STEER_BATCH_H

#include "tests/support/steer_bed.h"

struct steer_layout {
  int64_t rows;       /* of the step */
  int64_t spare_rows; /* in memory after them */
  int64_t row_stride; /* elements; 0: hidden_size */
  size_t shift;       /* elements by which base pointers are off a 256-byte boundary */
  bool out_of_place;
};

struct steer_batch {
  struct steer_bed *bed;
  struct steer_layout layout;
  stg_frame *frame;  /* the bed's, unless a test says otherwise */
  stg_stream stream; /* the engine's own */
  uint32_t layer;
  uint32_t requests, longest; /* of the step; 0: by the row map */
  int32_t *row_map;           /* all -1 at first */
  int32_t *positions;         /* of the rows, 0 at first; sent where the bed has windows */
  int32_t *prompt_lens;
  size_t unit_bytes, row_bytes, stride_bytes;
  size_t base_bytes; /* of the first row in an image */
  size_t image_bytes;
  unsigned char *hidden, *residual, *out; /* images as sent; `out` out of place only */
  unsigned char *weight;                  /* of the epilogue, one row */
  unsigned char *result;                  /* the image that apply wrote, as it came back */
  unsigned char *residual_result;         /* the same of the residual, with an epilogue */
  void *on_hidden, *on_residual, *on_out; /* the images on the device */
  void *on_weight;
  int64_t probe_stride; /* elements: the bed's columns, and one that nobody owns */
  float *probes,
      *probes_result; /* [rows, probe_stride] as sent and as they came back; NULL: none */
  void *on_probes;
  struct stg_oracle_chain chains[STEER_BED_SLOTS]; /* what the rows' slots meant at the step */
  stg_window window[STEER_BED_SLOTS];
};

struct steer_batch *steer_batch_create(struct steer_bed *bed, const struct steer_layout *layout);
/** Rows without gaps, filled, that all have the slot. */
struct steer_batch *steer_batch_of(struct steer_bed *bed, int64_t rows, int32_t slot);
void steer_batch_destroy(struct steer_batch *batch);

/** Bytes of the weight's image, and of the cells with what nobody owns around them. */
size_t steer_batch_weight_bytes(const struct steer_batch *batch);
size_t steer_batch_probe_bytes(const struct steer_batch *batch);

/** Fill the rows of the step with normal values times `scale`. */
void steer_batch_fill(struct steer_batch *batch, uint64_t seed, float scale);
/** Row r of one of the images. */
unsigned char *steer_batch_row(const struct steer_batch *batch, unsigned char *image, int64_t row);
void steer_batch_put(const struct steer_batch *batch, unsigned char *image, int64_t row,
                     int64_t element, float value);
double steer_batch_get(const struct steer_batch *batch, unsigned char *image, int64_t row,
                       int64_t element);
/** row . vector, in float64. */
double steer_batch_dot(const struct steer_batch *batch, unsigned char *image, int64_t row,
                       stg_vector vector);
/** Give rows [from, to) a slot, -1 or -2. */
void steer_batch_map(struct steer_batch *batch, int64_t from, int64_t to, int32_t slot);

/** Let rows [from, to) be a sequence from `position` on, behind a prompt of `prompt_len` rows. */
void steer_batch_place(struct steer_batch *batch, int64_t from, int64_t to, int32_t position,
                       int32_t prompt_len);
/** Whether the slot of row r acts on it, as the slot was at the step. */
bool steer_batch_is_steered(const struct steer_batch *batch, int64_t row);

/** What row r's cell came back as. */
float steer_batch_cell(const struct steer_batch *batch, int64_t row, uint32_t column);
/** Whether it has the bytes that went in. */
bool steer_batch_cell_untouched(const struct steer_batch *batch, int64_t row, uint32_t column);

/* The steps of a run, for tests that issue them one by one. */
void steer_batch_send(struct steer_batch *batch);
void steer_batch_step(struct steer_batch *batch);
stg_apply steer_batch_args(const struct steer_batch *batch);
void steer_batch_apply(struct steer_batch *batch);
/** Wait, and copy back what was written. What must not be written is compared here. */
void steer_batch_fetch(struct steer_batch *batch);
/** Remember what slots mean now, as a step does. */
void steer_batch_note(struct steer_batch *batch);

/** send, step, apply, fetch. */
void steer_batch_run(struct steer_batch *batch);
/** No violation of the numeric contract; unsteered and padding rows have their bytes. */
struct stg_oracle_report steer_batch_check(struct steer_batch *batch);
/** run, then check. */
void steer_batch_expect_ok(struct steer_batch *batch);
/** Whether row r of two batches came out with the same bytes, in every tensor that is written. */
bool steer_batch_same(const struct steer_batch *a, int64_t row_a, const struct steer_batch *b,
                      int64_t row_b);
/** Whether result row r has the bytes that went in. */
bool steer_batch_unchanged(const struct steer_batch *batch, int64_t row);

#endif
