#!/usr/bin/env python3
"""Writes tests/data/checkpoint: small NVFP4 checkpoints made without Tetrad, and the values that they stand for.

The files are laid out by the safetensors package, elements and scales are ml_dtypes' float4_e2m1fn and float8_e4m3fn,
names and shapes are the producers'. Needs numpy, ml_dtypes, safetensors; the seed is fixed, so a
second run gives the same bytes.
"""

import argparse
import pathlib

import ml_dtypes
import numpy as np
import safetensors.numpy

SEED = 20261129


def save(path: pathlib.Path, tensors: dict, metadata: dict | None = None) -> None:
    path.write_bytes(safetensors.numpy.save(tensors, metadata))


def weight(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes as bytes [n, k/2], scales [n, k/16] and the decoded product of both in float64 [n, k]."""
    codes = rng.integers(0, 16, size=(n, k), dtype=np.uint8)
    # Every scale from the smallest subnormal to 448, and some zeros.
    scale_bytes = rng.integers(0, 0x7F, size=(n, k // 16), dtype=np.uint8)
    scales = scale_bytes.view(ml_dtypes.float8_e4m3fn)
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    packed = (codes[:, 0::2] | (codes[:, 1::2] << 4)).astype(np.uint8)
    return packed, scales, values * np.repeat(scales.astype(np.float64), 16, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder, tests/data/checkpoint")
    out = parser.parse_args().out
    rng = np.random.default_rng(SEED)
    expected = {}

    # compressed-tensors: global scales are divisors of shape [1]; one layer W4A4, one W4A16.
    tensors = {"norm.weight": rng.standard_normal(48).astype(ml_dtypes.bfloat16)}
    for name, n, k, static in (("model.layers.0.mlp.up_proj", 5, 48, True), ("model.layers.0.self_attn.o_proj", 3, 32, False)):
        packed, scales, product = weight(rng, n, k)
        divisor = np.float32(rng.uniform(200.0, 3000.0))
        tensors[f"{name}.weight_packed"] = packed
        tensors[f"{name}.weight_scale"] = scales
        tensors[f"{name}.weight_global_scale"] = np.array([divisor], dtype=np.float32)
        if static:
            tensors[f"{name}.input_global_scale"] = np.array([rng.uniform(10.0, 90.0)], dtype=np.float32)
        expected[f"ct.{name}"] = (product * (1.0 / np.float64(divisor))).astype(np.float32)
    save(out / "compressed_tensors.safetensors", tensors, {"format": "pt"})

    # ModelOpt: global scales are multipliers of shape []; the second layer has an older exporter's BF16 scale.
    tensors = {"lm_head.weight": rng.standard_normal((4, 16)).astype(ml_dtypes.bfloat16)}
    for name, n, k, dtype in (("model.layers.0.mlp.down_proj", 2, 64, np.float32), ("model.layers.1.self_attn.o_proj", 7, 16, ml_dtypes.bfloat16)):
        packed, scales, product = weight(rng, n, k)
        multiplier = np.array(rng.uniform(1e-4, 5e-3)).astype(dtype)
        tensors[f"{name}.weight"] = packed
        tensors[f"{name}.weight_scale"] = scales
        tensors[f"{name}.weight_scale_2"] = multiplier
        tensors[f"{name}.input_scale"] = np.array(rng.uniform(1e-3, 1e-2), dtype=np.float32)
        expected[f"mo.{name}"] = (product * np.float64(multiplier)).astype(np.float32)
    save(out / "modelopt.safetensors", tensors, {"format": "pt"})

    save(out / "expected.safetensors", expected)


if __name__ == "__main__":
    main()
