#!/bin/bash
# Makes the fixtures of tests/data anew with other people's code (CUDA's headers, ml_dtypes, safetensors, torch), in a virtual
# environment under build/. Several hundred MB are installed. `git diff tests/data` afterwards shows what changed: nothing should.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/oracles
if [[ ! -x $venv/bin/python ]]; then
  python3 -m venv "$venv"
fi
"$venv/bin/pip" -q install numpy ml_dtypes safetensors
echo "ml_dtypes"
"$venv/bin/python" scripts/oracles/ml_dtypes_fixtures.py > build/ml_dtypes.txt && mv build/ml_dtypes.txt tests/data/format/ml_dtypes.txt
echo "safetensors"
"$venv/bin/python" scripts/oracles/checkpoint_fixtures.py --out tests/data/checkpoint
cuda=${CUDA_HOME:-/usr/local/cuda}
if [[ -e $cuda/include/cuda_fp4.h ]]; then
  echo "CUDA headers"
  g++ -std=c++20 -O2 -I"$cuda/include" scripts/oracles/cuda_fixtures.cpp -o build/cuda_fixtures
  build/cuda_fixtures > build/cuda.txt && mv build/cuda.txt tests/data/format/cuda.txt
else
  echo "CUDA headers: none under $cuda, skipped (set CUDA_HOME)"
fi
echo "torch and transformers"
"$venv/bin/pip" -q install torch transformers tokenizers
model=$(python3 scripts/fetch_model.py)
"$venv/bin/python" scripts/oracles/minilm_fixtures.py "$model" > build/minilm_expected.json
mv build/minilm_expected.json tests/data/run/minilm_expected.json
git --no-pager diff --stat -- tests/data
