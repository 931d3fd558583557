/*
 * host_device_components.c: what the kernels of components do, by the CPU backend: from their
 * arguments, all in device memory. What a kernel takes on trust is checked here: a grid that has
 * all rows, shared memory as the text lays it out, flags that are true.
 */
#include <assert.h>
#include <string.h>

#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "engine/components_decl.h"
#include "engine/cpu/components.h"
#include "engine/signature_reader.h"
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

size_t host_device_components_bytes(const char *signature) {
  static const char word[] = "components ";
  if (strncmp(signature, word, sizeof word - 1) != 0) {
    return 0;
  }
  const struct stg_components_decl decl = decl_of(signature);
  assert(decl.task == STG_COMPONENTS_TASK_APPLY || decl.task == STG_COMPONENTS_TASK_TURNED);
  return stg_components_args_bytes(STG_COMPONENTS_APPLY);
}

/* The rule of the kernel, whose text is written anew. */
static struct stg_launch_rule rule_of(const struct stg_components_decl *decl,
                                      const char *signature) {
  struct stg_components_kernel kernel = {.work = STG_COMPONENTS_APPLY,
                                         .geometry = decl->geometry,
                                         .turned = decl->task == STG_COMPONENTS_TASK_TURNED,
                                         .tile = decl->tile};
  struct stg_launch_rule rule = {.threads = 0};
  struct stg_strbuf source = {0};
  const bool known = stg_arch_parse(strrchr(signature, '|') + 2, &kernel.sm);
  const stg_status status = stg_components_generate(&kernel, &source, &rule, NULL);
  assert(known && status == STG_OK);
  (void)known;
  (void)status;
  stg_strbuf_finish(&source);
  return rule;
}

static void *at(uint64_t address) {
  return (void *)(uintptr_t)address;
}

static void check_launch(const struct host_device_launch *launch,
                         const struct stg_components_decl *decl,
                         const struct stg_components_apply_args *args) {
  const struct stg_launch_rule rule = rule_of(decl, launch->signature);
  const bool turned = decl->task == STG_COMPONENTS_TASK_TURNED;
  const int64_t covered = (int64_t)launch->grid * rule.rows_per_block;
  assert(covered >= args->rows && covered - args->rows < (int64_t)rule.rows_per_block);
  assert(launch->threads == rule.threads && launch->shared_bytes == rule.stage_bytes);
  assert(args->sequence >= 1 && args->share >= 1);
  assert(args->flags == stg_components_apply_flags(&decl->geometry, turned, args));
  assert(turned ? args->bias == 0 : args->out != 0 && args->dd == 0 && args->x == 0);
  (void)rule;
  (void)turned;
  (void)covered;
}

void host_device_components_run(const struct host_device_launch *launch) {
  struct stg_components_apply_args args;
  const struct stg_components_decl decl = decl_of(launch->signature);
  const bool turned = decl.task == STG_COMPONENTS_TASK_TURNED;
  memcpy(&args, launch->args, sizeof args);
  if (args.rows == 0) {
    return; /* there may be no tensor */
  }
  check_launch(launch, &decl, &args);
  const struct stg_components_inputs inputs = {
      .rows = {.rows = args.rows, .sequence = args.sequence, .valid = at(args.valid)},
      .x = at(turned ? args.x : args.in),
      .x_stride = turned ? args.x_stride : args.in_stride,
      .v = at(turned ? args.second : args.first),
      .u = at(turned ? args.first : args.second),
      .mask = at(args.mask),
      .mask_stride = args.mask_stride,
      .mask_share = args.share,
      .bias = at(args.bias),
      .d = at(args.d),
      .delta = at(args.delta),
  };
  const stg_status status =
      turned
          ? stg_cpu_components_back(
                &(struct stg_cpu_components_gradient){
                    .geometry = &decl.geometry,
                    .inputs = inputs,
                    .dy = at(args.in),
                    .dy_stride = args.in_stride,
                    .out = {.dx = at(args.out), .dx_stride = args.out_stride, .dd = at(args.dd)}},
                NULL)
          : stg_cpu_components(&(struct stg_cpu_components_batch){.geometry = &decl.geometry,
                                                                  .inputs = inputs,
                                                                  .y = at(args.out),
                                                                  .y_stride = args.out_stride},
                               NULL);
  assert(status == STG_OK);
  (void)status;
}
