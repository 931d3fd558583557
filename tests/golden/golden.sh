#!/bin/sh
# Compare generated texts with the files that hold them, or write those files anew.
#
#   golden.sh check TOOL KIND NAME FILE
#   golden.sh regenerate TOOL [KIND NAME FILE]...
set -eu

mode=$1
tool=$2
shift 2

tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

while [ $# -gt 0 ]; do
  kind=$1 name=$2 file=$3
  shift 3
  "$tool" "$kind" "$name" >"$tmp"
  if [ "$mode" = regenerate ]; then
    mkdir -p "$(dirname "$file")"
    cp "$tmp" "$file"
    chmod 644 "$file"
  elif ! diff -u "$file" "$tmp"; then
    echo "$file differs; if that is meant: meson compile -C BUILDDIR regenerate-goldens" >&2
    exit 1
  fi
done
