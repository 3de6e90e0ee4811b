#!/bin/bash
# Everything that CI checks, quietly; the last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0
failed=0
mkdir -p build
log=build/check.log

# step NAME COMMAND...: one check; its output is shown when it fails.
step() {
  local name=$1
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "--- $name failed"
    tail -60 "$log"
  fi
}

# tests NAME COMMAND...: as step, for a command whose last line is "N passed, N failed"; its counts are added.
tests() {
  local name=$1 last
  shift
  "$@" >"$log" 2>&1
  local code=$?
  last=$(tail -1 "$log")
  if [[ "$last" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    if ((code != 0 && BASH_REMATCH[2] == 0)); then
      failed=$((failed + 1))
    fi
  else
    failed=$((failed + 1))
  fi
  if ((code != 0)); then
    echo "--- $name failed"
    tail -80 "$log"
  fi
}

step setup scripts/setup.sh check
step format scripts/check_format.sh
# Layers, docs, headers, golden files and the install are tests of this build; warnings are errors. Where nvcc is, the
# GPU code is compiled with it, for every device of its list; it runs on machines with a GPU alone.
preset=ci
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
  preset=cuda
fi
tests tests make -s test PRESET=$preset
step "sanitizer build" scripts/build.sh asan
tests "sanitizer tests" python3 scripts/run_tests.py build/asan -E '^(install|workshop)\.'
step fuzz env CMAKE_GENERATOR=Ninja scripts/fuzz.sh 60
echo "$passed passed, $failed failed"
((failed == 0))
