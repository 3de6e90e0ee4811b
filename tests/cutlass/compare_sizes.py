#!/usr/bin/env python3
"""Compares `tetrad tiles --json` with the sizes that a compiler gives for CUTLASS's own templates.

  compare_sizes.py TETRAD BUILD_FOLDER [CXX]

Headers come from wheels of PyPI, pinned by version and digest and kept in BUILD_FOLDER: two releases of CUTLASS (4.2.0
from nvidia-cutlass; 4.5.0 from flashinfer-python, with TensorRT-LLM's finalize visitor) and CUDA's headers. A host
compiler is enough: sizes of types need no device code.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import headers

HERE = pathlib.Path(__file__).resolve().parent
FIELDS = ("stages", "total", "carveout", "mainloop tensors", "epilogue tensors", "mainloop pipeline",
          "epilogue pipeline")


def accounted(tetrad, flags, version):
    """The same numbers as a compiled row, from the command."""
    command = [tetrad, "--json", "tiles", "--device", "gb10", "--cutlass", version, *flags.split()]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    tile = json.loads(run.stdout)["tiles"][0]
    if tile["source"] != "compiled":
        sys.exit(f"error: {flags} is compared here, but its source is {tile['source']}")
    account = tile["cutlass"]
    size = {member["name"]: member["bytes"] for member in account["members"]}
    tensors = sum(size[name] for name in ("A", "B", "SFA", "SFB"))
    return (account["stages"], account["total_bytes"], tile["carveout_bytes"], -(-tensors // 1024) * 1024,
            size["epilogue tile"], size["mainloop barriers"], size["epilogue load barriers"])


def main():
    tetrad, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    compiler = sys.argv[3] if len(sys.argv) > 3 else "g++"
    compared, wrong = 0, 0
    for release in headers.RELEASES:
        with tempfile.TemporaryDirectory() as work:
            program = pathlib.Path(work) / "sizes"
            headers.compile_program(compiler, HERE / "sm120_sizes.cpp", program, release, folder)
            lines = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        version = lines[0].split("|")[1]
        if version != release:
            print(f"headers of CUTLASS {release} say {version}")
            wrong += 1
        for line in lines[1:]:
            flags, *numbers = line.split("|")
            compiled = tuple(int(number) for number in numbers)
            ours = accounted(tetrad, flags, version)
            compared += 1
            for field, have, need in zip(FIELDS, ours, compiled):
                if have != need:
                    wrong += 1
                    print(f"CUTLASS {version} {flags}: {field} {have}, compiled {need}")
    print(f"{compared} kernels compared, {wrong} differences")
    return 1 if wrong or compared < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
