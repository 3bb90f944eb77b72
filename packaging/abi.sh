#!/usr/bin/env bash
# abi.sh FOLDER: writes what libmortise and libmortise_pool offer to programs, types included, as libabigail reads it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
for pair in mortise:mortise.h mortise_pool:pool.h; do
  name=${pair%:*}
  abidw --header-file "$root/include/mortise/${pair#*:}" --exported-interfaces-only --drop-private-types --drop-undefined-syms --no-corpus-path --no-comp-dir-path --no-show-locs \
    --out-file "$1/lib$name.so.0.abi" "$root/build/lib/lib$name.so"
  sed -i "s|$root/||" "$1/lib$name.so.0.abi"
done
