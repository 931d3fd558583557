// tf32_mma.cuh: [16 x 8] += [16 x 8] . [8 x 8] of TF32, by a warp. Which lane has what stands in
// gemm.cuh.

__device__ __forceinline__ void stg_tf32_add(float &d0, float &d1, float &d2, float &d3,
                                             const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
