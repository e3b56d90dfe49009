#!/usr/bin/env bash
# Prints how many compilers may run at once: one per core, and one per 1.5 GiB of available memory.
set -euo pipefail
# shellcheck source=tools/memory.sh
. "$(dirname "$0")/memory.sh"

cores=$(nproc)
jobs=$(($(available_memory_mib) / 1536))
if [ "$jobs" -gt "$cores" ]; then jobs=$cores; fi
if [ "$jobs" -lt 1 ]; then jobs=1; fi
echo "$jobs"
