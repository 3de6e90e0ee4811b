#!/bin/bash
# The GPU tests and benchmarks as a folder that travels to a machine with a GPU, and their run there.
#   scripts/gpu_check.sh pack BUILD FOLDER   gpu_test, gpu_bench and the libraries they need, from a build of preset cuda
#   scripts/gpu_check.sh run FOLDER OUT      tests, times, and compute-sanitizer where it is found; results into OUT
# run ends with the exit code of the tests.
set -uo pipefail
case "${1:-}" in
pack)
  build=$2 folder=$3
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/lib"
  cp "$build/tests/gpu/gpu_test" "$build/bench/gpu/gpu_bench" "$folder/bin" || exit 1
  # Everything but what belongs to the C library, which the other machine has.
  ldd "$folder/bin/gpu_test" "$folder/bin/gpu_bench" | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | xargs -r cp -Lt "$folder/lib"
  strip "$folder"/bin/*
  ;;
run)
  folder=$2 out=$3
  mkdir -p "$out"
  blas=$(find / -name 'libcublasLt.so.13' -not -path '/proc/*' 2>/dev/null | head -1)
  export LD_LIBRARY_PATH="$folder/lib${blas:+:$(dirname "$blas")}"
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv | tee "$out/device.csv"
  "$folder/bin/gpu_test" --gtest_output="json:$out/gpu_test.json" >"$out/gpu_test.log" 2>&1
  code=$?
  grep -E '^\[  (PASSED|FAILED|SKIPPED)' "$out/gpu_test.log"
  ((code == 0)) || grep -E 'Failure' -A12 "$out/gpu_test.log" | head -60
  "$folder/bin/gpu_bench" "$out/gpu_bench.json" 2>&1 | tee "$out/gpu_bench.log"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
      timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 9 "$folder/bin/gpu_test" \
        --gtest_filter='*Bias*:*Unaligned*:*ExactSums*' >"$out/$tool.log" 2>&1
      echo "$tool: exit $?, $(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$tool.log" | tail -1)"
    done
  fi
  exit "$code"
  ;;
*)
  sed -n '2,6p' "$0"
  exit 2
  ;;
esac
