/*
 * host_device_components.c: what the kernels of components do, by the CPU backend: from their
 * arguments, all in device memory. What a kernel takes on trust is checked here: a grid that has
 * all rows, shared memory as the text lays it out, flags that are true.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "engine/components_decl.h"
#include "engine/cpu/components.h"
#include "engine/signature_reader.h"
#include "runtime/base/dtype.h"
#include "runtime/cubin.h"
#include "tests/support/host_device.h"

static struct stg_components_decl decl_of(const char *signature) {
  struct stg_components_decl decl = {.base = {NULL}};
  struct stg_signature_reader reader = {.text = signature};
  const stg_status status = stg_components_decl_read(&reader, &decl);
  assert(status == STG_OK);
  (void)status;
  return decl;
}

static enum stg_components_work work_of(const struct stg_components_decl *decl) {
  return decl->task == STG_COMPONENTS_TASK_WEIGHTS ? STG_COMPONENTS_WEIGHTS
         : decl->task == STG_COMPONENTS_TASK_SUM   ? STG_COMPONENTS_SUM
                                                   : STG_COMPONENTS_APPLY;
}

size_t host_device_components_bytes(const char *signature) {
  static const char word[] = "components ";
  if (strncmp(signature, word, sizeof word - 1) != 0) {
    return 0;
  }
  const struct stg_components_decl decl = decl_of(signature);
  return stg_components_args_bytes(work_of(&decl));
}

static struct stg_components_kernel kernel_of(const struct stg_components_decl *decl,
                                              const char *signature) {
  struct stg_components_kernel kernel = {.work = work_of(decl),
                                         .geometry = decl->geometry,
                                         .turned = decl->task == STG_COMPONENTS_TASK_TURNED,
                                         .tile = decl->tile};
  const bool known = stg_arch_parse(strrchr(signature, '|') + 2, &kernel.sm);
  assert(known);
  (void)known;
  return kernel;
}

/* That a launch has so many blocks, and what its text, which is written anew, lays out. */
static void check_launch(const struct host_device_launch *launch,
                         const struct stg_components_kernel *kernel, int64_t rows, int64_t blocks) {
  struct stg_launch_rule rule = {.threads = 0};
  struct stg_strbuf source = {0};
  const stg_status status = stg_components_generate(kernel, &source, &rule, NULL);
  assert(status == STG_OK);
  assert(launch->threads == rule.threads && launch->shared_bytes == rule.stage_bytes);
  const int64_t per_block = rule.rows_per_block;
  assert(launch->grid ==
         (kernel->work == STG_COMPONENTS_APPLY ? (rows + per_block - 1) / per_block : blocks));
  (void)status;
  (void)rows;
  (void)blocks;
  (void)per_block;
  stg_strbuf_finish(&source);
}

static void *at(uint64_t address) {
  return (void *)(uintptr_t)address;
}

static void apply(const struct host_device_launch *launch,
                  const struct stg_components_kernel *kernel) {
  const struct stg_components_geometry *g = &kernel->geometry;
  struct stg_components_apply_args args;
  memcpy(&args, launch->args, sizeof args);
  if (args.rows == 0) {
    return; /* there may be no tensor */
  }
  check_launch(launch, kernel, args.rows, 0);
  assert(args.sequence >= 1 && args.share >= 1);
  assert(args.flags == stg_components_apply_flags(g, kernel->turned, &args));
  assert(kernel->turned ? args.bias == 0 : args.out != 0 && args.dd == 0 && args.x == 0);
  const struct stg_components_inputs inputs = {
      .rows = {.rows = args.rows, .sequence = args.sequence, .valid = at(args.valid)},
      .x = at(kernel->turned ? args.x : args.in),
      .x_stride = kernel->turned ? args.x_stride : args.in_stride,
      .v = at(kernel->turned ? args.second : args.first),
      .u = at(kernel->turned ? args.first : args.second),
      .mask = at(args.mask),
      .mask_stride = args.mask_stride,
      .mask_share = args.share,
      .bias = at(args.bias),
      .d = at(args.d),
      .delta = at(args.delta),
  };
  const struct stg_cpu_components_batch batch = {
      .geometry = g, .inputs = inputs, .y = at(args.out), .y_stride = args.out_stride};
  const struct stg_cpu_components_gradient gradient = {
      .geometry = g,
      .inputs = inputs,
      .dy = at(args.in),
      .dy_stride = args.in_stride,
      .out = {.dx = at(args.out), .dx_stride = args.out_stride, .dd = at(args.dd)}};
  const stg_status status =
      kernel->turned ? stg_cpu_components_back(&gradient, NULL) : stg_cpu_components(&batch, NULL);
  assert(status == STG_OK);
  (void)status;
}

