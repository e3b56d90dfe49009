#!/usr/bin/env bash
# Compiles FlashAttention-4's Hopper kernels (compile.py) and makes all their launches on a pretended
# GPU. The library lies in the build folder then, where programs and the Python module find it.
#
#   tools/fa4/build.sh BUILD [D:GROUP…]
#
# SLIMPACK_FA4_PYTHON names an interpreter that has the packages of requirements-fa4.txt; without it
# they are installed in BUILD/fa4/venv (4 GB).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath -m "$1")
shift
folder=$build/fa4
python=${SLIMPACK_FA4_PYTHON:-$folder/venv/bin/python}
mkdir -p "$folder"
if [ -z "${SLIMPACK_FA4_PYTHON:-}" ]; then
  [ -x "$python" ] || python3 -m venv "$folder/venv"
  if ! cmp -s requirements-fa4.txt "$folder/installed.txt"; then
    echo "installing FlashAttention-4 and its compiler (large, this takes a while)"
    "$python" -m pip install -q -r requirements-fa4.txt
    cp requirements-fa4.txt "$folder/installed.txt"
  fi
fi
"$python" -W ignore tools/fa4/compile.py "$folder" ${1:+--shapes "$@"}

cuda=$("$python" -W ignore -c 'import pathlib, site; print(next(
    home for place in site.getsitepackages() for home in pathlib.Path(place).glob("nvidia/cu13")))')
flags=(-std=c++20 -O2 -Wall -Wextra -I. -I"$cuda/include")
"${CXX:-g++}" "${flags[@]}" tests/fa4/call_fa4.cpp "$cuda/lib/libcudart.so.13" -ldl -o "$folder/call_fa4"
"${CXX:-g++}" "${flags[@]}" -shared -fPIC tests/fa4/pretended_cuda.cpp -o "$folder/pretended_cuda.so"
LD_LIBRARY_PATH=$cuda/lib LD_PRELOAD=$folder/pretended_cuda.so \
  "$folder/call_fa4" "$folder/libslimpack_fa4.so" launch >"$folder/launches.txt"
cases=$(grep -c '^D = ' "$folder/launches.txt")
launches=$(grep -c '^launch' "$folder/launches.txt")
# One forward and five backward; where no heads share keys, three, as dK and dV need no conversion.
alone=$(grep -c '^D = .*, 1 query' "$folder/launches.txt" || true)
expected=$((6 * cases - 2 * alone))
[ "$launches" -eq "$expected" ] ||
  { echo "$launches launches on the pretended GPU, not $expected; see $folder/launches.txt" >&2; exit 1; }
cp "$folder/libslimpack_fa4.so" "$build/"
echo "$build/libslimpack_fa4.so: $launches launches on a pretended GPU"
