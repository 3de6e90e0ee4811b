#!/bin/bash
# Fails when a C++ file is not as clang-format 14 writes it.   scripts/check_format.sh [--fix] [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
need=14.0.6
tool=$(command -v clang-format-14 || command -v clang-format || true)
have=$([[ -n "$tool" ]] && "$tool" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1 || echo none)
if [[ "$have" != "$need" ]]; then
  echo "check_format: need clang-format $need, have $have (Debian package clang-format-14)" >&2
  exit 3
fi
mode=(--dry-run --Werror)
if [[ "${1:-}" == --fix ]]; then
  mode=(-i)
  shift
fi
if (($# > 0)); then
  files=("$@")
else
  mapfile -t files < <(find include src tools tests bench examples -name '*.[ch]pp' | sort)
fi
"$tool" "${mode[@]}" "${files[@]}"
