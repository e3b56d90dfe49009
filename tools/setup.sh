#!/usr/bin/env bash
# Makes this machine ready to build: checks what is missing and installs only that.
#   tools/setup.sh         what the program needs
#   tools/setup.sh tests   what its tests need, too
# Through apt-get (with sudo when not root) come compiler, CMake and libraries; into .venv come the
# packages of requirements.txt (libtorch and HiGHS are in wheels) and of requirements-test.txt.
# SLIMPACK_TORCH_INDEX=URL takes torch from that package index instead of the default one, for
# example https://download.pytorch.org/whl/cpu: 200 MB instead of the CUDA build's gigabytes.
# Exit code 2 after one line on stderr when something is missing that cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/memory.sh
. tools/memory.sh

readonly kFor=${1:-program}
readonly kLog=.cache/setup.log
readonly kStamp=.venv/.setup-complete
readonly kCompiler=${CXX:-g++}
readonly kMinMemoryMib=4096
readonly kMinDiskMib=4096
readonly kNetworkErrors='Could not resolve|Temporary failure|Name or service not known|Failed to fetch|Unable to fetch|Could not connect|Failed to establish|Connection refused|Network is unreachable|timed out|ProxyError|Max retries exceeded'

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 2
}

say() { printf 'setup: %s\n' "$*"; }

# Prints the packages that the build needs and that are not there. Headers are looked for instead
# of packages, so that what was installed by other means counts.
missing_packages() {
  local tool
  for tool in make cmake; do
    command -v "$tool" >/dev/null || echo "$tool"
  done
  command -v ninja >/dev/null || echo ninja-build
  if command -v "$kCompiler" >/dev/null; then
    missing_libraries
  else
    echo g++
    libraries | cut -d ' ' -f 2
  fi
  [ "$kFor" = program ] || has_libfuzzer || echo "clang libclang-rt-dev"
  [ "$kFor" = program ] || has_browser || echo chromium
  python_for_venv >/dev/null || echo "python3 python3-venv"
}

# libFuzzer is part of clang's runtime library, which a clang without that package lacks.
has_libfuzzer() {
  local library
  library=$(clang++ -fsanitize=fuzzer -x c++ /dev/null '-###' 2>&1 |
    grep -o '[^" ]*libclang_rt\.fuzzer[^" ]*\.a') && [ -f "$(head -n 1 <<<"$library")" ]
}

# Ubuntu has Chromium as a snap only, which apt-get cannot install everywhere. There the tests of pages
# are skipped unless a browser is installed by other means.
has_browser() {
  local browser
  for browser in chromium chromium-browser google-chrome; do
    if command -v "$browser" >/dev/null; then return; fi
  done
  grep -q '^ID=ubuntu' /etc/os-release
}

# Prints a header and its package in each line.
libraries() {
  echo "CLI/CLI.hpp libcli11-dev"
  echo "fmt/format.h libfmt-dev"
  echo "nlohmann/json.hpp nlohmann-json3-dev"
  echo "toml++/toml.h libtomlplusplus-dev"
  echo "xxhash.h libxxhash-dev"
  echo "zlib.h zlib1g-dev"
  if [ "$kFor" = program ]; then return; fi
  echo "gtest/gtest.h libgtest-dev"
  echo "gmock/gmock.h libgmock-dev"
  echo "rapidcheck/gtest.h librapidcheck-dev"
}

missing_libraries() {
  local header package
  while read -r header package; do
    printf '#if !__has_include(<%s>)\n%s\n#endif\n' "$header" "$package"
  done < <(libraries) | "$kCompiler" -x c++ -E -P - | tr -s '\n'
}

# Speed and formatting only: the build does without them.
missing_extras() {
  local tool tools=(ccache mold)
  if [ "$kFor" = tests ]; then tools+=(clang-format); fi
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || echo "$tool"
  done
}

# The first interpreter that can make a virtual environment for the pinned packages.
python_for_venv() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

apt() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
  fi >>"$kLog" 2>&1
}

can_install() { command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; }

why_failed() {
  if grep -qE 'No space left on device' "$kLog"; then
    echo "the disk is full"
  elif grep -qE "$kNetworkErrors" "$kLog"; then
    echo "no network, or the package server cannot be reached"
  else
    grep -vE '^[[:space:]]*$' "$kLog" | tail -n 1
  fi
}

