#!/usr/bin/env bash
# run.sh SECONDS: builds the fuzz target and lets it run that long, from a fixed seed; what it finds stays in build/fuzz.
set -euo pipefail
seconds=${1:?run.sh SECONDS: how long to fuzz}
cd "$(dirname "$0")/../.."
clang=$(command -v clang++-16 || command -v clang++) || { echo "fuzz: no clang++: run packaging/setup.sh test" >&2; exit 2; }
out=build/fuzz
mkdir -p $out/corpus
if [ ! -x $out/guards ] || [ -n "$(find include tests/fuzz tests/support -newer $out/guards -name '*.?pp' -print -quit)" ]; then
  "$clang" -std=c++20 -O1 -g -fsanitize=fuzzer -Wall -Wextra -Wno-missing-field-initializers -Iinclude -I. tests/fuzz/guards.cpp -o $out/guards
fi
exec $out/guards -seed=1 -max_len=1024 -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix=$out/ $out/corpus
