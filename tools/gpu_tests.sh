#!/bin/sh
# Run every gpu test of a build folder without meson, and sum up:
#
#   sh tools/gpu_tests.sh [BUILD_DIR [NAME...]]
#
# NAME: only these tests, as in test_NAME or test_NAME.py. GPU_TEST_WRAPPER: words put before each
# program in C, such as "compute-sanitizer --tool memcheck --error-exitcode 1". STG_TEST_CACHE_DIR: a
# folder for the kernels that many tests share, to be compiled once; else one that is removed at the
# end. Exit status 1 when a test failed.
set -eu

build=${1:-build}
[ $# -eq 0 ] || shift
root=$(cd "$(dirname "$0")/.." && pwd)
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
export STG_TEST_CACHE_DIR="${STG_TEST_CACHE_DIR:-$outputs/kernels}"

if [ $# -eq 0 ]; then
  for program in "$build"/tests/gpu/test_*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
      set -- "$@" "${program##*/test_}"
    fi
  done
  for program in "$root"/tests/gpu/test_*.py; do
    name=${program##*/test_}
    [ $# -eq 0 ] || set -- "$@" "${name%.py}"
  done
fi
if [ $# -eq 0 ]; then
  printf 'gpu_tests: no test program in %s/tests/gpu; build with CUDA headers first\n' "$build" >&2
  exit 1
fi

# A test in Python runs the command.
run() {
  if [ -f "$root/tests/gpu/test_$1.py" ]; then
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/cli \
      python3 "$root/tests/gpu/test_$1.py" "$build/tools/steergraph" "$root"
  else
    # shellcheck disable=SC2086  # the wrapper is a list of words
    ${GPU_TEST_WRAPPER:-} "$build/tests/gpu/test_$1"
  fi
}

names=$*
set --
for name in $names; do
  printf 'gpu_tests: %s\n' "$name"
  status=0
  run "$name" >"$outputs/$name" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    printf 'gpu_tests: %s exited with %d\n' "$name" "$status"
    cat "$outputs/$name"
  fi
  set -- "$@" "$status:$outputs/$name"
done
python3 "$root/tools/test_summary.py" "$@"
