#!/usr/bin/env bash
# Runs a part of a test run and notes how many seconds it took in build/seconds/PART.
#   tools/timed.sh PART COMMAND…
set -euo pipefail
cd "$(dirname "$0")/.."

part=$1
mkdir -p build/seconds
start=$(date +%s.%N)
"${@:2}"
echo "$(date +%s.%N) - $start" | awk '{printf "%.1f\n", $1 - $3}' >"build/seconds/$part"
