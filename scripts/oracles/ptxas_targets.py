#!/usr/bin/env python3
"""What each CUDA release builds, and which tensor instructions each of its targets accepts: asks ptxas itself.

  ptxas_targets.py PTXAS... > data/targets/ptxas.txt

Every PTXAS is a `ptxas` binary of one CUDA release (packages nvidia-cuda-nvcc-cu11, nvidia-cuda-nvcc-cu12 and
nvidia-cuda-nvcc of PyPI hold one each). Its targets are those of its help text that assemble an empty kernel; an
instruction counts as accepted where a kernel of that one instruction, with `.target` the target itself, assembles.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ZERO = "mov.b32 a0,0; mov.b32 a1,0; mov.b32 a2,0; mov.b32 a3,0; mov.b32 b0,0; mov.b32 b1,0; mov.b32 s,0; " \
       "mov.f32 c0,0f00000000; mov.f32 c1,0f00000000; mov.f32 c2,0f00000000; mov.f32 c3,0f00000000;"
REGISTERS = ".reg .b32 a<4>; .reg .b32 b<2>; .reg .f32 c<4>; .reg .b32 s; .reg .b64 d<2>; .reg .b8 q; .reg .pred p; "
BODIES = {
    "mma_bf16": ZERO + "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{c0,c1,c2,c3},{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3};",
    "mma_fp8": ZERO + "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
               "{c0,c1,c2,c3},{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3};",
    "mma_f8f6f4": ZERO + "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32 "
                  "{c0,c1,c2,c3},{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3};",
    "mma_nvfp4": ZERO + "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32"
                 ".ue4m3 {c0,c1,c2,c3},{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3},s,{0,0},s,{0,0};",
    "cvt_e2m1": "mov.f32 c0,0f3f800000; cvt.rn.satfinite.e2m1x2.f32 q,c0,c0;",
    # Family targets refuse .scale_vec::4X and take .block16, which says the same.
    "tcgen05_nvfp4": "mov.b32 s,0; mov.b64 d0,0; mov.b64 d1,0; setp.ne.b32 p,s,0; "
                     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.SCALES [s],d0,d1,s,[s],[s],p;",
    "wgmma": ZERO + "mov.b64 d0,0; mov.b64 d1,0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32"
             ".bf16.bf16 {c0,c1,c2,c3},d0,d1,1,1,1,0,0;",
}


class Assembler:
    def __init__(self, path, folder):
        self.path = path
        self.source = pathlib.Path(folder) / "one.ptx"
        text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = re.search(r"V(\d+\.\d+\.\d+)", text).group(1)
        self.release = ".".join(self.version.split(".")[:2])
        self.isa = re.search(r"current version is '(\d+\.\d+)'", self.messages("99.9", "sm_80", "sm_80", "")).group(1)

    def messages(self, isa, target, arch, body):
        """"" where it assembles."""
        self.source.write_text(f".version {isa}\n.target {target}\n.address_size 64\n.visible .entry k() {{ {REGISTERS}"
                               f"{body} ret; }}\n", encoding="utf-8")
        run = subprocess.run([self.path, "-arch", arch, str(self.source), "-o", str(self.source) + ".o"],
                             capture_output=True, text=True, check=False)
        return "" if run.returncode == 0 else run.stderr + run.stdout

    def targets(self):
        text = subprocess.run([self.path, "--help"], capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r"'sm_(\d+[af]?)'", re.sub(r"\s", "", text)))
        names = sorted(names, key=lambda name: (int(re.sub(r"\D", "", name)), name))
        return [name for name in names if not self.messages(self.isa, f"sm_{name}", f"sm_{name}", "")]


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    print("# Made by scripts/oracles/ptxas_targets.py. toolkit RELEASE PTXAS-VERSION PTX-ISA; then what it assembles.")
    with tempfile.TemporaryDirectory() as folder:
        tools = [Assembler(path, folder) for path in sys.argv[1:]]
        for tool in sorted(tools, key=lambda tool: [int(part) for part in tool.version.split(".")]):
            print("toolkit", tool.release, tool.version, tool.isa)
            targets = tool.targets()
            print("targets", *targets)
            for name, body in BODIES.items():
                bodies = [body.replace("SCALES", word) for word in ("scale_vec::4X", "block16")][:1 + ("SCALES" in body)]
                taken = [t for t in targets
                         if not all(tool.messages(tool.isa, f"sm_{t}", f"sm_{t}", body) for body in bodies)]
                print("accepts", name, *taken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
