#!/usr/bin/env python3
"""quantize and bench whose writing fails: a full disk, a file size limit, kill -9 at any time. Either the whole output
is there or nothing, and the next run works."""

import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

BINARY = os.path.realpath(sys.argv[1])
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"}
ENVIRONMENT |= {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
KILLS = 12


def check(condition, what):
    if not condition:
        print("failed:", what)
        check.failed = True


check.failed = False


def model(path, layers, rows, k):
    """A model of `layers` BF16 matrices with values in [0.5, 1)."""
    size = rows * k * 2
    header = json.dumps({f"l{i}.weight": {"dtype": "BF16", "shape": [rows, k], "data_offsets": [i * size, (i + 1) * size]}
                         for i in range(layers)}).encode()
    data = bytearray(random.Random(1).randbytes(size))
    data[1::2] = b"\x3f" * (size // 2)
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(data) * layers)


def start(*words, limit=None):
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen([BINARY, *map(str, words)], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, preexec_fn=limited if limit is not None else None)


def run(*words, limit=None):
    child = start(*words, limit=limit)
    out, err = child.communicate()
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def digest(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    source = folder / "in.safetensors"
    model(source, 16, 512, 1024)
    begin = time.monotonic()
    result = run("quantize", source, folder / "whole")
    seconds = time.monotonic() - begin
    check(result.returncode == 0, f"quantize: {result}")
    whole = digest(folder / "whole")

    # No room: at the first byte, within the header, within the data, within the last file.
    work = folder / "work"
    work.mkdir()
    size = max(map(len, whole.values()))
    for limit in (0, 100, 4096, size // 2, size - 1):
        result = run("quantize", source, work / "out", limit=limit)
        check(result.returncode == 2 and "error[TE0242]" in result.stderr, f"limit {limit}: {result}")
        check(not list(work.iterdir()), f"limit {limit} left {list(work.iterdir())}")
    result = run("bench", "m1 n16 k16", "--kernel", "cpu_w4a16_f32", "--min-time", "0", "--format", "csv", "--out",
                 work / "times.csv", limit=100)
    check(result.returncode == 2 and "error[TE0661]" in result.stderr, f"bench: {result}")
    check(not list(work.iterdir()), f"bench left {list(work.iterdir())}")

    # Killed at any time: no output or the whole one. Only a hidden folder may stay, which the next run sweeps.
    dice = random.Random(2)
    ends = {"none": 0, "whole": 0}
    for turn in range(KILLS):
        child = start("quantize", source, work / "out")
        # Spread over the whole run, and past its end.
        time.sleep(seconds * (turn + dice.random()) / KILLS * 1.1)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if (work / "out").exists():
            check(digest(work / "out") == whole, f"turn {turn}: half an output")
            ends["whole"] += 1
            for path in (work / "out").iterdir():
                path.unlink()
            (work / "out").rmdir()
        else:
            ends["none"] += 1
        check(all(path.name.startswith(".out.tetrad-") for path in work.iterdir()), f"left {list(work.iterdir())}")
    check(ends["none"] > 0, f"no kill came in time: {ends}")
    result = run("quantize", source, work / "out")
    check(result.returncode == 0 and digest(work / "out") == whole, f"the run after: {result}")
    check([path.name for path in work.iterdir()] == ["out"], f"left {list(work.iterdir())}")

    # An output that exists is refused before any work, and stays.
    result = run("quantize", source, work / "out")
    check(result.returncode == 2 and "error[TE0241]" in result.stderr and digest(work / "out") == whole, f"{result}")

sys.exit(1 if check.failed else 0)
