// warp.cuh: what a warp is. Steer's args.cuh has the same for its kernels.

#define STG_LANES 32
#define STG_ALL 0xffffffffu