/* What the last launch of weights was given: its parts are none but these, which the sum behind it
 * finds by their address. */
static struct stg_components_weights_args left;
static struct stg_components_geometry left_geometry;

static void back(const struct stg_components_weights_args *args,
                 const struct stg_components_geometry *g,
                 const struct stg_components_gradients *out) {
  /* none of these has anything of Delta, but the backend reads it beside d */
  void *delta = calloc((size_t)g->d_in * g->d_out, stg_dtype_bytes(g->dtype));
  assert(delta != NULL);
  const struct stg_cpu_components_gradient gradient = {
      .geometry = g,
      .inputs = {.rows = {.rows = args->rows, .sequence = args->sequence, .valid = at(args->valid)},
                 .x = at(args->x),
                 .x_stride = args->x_stride,
                 .v = at(args->v),
                 .u = at(args->u),
                 .mask = at(args->mask),
                 .mask_stride = args->mask_stride,
                 .mask_share = args->share,
                 .d = at(args->d),
                 .delta = delta},
      .dy = at(args->dy),
      .dy_stride = args->dy_stride,
      .out = *out};
  const stg_status status = stg_cpu_components_back(&gradient, NULL);
  assert(status == STG_OK);
  (void)status;
  free(delta);
}

static void leave_parts(const struct host_device_launch *launch,
                        const struct stg_components_kernel *kernel) {
  const struct stg_components_geometry *g = &kernel->geometry;
  struct stg_components_weights_args args;
  memcpy(&args, launch->args, sizeof args);
  if (args.rows == 0) {
    return;
  }
  const bool shared_dm = (args.flags & STG_COMPONENTS_SHARED_DM) != 0;
  check_launch(launch, kernel, args.rows, stg_components_weights_blocks(kernel, args.rows));
  assert(args.sequence >= 1 && args.share >= 1 && args.parts % 16 == 0);
  assert(args.span == stg_components_span(g->components, args.rows));
  assert(args.flags == stg_components_weights_flags(g, shared_dm, &args));
  assert(args.dm == 0 || (args.share == 1 && !shared_dm));
  assert(!shared_dm || (args.share > 1 && args.parts != 0));
  const struct stg_components_gradients dm = {.dm = at(args.dm), .dm_stride = args.dm_stride};
  (void)shared_dm;
  if (args.dm != 0) {
    back(&args, g, &dm);
  }
  left = args;
  left_geometry = *g;
}

static void clear(uint64_t address, size_t elems, stg_dtype dtype) {
  if (address != 0) {
    memset(at(address), 0, elems * stg_dtype_bytes(dtype));
  }
}

/* Sums of no rows, which have no groups. */
static void sum_nothing(const struct stg_components_geometry *g,
                        const struct stg_components_sum_args *args) {
  clear(args->dv, (size_t)g->d_in * g->components, g->dtype);
  clear(args->du, (size_t)g->components * g->d_out, g->dtype);
  clear(args->ddelta, (size_t)g->d_out * g->d_in, g->dtype);
  clear(args->dbias, g->d_out, g->dtype);
}

static void sum_parts(const struct host_device_launch *launch,
                      const struct stg_components_kernel *kernel) {
  const struct stg_components_geometry *g = &kernel->geometry;
  struct stg_components_sum_args args;
  memcpy(&args, launch->args, sizeof args);
  assert(args.span >= 1 && args.share >= 1);
  if (args.rows == 0) {
    sum_nothing(g, &args);
    return;
  }
  check_launch(launch, kernel, args.rows,
               stg_components_sum_blocks(g, args.rows, args.share, args.dm != 0));
  assert(args.parts == left.parts && args.rows == left.rows && args.share == left.share);
  assert(args.span == left.span && left_geometry.dtype == g->dtype);
  assert(args.dm == 0 || (left.flags & STG_COMPONENTS_SHARED_DM) != 0);
  const struct stg_components_gradients out = {.dv = at(args.dv),
                                               .du = at(args.du),
                                               .ddelta = at(args.ddelta),
                                               .dbias = at(args.dbias),
                                               .dm = at(args.dm),
                                               .dm_stride = args.dm_stride};
  back(&left, &left_geometry, &out);
}

void host_device_components_run(const struct host_device_launch *launch) {
  const struct stg_components_decl decl = decl_of(launch->signature);
  const struct stg_components_kernel kernel = kernel_of(&decl, launch->signature);
  if (kernel.work == STG_COMPONENTS_APPLY) {
    apply(launch, &kernel);
  } else if (kernel.work == STG_COMPONENTS_WEIGHTS) {
    leave_parts(launch, &kernel);
  } else {
    sum_parts(launch, &kernel);
  }
}
