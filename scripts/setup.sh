#!/bin/bash
# Installs the Debian packages that are missing. Quiet when there is nothing to do.
#   scripts/setup.sh          what a build and its tests need
#   scripts/setup.sh check    also what scripts/check.sh needs (clang 14 for formatting, tidying and fuzzing)
set -euo pipefail

packages=(make g++ cmake ninja-build pkg-config python3 python3-venv
  libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev
  liblz4-dev libzstd-dev libzip-dev)
if [[ "${1:-}" == check ]]; then
  packages+=(git clang clang-format-14 clang-tidy-14 libclang-rt-14-dev)
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; needed are these Debian packages or their like: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  if [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" != installed ]]; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

echo "setup: installing ${missing[*]}" >&2
root=()
if ((EUID != 0)); then
  root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >"$log" 2>&1
}
# Package lists may be absent or stale: one refresh, then a second try.
if ! install; then
  "${root[@]}" apt-get update -qq >>"$log" 2>&1 || true
  if ! install; then
    cat "$log" >&2
    echo "setup: the packages above could not be installed" >&2
    exit 3
  fi
fi
