#!/bin/bash
# clang-tidy 14 with the checks of .clang-tidy over the sources, or over the files named. The build of the preset must be
# configured. Sources that Highway compiles once per target are left out unless named: minutes each, most of it macros.
#   scripts/tidy.sh [FILE...]        TETRAD_BUILD=build/cpu
set -euo pipefail
cd "$(dirname "$0")/.."
build=${TETRAD_BUILD:-build/cpu}
if [[ ! -e $build/compile_commands.json ]]; then
  echo "tidy: $build is not configured: cmake --preset cpu" >&2
  exit 2
fi
if (($# > 0)); then
  files=("$@")
else
  mapfile -t files < <(git ls-files 'src/*.cpp' 'tools/*.cpp' 'examples/*.cpp' | xargs grep -L 'hwy/foreach_target.h')
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Prints what is found only: the count of suppressed warnings goes to the log.
if printf '%s\n' "${files[@]}" | xargs -P "${TETRAD_JOBS:-$(nproc)}" -n 1 clang-tidy-14 --quiet -p "$build" 2>"$log"; then
  echo "tidy: ${#files[@]} files, no finding"
else
  grep -v 'warnings generated\|warnings treated as errors' "$log" >&2 || true
  exit 1
fi
