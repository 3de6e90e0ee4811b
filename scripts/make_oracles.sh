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
if [[ -x $cuda/bin/nvcc ]]; then
  echo "cubins: ptxas of four toolkits, nvdisasm"
  "$venv/bin/pip" -q install nvidia-cuda-nvdisasm==13.5.37
  NVDISASM=$("$venv/bin/python" -c 'import glob, sys; print(glob.glob(sys.prefix + "/lib/python3*/site-packages/nvidia/*/bin/nvdisasm")[0])')
  export NVDISASM
  for version in 12.4.131 12.8.93 12.9.86; do
    [[ -d build/nvcc-$version ]] || "$venv/bin/pip" -q install --no-deps -t "build/nvcc-$version" "nvidia-cuda-nvcc-cu12==$version"
    export "PTXAS_${version//./_}=$PWD/build/nvcc-$version/nvidia/cuda_nvcc/bin/ptxas"
  done
  mkdir -p build/cubins
  "$venv/bin/python" scripts/oracles/cubin_fixtures.py tests/data/binary/cubin --all build/cubins
  "$venv/bin/python" scripts/oracles/derive_opcodes.py derive build/cubins/*.cubin tests/data/binary/cubin/*.cubin > build/opcodes.def
  # The committed table has these rows and those that only real libraries showed; its comments count both.
  if ! comm -23 <(sed 's, *//.*,,' build/opcodes.def | sort) <(sed 's, *//.*,,' src/binary/cubin/opcodes.def | sort) | diff - /dev/null; then
    echo "rows above are not in src/binary/cubin/opcodes.def" >&2
    exit 4
  fi
  "$venv/bin/python" scripts/oracles/derive_opcodes.py check src/binary/cubin/opcodes.def build/cubins/*.cubin tests/data/binary/cubin/*.cubin
else
  echo "cubins: no nvcc under $cuda, skipped (set CUDA_HOME)"
fi
echo "torch and transformers"
"$venv/bin/pip" -q install torch transformers tokenizers
model=$(python3 scripts/fetch_model.py)
"$venv/bin/python" scripts/oracles/minilm_fixtures.py "$model" > build/minilm_expected.json
mv build/minilm_expected.json tests/data/run/minilm_expected.json
git --no-pager diff --stat -- tests/data
