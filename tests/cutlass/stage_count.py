#!/usr/bin/env python3
"""Compiles and runs stage_count_test.cpp against the newest CUTLASS headers on PyPI.  stage_count.py BUILD_FOLDER [CXX]"""

import pathlib
import subprocess
import sys
import tempfile

import headers

HERE = pathlib.Path(__file__).resolve().parent


def main():
    folder = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work) / "stage_count_test"
        headers.compile_program(sys.argv[2] if len(sys.argv) > 2 else "g++", HERE / "stage_count_test.cpp", program,
                                headers.RELEASES[0], folder, ["-I", str(HERE.parents[1] / "include")])
        return subprocess.run([program], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
