/*
 * prover_signature.c: signatures of the family prover, written and read. Fields stand in a fixed
 * order. What a signature lacks (depth, seed, epsilon, the base) is an argument of the kernel.
 */
#include "codegen/prover_extents.h"
#include "engine/prover_decl.h"
#include "engine/signature_reader.h"

static const char *const arithmetics[] = {"f32", "tf32x3", "tf32", NULL};

void stg_prover_decl_print(const struct stg_prover_decl *decl, const char *arch,
                           struct stg_strbuf *out) {
  const struct stg_prover_kernel *kernel = &decl->kernel;
  stg_strbuf_printf(out, "prover v1 | atoms=%u children=%u", kernel->limits.atoms,
                    kernel->limits.children);
  stg_strbuf_printf(out, " | embed=%u width=%u blocks=%u arithmetic=%s", kernel->net.embed,
                    kernel->net.hidden, kernel->net.blocks, arithmetics[kernel->arithmetic]);
  if (arch != NULL) {
    stg_strbuf_printf(out, " | %s", arch);
  }
}

static uint32_t take_count(struct stg_signature_reader *reader, stg_status *status,
                           const char *word, uint32_t max) {
  int64_t value = 0;
  if (*status == STG_OK) {
    *status = stg_signature_take_number(reader, word, max, &value);
  }
  return (uint32_t)value;
}

stg_status stg_prover_kernel_read(struct stg_signature_reader *reader,
                                  struct stg_prover_kernel *ret_kernel) {
  struct stg_prover_kernel kernel = {.arithmetic = STG_PROVER_F32};
  stg_status status = STG_OK;
  int arithmetic = 0;
  kernel.limits.atoms = take_count(reader, &status, "prover v1 | atoms=", STG_PROVE_MAX_ATOMS);
  kernel.limits.children = take_count(reader, &status, " children=", STG_PROVE_MAX_CHILDREN);
  kernel.net.embed = take_count(reader, &status, " | embed=", STG_PROVER_MAX_WIDTH);
  kernel.net.hidden = take_count(reader, &status, " width=", STG_PROVER_MAX_WIDTH);
  kernel.net.blocks = take_count(reader, &status, " blocks=", STG_PROVER_MAX_BLOCKS);
  if (status == STG_OK) {
    status = stg_signature_take_choice(reader, " arithmetic=", arithmetics, "f32, tf32x3 or tf32",
                                       &arithmetic);
  }
  if (status == STG_OK) {
    kernel.arithmetic = (enum stg_prover_arithmetic)arithmetic;
    *ret_kernel = kernel;
  }
  return status;
}
