#!/bin/bash
# Times everything that has a bar on this host: kernels, quantisers, the run-time choice.
# scripts/run_bench.sh [OUT.json]; needs the build folder in TETRAD_BUILD and a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${TETRAD_BUILD:-build/cpu}
out=${1:-build/bench-kernels.json}
"$build/bench/quantize/quantize_bench"
"$build/bench/select/select_bench"
"$build/bench/kernels/tetrad_bench_kernels" "$out"
echo "kernels: $out"
