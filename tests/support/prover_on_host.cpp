// prover_on_host.cpp: see prover_on_host.h.
#include "tests/support/prover_on_host.h"

#include "tests/support/cuda_on_host.h"

// The order of codegen/prover_text.c; cuda_on_host.h stands for copies.cuh and tf32_mma.cuh.
#include "codegen/prelude/math.h"
#include "codegen/prelude/warp.cuh"
#include "codegen/prelude/gumbel.h"
#include "codegen/prelude/atoms.h"
#include "codegen/prelude/prover_args.cuh"
#include "codegen/prelude/unify.h"
#include "codegen/prelude/derive.cuh"
#include "codegen/prelude/embed.cuh"
#include "codegen/prelude/tf32.cuh"
#include "codegen/prelude/gemm.cuh"
#include "codegen/prelude/layer.cuh"
#include "codegen/prelude/pick.cuh"
#include "codegen/prelude/prover.cuh"

#define stg_prover stg_prover_tiny
namespace tiny {
#include "tests/golden/cuda-prover/a3-c5-e6-h8-b2-f32.cu"
}
#undef stg_prover
#define stg_prover stg_prover_small
namespace small {
#include "tests/golden/cuda-prover/a6-c120-e34-h40-b2-f32.cu"
}
#undef stg_prover
#define stg_prover stg_prover_small_tf32x3
namespace small_tf32x3 {
#include "tests/golden/cuda-prover/a6-c120-e34-h40-b2-tf32x3.cu"
}
#undef stg_prover
#define stg_prover stg_prover_usual
namespace usual {
#include "tests/golden/cuda-prover/a6-c120-e250-h256-b8-f32.cu"
}
#undef stg_prover

namespace {

template <void (*kernel)(stg_prover_args)> void enter(const void *args) {
  kernel(*(const stg_prover_args *)args);
}

} // namespace

void prover_on_host_tiny(const stg_prover_args *args, unsigned blocks) {
  cuda_on_host_launch(enter<tiny::stg_prover_tiny>, args, blocks, STG_GEMM_THREADS);
}

void prover_on_host_small(const stg_prover_args *args, unsigned blocks) {
  cuda_on_host_launch(enter<small::stg_prover_small>, args, blocks, STG_GEMM_THREADS);
}

void prover_on_host_small_tf32x3(const stg_prover_args *args, unsigned blocks) {
  cuda_on_host_launch(enter<small_tf32x3::stg_prover_small_tf32x3>, args, blocks, STG_GEMM_THREADS);
}

void prover_on_host_usual(const stg_prover_args *args, unsigned blocks) {
  cuda_on_host_launch(enter<usual::stg_prover_usual>, args, blocks, STG_GEMM_THREADS);
}
