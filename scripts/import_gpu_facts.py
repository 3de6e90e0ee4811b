#!/usr/bin/env python3
"""Makes data/devices/*.json (schema tetrad.device/1.0, docs/devices.md) from a collection of GPU facts.

    scripts/import_gpu_facts.py FACTS.json OUT_DIR

FACTS.json (schema gpu-facts/1) holds, per device, facts {value, unit, source, certainty, note, alternatives}. This script
  - keeps a value only with a source: one without becomes unknown, and the note says which number is in circulation;
  - weighs every contradiction: a fact with alternatives needs an entry in WHY, else the script stops;
  - replaces what a better source settles (SETTLED), and derives the fp32 peak from SMs, lanes and clock (LANES).
"""
import json
import pathlib
import re
import sys

# slug in FACTS: (our slug, name as the driver or NVIDIA gives it, aliases)
DEVICES = {
    "a100-sxm-80gb": ("a100", "NVIDIA A100-SXM4-80GB", ["a100-sxm", "a100-80gb"]),
    "rtx-3090": ("rtx-3090", "NVIDIA GeForce RTX 3090", ["3090"]),
    "rtx-4090": ("rtx-4090", "NVIDIA GeForce RTX 4090", ["4090"]),
    "l40s": ("l40s", "NVIDIA L40S", []),
    "h100-sxm": ("h100-sxm", "NVIDIA H100 80GB HBM3", ["h100", "h100-sxm5"]),
    "h100-pcie": ("h100-pcie", "NVIDIA H100 PCIe", []),
    "h200-sxm": ("h200", "NVIDIA H200", ["h200-sxm"]),
    "b200": ("b200", "NVIDIA B200", ["b200-sxm"]),
    "b300": ("b300", "NVIDIA B300 SXM6 AC", ["b300-sxm"]),
    "jetson-agx-thor": ("jetson-thor", "NVIDIA Thor", ["thor", "jetson-agx-thor", "jetson-t5000"]),
    "rtx-5070-ti": ("rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", ["5070-ti"]),
    "rtx-5080": ("rtx-5080", "NVIDIA GeForce RTX 5080", ["5080"]),
    "rtx-5090": ("rtx-5090", "NVIDIA GeForce RTX 5090", ["5090"]),
    "rtx-pro-6000-ws": (
        "rtx-pro-6000",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        ["rtx-pro-6000-ws", "rtx-pro-6000-workstation", "pro-6000"],
    ),
    "rtx-pro-6000-maxq": (
        "rtx-pro-6000-max-q",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ["rtx-pro-6000-maxq"],
    ),
    "rtx-pro-6000-server": ("rtx-pro-6000-server", "NVIDIA RTX PRO 6000 Blackwell Server Edition", []),
    "gb10": ("gb10", "NVIDIA GB10", ["dgx-spark", "spark"]),
}

# key in FACTS: (our key, factor to our unit, whole number)
FACTS = {
    "sm_count": ("sms", 1, True),
    "smem_per_sm_bytes": ("smem_per_sm_bytes", 1, True),
    "smem_per_block_optin_bytes": ("smem_per_block_optin_bytes", 1, True),
    "l2_mib": ("l2_bytes", 2**20, True),
    "memory_gb": ("memory_bytes", 10**9, True),
    "boost_clock_mhz": ("boost_clock_hz", 1e6, False),
    "mem_bw_datasheet_gbps": ("bandwidth_spec_bytes_per_s", 1e9, False),
    "mem_bw_measured_read_gbps": ("bandwidth_read_bytes_per_s", 1e9, False),
    "fp16_bf16_dense_fp32acc_tflops": ("peak_bf16_flop_per_s", 1e12, False),
    "fp8_dense_fp32acc_tflops": ("peak_fp8_flop_per_s", 1e12, False),
    "int8_dense_tops": ("peak_int8_op_per_s", 1e12, False),
    "fp4_nvfp4_dense_tflops": ("peak_nvfp4_flop_per_s", 1e12, False),
    "unified_memory": ("unified_memory", None, False),
}
ORDER = [
    "sms", "smem_per_sm_bytes", "smem_per_block_optin_bytes", "registers_per_sm", "l2_bytes", "memory_bytes",
    "boost_clock_hz", "bandwidth_spec_bytes_per_s", "bandwidth_read_bytes_per_s", "peak_fp32_flop_per_s",
    "peak_bf16_flop_per_s", "peak_fp8_flop_per_s", "peak_int8_op_per_s", "peak_nvfp4_flop_per_s", "unified_memory",
]
CERTAINTY = {
    "vendor": "vendor",
    "third-party measured": "third_party_measured",
    "third-party listed": "listed",
    "memory-unverified": "memory",
}
VIA = {"relayed": "quoted by a third party, the document itself was not read"}
NO_SOURCE = {None, "", "memory", "source not kept"}

