/*
 * small_prove_case.c: in the place of the workloads of the bench's suite `prove` one whose policy
 * takes no time. Linked with --wrap=stg_prove_case_print.
 */
#include <assert.h>

#include "tools/bench/prove_cases.h"

/* NOLINTBEGIN: names of the linker */
void __wrap_stg_prove_case_print(enum stg_prove_base base, enum stg_prover_arithmetic arithmetic,
                                 struct stg_strbuf *out);
void __wrap_stg_prove_case_print(enum stg_prove_base base, enum stg_prover_arithmetic arithmetic,
                                 struct stg_strbuf *out) {
  static const char *const words[] = {"f32", "tf32x3", "tf32"};
  assert(base == STG_PROVE_COUNTRIES);
  (void)base;
  stg_strbuf_printf(out,
                    "{\"steergraph\": 1, \"family\": \"prover\","
                    " \"knowledge\": {\"generate\": {\"kind\": \"countries\", \"seed\": 1}},"
                    " \"policy\": {\"embed\": 16, \"hidden\": 16, \"blocks\": 1,"
                    " \"weights\": {\"random\": {\"seed\": 1}}},"
                    " \"corruptions\": {\"count\": 20, \"seed\": 1}, \"arithmetic\": \"%s\"}",
                    words[arithmetic]);
}
/* NOLINTEND */
