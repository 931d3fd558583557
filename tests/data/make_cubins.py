#!/usr/bin/env python3
"""Make the cubin fixtures of the unit tests: make_cubins.py LIBNVRTC PREFIX ARCH...

LIBNVRTC is the path of a libnvrtc.so (its libnvrtc-builtins lies beside it), PREFIX names the
compiler in the file names: `make_cubins.py .../libnvrtc.so.13 cuda13 sm_80 sm_90` writes
cuda13_sm_80.cubin and cuda13_sm_90.cubin beside this script. Prints what ptxas says of each
kernel, which is what tests/unit/test_cubin.c expects.
"""
import ctypes
import pathlib
import sys

SOURCE = b"""
extern "C" __global__ void fixture_plain(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
extern "C" __global__ void fixture_shared(const int *index, float *y, long long scale) {
  __shared__ float s[64];
  float t[16];
  for (int i = 0; i < 16; i++) t[i] = y[i * 3];
  for (int i = 0; i < 4; i++) t[index[i] & 15] += t[(index[i] * 7) & 15];
  s[threadIdx.x] = t[index[4] & 15];
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x] * (float)scale;
}
"""


def load(path: str) -> ctypes.CDLL:
    for builtins in sorted(pathlib.Path(path).parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(path)


def call(function, *args) -> None:
    result = function(*args)
    if result != 0:
        raise SystemExit(f"{function.__name__}: error {result}")


def fetch(size_of, get, program) -> bytes:
    size = ctypes.c_size_t()
    call(size_of, program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    call(get, program, data)
    return data.raw


def main() -> None:
    path, prefix, *archs = sys.argv[1:]
    nvrtc = load(path)
    for arch in archs:
        program = ctypes.c_void_p()
        call(nvrtc.nvrtcCreateProgram, ctypes.byref(program), SOURCE, b"fixture.cu", 0, None, None)
        options = (ctypes.c_char_p * 2)(
            b"--gpu-architecture=" + arch.encode(), b"--ptxas-options=-v"
        )
        call(nvrtc.nvrtcCompileProgram, program, 2, options)
        log = fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        print(log.rstrip(b"\0").decode())
        cubin = fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        (pathlib.Path(__file__).parent / f"{prefix}_{arch}.cubin").write_bytes(cubin)


main()
