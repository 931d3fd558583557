/*
 * decode_floor.c: see decode_floor.h.
 */
#include "tests/gpu/decode_floor.h"

#define THREADS 512
#define BLOCKS 3 /* of a multiprocessor */

static const char *const source =
    "struct floor_args { const uint4 *k, *v; unsigned *out; long long pieces; };\n"
    "__device__ void add(uint4 &sum, const uint4 &more) {\n"
    "  sum.x ^= more.x; sum.y ^= more.y; sum.z ^= more.z; sum.w ^= more.w;\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(512, 3)\n"
    "test_floor(const __grid_constant__ floor_args a) {\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "  asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
    "#endif\n"
    "  const long long step = (long long)gridDim.x * blockDim.x;\n"
    "  uint4 sum = {0u, 0u, 0u, 0u};\n"
    "  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < a.pieces; i += 4 * step) {\n"
    "    uint4 p[8];\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < 4; j++) {\n"
    "      const bool is = i + j * step < a.pieces;\n"
    "      p[2 * j] = is ? __ldcs(a.k + i + j * step) : sum;\n"
    "      p[2 * j + 1] = is ? __ldcs(a.v + i + j * step) : sum;\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < 8; j++) {\n"
    "      add(sum, p[j]);\n"
    "    }\n"
    "  }\n"
    "  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678u) {\n"
    "    *a.out = 1u;\n"
    "  }\n"
    "}\n";

struct stg_module *decode_floor_open(const struct gpu *gpu) {
  return load_kernel(gpu, "test_floor", source);
}

struct stg_launch_dims decode_floor_dims(const struct gpu *gpu) {
  const uint32_t sms = (uint32_t)stg_device_get_info(gpu->device)->multiprocessors;
  return (struct stg_launch_dims){sms * BLOCKS, THREADS, 0};
}
