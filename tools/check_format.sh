#!/usr/bin/env bash
# Are all C++ files as clang-format leaves them? `make format` mends what this reports.
# Exit code 77 (skipped) without clang-format 14: other versions format some lines differently.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly kVersion=14

formatter=clang-format-$kVersion
command -v "$formatter" >/dev/null || formatter=clang-format
found=$("$formatter" --version 2>/dev/null | sed -E 's/.*version ([0-9]+).*/\1/') || found=none
if [ "${found:-none}" != $kVersion ]; then
  echo "check_format: skipped, needs clang-format $kVersion, found ${found:-none}"
  exit 77
fi
case ${1:-check} in
  check) action=(--dry-run -Werror) ;;
  fix) action=(-i) ;;
  *)
    echo "check_format: unknown argument '$1': give 'check' (the default) or 'fix'" >&2
    exit 2
    ;;
esac
folders=()
for folder in slimpack apps tests bench python; do
  if [ -d "$folder" ]; then folders+=("$folder"); fi
done
find "${folders[@]}" \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 -r "$formatter" "${action[@]}"
