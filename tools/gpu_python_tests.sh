#!/bin/sh
# Run the torch half of the Python tests without meson, and sum up:
#
#   sh tools/gpu_python_tests.sh [LIBRARY [NAME...]]
#
# LIBRARY: the built libsteergraph.so. NAME: only these, as in test_torch_NAME. PYTHON: the interpreter
# that has torch. Exit status 1 when a test failed.
set -eu

library=${1:-build/engine/libsteergraph.so}
[ $# -eq 0 ] || shift
root=$(dirname "$0")/..
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT

if [ $# -eq 0 ]; then
  for program in "$root"/tests/python/gpu/test_torch_*.py; do
    name=${program##*/test_torch_}
    set -- "$@" "${name%.py}"
  done
fi

names=$*
set --
for name in $names; do
  printf 'gpu_python_tests: %s\n' "$name"
  status=0
  "${PYTHON:-python3}" "$root/tests/python/gpu/test_torch_$name.py" "$library" \
    >"$outputs/$name" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    printf 'gpu_python_tests: %s exited with %d\n' "$name" "$status"
    cat "$outputs/$name"
  fi
  set -- "$@" "$status:$outputs/$name"
done
python3 "$root/tools/test_summary.py" "$@"
