#!/bin/bash
# Configures and builds one preset; quiet unless it fails.   scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
log=build/$preset.log
mkdir -p build
targets=()
if (($# > 0)); then
  targets=(--target "$@")
fi
if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -j"$(nproc)" "${targets[@]}"; } >"$log" 2>&1; then
  grep -nE -A6 '(error|FAILED|CMake Error)' "$log" | head -80 >&2 || true
  echo "build: preset $preset failed; the whole log is $log" >&2
  exit 1
fi
