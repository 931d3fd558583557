#!/bin/sh
# run.sh SECONDS [FUZZER]: fuzz the spec reader and the op language.
#
# Without FUZZER, sets up and builds it in build-fuzz (clang, ASan, UBSan). Seeds are the specs of
# the source tree; what is found stays in the folder of FUZZER, in corpus/ and as crash-* files.
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: run.sh SECONDS [FUZZER]" >&2
  exit 2
fi
seconds=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

if [ $# -eq 2 ]; then
  fuzzer=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
else
  if [ ! -d build-fuzz ]; then
    CC=clang meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
  fi
  ninja -C build-fuzz tests/fuzz/fuzz_spec
  fuzzer=$root/build-fuzz/tests/fuzz/fuzz_spec
fi

work=$(dirname "$fuzzer")
mkdir -p "$work/corpus" "$work/seeds"
for spec in specs/*.json specs/bad/*.json specs/ops/*.json specs/user/*.json; do
  cp "$spec" "$work/seeds/$(echo "$spec" | tr / _)"
done

# what one input may cost: 10 s, 1 GiB in all, 512 MiB in one allocation
exec "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512 \
  -max_len=65536 -dict=tests/fuzz/spec.dict -artifact_prefix="$work/" -print_final_stats=1 \
  "$work/corpus" "$work/seeds"
