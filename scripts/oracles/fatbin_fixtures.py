#!/usr/bin/env python3
"""Makes tests/data/binary/fatbin/ with nvcc and fatbinary of CUDA 13.0.   scripts/oracles/fatbin_fixtures.py [FOLDER]

Every way that fatbinary packs images: none, LZ4 (speed), zstd (balance), all images packed; machine code and PTX of plain,
`a` and `f` targets; a host object; LTO-IR. The tests know what was asked for, not what a reader of ours says.
"""

import pathlib
import subprocess
import sys
import tempfile

SOURCE = """
template <class T, int N>
__global__ void scale(T* a, T f) { for (int j = 0; j < N; ++j) a[threadIdx.x + j * 32] *= f; }
template __global__ void scale<float, 1>(float*, float);
template __global__ void scale<float, 2>(float*, float);
extern "C" __global__ void plain(int* a) { a[threadIdx.x] = 1; }
"""
CODE = ["-gencode", "arch=compute_90a,code=sm_90a", "-gencode", "arch=compute_120f,code=sm_120f",
        "-gencode", "arch=compute_80,code=[sm_80,compute_80]"]
CASES = {
    "none.fatbin": ["--fatbin", *CODE, "--compress-mode=none"],
    "lz4.fatbin": ["--fatbin", *CODE, "--compress-mode=speed", "-Xfatbin", "-compress-all"],
    "zstd.fatbin": ["--fatbin", *CODE, "--compress-mode=balance", "-Xfatbin", "-compress-all"],
    "ptx_120f.fatbin": ["--fatbin", "-gencode", "arch=compute_120f,code=compute_120f"],
    "a_and_ptx.fatbin": ["--fatbin", "-gencode", "arch=compute_120a,code=[sm_120a,compute_120a]", "-Xfatbin",
                         "-compress-all"],
    "lto.fatbin": ["--fatbin", "-rdc=true", "-gencode", "arch=compute_90,code=lto_90"],
    "host.o": ["-c", *CODE, "-Xfatbin", "-compress-all"],
    "relocatable.o": ["-c", "-rdc=true", *CODE, "-Xfatbin", "-compress-all"],
}


def main():
    default = pathlib.Path(__file__).parents[2] / "tests/data/binary/fatbin"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work) / "k.cu"
        source.write_text(SOURCE, encoding="utf-8")
        for name, flags in CASES.items():
            subprocess.run(["nvcc", *flags, "k.cu", "-o", str(folder.resolve() / name)], cwd=work, check=True)


if __name__ == "__main__":
    main()
