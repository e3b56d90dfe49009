# shellcheck shell=bash
# Sourced by the scripts beside it.

# MiB that can be used now: what the kernel calls available, or less in a limited container.
available_memory_mib() {
  local mib limit
  mib=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [ "$limit" != max ] && [ $((limit / 1048576)) -lt "$mib" ]; then
    mib=$((limit / 1048576))
  fi
  echo "$mib"
}
