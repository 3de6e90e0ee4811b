#!/usr/bin/env python3
"""Writes data/measurements/gb10.json and h200.json from the published tables.

usage: import_measurements.py --problem the-problem.md --baselines h200-baselines.jsonl --humming h200-humming.jsonl
                              [--out data/measurements]

GB10: a Markdown table of times relative to W4A4, one row per M. H200: one JSON object per line, microseconds per (N, K, M).
A value that its own row calls suspect is replaced by the later run's that the row quotes, and says so in its note.
"""
import argparse
import json
import pathlib
import re

GB10_SHAPE = (34816, 5120)
GB10_COLUMNS = ["peer:w4a16-cutedsl", "peer:marlin", "peer:fp8", "peer:bf16"]
GB10_SOURCE = ("field report 2026-09, table 'measured per GEMM on GB10': gate_up of a 27B model, CUDA-graph replay, time "
               "relative to W4A4")
H200_SOURCE = ("h200-baselines.jsonl, 2026-11-29: one NVIDIA H200, CUDA 13.0, driver 580.159.04, torch 2.11.0+cu130; CUDA-graph "
               "replay of 24 calls over several weight sets (cold L2), median of 7")
HUMMING_SOURCE = ("h200-humming.jsonl, 2026-11: Humming a6455de on one NVIDIA H200, NVRTC 13.0; CUDA-graph replay, cold L2")


def problem(m, n, k):
    return f"m{m} n{n} k{k} a=bf16 w=nvfp4 acc=w4a4 out=bf16"


def gb10(path):
    rows = []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 5 or not all(re.fullmatch(r"[0-9.]+", cell) for cell in cells):
            continue
        m, *ratios = cells
        for kernel, ratio in zip(GB10_COLUMNS, ratios):
            row = {"kernel": kernel, "device": "gb10", "problem": problem(int(m), *GB10_SHAPE), "ratio": float(ratio),
                   "ratio_of": "peer:w4a4"}
            if kernel == "peer:w4a16-cutedsl" and m == "4096":
                row["note"] = "the kernel's own collapse: 20-22 TFLOP/s falling to 8-10; reported apart"
            rows.append(row)
    if len(rows) != 24:
        raise SystemExit(f"{path}: need 6 rows of 4 ratios, have {len(rows)} values")
    return rows


def later_run(mark):
    """Mean of the numbers in 'a later run gave 19.3-20.5 us'."""
    values = [float(v) for v in re.search(r"gave ([0-9.]+)(?:-([0-9.]+))? us", mark).groups() if v]
    return sum(values) / len(values)


def h200(baselines, humming):
    rows = []
    for record in map(json.loads, baselines.read_text().splitlines()):
        for kernel, key in (("peer:marlin", "marlin_us"), ("peer:bf16", "bf16_us"), ("peer:fp8", "fp8_us")):
            row = {"kernel": kernel, "device": "h200", "problem": problem(record["M"], record["N"], record["K"])}
            us = record[key]
            if kernel == "peer:marlin" and "marlin_suspect" in record:
                row["note"] = f"{record['marlin_suspect']}; the first run gave {us} us"
                us = later_run(record["marlin_suspect"])
            row["time_s"] = round(us * 1e-6, 10)
            rows.append(row)
    for record in map(json.loads, humming.read_text().splitlines()):
        if "humming_us" not in record:  # a configuration that hung
            continue
        row = {"kernel": "peer:humming", "device": "h200", "problem": problem(record["M"], record["N"], record["K"]),
               "time_s": round(record["humming_us"] * 1e-6, 10), "source": HUMMING_SOURCE}
        if record.get("config", "heuristic default") != "heuristic default":
            row["note"] = record["config"]
        rows.append(row)
    return rows


def write(path, source, rows):
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    path.write_text('{\n  "schema": "tetrad.records/1.0",\n  "source": ' + json.dumps(source) +
                    ',\n  "measurements": [\n' + lines + "\n  ]\n}\n")
    print(f"{path}: {len(rows)} measurements")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("problem", "baselines", "humming"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("data/measurements"))
    args = parser.parse_args()
    write(args.out / "gb10.json", GB10_SOURCE, gb10(args.problem))
    write(args.out / "h200.json", H200_SOURCE, h200(args.baselines, args.humming))


if __name__ == "__main__":
    main()
