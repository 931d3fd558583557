#!/bin/sh
# run.sh SECONDS [FUZZER]: fuzz the spec reader and the op language, or what reads packs, cache
# entries, cubins, recipes of graphs, the statistics of a folder, knowledge bases, or vector files.
#
# SECONDS may be "smoke": what .ci/run and `ninja fuzz-smoke-NAME` give each.
#
# Without FUZZER, sets up and builds all of them in build-fuzz (clang, ASan, UBSan), and runs
# fuzz_spec. Seeds are files of the source tree and what make_seeds beside the fuzzer writes; what is
# found stays in the folder of FUZZER, in corpus-NAME/ and as crash-* files.
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
  ninja -C build-fuzz tests/fuzz/make_seeds tests/fuzz/fuzz_cubin tests/fuzz/fuzz_directions \
    tests/fuzz/fuzz_entry tests/fuzz/fuzz_gguf tests/fuzz/fuzz_kb tests/fuzz/fuzz_npy tests/fuzz/fuzz_pack \
    tests/fuzz/fuzz_raw tests/fuzz/fuzz_recipe tests/fuzz/fuzz_safetensors tests/fuzz/fuzz_spec \
    tests/fuzz/fuzz_stats
  fuzzer=$root/build-fuzz/tests/fuzz/fuzz_spec
fi

name=$(basename "$fuzzer")
work=$(dirname "$fuzzer")
seeds=$work/seeds-$name
mkdir -p "$work/corpus-$name" "$seeds"
case $name in
fuzz_spec)
  smoke=20
  files="specs/*.json specs/bad/*.json specs/ops/*.json specs/user/*.json tests/data/traffic_*.json"
  ;;
fuzz_kb)
  smoke=10
  files="specs/bad/kb/*.facts specs/bad/kb/*.queries specs/bad/kb/*.rules specs/kb/*.rules tests/fuzz/kb/*"
  ;;
fuzz_pack)
  smoke=10
  files="tests/data/packs/*.sgp tests/fuzz/packs/*.sgp"
  ;;
fuzz_entry)
  smoke=30
  files="tests/data/*.sgc tests/data/packs/*.sgc tests/fuzz/entries/*"
  "$work/make_seeds" entries "$seeds"
  ;;
fuzz_cubin)
  smoke=30
  files="tests/data/*.cubin tests/fuzz/cubins/*"
  "$work/make_seeds" cubins "$seeds"
  ;;
fuzz_recipe)
  smoke=15
  files="tests/fuzz/recipes/*"
  "$work/make_seeds" recipes "$seeds"
  ;;
fuzz_stats)
  smoke=5
  files=""
  "$work/make_seeds" stats "$seeds"
  ;;
fuzz_directions)
  smoke=8
  files="specs/data/*.json specs/bad/data/*.json tests/fuzz/vectors/*.json"
  ;;
fuzz_gguf)
  smoke=8
  files="tests/data/vectors/*.gguf tests/fuzz/vectors/*.gguf"
  ;;
fuzz_npy)
  smoke=8
  files="specs/bad/data/*.npy tests/fuzz/vectors/*.npy"
  ;;
fuzz_raw)
  smoke=8
  files="specs/bad/data/*.f32 tests/fuzz/vectors/*.f32"
  ;;
fuzz_safetensors)
  smoke=8
  files="specs/bad/data/*.safetensors tests/fuzz/vectors/*.safetensors"
  ;;
*)
  echo "run.sh: no seeds for '$name'" >&2
  exit 2
  ;;
esac
if [ "$seconds" = smoke ]; then
  seconds=$smoke
fi
for seed in $files; do
  cp "$seed" "$seeds/$(echo "$seed" | tr / _)"
done

# what one input may cost: 10 s, 1 GiB in all, 512 MiB in one allocation
exec "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512 \
  -max_len=65536 -dict="tests/fuzz/${name#fuzz_}.dict" -artifact_prefix="$work/" \
  -print_final_stats=1 "$work/corpus-$name" "$seeds"
