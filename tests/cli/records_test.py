#!/usr/bin/env python3
"""Files of records: what run and bench write, what plan and kernels show of it, writers at the same time."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

BINARY = os.path.realpath(sys.argv[1])
KERNEL = "cpu_w4a16_f32"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"}
ENVIRONMENT |= {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


def start(*words, **variables):
    return subprocess.Popen([BINARY, *words], env=ENVIRONMENT | variables, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*words, **variables):
    child = start(*words, **variables)
    out, err = child.communicate()
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def check(condition, what):
    if not condition:
        print("failed:", what)
        check.failed = True


check.failed = False


def evidence(file, **variables):
    words = ["kernels", KERNEL, "--json"] + (["--records", str(file)] if file else [])
    return json.loads(run(*words, **variables).stdout)["kernels"][0]["evidence"]


def bench(m, file):
    return ["bench", f"m{m} n16 k64", "--kernel", KERNEL, "--min-time", "0", "--record", str(file)]


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    file = folder / "records.json"

    # built -> probed -> measured, and back when the machine code or the CPU is another.
    check(evidence(None) == "built", "without records a row is built")
    result = run("run", "m2 n16 k64", "--kernel", KERNEL, "--record", str(file))
    check(result.returncode == 0 and evidence(file) == "probed", f"after run: {result}")
    result = run(*bench(2, file))
    check(result.returncode == 0 and evidence(file) == "measured", f"after bench: {result}")
    check(evidence(None, TETRAD_RECORDS=str(file)) == "measured", "TETRAD_RECORDS names the file")
    check(evidence(None, TETRAD_RECORDS=str(folder / "none")) == "built", "a file to come is no error")
    plan = json.loads(run("plan", "m2 n16 k64 acc=w4a16", "--records", str(file), "--json").stdout)
    choice = plan["this_build"]["choices"][0]
    check((choice["kernel"], choice["evidence"], choice["estimate"]["basis"]) == (KERNEL, "measured", "measured"),
          f"plan: {choice}")
    good = json.loads(file.read_text(encoding="utf-8"))
    for field, value in {"digest": "0" * 64, "driver": "another cpu"}.items():
        other = json.loads(json.dumps(good))
        for record in other["evidence"] + other["measurements"]:
            record[field] = value
        (folder / "other.json").write_text(json.dumps(other), encoding="utf-8")
        check(evidence(folder / "other.json") == "built", f"another {field}")

    # Writers at the same time, some of them killed: every finished one is there, and the file is whole.
    children = {m: start(*bench(m, file)) for m in range(3, 9)}
    for m in (4, 7):
        try:
            children[m].wait(timeout=0.3 + 0.2 * m)
        except subprocess.TimeoutExpired:
            children[m].send_signal(signal.SIGKILL)
    finished = {m for m, child in children.items() if child.communicate() is not None and child.returncode == 0}
    written = {int(row["problem"].split()[0][1:]) for row in json.loads(file.read_text(encoding="utf-8"))["measurements"]}
    check({3, 5, 6, 8} <= finished and finished | {2} <= written, f"finished {finished}, written {written}")

    # A file that is not understood is refused before the work, and left as it is.
    for name, text in {"broken": "{", "empty": "", "later": '{"schema": "tetrad.records/1.7"}',
                       "major": '{"schema": "tetrad.records/2.0"}'}.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        result = run(*bench(2, path))
        check(result.returncode == 2 and "TE0510" in result.stderr and path.read_text(encoding="utf-8") == text,
              f"{name}: {result}")
    check(run("kernels", "--records", str(folder / "later")).returncode == 0, "a later minor version can be read")
    check(run("kernels", "--records", str(folder / "none")).returncode == 2, "a named file must be there")
    result = run("run", "m1 n16 k64", "--record", str(folder / "no" / "such"))
    check(result.returncode == 2 and "TE0661" in result.stderr, f"no folder: {result}")
    check(not list(folder.glob("*.tmp")) or not {4, 7} <= finished, f"left behind: {list(folder.iterdir())}")

sys.exit(1 if check.failed else 0)
