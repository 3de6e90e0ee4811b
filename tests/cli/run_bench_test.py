#!/usr/bin/env python3
"""run with activations and their amax, the way from there to w4a4, and every output of bench."""

import csv
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import xml.dom.minidom

BINARY = os.path.realpath(sys.argv[1])
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"}
ENVIRONMENT |= {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


def check(condition, what):
    if not condition:
        print("failed:", what)
        check.failed = True


check.failed = False


def run(*words):
    return subprocess.run([BINARY, *map(str, words)], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)


def refused(result, name):
    check(result.returncode == 2 and f"error[{name}]" in result.stderr and not result.stdout, f"{name} expected: {result}")


def write(path, tensors):
    """safetensors of F32 tensors: name -> (shape, values)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


dice = random.Random(3)


def normal(*shape):
    count = 1
    for size in shape:
        count *= size
    return list(shape), [dice.gauss(0.0, 1.0) for _ in range(count)]


def struct_f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    write(folder / "dense.safetensors", {"a.weight": normal(32, 64), "b.weight": normal(48, 32)})
    check(run("quantize", folder / "dense.safetensors", folder / "q").returncode == 0, "quantize")

    # Activations per layer, every row of them, compared with the product of the unquantised weights too.
    inputs = {"a": normal(5, 64), "b": normal(5, 32)}
    write(folder / "x.safetensors", inputs)
    result = run("run", folder / "q", "--activations", folder / "x.safetensors", "--source", folder / "dense.safetensors",
                 "--record-amax", folder / "amax.json", "--json")
    if result.returncode != 0:
        sys.exit(f"run: {result}")
    rows = json.loads(result.stdout)["rows"]
    check(result.returncode == 0 and [row["layer"] for row in rows] == ["a", "b"], f"layers: {result}")
    for row in rows:
        check(row["problem"].startswith("m5 ") and "a=f32" in row["problem"] and "out=f32" in row["problem"],
              f"problem: {row['problem']}")
        check(0.05 < row["relative_error_to_unquantised"] < 0.15, f"error of rtn: {row}")
    amax = json.loads((folder / "amax.json").read_text(encoding="utf-8"))
    for layer, (_, values) in inputs.items():
        check(amax[layer] == struct_f32(max(map(abs, values))), f"amax of {layer}: {amax}")

    # From there to activations of 4 bits, whose input scale is the recorded one, in both conventions.
    for convention in ("compressed-tensors", "modelopt"):
        out = folder / f"w4a4-{convention}"
        result = run("quantize", folder / "dense.safetensors", out, "--scheme", "w4a4", "--input-amax", folder / "amax.json",
                     "--convention", convention)
        check(result.returncode == 0, f"w4a4: {result}")
        result = run("run", out, "--activations", folder / "x.safetensors", "--kernel", "cpu_w4a4_emulated", "--json")
        check(result.returncode == 0 and all(row["judgement"] == "ok" for row in json.loads(result.stdout)["rows"]),
              f"run of w4a4: {result}")
    (folder / "half.json").write_text(json.dumps({"a": amax["a"]}), encoding="utf-8")
    refused(run("quantize", folder / "dense.safetensors", folder / "no", "--scheme", "w4a4", "--input-amax",
                folder / "half.json"), "TE0243")
    check(not (folder / "no").exists(), "nothing written")

    # Activations that do not fit.
    bad = folder / "bad.safetensors"
    write(bad, {"a": normal(5, 32), "b": normal(5, 32)})
    refused(run("run", folder / "q", "--activations", bad), "TE0664")
    write(bad, {"c": normal(5, 64), "d": normal(5, 32)})
    refused(run("run", folder / "q", "--activations", bad), "TE0664")
    refused(run("run", folder / "q", "--activations", folder / "x.safetensors", "--m", "6"), "TE0664")
    write(bad, {"a": normal(2, 5, 64), "b": normal(5, 32)})
    result = run("run", folder / "q", "--activations", bad)
    check(result.returncode == 2 and "error[TE0" in result.stderr, f"3 dimensions: {result}")
    refused(run("run", "m1 n16 k16", "--activations", bad), "TE0667")
    refused(run("run", folder / "q", "--record-amax", folder / "amax2.json"), "TE0667")
    refused(run("run", folder / "q", "--activations", folder / "x.safetensors", "--record-amax", folder / "no" / "amax"),
            "TE0661")
    values = inputs["a"][1].copy()
    values[70] = float("nan")
    write(bad, {"a": ([5, 64], values), "b": inputs["b"]})
    result = run("run", folder / "q", "--activations", bad, "--record-amax", folder / "amax3.json")
    check(result.returncode == 2 and not (folder / "amax3.json").exists(), f"NaN has no amax: {result}")

    # A result file of every format, and the plot; the numbers agree with each other.
    (folder / "shapes.txt").write_text("# two shapes\nm1,4 n32 k64\n\nm2 n16 k32  # one\n", encoding="utf-8")
    common = ["bench", folder / "shapes.txt", "--kernel", "cpu_w4a8_int8", "--min-time", "0"]
    for format_, file in {"csv": "t.csv", "json": "t.json", "markdown": "t.md"}.items():
        result = run(*common, "--format", format_, "--out", folder / file, "--svg", folder / "t.svg")
        check(result.returncode == 0 and result.stdout == "", f"{format_}: {result}")
    rows = list(csv.DictReader(io.StringIO((folder / "t.csv").read_text(encoding="utf-8"))))
    check([(row["m"], row["n"], row["k"]) for row in rows] == [("1", "32", "64"), ("4", "32", "64"), ("2", "16", "32")],
          f"csv: {rows}")
    for row in rows:
        check(row["judgement"] == "ok" and float(row["time_p10_ns"]) <= float(row["time_ns"]) <= float(row["time_p90_ns"]),
              f"csv: {row}")
        check(abs(float(row["roof_share"]) - float(row["roof_time_ns"]) / float(row["time_ns"])) < 1e-3, f"csv: {row}")
    document = json.loads((folder / "t.json").read_text(encoding="utf-8"))
    check(len(document["rows"]) == 3 and document["schema"].startswith("tetrad.bench/"), "json")
    for row in document["rows"]:
        # An int8 row is judged by the int8 rate.
        rate = document["roof"]["int8_op_per_s"]
        operations = 2.0 * row["m"] * row["n"] * row["k"]
        check(row["roof_by"] in ("memory", "int8") and row["roof_time_ns"] >= 0.999 * operations / rate * 1e9, f"roof: {row}")
        check(row["roof_share"] <= 1.0, f"above the roof: {row}")
    check((folder / "t.md").read_text(encoding="utf-8").count("| cpu_w4a8_int8") == 3, "markdown")
    plot = xml.dom.minidom.parse(str(folder / "t.svg"))
    check(plot.documentElement.tagName == "svg" and "cpu_w4a8_int8" in plot.toxml() and "roof, int8" in plot.toxml(), "svg")
    check(not list(folder.glob("*.tmp")), "nothing left behind")
    refused(run(*common, "--out", folder), "TE0661")
    refused(run(*common, "--svg", folder / "no" / "t.svg"), "TE0661")
    (folder / "shapes.txt").write_text("m1 n32 k64\nm1 n32 k65\n", encoding="utf-8")
    result = run(*common)
    refused(result, "TE0105")
    check("shapes.txt:2" in result.stderr, f"the line is named: {result}")

sys.exit(1 if check.failed else 0)
