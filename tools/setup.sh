#!/bin/sh
# All the set-up on Debian 12, Debian 13 or Ubuntu 24.04, in one command:
#
#   sh tools/setup.sh run [WORD...]   install what is missing, build, run the main job
#   sh tools/setup.sh test            install what is missing, build, run all tests
#
# Asks dpkg first, so a second call installs nothing; needs root or sudo only when something is
# missing. Further words of `run` go to `steergraph run`.
set -eu

build_packages='gcc libc6-dev libcjson-dev libcmocka-dev libxxhash-dev meson ninja-build pkg-config python3'
test_packages='binutils g++ locales python3-numpy'

say() {
  printf 'setup: %s\n' "$*"
}

die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

missing_of() {
  for package in "$@"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || printf '%s ' "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

install_missing() {
  if ! command -v dpkg-query >/dev/null; then
    say "no dpkg here; the build needs the equivalents of: $*"
    return
  fi
  missing=$(missing_of "$@")
  if [ -z "$missing" ]; then
    say 'every package is installed'
    return
  fi
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    die "missing packages, and neither root nor sudo to install them: $missing"
  fi
  say "installing $missing"
  as_root apt-get update -qq
  # shellcheck disable=SC2086  # a list of words
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    $missing >/dev/null
}

# build [TARGET]
build() {
  if [ ! -f build/build.ninja ]; then
    say 'configuring build/'
    if ! meson setup build >build-setup.log 2>&1; then
      cat build-setup.log >&2
      die 'meson setup failed; its output is above and in build-setup.log'
    fi
    sed -n '/^  *CUDA backend/p' build-setup.log
    rm -f build-setup.log
  fi
  say 'building'
  ninja -C build "$@" || die 'the build failed; after a change of compiler or system: rm -r build'
}

run_job() {
  say "running build/tools/steergraph run specs/steer_mixed.json${*:+ $*}"
  build/tools/steergraph run specs/steer_mixed.json "$@"
}

run_tests() {
  say 'running the tests'
  status=0
  rm -f build/meson-logs/testlog.json
  meson test -C build --no-rebuild --print-errorlogs || status=$?
  python3 tools/test_summary.py build/meson-logs/testlog.json || status=1
  return "$status"
}

cd "$(dirname "$0")/.."
command=${1:-}
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086  # lists of words
case $command in
run)
  install_missing $build_packages
  build tools/steergraph
  run_job "$@"
  ;;
test)
  [ $# -eq 0 ] || die "test takes no words, not '$*'"
  install_missing $build_packages $test_packages
  build
  run_tests
  ;;
*)
  printf 'usage: sh tools/setup.sh run [WORD...] | test\n' >&2
  exit 2
  ;;
esac
