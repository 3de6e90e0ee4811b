#!/usr/bin/env python3
"""Makes the cubins of tests/data/binary/cubin and the counts that nvdisasm gives for them.

  cubin_fixtures.py OUT [--all FOLDER]

Kernels are written in PTX here, one per instruction, and assembled by ptxas of CUDA_HOME (13.0) and, for the older file
formats, by those of the PyPI packages nvidia-cuda-nvcc-cu12 in OLD, which are looked for in PTXAS_<version with _> (the
path of a ptxas). The conversions of cuda_fp4.h and the kernel that spills are compiled by nvcc of CUDA_HOME. --all also
assembles every kernel for every target into FOLDER: the samples that derive_opcodes.py learns from.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import derive_opcodes

CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
OLD = {"12.4.131": "8.4", "12.8.93": "8.7", "12.9.86": "8.8"}  # version -> the newest PTX it takes
PTX = "9.0"

EVERY = set("80 86 89 90 90a 100 100a 100f 103a 110a 120 120a 120f 121 121a 121f".split())
FP8 = EVERY - {"80", "86"}
TMA = FP8 - {"89"}
SM90A = {"90a"}
TCGEN05 = set("100a 100f 103a 110a".split())
WARP_FP4 = set("120a 120f 121a 121f".split())
NARROW = TCGEN05 | WARP_FP4
WIDTH = {"b32": 4, "f32": 4, "b64": 8, "f64": 8}


def entry(name, body):
    return f""".visible .entry {name}(.param .u64 a) {{
 .reg .pred p; .reg .b8 q<2>; .reg .b16 h<16>; .reg .b32 r<64>; .reg .f32 f<64>; .reg .b64 d<64>; .reg .f64 g<16>;
 .shared .align 1024 .b8 s[4096];
 ld.param.u64 d0, [a]; mov.u32 r60, %tid.x; mul.wide.u32 d1, r60, 256; add.s64 d0, d0, d1;
 setp.eq.u32 p, r60, 7; mov.u32 r61, s;
{body}
 ret;
}}
"""


def load(register, count, base=0, kind="b32"):
    return "".join(f" ld.global.{kind} {register}{i}, [d0+{base + WIDTH[kind] * i}];\n" for i in range(count))


def store(register, count, kind="b32"):
    return "".join(f" st.global.{kind} [d0+{WIDTH[kind] * i}], {register}{i};\n" for i in range(count))


def listed(register, count):
    return "{" + ", ".join(f"{register}{i}" for i in range(count)) + "}"


def mma(shape, result="f32", tail=""):
    c = "f" if result == "f32" else "r2"
    return (load("r", 20) + load(c, 4, 128, result) + f" mma.sync.aligned.{shape} {listed(c, 4)}, {listed('r', 4)}, "
            f"{listed('r1', 2)}, {listed(c, 4)}{tail};\n" + store(c, 4, result))


def wgmma(shape, tail, result="f32", registers=False):
    c = "f" if result == "f32" else "r2"
    return (load("r", 4, 192) + load(c, 4, 0, result) + " ld.global.b64 d4, [d0+128]; ld.global.b64 d5, [d0+136];\n"
            f" wgmma.fence.sync.aligned;\n wgmma.mma_async.sync.aligned.{shape} {listed(c, 4)}, "
            f"{listed('r', 4) if registers else 'd4'}, d5, p{tail};\n"
            " wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" + store(c, 4, result))


def convert(body):
    return load("r", 4) + load("f", 4, 16, "f32") + body


SCALES = ", {r18}, {0, 0}, {r19}, {0, 0}"
SPARSE = (load("r", 24) + load("f", 4, 128, "f32") + " mma.sp::ordered_metadata.sync.aligned.{} "
          + f"{listed('f', 4)}, {listed('r', 4)}, " + "{{r4, r5, r6, r7}}, " + listed("f", 4) + ", r8, 0{};\n")
SPARSE = SPARSE.replace("{f0, f1, f2, f3}", "{{f0, f1, f2, f3}}").replace("{r0, r1, r2, r3}", "{{r0, r1, r2, r3}}")
K = {
    "hmma_f16": (EVERY, mma("m16n8k16.row.col.f32.f16.f16.f32")),
    "hmma_bf16": (EVERY, mma("m16n8k16.row.col.f32.bf16.bf16.f32")),
    "hmma_tf32": (EVERY, mma("m16n8k8.row.col.f32.tf32.tf32.f32")),
    "hmma_sparse": (EVERY, SPARSE.format("m16n8k32.row.col.f32.f16.f16.f32", "") + store("f", 4, "f32")),
    "imma_s8": (EVERY, mma("m16n8k32.row.col.s32.s8.s8.s32", "b32")),
    "imma_s4": (EVERY, mma("m16n8k64.row.col.s32.s4.s4.s32", "b32")),
    "bmma": (EVERY, mma("m16n8k256.row.col.s32.b1.b1.s32.and.popc", "b32")),
    "dmma": (EVERY, load("g", 8, 0, "f64") + " mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {g0, g1}, {g2}, {g3}, "
             "{g0, g1};\n" + store("g", 2, "f64")),
    "qmma_e4m3": (FP8, mma("m16n8k32.row.col.f32.e4m3.e4m3.f32")),
    "qmma_e2m1": (WARP_FP4, mma("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32")),
    "qmma_scaled": (WARP_FP4, mma("m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0",
                                  tail=SCALES)),
    "omma_nvfp4": (WARP_FP4, mma("m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
                                 tail=SCALES)),
    "omma_mxfp4": (WARP_FP4, mma("m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
                                 tail=SCALES)),
    "omma_sparse": ({"120a", "121a"}, SPARSE.format(
        "m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", SCALES)
        + store("f", 4, "f32")),
    "hgmma": (SM90A, wgmma("m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0")),
    "hgmma_registers": (SM90A, wgmma("m64n8k16.f32.bf16.bf16", ", 1, 1, 0", registers=True)),
    "qgmma": (SM90A, wgmma("m64n8k32.f32.e4m3.e4m3", ", 1, 1")),
    "qgmma_registers": (SM90A, wgmma("m64n8k32.f32.e4m3.e4m3", ", 1, 1", registers=True)),
    "igmma": (SM90A, wgmma("m64n8k32.s32.s8.s8", "", "b32")),
    "bgmma": (SM90A, wgmma("m64n8k256.s32.b1.b1.and.popc", "", "b32")),
    "fp4_pack": (NARROW, convert(" cvt.rn.satfinite.e2m1x2.f32 q0, f0, f1; mov.b16 h0, {q0, q0}; st.global.b16 [d0], h0;\n")),
    "fp4_unpack": (NARROW, convert(" mov.b32 {h0, h1}, r0; mov.b16 {q0, q1}, h0; cvt.rn.f16x2.e2m1x2 r3, q1; "
                                   "cvt.rn.f16x2.e2m1x2 r2, q0; st.global.b32 [d0], r3; st.global.b32 [d0+4], r2;\n")),
    "fp6": (NARROW, convert(" cvt.rn.satfinite.e2m3x2.f32 h0, f0, f1; cvt.rn.satfinite.e3m2x2.f32 h1, f2, f1; "
                            "st.global.b16 [d0], h0; st.global.b16 [d0+2], h1; mov.b32 {h3, h4}, r0; "
                            "cvt.rn.f16x2.e2m3x2 r5, h3; cvt.rn.f16x2.e3m2x2 r6, h4; st.global.b32 [d0+4], r5; "
                            "st.global.b32 [d0+8], r6;\n")),
    "fp8": (FP8, convert(" cvt.rn.satfinite.e4m3x2.f32 h0, f0, f1; cvt.rn.satfinite.e5m2x2.f32 h1, f2, f1; "
                         "cvt.rn.satfinite.e4m3x2.f16x2 h2, r1; st.global.b16 [d0], h0; st.global.b16 [d0+2], h1; "
                         "st.global.b16 [d0+22], h2; mov.b32 {h3, h4}, r0; cvt.rn.f16x2.e4m3x2 r5, h3; "
                         "cvt.rn.f16x2.e5m2x2 r6, h4; st.global.b32 [d0+4], r5; st.global.b32 [d0+8], r6;\n")),
    "halves": (EVERY, convert(" cvt.rn.f16x2.f32 r1, f0, f1; cvt.rn.bf16x2.f32 r2, f2, f1; cvt.rz.f16x2.f32 r5, f2, f3; "
                              "cvt.rn.relu.bf16x2.f32 r3, f0, f3; st.global.v4.b32 [d0], {r1, r2, r5, r3};\n")),
    "dequantised": (EVERY, load("r", 20) + load("f", 4, 128, "f32")
                    + " lop3.b32 r20, r0, 0x000f000f, 0x64006400, 0xea; shr.u32 r1, r0, 4; and.b32 r21, r1, 0x0f0f0f0f;\n"
                    " mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0, f1, f2, f3}, {r4, r5, r6, r7}, {r20, r21}, "
                    "{f0, f1, f2, f3};\n" + store("f", 4, "f32")),
    "memory": (EVERY, " ld.shared.b32 r0, [r61]; st.shared.b32 [r61+64], r0; cp.async.cg.shared.global [r61], [d0], 16; "
               "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r1, r2, r3, r4}, [r61+128]; "
               "st.global.v4.b32 [d0], {r1, r2, r3, r4};\n"),
    "local": (EVERY, " .local .align 16 .b8 l[256]; ld.global.b32 r0, [d0]; mov.b32 r3, l; and.b32 r0, r0, 60; "
              "add.u32 r4, r3, r0; st.local.b32 [r4], r0; ld.global.b32 r1, [d0+4]; and.b32 r1, r1, 60; "
              "add.u32 r5, r3, r1; ld.local.b32 r2, [r5]; st.global.b32 [d0], r2;\n"),
    "tma": (TMA, " ld.global.b64 d4, [d0+128]; mov.u32 r5, 0; mov.u16 h0, 0;\n"
            " cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r61], [d4, {r5, r5}], "
            "[r61+2048]; cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [d4, {r5, r5}], [r61];\n"
            " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r61], [d0], 256, [r61+2048];\n"
            " cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [r61], "
            "[d4, {r5, r5, r5, r5}], [r61+2048], {h0, h0};\n"),
    "tensor_memory": (TCGEN05, load("r", 8) + " tcgen05.ld.sync.aligned.32x32b.x4.b32 {r4, r5, r6, r7}, [r0]; "
                      "tcgen05.wait::ld.sync.aligned;\n" + store("r", 8) + " tcgen05.st.sync.aligned.32x32b.x4.b32 [r0], "
                      "{r4, r5, r6, r7}; tcgen05.wait::st.sync.aligned;\n"),
}
OPERANDS = load("r", 5) + " ld.global.b64 d4, [d0+128]; ld.global.b64 d5, [d0+136];\n"
for kind, name, targets in (("f16", "utchmma", TCGEN05), ("f8f6f4", "utcqmma", TCGEN05), ("i8", "utcimma", {"100a"})):
    K[name] = (targets, OPERANDS + f" tcgen05.mma.cta_group::1.kind::{kind} [r0], d4, d5, r1, p;\n")
    K[name + "_tensor"] = (targets, OPERANDS + f" tcgen05.mma.cta_group::2.kind::{kind} [r0], [r2], d5, r1, p;\n")
    K[name + "_weights"] = (targets, OPERANDS + f" tcgen05.mma.ws.cta_group::1.kind::{kind} [r0], d4, d5, r1, p;\n")
for kind, block, name in (("mxf8f6f4", "block32", "utcqmma_scaled"), ("mxf4", "block32", "utcomma_mxfp4"),
                          ("mxf4nvf4", "block16", "utcomma_nvfp4")):
    tail = f"kind::{kind}.block_scale.{block} [r0], "
    K[name] = (TCGEN05, OPERANDS + f" tcgen05.mma.cta_group::1.{tail}d4, d5, r1, [r2], [r3], p;\n")
    K[name + "_tensor"] = (TCGEN05, OPERANDS + f" tcgen05.mma.cta_group::2.{tail}[r4], d5, r1, [r2], [r3], p;\n")

CONVERSIONS = """#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
extern "C" __global__ void pack_e2m1(const float2* x, unsigned char* y) {
  y[threadIdx.x] = __nv_cvt_float2_to_fp4x2(x[threadIdx.x], __NV_E2M1, cudaRoundNearest);
}
extern "C" __global__ void pack_e3m2(const float2* x, unsigned short* y) {
  y[threadIdx.x] = __nv_cvt_float2_to_fp6x2(x[threadIdx.x], __NV_E3M2, cudaRoundNearest);
}
extern "C" __global__ void unpack_e2m1(const unsigned char* x, __half2* y) {
  const __half2_raw r = __nv_cvt_fp4x2_to_halfraw2(x[threadIdx.x], __NV_E2M1);
  y[threadIdx.x] = *reinterpret_cast<const __half2*>(&r);
}
extern "C" __global__ void unpack_e2m3(const unsigned short* x, __half2* y) {
  const __half2_raw r = __nv_cvt_fp6x2_to_halfraw2(x[threadIdx.x], __NV_E2M3);
  y[threadIdx.x] = *reinterpret_cast<const __half2*>(&r);
}
"""
SPILLS = """extern "C" __global__ void __launch_bounds__(256, 8) spills(const float* x, float* y, int n) {
  __shared__ float s[300];
  float a[40];
  for (int i = 0; i < 40; ++i) a[i] = x[threadIdx.x * 40 + i];
  s[threadIdx.x] = a[3];
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    for (int i = 0; i < 40; ++i) a[i] = a[i] * a[(i + 7) % 40] + s[(threadIdx.x + i) & 255];
  }
  for (int i = 0; i < 40; ++i) y[threadIdx.x * 40 + i] = a[i];
}
"""
NOTHING = {"noop": " st.global.b32 [d0], r60;\n"}
# File -> (target, kernels); kept small, each class of instruction in at least one.
TENSOR = {
    "tensor": [("80", "hmma_f16 imma_s8 bmma dmma dequantised memory local halves"), ("89", "qmma_e4m3 fp8 hmma_sparse"),
               ("90a", "hgmma hgmma_registers qgmma qgmma_registers igmma bgmma tma"),
               ("100a", "utchmma utcimma utcimma_weights utcqmma utcqmma_scaled utcqmma_scaled_tensor utcomma_mxfp4 "
                        "utcomma_nvfp4_tensor tensor_memory"),
               ("120a", "omma_nvfp4 omma_sparse qmma_e2m1 qmma_scaled fp4_pack fp4_unpack fp6"),
               ("121f", "omma_nvfp4 omma_mxfp4 dequantised")],
}
FORMATS = {"12.4.131": "90 90a", "12.8.93": "90a 120 120a", "12.9.86": "100f 120a 120f 121a 121f"}
CURRENT = "90 90a 103a 110f 120 120a 120f 121 121a 121f"
HEADERS = "80 90 120 120f"


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr).strip()[:500]}")


def assemble(ptxas, version, target, kernels, out, *flags):
    text = f".version {version}\n.target sm_{target}\n.address_size 64\n"
    text += "".join(entry(name, body) for name, body in kernels.items())
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "k.ptx")
        source.write_text(text, encoding="ascii")
        run(ptxas, "-arch", f"sm_{target}", *flags, source, "-o", out)


def compile_cuda(text, target, out, *flags):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "k.cu")
        source.write_text(text, encoding="ascii")
        run(CUDA / "bin" / "nvcc", "-arch", f"sm_{target}", "-cubin", *flags, "-o", out, source)


def old_ptxas(version):
    path = os.environ.get("PTXAS_" + version.replace(".", "_"))
    if not path:
        sys.exit(f"set PTXAS_{version.replace('.', '_')} to the ptxas of nvidia-cuda-nvcc-cu12=={version}")
    return path


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for path in out.glob("*.cubin"):
        path.unlink()
    ptxas = CUDA / "bin" / "ptxas"
    for stem, files in TENSOR.items():
        for target, names in files:
            assemble(ptxas, PTX, target, {name: K[name][1] for name in names.split()}, out / f"{stem}.sm_{target}.cubin")
    for target in CURRENT.split():
        assemble(ptxas, PTX, target, NOTHING, out / f"noop.13.0.sm_{target}.cubin")
    for version, targets in FORMATS.items():
        for target in targets.split():
            short = ".".join(version.split(".")[:2])
            assemble(old_ptxas(version), OLD[version], target, NOTHING, out / f"noop.{short}.sm_{target}.cubin")
    # Linkable files of that format have a section type of their own for shared memory: a size without bytes.
    assemble(old_ptxas("12.4.131"), OLD["12.4.131"], "80", {"memory": K["memory"][1]},
             out / "linkable.12.4.sm_80.cubin", "-c")
    for target in HEADERS.split():
        compile_cuda(CONVERSIONS, target, out / f"header.sm_{target}.cubin")
    compile_cuda(SPILLS, "90a", out / "spills.sm_90a.cubin")
    compile_cuda(SPILLS, "120f", out / "linkable.sm_120f.cubin", "-rdc=true")
    if sys.argv[2:3] == ["--all"]:
        for target in sorted(EVERY):
            assemble(ptxas, PTX, target, {name: body for name, (targets, body) in K.items() if target in targets},
                     pathlib.Path(sys.argv[3], f"all.sm_{target}.cubin"))
    counts = derive_opcodes.golden(sorted(map(str, out.glob("*.cubin"))))
    (out / "nvdisasm.json").write_text(json.dumps(counts, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