# Where a better source than the collection's settles a value, or where the collection names none: the value in the
# collection's unit, its source, certainty, and the weighing.
SETTLED = {
    ("l40s", "sm_count"): (
        142,
        "https://computizer.com/products/nvidia-l40s-48gb-gddr6-graphics-card-for-ai-and-graphics-performance",
        "listed",
        "18176 CUDA cores / 128 agrees",
    ),
    ("rtx-5080", "mem_bw_datasheet_gbps"): (
        960,
        "https://biggo.com/news/202501291423_nvidia-rtx-5080-review",
        "listed",
        "30 Gb/s per pin x 256 bit; 1024 (32 Gb/s) is from tables made before the launch",
    ),
    ("rtx-5070-ti", "mem_bw_datasheet_gbps"): (
        896,
        "https://www.topcpu.net/fr/news/nvidia-rtx-50-series-specifications-revealed-rtx-5070-matches-4090-performance",
        "listed",
        "28 Gb/s per pin x 256 bit",
    ),
    ("jetson-agx-thor", "boost_clock_mhz"): (
        1575,
        "https://developer.ridgerun.com/wiki/index.php/NVIDIA_Jetson_AGX_Thor/Introduction/SoM_Overview",
        "listed",
        "maximum GPU frequency; another report says 1570 (https://torring.dev/blog/2026/rtx-spark-throttling/)",
    ),
    ("gb10", "l2_mib"): (24, "https://github.com/huggingface/kernels/pull/283", "third_party_measured", None),
    ("gb10", "mem_bw_measured_read_gbps"): (
        232,
        "https://github.com/antirez/ds4/issues/773",
        "third_party_measured",
        "a saturating read kernel gave 231 to 234 there; 218 is reported for ordinary kernels "
        "(https://github.com/huggingface/kernels/pull/283); 261.4 (96 % of the data sheet) circulates without a source and "
        "is not used",
    ),
    ("h200-sxm", "mem_bw_measured_read_gbps"): (
        4470,
        "measured on one NVIDIA H200 on 2026-11-29, driver 580.159.04, CUDA 13.0: fp32 sum over 4 GiB",
        "measured_here",
        "a public sweep reads 3888 with a kernel that is not made for DRAM "
        "(github:RRZE-HPC/gpu-benches gpu-l2-cache/h200.txt @1038c5d0d0f4): a floor",
    ),
}

# Why the collection's value was taken over its alternatives.
WHY = {
    ("l40s", "l2_mib"): "a latency sweep on the same die outranks a spec database",
    ("h100-sxm", "mem_bw_datasheet_gbps"): "the lower figure is of one reference system, the device reports 3352",
    ("h100-pcie", "mem_bw_datasheet_gbps"): "NVIDIA's file outranks a generated target description",
    ("h200-sxm", "l2_mib"): "a device reading outranks a description that looks hand-made",
    ("b200", "sm_count"): "three independent device readings agree",
    ("b200", "mem_bw_datasheet_gbps"): "bus width x clock read from the device gives 7672; 8000 is rounded",
    ("b300", "sm_count"): "the only device reading",
    ("b300", "memory_gb"): "the advertised size; less is usable",
    ("b300", "mem_bw_datasheet_gbps"): "NVIDIA's total over 8 GPUs, between the other two",
    ("b300", "fp4_nvfp4_dense_tflops"): "two NVIDIA documents agree; 14000 is rounded",
    ("b300", "int8_dense_tops"): "NVIDIA's file outranks a table that repeats the B200",
    ("jetson-agx-thor", "l2_mib"): "the smaller value is of a smaller part",
    ("rtx-pro-6000-ws", "fp4_nvfp4_dense_tflops"): "2000 is the marketing figure, rounded",
    ("rtx-pro-6000-maxq", "boost_clock_mhz"): "follows from the data sheet's AI TOPS; the databases contradict each other",
    ("rtx-pro-6000-server", "boost_clock_mhz"): "product brief and nvidia-smi agree",
    ("rtx-pro-6000-server", "mem_bw_datasheet_gbps"): "the newest data sheet of this very edition; 1792 is the Workstation "
    "card's figure, repeated by catalogues",
    ("rtx-pro-6000-server", "fp4_nvfp4_dense_tflops"): "NVIDIA's file states clock and rate; 2000 is rounded",
    ("gb10", "boost_clock_mhz"): "the clock that NVIDIA's FP32 rate implies; under load 2140 to 2300 is reported",
    ("gb10", "fp16_bf16_dense_fp32acc_tflops"): "93 to 95 TFLOP/s were reached, which rules out the GeForce ratio",
}