install_system() {
  local missing extras
  missing=$(missing_packages | xargs)
  extras=$(missing_extras | xargs)
  if [ -z "$missing" ]; then
    if [ -n "$extras" ]; then say "optional tools that are not installed: $extras"; fi
    return
  fi
  command -v apt-get >/dev/null ||
    fail "missing: $missing; there is no apt-get here: install them (Debian's names) with your package manager"
  can_install || fail "missing: $missing; there is no sudo here: run 'apt-get install $missing' as root"
  say "installing $missing $extras"
  # shellcheck disable=SC2086  # lists of words
  { apt update && apt install -y --no-install-recommends $missing $extras; } ||
    fail "cannot install $missing: $(why_failed) (details in $kLog)"
  missing=$(missing_packages | xargs)
  [ -z "$missing" ] || fail "still missing after apt-get: $missing; Debian 12 and Ubuntu 24.04 have them, other releases may not"
}

# require_version TOOL FOUND WANTED REMEDY
require_version() {
  [ "$(printf '%s\n%s\n' "$3" "$2" | sort -V | head -n 1)" = "$3" ] ||
    fail "$1 $2 is too old, SlimPack needs $3 or newer: $4"
}

check_versions() {
  require_version "$kCompiler" "$("$kCompiler" -dumpfullversion -dumpversion)" 12 \
    "install g++-12 and set CXX=g++-12"
  require_version cmake "$(cmake --version | awk 'NR == 1 {print $3}')" 3.25 \
    "use Debian 12, Ubuntu 24.04, or 'pip install cmake'"
}

check_resources() {
  local memory disk
  memory=$(available_memory_mib)
  [ "$memory" -ge $kMinMemoryMib ] ||
    fail "$memory MiB of memory are available, installing and building need $kMinMemoryMib: close programs or use a larger machine"
  disk=$(df -Pm . | awk 'NR == 2 {print $4}')
  [ "$disk" -ge $kMinDiskMib ] ||
    fail "$disk MiB are free on this disk, installing and building need $kMinDiskMib (and 8000 more for torch's CUDA build): free some"
}

# What the Python packages depend on; the stamp holds it when they are installed.
python_recipe() {
  echo "torch index: ${SLIMPACK_TORCH_INDEX:-default}"
  cat requirements.txt
  if [ "$kFor" = tests ]; then cat requirements-test.txt; fi
}

# The tests' packages may be there when the program's alone are wanted.
python_is_ready() {
  if ! [ -x .venv/bin/python ] || ! [ -f "$kStamp" ]; then return 1; fi
  [[ "$(<"$kStamp")"$'\n' == "$(python_recipe)"$'\n'* ]]
}

pip_install() {
  if [ -t 1 ]; then
    .venv/bin/python -m pip install --retries 2 --disable-pip-version-check "$@" 2>>"$kLog"
  else
    .venv/bin/python -m pip install --retries 2 --disable-pip-version-check "$@" >>"$kLog" 2>&1
  fi || fail "cannot install the Python packages: $(why_failed) (details in $kLog)"
}

install_python() {
  local python
  python=$(python_for_venv) || fail "no python3 of version 3.11 to 3.14 with venv: install python3 and python3-venv"
  # An environment whose interpreter has gone is made anew.
  .venv/bin/python -c '' 2>/dev/null || rm -rf .venv
  if [ ! -d .venv ]; then
    say "creating .venv with $("$python" --version)"
    "$python" -m venv .venv >>"$kLog" 2>&1 || fail "cannot create .venv: $(why_failed) (details in $kLog)"
  fi
  local files=(-r requirements.txt)
  if [ "$kFor" = tests ]; then files+=(-r requirements-test.txt); fi
  say "installing Python packages (torch is large, this takes a while)"
  if [ -n "${SLIMPACK_TORCH_INDEX:-}" ]; then
    pip_install --no-deps --index-url "$SLIMPACK_TORCH_INDEX" "$(grep '^torch==' requirements.txt)"
  fi
  pip_install "${files[@]}"
  python_recipe >"$kStamp"
}

main() {
  [ "$kFor" = program ] || [ "$kFor" = tests ] || fail "'$kFor' is not known: give 'tests' or nothing"
  mkdir -p .cache
  : >"$kLog"
  local python_ready=no
  if python_is_ready; then python_ready=yes; fi
  if [ $python_ready = no ]; then check_resources; fi
  install_system
  check_versions
  if [ $python_ready = no ]; then install_python; fi
}

main
