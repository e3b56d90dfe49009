#!/usr/bin/env bash
# Runs every fuzzing program of build/fuzz on its seeds, tests/fuzz/seeds/NAME, and mutations of them:
#   tools/fuzz.sh inputs N    N inputs each, the same ones every time
#   tools/fuzz.sh seconds N   N seconds each, going on from what such runs found new before
#                             (build/fuzz/corpus/NAME)
# One line per program; exit code 1 when one of them found something, which is then named with the
# input that shows it.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly kBuild=build/fuzz

usage() {
  echo "fuzz: give 'inputs N' or 'seconds N', N of 1 or more" >&2
  exit 2
}

# Prints the option for the dictionary of a format, if there is one: that of the first seed.
dictionary() {
  local files=("tests/fuzz/seeds/$1"/*)
  local dictionary=tests/fuzz/${files[0]##*.}.dict
  if [ -f "$dictionary" ]; then echo "-dict=$dictionary"; fi
}

stat_of() { sed -n "s/^stat::$1: *//p" "$2"; }

# fuzz NAME CORPUS OPTION…: what the program itself says goes to a log.
fuzz() {
  local name=$1 corpus=$2 log=$kBuild/logs/$1.log program=$kBuild/$1_fuzzer
  local options=("${@:3}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
    "-artifact_prefix=$kBuild/findings/$name-")
  mapfile -t -O "${#options[@]}" options < <(dictionary "$name")
  mkdir -p "$corpus"
  if "$program" "${options[@]}" "$corpus" "tests/fuzz/seeds/$name" >"$log" 2>&1; then
    local rate
    rate=$(stat_of average_exec_per_sec "$log")
    if [ "$rate" = 0 ]; then rate=; fi  # in less than a second
    printf '%-16s nothing found in %s inputs%s\n' "$name" \
      "$(stat_of number_of_executed_units "$log")" "${rate:+, $rate a second}"
    return
  fi
  local what input
  what=$(grep -m 1 -E 'broken property:|runtime error:|what\(\):|^SUMMARY:' "$log" || tail -n 1 "$log")
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  printf '%-16s FOUND %s\n%-16s again: %s %s (log: %s)\n' "$name" "$what" '' "$program" "$input" "$log"
  touch "$temporary/found"
}

[[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
case $1 in
  inputs) corpora=$temporary/corpus options=("-runs=$2" -seed=1) ;;
  seconds) corpora=$kBuild/corpus options=("-max_total_time=$2") ;;
  *) usage ;;
esac
export TMPDIR=$temporary UBSAN_OPTIONS=print_stacktrace=1
mkdir -p $kBuild/findings $kBuild/logs
at_once=$(tools/jobs.sh)
for source in tests/fuzz/*_fuzzer.cpp; do
  name=$(basename "$source" _fuzzer.cpp)
  if [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; then wait -n; fi
  fuzz "$name" "$corpora/$name" "${options[@]}" &
done
wait
[ ! -e "$temporary/found" ]
