#!/bin/sh
# Builds the fuzz targets with clang, ASan and UBSan, and runs each for SECONDS from its corpus.
#   scripts/fuzz.sh [SECONDS=60] [TARGET...]
# Inputs that libFuzzer adds stay in the build folder; a finding is printed, kept as build/fuzz/findings/<target>-*, and makes
# the exit code 1.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
seconds=${1:-60}
[ $# -gt 0 ] && shift
build=${TETRAD_FUZZ_BUILD:-$root/build/fuzz}
cmake -S "$root" -B "$build" -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DTETRAD_FUZZ=ON -DTETRAD_SANITIZE=address -DCMAKE_CXX_FLAGS=-fsanitize=undefined -DTETRAD_BENCH=OFF >/dev/null
if [ $# -eq 0 ]; then
  set -- $(cd "$root/tests/fuzz" && ls fuzz_*.cpp | sed 's/^fuzz_//; s/\.cpp$//')
fi
mkdir -p "$build/findings"
status=0
for target in "$@"; do
  cmake --build "$build" --target "fuzz_$target"
  mkdir -p "$build/corpus/$target"
  if ! "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" "$root/tests/fuzz/corpus/$target"; then
    echo "finding in fuzz_$target" >&2
    status=1
  fi
done
exit $status