# FP32 lanes per SM: (lanes, source, certainty)
XLA = "github:openxla/xla xla/backends/gpu/target_config/specs"
GB202 = "NVIDIA RTX Blackwell PRO whitepaper (128 FP32 cores per SM), quoted in https://github.com/NVIDIA/cudnn-frontend/pull/1164"
LANES = {
    "8.0": (64, f"{XLA}/a100_sxm_80.txtpb fpus_per_core", "listed"),
    "8.6": (128, f"{XLA}/a6000.txtpb fpus_per_core", "listed"),
    "8.9": (128, "16384 CUDA cores of the RTX 4090 over 128 SMs, https://www.nvidia.com/en-gb/geforce/graphics-cards/compare/", "vendor"),
    "9.0": (128, f"{XLA}/h100_sxm.txtpb fpus_per_core", "listed"),
    "10.0": (128, f"{XLA}/b200.txtpb fpus_per_core", "listed"),
    "10.3": (128, f"{XLA}/b300.txtpb fpus_per_core", "listed"),
    "11.0": (
        128,
        "https://forums.developer.nvidia.com/t/clarification-on-cuda-core-and-tensor-core-counts-for-jetson-agx-thor/356355",
        "listed",
    ),
    "12.0": (128, GB202, "vendor"),
    "12.1": (128, "6144 CUDA cores over 48 SMs, https://dgx-spark.warehack.ing/hardware/", "vendor"),
}
TRAITS = "github:NVIDIA/cccl libcudacxx/include/cuda/__device/arch_traits.h @004ad1986064"


def clean(text):
    """Repairs joints that the collection's writer left: empty parentheses, missing separators, trailing words."""
    if text is None:
        return ""
    text = text.replace("tablegithub:", "table; github:").replace("Table 3row", "Table 3, row")
    text = text.replace("Table 3;;", "Table 3;").replace(";measures", "; measures")
    text = re.sub(r"\s*\(\s*\)", "", text)
    return re.sub(r"(\s+and|[,;\s])+$", "", text.strip())


def weigh(slug, key, fact):
    """(value, source, certainty, note) of one fact of the collection."""
    if (slug, key) in SETTLED:
        value, source, certainty, note = SETTLED[slug, key]
        return value, source, certainty, note or ""
    notes = [clean(fact.get("note"))]
    if fact.get("value") is None:
        return None, "", "unknown", notes[0] or "not found"
    value, source = fact["value"], clean(fact["source"])
    if source in NO_SOURCE:
        return None, "", "unknown", "; ".join(n for n in [f"{value} {fact['unit']} circulates without a source", notes[0]] if n)
    notes.append(VIA.get(fact.get("via"), ""))
    if fact.get("alternatives"):
        if (slug, key) not in WHY:
            sys.exit(f"{slug} {key}: a contradiction without a weighing (add it to WHY)")
        others = "; ".join(f"{a['value']} ({clean(a['source'])})" for a in fact["alternatives"])
        notes += [f"contradicted by {others}", f"taken because: {WHY[slug, key]}"]
    return value, source, CERTAINTY[fact["certainty"]], "; ".join(n for n in notes if n)


def entry(value, source, certainty, note):
    if value is None:
        return {"value": None, "note": note}
    fact = {"value": value, "source": source, "certainty": certainty}
    return fact | {"note": note} if note else fact


def scaled(value, factor, whole):
    if factor is None:
        return value
    result = value * factor
    if whole:
        if result != int(result):
            sys.exit(f"{value} x {factor} is no whole number")
        return int(result)
    return float(f"{result:.12g}")


def device(raw):
    slug, name, aliases = DEVICES[raw["slug"]]
    facts = raw["facts"]
    cc = facts["compute_capability"]
    out = {}
    for key, (ours, factor, whole) in FACTS.items():
        value, source, certainty, note = weigh(raw["slug"], key, facts[key])
        out[ours] = entry(None if value is None else scaled(value, factor, whole), source, certainty, note)
    out["registers_per_sm"] = entry(65536, TRAITS, "vendor", f"32-bit registers, from compute capability {cc['value']}")
    lanes, lane_source, lane_certainty = LANES[cc["value"]]
    sms, clock = out["sms"]["value"], out["boost_clock_hz"]["value"]
    out["peak_fp32_flop_per_s"] = entry(
        float(f"{sms * lanes * 2 * clock:.6g}"),
        f"arithmetic: {sms} SMs x {lanes} lanes x 2 x {clock / 1e6:g} MHz; lanes: {lane_source}",
        lane_certainty,
        "",
    )
    return {
        "schema": "tetrad.device/1.0",
        "name": name,
        "slug": slug,
        "aliases": aliases,
        "compute_capability": cc["value"],
        "compute_capability_source": clean(cc["source"]),
        "facts": {key: out[key] for key in ORDER},
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    collection = json.loads(pathlib.Path(sys.argv[1]).read_text())
    if collection["schema"] != "gpu-facts/1":
        sys.exit(f"need schema gpu-facts/1, have {collection['schema']}")
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    known = {raw["slug"]: raw for raw in collection["devices"]}
    for slug in DEVICES:
        made = device(known[slug])
        (out / f"{made['slug']}.json").write_text(json.dumps(made, indent=2, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
