#!/bin/bash
# The first real run: quantises all-MiniLM-L6-v2 to NVFP4, runs its forward pass with every linear layer through Tetrad, and
# shows what would be chosen on three GPUs.   scripts/run_demo.sh [BUILD_FOLDER]   (default: the folder of $TETRAD)
set -euo pipefail
cd "$(dirname "$0")/.."
if (($# > 0)); then
  build=$1
elif [[ -n "${TETRAD:-}" ]]; then
  build=$(cd "$(dirname "$TETRAD")/../.." && pwd)
else
  build=build/cpu
fi
tetrad=$build/tools/tetrad/tetrad
embed=$build/tools/embed/tetrad-embed
work=build/demo
sentences=tests/data/run/sentences.txt

say() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "${*/#$build\/tools\/*\//}" >&2; "$@"; }

say "the model"
model=$(python3 scripts/fetch_model.py)
echo "$model (all-MiniLM-L6-v2, 22.7 M parameters, fp32)"
rm -rf "$work"
mkdir -p "$work"
common=(--method four-over-six --convention compressed-tensors --ignore 'embeddings.*' --ignore 'pooler.*')

say "quantise to NVFP4, activations untouched (W4A16)"
run "$tetrad" -q quantize "$model" "$work/w4a16" "${common[@]}" | tail -n 8
say "what the checkpoint holds"
run "$tetrad" inspect "$work/w4a16"
say "inputs of every layer, for W4A4"
run "$embed" "$model" --sentences "$sentences" --record-amax "$work/input_amax.json"
say "quantise to NVFP4 with static activation scales (W4A4)"
run "$tetrad" -q quantize "$model" "$work/w4a4" "${common[@]}" --scheme w4a4 --input-amax "$work/input_amax.json" | tail -n 8
say "the forward pass, every linear layer through Tetrad"
run "$embed" "$model" --sentences "$sentences" --quantized "$work/w4a16" --quantized "$work/w4a4"
say "single layers on this host"
run "$tetrad" run "$work/w4a16" --layer 'encoder.layer.0.*' --m 1,64 --source "$model"
for device in gb10 rtx-pro-6000 h200; do
  say "the plan for $device"
  run "$tetrad" plan "m1,16,64,256,1024,4096 n34816 k5120" --device "$device"
done
